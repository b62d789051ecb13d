"""The file of the local store: durable, private, and careful with what it does not understand."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.errors import MooringError
from mooring.kube.api import (
    Expired,
    InternalError,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import (
    ConfigMap,
    ObjectMeta,
    OwnerReference,
    Secret,
)
from mooring.kube.objects.kinds import CONFIG_MAP, SECRET


def config_map(name: str, *, finalizers: tuple[str, ...] = (), uid: str = "", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", finalizers=finalizers, uid=uid), data=data)


def owned_by(*owners: ConfigMap, name: str, finalizers: tuple[str, ...] = ()) -> ConfigMap:
    references = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=owner.metadata.name, uid=owner.metadata.uid)
        for owner in owners
    )
    meta = ObjectMeta(name=name, namespace="ns", owner_references=references, finalizers=finalizers)
    return ConfigMap(metadata=meta)


async def names_in(store: LocalStore) -> list[str]:
    return [item.metadata.name for item in (await store.list(CONFIG_MAP)).items]


async def take(events: AsyncIterator[WatchEvent[ConfigMap]], count: int) -> list[tuple[str, str]]:
    seen = [await anext(events) for _ in range(count)]
    return [(event.type.value, event.object.metadata.name if event.object else "") for event in seen]


async def test_a_reopened_store_has_everything_and_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    secret = Secret(metadata=ObjectMeta(name="s", namespace="ns"), data={"k": b"\x00\xff"})
    async with LocalStore(path) as store:
        await store.apply_all(put=[(config_map("a", k="1"), "f.yaml"), (secret, "f.yaml")])
        await store.create(config_map("gone"))
        await store.delete(CONFIG_MAP, "ns", "gone")
        before = await store.list(CONFIG_MAP)
    async with LocalStore(path) as store:
        assert await store.list(CONFIG_MAP) == before
        assert (await store.get(SECRET, "ns", "s")).data == {"k": b"\x00\xff"}
        assert store.origins() == {("ConfigMap", "ns", "a"): "f.yaml", ("Secret", "ns", "s"): "f.yaml"}
        assert (await store.apply_all(put=[(config_map("a", k="1"), "f.yaml")])).unchanged
        created = await store.create(config_map("b"))
        assert int(created.metadata.resource_version) == int(before.resource_version) + 1


async def test_after_a_restart_the_window_starts_at_the_stored_version(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        old = store.resource_version
        await store.create(config_map("a"))
    async with LocalStore(path) as store:
        newest = store.resource_version
        with pytest.raises(Expired):
            async with store.watch(CONFIG_MAP, WatchOptions(resource_version=old)):
                pass
        async with store.watch(CONFIG_MAP, WatchOptions(resource_version=newest)) as events:
            await store.create(config_map("b"))
            assert await take(events, 1) == [("ADDED", "b")]


async def test_owner_references_work_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        owner = await store.create(config_map("owner"))
        await store.create(owned_by(owner, name="child"))
    async with LocalStore(path) as store:
        await store.delete(CONFIG_MAP, "ns", "owner")
        assert await names_in(store) == []
    async with LocalStore(path) as store:
        assert await names_in(store) == []


async def test_the_file_and_its_directory_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "store.db"
    async with LocalStore(path) as store:
        await store.create(config_map("a"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "store.db-wal" in modes
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_concurrent_writes_are_acknowledged_published_and_seen_in_one_order(tmp_path: Path) -> None:
    async with LocalStore(tmp_path / "store.db") as store:
        await store.create(config_map("a"))
        options = WatchOptions(resource_version=store.resource_version)
        async with store.watch(CONFIG_MAP, options) as events:
            patches = [{"data": {f"k{number}": "v"}} for number in range(100)]
            results = await asyncio.gather(*(store.patch(CONFIG_MAP, "ns", "a", patch) for patch in patches))
            seen = [(await anext(events)).resource_version for _ in patches]
        assert [result.metadata.resource_version for result in results] == seen
        assert len((await store.get(CONFIG_MAP, "ns", "a")).data) == 100


async def test_a_failing_write_does_not_disturb_the_others_of_its_batch(tmp_path: Path) -> None:
    async with LocalStore(tmp_path / "store.db") as store:
        results = await asyncio.gather(
            store.create(config_map("a")),
            store.create(config_map("a")),
            store.delete(CONFIG_MAP, "ns", "missing"),
            store.create(config_map("b")),
            return_exceptions=True,
        )
        assert [type(result).__name__ for result in results] == ["ConfigMap", "AlreadyExists", "NotFound", "ConfigMap"]
        assert await names_in(store) == ["a", "b"]


async def test_nothing_is_seen_of_a_write_before_it_is_acknowledged(tmp_path: Path) -> None:
    async with LocalStore(tmp_path / "store.db") as store, asyncio.TaskGroup() as tasks:
        write = tasks.create_task(store.create(config_map("a")))
        seen_before = []
        while not write.done():
            seen_before.append(await names_in(store))
            await asyncio.sleep(0)
        # The publication and the acknowledgement happen in one step of the loop; the task wakes in the next.
        assert all(names == [] for names in seen_before[:-1])
        assert await names_in(store) == ["a"]


async def test_what_cannot_be_written_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        await store.create(config_map("a"))
        with pytest.raises(InternalError, match="cannot write to the store"):
            await store.create(config_map("b", half="\ud800"))
        assert await names_in(store) == ["a"]
        await store.create(config_map("b", whole="ok"))
    async with LocalStore(path) as store:
        assert (await store.get(CONFIG_MAP, "ns", "b")).data == {"whole": "ok"}


async def test_an_acknowledged_write_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    program = f"""
import asyncio, os
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import ConfigMap, ObjectMeta

