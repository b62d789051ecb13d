"""The registrar: what others find of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from grpc import aio
from tests.registration.conftest import bind

from mooring.registration.registrar import Notified, Registrar
from mooring.stubs import registration_pb2 as registration
from mooring.stubs import registration_pb2_grpc as services


def registrar_in(place: Path) -> Registrar:
    return Registrar(str(place), name="a.csi.test", endpoint="/csi.sock", versions=("1.0.0", "1.1.0"))


async def test_its_socket_is_for_its_owner_only_and_the_one_thing_it_leaves(place: Path) -> None:
    async with registrar_in(place).serving() as registrar:
        assert os.listdir(place) == ["a.csi.test-reg.sock"]
        assert os.stat(registrar.path).st_mode & 0o777 == 0o600
    assert os.listdir(place) == []


async def test_it_takes_the_place_of_a_stale_socket(place: Path) -> None:
    with bind(place / "a.csi.test-reg.sock"):
        pass
    async with registrar_in(place).serving() as registrar, aio.insecure_channel(f"unix:{registrar.path}") as channel:
        stub: services.RegistrationAsyncStub = services.RegistrationStub(channel)
        info = await stub.GetInfo(registration.InfoRequest())
    assert (info.type, info.name, info.endpoint) == ("CSIPlugin", "a.csi.test", "/csi.sock")
    assert list(info.supported_versions) == ["1.0.0", "1.1.0"]


async def test_it_knows_what_it_was_told_in_order(place: Path) -> None:
    async with registrar_in(place).serving() as registrar, aio.insecure_channel(f"unix:{registrar.path}") as channel:
        stub: services.RegistrationAsyncStub = services.RegistrationStub(channel)
        await stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=False, error="no"))
        await stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True))
        told = [await registrar.until_notified(), await registrar.until_notified()]
    assert told == registrar.statuses == [Notified(registered=False, error="no"), Notified(registered=True)]


async def test_the_older_of_two_leaves_the_socket_of_the_newer_one(place: Path) -> None:
    older, newer = registrar_in(place), registrar_in(place)
    await older.start()
    async with newer.serving():
        await older.close()
        assert os.listdir(place) == ["a.csi.test-reg.sock"]
    assert os.listdir(place) == []


async def test_it_may_be_closed_before_it_serves(place: Path) -> None:
    await registrar_in(place).close()


async def test_where_it_cannot_listen_nothing_is_left(place: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await registrar_in(place / "missing").start()
    (place / "a.csi.test-reg.sock").mkdir()
    with pytest.raises(IsADirectoryError):
        await registrar_in(place).start()
    assert os.listdir(place) == ["a.csi.test-reg.sock"]
