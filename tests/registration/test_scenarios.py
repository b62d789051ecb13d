"""What the kubelet does with plugin sockets, scenario by scenario."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.registration.conftest import SOON, Bench, bind, refusal

from mooring.csi.drivers import Drivers
from mooring.csi.handler import CSIHandler
from mooring.registration.interface import PluginCount, SocketState, Step, WorldName
from mooring.registration.registrar import Notified
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import ScriptedCSIDriver

WELL = Notified(registered=True)


async def test_a_socket_that_appears_is_validated_registered_and_notified(bench: Bench) -> None:
    async with bench.running(), bench.registrar().serving() as registrar:
        assert await registrar.until_notified() == WELL
        await bench.until_registered(registrar)
        assert bench.handler.calls == [("validate", "a.csi.test"), ("register", "a.csi.test")]
        assert bench.handler.registered == {"a.csi.test": ("/a.csi.test.sock", ("1.0.0",))}
    assert registrar.statuses == [WELL]


async def test_a_registered_socket_tells_all_about_itself(bench: Bench) -> None:
    async with bench.running() as manager, bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        (view,) = manager.sockets()
    assert (view.path, view.static, view.state) == (registrar.path, False, SocketState.REGISTERED)
    assert (view.type, view.name, view.endpoint) == ("CSIPlugin", "a.csi.test", "/a.csi.test.sock")
    assert (view.versions, view.failing_step, view.why, view.attempts) == (("1.0.0",), None, "", 1)


async def test_a_socket_that_was_there_before_is_registered(bench: Bench) -> None:
    async with bench.registrar().serving() as registrar, bench.running():
        await bench.until_registered(registrar)
    assert registrar.statuses == [WELL]


async def test_sockets_in_directories_that_appear_later_are_registered(bench: Bench) -> None:
    async with bench.running(), bench.registrar("first").serving() as first:
        await bench.until_registered(first)
        below = bench.directory / "vendor" / "driver"
        below.mkdir(parents=True)
        async with bench.registrar("second", directory=str(below)).serving() as second:
            await bench.until_registered(second)
            async with bench.registrar("third", directory=str(below)).serving() as third:
                await bench.until_registered(third)


async def test_hidden_names_and_files_that_are_no_sockets_are_passed_over(bench: Bench) -> None:
    bench.directory.mkdir()
    (bench.directory / "file").write_text("not a socket")
    (bench.directory / ".hidden").mkdir()
    with bind(bench.directory / ".s"), bind(bench.directory / ".hidden" / "s"):
        async with bench.running() as manager, bench.registrar().serving() as registrar:
            (bench.directory / "another").write_text("not a socket either")
            with bind(bench.directory / ".t"):
                await bench.until_registered(registrar)
                assert [view.path for view in manager.sockets()] == [registrar.path]


async def test_a_plugin_whose_socket_is_removed_is_deregistered_once(bench: Bench) -> None:
    async with bench.running() as manager:
        async with bench.registrar().serving() as registrar:
            await bench.until_registered(registrar)
        await bench.until_gone(registrar.path)
        assert (manager.sockets(), manager.counts()) == ([], [])
    assert bench.handler.made("deregister") == 1
    assert bench.handler.registered == {}


async def test_a_socket_made_anew_is_unregistered_and_registered_again(bench: Bench) -> None:
    async with bench.running():
        async with bench.registrar().serving() as first:
            await bench.until_registered(first)
            os.unlink(first.path)  # together with the next line, before anybody looks
            with bind(first.path, listens=True):
                await bench.until(lambda: bench.handler.made("deregister") == 1)
        async with bench.registrar().serving() as second:
            await bench.until_registered(second)
            assert bench.handler.changes() == ["register", "deregister", "register"]


async def test_a_socket_that_is_replaced_by_a_rename_is_a_new_one(bench: Bench) -> None:
    async with bench.running(), bench.registrar().serving() as first:
        await bench.until_registered(first)
        async with bench.registrar().serving() as second:
            assert await second.until_notified() == WELL
            await bench.until_registered(second)
            assert bench.handler.changes() == ["register", "deregister", "register"]


async def test_ten_plugins_follow_each_other_at_one_path(bench: Bench) -> None:
    names = [f"driver-{number}" for number in range(10)]
    async with bench.running():
        for name in names:
            async with bench.registrar(name, socket_name="shared.sock").serving() as registrar:
                assert await registrar.until_notified() == WELL
                await bench.until(lambda name=name: list(bench.handler.registered) == [name])  # type: ignore[misc]
        await bench.until(lambda: not bench.handler.registered)
    expected = [(call, name) for name in names for call in ("register", "deregister")]
    assert [call for call in bench.handler.calls if call[0] != "validate"] == expected


async def test_two_plugins_at_two_sockets_are_independent(bench: Bench) -> None:
    async with bench.running(), bench.registrar("a").serving() as first:
        async with bench.registrar("b").serving() as second:
            await bench.until_registered(first, second)
        await bench.until_gone(second.path)
        assert list(bench.handler.registered) == ["a"]


async def test_the_second_socket_of_a_driver_waits_until_the_first_has_gone(bench: Bench) -> None:
    driver = ScriptedCSIDriver(MemoryHost(), str(bench.place / "csi.sock"), name="one")
    drivers = Drivers()
    bench.handlers = [CSIHandler(drivers)]
    async with driver.serving(), bench.running(), bench.registrar("one", endpoint=driver.socket).serving() as first:
        await bench.until_registered(first)
        second = bench.registrar("one", endpoint=driver.socket, socket_name="second.sock")
        async with second.serving():
            view = await bench.until_failed(second.path)
            assert view.failing_step is Step.VALIDATE
            assert "another driver with the same name is already registered" in view.why
            refused = await second.until_notified()
            assert (refused.registered, refused.error) == (False, view.why)
            assert bench.state(first.path) is SocketState.REGISTERED
            await first.close()  # its name is free now, and no pause keeps the other one from taking it
            await bench.until_registered(second)
            assert drivers.names() == ["one"]
    await drivers.close()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("DevicePlugin", "this node runs CSI drivers only"),
        ("DRAPlugin", "this node runs CSI drivers only"),
        ("Toaster", "its type 'Toaster' is unknown here. Known types are: CSIPlugin"),
        ("", "its type '' is unknown here"),
    ],
)
async def test_types_that_nobody_serves_are_refused_in_words(bench: Bench, kind: str, words: str) -> None:
    async with bench.running(), bench.registrar(type=kind).serving() as registrar:
        view = await bench.until_failed(registrar.path)
        told = await registrar.until_notified()
    assert (told.registered, told.error) == (False, view.why)
    assert words in view.why
    assert repr(kind) in view.why
    assert (view.failing_step, view.type, view.name) == (Step.TYPE, kind, "a.csi.test")
    assert bench.handler.calls == []


async def test_an_unknown_type_is_tried_again_after_a_pause(bench: Bench) -> None:
    bench.backoff = SOON
    async with bench.running(), bench.registrar(type="Toaster").serving() as registrar:
        for _ in range(3):
            assert not (await registrar.until_notified()).registered


async def test_a_failed_validation_is_told_and_tried_again_after_a_pause(bench: Bench) -> None:
    bench.backoff = SOON
    bench.handler.refusals["validate"] = refusal("its name is odd")
    async with bench.running(), bench.registrar().serving() as registrar:
        for _ in range(3):
            assert await registrar.until_notified() == Notified(registered=False, error="its name is odd")
        assert bench.handler.made("register") == 0
        bench.handler.refusals.clear()
        await bench.until_registered(registrar)
        view = bench.view(registrar.path)
    assert view is not None
    assert (view.attempts > 3, view.failing_step, view.why) == (True, None, "")


async def test_a_failed_registration_is_told_and_nothing_is_left(bench: Bench) -> None:
    bench.handler.refusals["register"] = refusal("it is full here")
    async with bench.running() as manager, bench.registrar().serving() as registrar:
        assert await registrar.until_notified() == Notified(registered=False, error="it is full here")
        view = await bench.until_failed(registrar.path)
        assert (view.failing_step, view.why, view.attempts) == (Step.REGISTER, "it is full here", 1)
        assert [count.state for count in manager.counts()] == [WorldName.DESIRED]
    assert bench.handler.made("deregister") == 0


async def test_a_plugin_that_cannot_be_told_of_its_success_is_deregistered(bench: Bench) -> None:
    registrar = bench.registrar()

    async def fail() -> None:
        raise RuntimeError("not listening")

    registrar.before_notify = fail  # type: ignore[method-assign]
    async with bench.running() as manager, registrar.serving():
        view = await bench.until_failed(registrar.path)
        assert view.failing_step is Step.NOTIFY
        assert "not listening" in view.why
        assert [count.state for count in manager.counts()] == [WorldName.DESIRED]
    assert [call for call, _ in bench.handler.calls] == ["validate", "register", "deregister"]


async def test_one_socket_is_registered_once_at_a_time_and_others_meanwhile(bench: Bench) -> None:
    let_go = asyncio.Event()
    bench.handler.during["register"] = let_go.wait
    async with bench.running() as manager, bench.registrar("slow").serving() as slow:
        await bench.until(lambda: bench.handler.made("register") == 1)
        assert bench.state(slow.path) is SocketState.REGISTERING
        del bench.handler.during["register"]
        async with bench.registrar("slow").serving() as again, bench.registrar("quick").serving() as quick:
            await bench.until_registered(quick)
            assert bench.handler.made("register") == 2  # the socket made anew waits for its turn
            let_go.set()
            assert await again.until_notified() == WELL
            await bench.until_registered(again)
            assert {view.state for view in manager.sockets()} == {SocketState.REGISTERED}
            assert bench.handler.changes("slow") == ["register", "deregister", "register"]


async def test_a_socket_removed_during_its_registration_is_deregistered_afterwards(bench: Bench) -> None:
    let_go = asyncio.Event()
    bench.handler.during["register"] = let_go.wait
    async with bench.running(), bench.registrar().serving() as registrar:
        await bench.until(lambda: bench.handler.made("register") == 1)
        os.unlink(registrar.path)
        async with bench.registrar("later").serving() as later:  # by then the removal has been noticed
            await bench.until(lambda: bench.view(later.path) is not None)
            let_go.set()
            await bench.until_gone(registrar.path)
            await bench.until_registered(later)
            assert bench.handler.changes() == ["register", "deregister"]
            assert list(bench.handler.registered) == ["later"]


async def test_each_socket_counts_once_for_each_world_that_it_is_in(bench: Bench) -> None:
    good, bad = bench.registrar("a"), bench.registrar("b", type="Toaster")
    async with bench.running() as manager, good.serving(), bad.serving():
        await bench.until_registered(good)
        await bench.until_failed(bad.path)
        counts = manager.counts()
    assert counts == [
        PluginCount(socket_path=good.path, state=WorldName.DESIRED),
        PluginCount(socket_path=bad.path, state=WorldName.DESIRED),
        PluginCount(socket_path=good.path, state=WorldName.ACTUAL),
    ]