async def main():
    store = LocalStore({str(path)!r})
    await store.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="ns")))
    os._exit(3)

asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], env=environment, check=False)
    assert killed.returncode == 3
    async with LocalStore(path) as store:
        assert await names_in(store) == ["a"]


def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(MooringError, match=r"store.db': the file is damaged .*It was left as it is. Move it away"):
        LocalStore(path)
    assert path.read_bytes() == b"not a database at all" * 100


async def test_a_damaged_database_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        await store.apply_all(put=[(config_map(f"{number}", k="v" * 100), "f") for number in range(200)])
    damaged = bytearray(path.read_bytes())
    damaged[8192:16384] = b"\xee" * 8192
    path.write_bytes(damaged)
    with pytest.raises(MooringError, match="the file is damaged"):
        LocalStore(path)
    assert path.read_bytes() == damaged


async def test_an_object_that_cannot_be_decoded_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        await store.create(config_map("a"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE objects SET body = ?", (b'{"data": 5}',))
    connection.close()
    with pytest.raises(MooringError, match="the file is damaged"):
        LocalStore(path)


async def test_a_kind_or_format_from_the_future_is_said_to_be_newer(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path) as store:
        await store.create(config_map("a"))
    for change in ("UPDATE objects SET kind = 'Widget'", "PRAGMA user_version = 99"):
        with sqlite3.connect(path) as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(MooringError, match="Run the version of mooring that wrote it"):
            LocalStore(path)


def test_a_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(MooringError, match="it is a database of another program"):
        LocalStore(path)


async def test_a_store_that_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with LocalStore(path):
        with pytest.raises(MooringError, match="another process has it open"):
            LocalStore(path)


def test_a_path_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MooringError, match="cannot open the store"):
        LocalStore(tmp_path / "file" / "store.db")


async def test_a_commit_that_the_database_refuses_is_undone_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await LocalStore(path).close()
    with sqlite3.connect(path) as connection:
        refuse = "SELECT RAISE(ABORT, 'no space left')"
        connection.execute(f"CREATE TRIGGER full BEFORE INSERT ON objects WHEN NEW.name = 'last' BEGIN {refuse}; END")
    connection.close()
    async with LocalStore(path) as store:
        with pytest.raises(InternalError, match="no space left"):
            await store.apply_all(put=[(config_map(name), "f") for name in ("first", "last")])
        assert await names_in(store) == []
        await store.create(config_map("first"))
    async with LocalStore(path) as store:
        assert await names_in(store) == ["first"]


async def test_an_origin_may_be_a_path_that_is_not_unicode(tmp_path: Path) -> None:
    path, origin = tmp_path / "store.db", os.fsdecode(b"/manifests/\xff.yaml")
    async with LocalStore(path) as store:
        await store.apply_all(put=[(config_map("a"), origin)])
    async with LocalStore(path) as store:
        assert store.origins() == {("ConfigMap", "ns", "a"): origin}


async def test_a_write_whose_caller_was_cancelled_on_the_way_to_the_disk_still_happens(tmp_path: Path) -> None:
    async with LocalStore(tmp_path / "store.db") as store:
        async with asyncio.TaskGroup() as tasks:
            write = tasks.create_task(store.create(config_map("a")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # by now the batch has started
            write.cancel()
        await store.create(config_map("b"))
        assert await names_in(store) == ["a", "b"]
