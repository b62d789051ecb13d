"""A writer killed at any call, or in the middle of one, leaves nothing that the next write does not put right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.host.atomic_writer import PayloadFile, write_payload
from mooring.testing.memory_host import MemoryHost

PLACE = "/volume"
Files = dict[str, bytes]
OLD: Files = {"kept": b"1", "changed": b"old", "dropped": b"1", "sub/dropped": b"1", "sub/kept": b"1"}
NEW: Files = {"kept": b"1", "changed": b"new", "added": b"1", "sub/kept": b"2"}


class Killed(BaseException):
    """The process is gone: no handler runs."""


def write(host: MemoryHost, files: Files, stamp: str) -> None:
    payload = {path: PayloadFile(data=data, mode=0o644) for path, data in files.items()}
    write_payload(host, PLACE, payload, stamp=lambda: stamp)


def files_below(host: MemoryHost, directory: str) -> Files:
    """All files below a directory, links followed."""
    found: Files = {}
    pending = [directory]
    while pending:
        above = pending.pop()
        for name in host.names_in(above):
            path = f"{above}/{name}"
            facts = host.look_through(path)
            if facts is not None and facts.kind.value == "directory":
                pending.append(path)
            elif facts is not None:
                found[path[len(directory) + 1 :]] = host.read_file(path)
    return found


def assert_whole(host: MemoryHost) -> None:
    if host.read_link(f"{PLACE}/..data") is not None:
        assert files_below(host, f"{PLACE}/..data") in (OLD, NEW)


def assert_shows(host: MemoryHost, files: Files) -> None:
    data = host.read_link(f"{PLACE}/..data")
    tops = sorted({path.partition("/")[0] for path in files})
    assert host.names_in(PLACE) == sorted(["..data", str(data), *tops])
    assert files_below(host, f"{PLACE}/..data") == files
    assert {path: host.read_file(f"{PLACE}/{path}") for path in files} == files


def killed_at_each_step(*written: Files) -> Iterator[MemoryHost]:
    """Yield a host for each moment at which a writer of `written[-1]` can be killed, the others having been written."""
    moment = 0
    while True:
        host = MemoryHost()
        host.make_directory(PLACE, 0o755)
        for number, files in enumerate(written[:-1]):
            write(host, files, f"..2026_01_01_00_00_0{number}.1")
        left = moment

        def count(method: str, path: str, host: MemoryHost = host) -> None:
            nonlocal left
            assert_whole(host)
            left -= 1
            if left < 0:
                raise Killed

        host.before_call = host.after_call = host.between_steps = count
        try:
            write(host, written[-1], "..2026_01_01_00_01_00.2")
        except Killed:
            host.before_call = host.after_call = host.between_steps = None
            yield host
            moment += 1
        else:
            assert moment >= 20, "the writer must have been killed at many moments"
            return


@pytest.mark.parametrize("written", [(NEW,), (OLD, NEW)], ids=["first write", "update"])
@pytest.mark.parametrize("then", [OLD, NEW], ids=["old again", "new again"])
def test_the_write_after_a_kill_is_right_and_readers_never_saw_a_mix(written: tuple[Files, ...], then: Files) -> None:
    for host in killed_at_each_step(*written):
        assert_whole(host)
        write(host, then, "..2026_01_01_00_02_00.3")
        assert_shows(host, then)


def test_a_write_after_two_kills_in_a_row_is_right() -> None:
    for host in killed_at_each_step(OLD, NEW):
        calls = 0

        def kill_soon(method: str, path: str) -> None:
            nonlocal calls
            calls += 1
            if calls == 7:
                raise Killed

        host.before_call = kill_soon
        with pytest.raises(Killed):
            write(host, OLD | {"third": b"3"}, "..2026_01_01_00_02_00.3")
        host.before_call = None
        write(host, NEW, "..2026_01_01_00_03_00.4")
        assert_shows(host, NEW)


def test_a_full_disk_leaves_the_old_files_and_no_litter() -> None:
    host = MemoryHost()
    host.make_directory(PLACE, 0o755)
    write(host, OLD, "..2026_01_01_00_00_00.1")
    before = host.snapshot()
    host.limit_disk(7 * 4096)
    with pytest.raises(OSError, match="No space"):
        write(host, NEW, "..2026_01_01_00_00_01.1")
    assert host.snapshot() == before
    host.limit_disk(None)
    write(host, NEW, "..2026_01_01_00_00_01.1")
    assert_shows(host, NEW)
