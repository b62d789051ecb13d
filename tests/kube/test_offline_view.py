"""The last view of the cluster on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.objects import ConfigMap, ObjectMeta, Pod, Secret
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.offline_view import OfflineView, chosen
from mooring.kube.seal import KEY_BYTES, Seal
from mooring.settings import Settings

SEAL = Seal(bytes(KEY_BYTES))


def pod(name: str, version: int = 1) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", resource_version=str(version)))


def secret(name: str, value: bytes = b"correct horse battery", version: int = 1) -> Secret:
    meta = ObjectMeta(name=name, namespace="ns", resource_version=str(version))
    return Secret(metadata=meta, data={"password": value})


def config_map(name: str, version: int = 1, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", resource_version=str(version)), data=data)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "offline" / "view.db")


@contextlib.asynccontextmanager
async def opened(path: str, seal: Seal | None = SEAL) -> AsyncIterator[OfflineView]:
    view = OfflineView(path, seal=seal)
    view.load()
    yield view
    await view.close()


async def stored(path: str, *objects: KubernetesObject, seal: Seal | None = SEAL) -> None:
    async with opened(path, seal) as view:
        for each in objects:
            view.note(each)


async def loaded(path: str, seal: Seal | None = SEAL) -> list[KubernetesObject]:
    view = OfflineView(path, seal=seal)
    try:
        return view.load()
    finally:
        await view.close()


def rewrite(path: str, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


async def test_what_was_noted_is_there_after_a_restart(path: str) -> None:
    await stored(path, pod("b"), pod("a"), secret("s"), config_map("c", k="v"))
    assert await loaded(path) == [config_map("c", k="v"), pod("a"), pod("b"), secret("s")]


async def test_the_last_word_on_each_object_counts(path: str) -> None:
    async with opened(path) as view:
        view.note(config_map("c", 1, k="old"))
        view.note(config_map("gone"))
        await view.flush()
        view.note(config_map("c", 2, k="newer"))
        view.note(config_map("c", 3, k="newest"))
        view.forget("ConfigMap", "ns", "gone")
        view.note(config_map("brief"))
        view.forget("ConfigMap", "ns", "brief")
    assert await loaded(path) == [config_map("c", 3, k="newest")]


class Watched(OfflineView):
    """A view that says when it has written something."""

    def __init__(self, path: str) -> None:
        super().__init__(path, seal=SEAL)
        self.flushed = asyncio.Event()

    async def flush(self) -> None:
        await super().flush()
        self.flushed.set()


async def test_a_view_that_runs_writes_by_itself(path: str) -> None:
    view = Watched(path)
    view.load()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(view.run())
        view.note(pod("a"))
        await view.flushed.wait()
        running.cancel()
    assert b"uid-a" in Path(f"{path}-wal").read_bytes()  # the file itself is locked by its owner
    await view.close()


async def test_an_informers_handler_keeps_its_kind(path: str) -> None:
    async with opened(path) as view:
        handler = view.handler()
        handler.on_add(pod("a"), True)
        handler.on_add(pod("b"), False)
        handler.on_add(pod("c"), False)
        await view.flush()
        handler.on_update(pod("a"), pod("a", 2))
        handler.on_delete(pod("b"))
        handler.on_delete(Tombstone("ns/c", pod("c")))
    assert await loaded(path) == [pod("a", 2)]


async def test_an_object_that_is_told_again_unchanged_is_not_written_again(path: str) -> None:
    await stored(path, *(pod(str(at)) for at in range(50)))
    view = OfflineView(path, seal=SEAL)
    for each in view.load():
        view.note(each)
    assert not view._pending
    await view.close()


async def test_what_nobody_asks_for_any_more_is_forgotten(path: str) -> None:
    await stored(path, pod("p"), config_map("old"), config_map("kept"))
    async with opened(path) as view:
        view.note(config_map("pending"))
        view.keep_only("ConfigMap", {("ns", "kept"), ("elsewhere", "old")})
    assert await loaded(path) == [config_map("kept"), pod("p")]


async def test_the_settings_say_whether_there_is_a_view_and_what_is_in_it(tmp_path: Path) -> None:
    assert chosen(Settings(root=str(tmp_path), offline="off")) is None
    without = chosen(Settings(root=str(tmp_path), offline_secrets="never"))
    assert without is not None
    await without.close()
    assert not (tmp_path / "offline" / "key").exists()
    view = chosen(Settings(root=str(tmp_path)))
    assert view is not None
    view.note(secret("s"))
    await view.close()
    assert (tmp_path / "offline" / "key").stat().st_size == KEY_BYTES
    again = chosen(Settings(root=str(tmp_path)))
    assert again is not None
    assert again.load() == [secret("s")]
    await again.close()


# -- secrets ---------------------------------------------------------------------------------------------------------
async def test_no_file_holds_a_plain_secret(path: str) -> None:
    async with opened(path) as view:
        for at in range(200):
            view.note(secret(f"s{at}", b"correct horse battery staple"))
            view.note(secret("changing", b"correct horse battery %d" % at, version=at))
            if at % 50 == 0:
                await view.flush()
        view.forget("Secret", "ns", "s7")
        await view.flush()
        _assert_no_plain_secret(path)
    _assert_no_plain_secret(path)
    assert secret("changing", b"correct horse battery 199", version=199) in await loaded(path)


def _assert_no_plain_secret(path: str) -> None:
    needles = (b"correct horse", b"Y29ycmVjdCBob3Jz")  # as it is, and in base64
    for each in Path(path).parent.iterdir():
        content = each.read_bytes()
        assert not any(needle in content for needle in needles), each


async def test_without_a_seal_secrets_are_neither_written_nor_kept_from_before(path: str) -> None:
    await stored(path, secret("before"), pod("a"))
    await stored(path, secret("now"), pod("b"), seal=None)
    assert await loaded(path, seal=None) == [pod("a"), pod("b")]
    assert await loaded(path) == [pod("a"), pod("b")]


async def test_with_another_key_only_the_secrets_are_lost(path: str, caplog: pytest.LogCaptureFixture) -> None:
    await stored(path, secret("s"), secret("t"), pod("a"))
    assert await loaded(path, Seal(b"k" * KEY_BYTES)) == [pod("a")]
    assert "dropped 2 objects" in caplog.text
    assert "horse" not in caplog.text


async def test_a_sealed_record_opens_in_no_other_row(path: str) -> None:
    await stored(path, secret("s"), pod("a"))
    rewrite(path, "UPDATE objects SET name = 'other' WHERE kind = 'Secret'")
    assert await loaded(path) == [pod("a")]


async def test_only_the_owner_can_read_any_of_it(path: str) -> None:
    async with opened(path) as view:
        view.note(pod("a"))
        await view.flush()
        for each in Path(path).parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700


# -- damage ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("column", "value"), [("version", 99), ("body", b"{"), ("body", b'{"metadata": 7}'), ("kind", "Toaster")]
)
async def test_a_record_that_cannot_be_read_is_dropped_alone(path: str, column: str, value: object) -> None:
    await stored(path, pod("a"), pod("b"))
    rewrite(path, f"UPDATE objects SET {column} = ? WHERE name = 'a'", value)
    assert await loaded(path) == [pod("b")]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM objects").fetchone() == (1,)


async def test_a_name_that_is_no_text_costs_its_row_only(path: str) -> None:
    await stored(path, pod("a"), secret("s"))
    rewrite(path, "UPDATE objects SET name = CAST(x'ff' AS TEXT) WHERE kind = 'Secret'")
    assert await loaded(path) == [pod("a")]


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_of_garbage_is_set_aside_and_a_new_one_begins(
    path: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    Path(path).parent.mkdir()
    Path(path).write_bytes(content)
    await stored(path, pod("a"))
    assert Path(f"{path}.damaged").read_bytes() == content
    assert "is damaged" in caplog.text
    assert await loaded(path) == [pod("a")]


async def test_a_truncated_file_is_no_reason_to_stop(path: str) -> None:
    await stored(path, *(config_map(f"c{at}", k="v" * 500) for at in range(300)))
    whole = Path(path).read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 23)):
        Path(path).write_bytes(whole[:size])
        for each in await loaded(path):
            assert isinstance(each, ConfigMap)
        await stored(path, pod("a"))
        assert pod("a") in await loaded(path)


async def test_a_database_of_another_program_is_set_aside(path: str) -> None:
    Path(path).parent.mkdir()
    rewrite(path, "CREATE TABLE theirs (x)")
    await stored(path, pod("a"))
    assert Path(f"{path}.damaged").exists()
    assert await loaded(path) == [pod("a")]


async def test_a_place_that_cannot_be_written_costs_the_view_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "view.db")
    caplog.set_level(logging.ERROR)
    await stored(path, pod("a"))
    assert "begin without one" in caplog.text
    assert "may lack the latest changes" in caplog.text


async def test_a_disk_that_fails_is_tried_again_and_memory_stays_bounded(tmp_path: Path) -> None:
    blocked = tmp_path / "place"
    blocked.write_text("")
    path = str(blocked / "view.db")
    view = OfflineView(path, seal=SEAL)
    view.load()
    for at in range(20):
        view.note(pod(f"brief-{at}"))
        with pytest.raises(OSError, match=r"[Ee]xists|Not a directory"):
            await view.flush()
        view.forget("Pod", "ns", f"brief-{at}")
    assert not view._pending
    view.note(pod("a"))
    blocked.unlink()
    await view.close()
    assert await loaded(path) == [pod("a")]


async def test_a_file_damaged_meanwhile_is_replaced(path: str) -> None:
    view = OfflineView(path, seal=SEAL)
    view.load()
    view.note(pod("a"))
    await view.flush()
    view._file.close()
    Path(path).write_bytes(b"garbage" * 1000)
    view.note(pod("b"))
    with pytest.raises(Exception, match="damaged"):
        await view.flush()
    await view.close()
    assert await loaded(path) == [pod("b")]


async def test_the_file_shrinks_with_what_it_holds(path: str) -> None:
    many = [config_map(f"c{at}", k="v" * 4000) for at in range(500)]
    await stored(path, *many)
    large = os.path.getsize(path)
    async with opened(path) as view:
        for each in many:
            view.forget("ConfigMap", "ns", each.metadata.name)
    assert os.path.getsize(path) < large / 10


_WRITER = """
import asyncio, sys
from mooring.kube.objects import ConfigMap, ObjectMeta, Secret
from mooring.kube.offline_view import OfflineView, chosen
from mooring.kube.seal import Seal

async def main():
    view = OfflineView(sys.argv[1], seal=Seal(bytes(32)))
    view.load()
    version = 0
    while True:
        version += 1
        for at in range(20):
            meta = ObjectMeta(name=f"c{at}", namespace="ns", resource_version=str(version))
            view.note(ConfigMap(metadata=meta, data={"k": str(version) * 200}))
        view.note(Secret(metadata=meta, data={"k": b"correct horse"}))
        await view.flush()
        print(version, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("writes", [1, 3, 40])
def test_a_process_killed_while_it_writes_loses_nothing_that_was_written(path: str, writes: int) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(writes):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        told = [writes, *(int(line) for line in process.stdout if line.endswith("\n"))]
    _assert_no_plain_secret(path)
    found = [each for each in asyncio.run(loaded(path)) if isinstance(each, ConfigMap)]
    versions = {each.metadata.resource_version for each in found}
    assert len(found) == 20
    assert len(versions) == 1, "a batch is written whole or not at all"
    assert int(versions.pop()) >= told[-1]
    assert all(each.data["k"] == each.metadata.resource_version * 200 for each in found)
