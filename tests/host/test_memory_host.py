"""What a `MemoryHost` can do that no machine lets a test do: be killed, held, filled up, rebooted and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from mooring.host.interface import FileKind, Host, NewFile, Risk
from mooring.host.ownership_calls import Ownership
from mooring.testing.conformance.host_devices import EXT4, MEBIBYTE
from mooring.testing.memory_host import MemoryHost

T = TypeVar("T")


class Killed(Exception):
    pass


def is_a_host(host: MemoryHost) -> Host:
    """Type-checked only: a `MemoryHost` is a `Host`."""
    return host


def kill(method: str, path: str) -> None:
    raise Killed(f"{method} {path}")


def calls_of(host: MemoryHost) -> list[Callable[[], object]]:
    """Every mutating call once, each of which works on the host that `prepared` returns."""
    return [
        lambda: host.make_directories("/new/deeper", 0o755),
        lambda: host.make_directory("/new", 0o755),
        lambda: host.write_files("/a", [NewFile(path="new", data=b"", mode=0o644)]),
        lambda: host.create_file("/new", 0o644),
        lambda: host.make_link("a", "/new"),
        lambda: host.rename("/a", "/new"),
        lambda: host.change_mode("/a", 0o700),
        lambda: host.set_ownership("/a", Ownership(gid=9, file_mask=0, directory_mask=0)),
        lambda: host.mount_tmpfs("/a"),
        lambda: host.resize_tmpfs("/m", 1 << 20),
        lambda: host.bind("/a", "/b"),
        lambda: host.unmount("/m"),
        lambda: host.remove_file("/a/file"),
        lambda: host.remove_directory("/b"),
        lambda: host.remove_tree("/a"),
        lambda: host.make_file_system("/disk", "ext4"),
        lambda: host.mount_device("/formatted", "/a", "ext4"),
        lambda: host.grow_file_system("/formatted", "/n", "ext4"),
        lambda: host.attach_loop("/a/file"),
        lambda: host.detach_loop("/dev/loop0"),
    ]


def prepared() -> MemoryHost:
    host = MemoryHost()
    for path in ("/a", "/b", "/m", "/n"):
        host.make_directory(path, 0o755)
    host.write_files("/a", [NewFile(path="file", data=b"x", mode=0o644)])
    host.mount_tmpfs("/m")
    host.make_device("/disk", MEBIBYTE)
    host.make_device("/formatted", MEBIBYTE, holds=EXT4)
    host.resize_device("/formatted", 2 * MEBIBYTE)
    host.mount_device("/formatted", "/n", "ext4")
    host.attach_loop("/disk")
    return host


@pytest.mark.parametrize("number", range(20))
def test_a_kill_before_a_call_means_that_it_did_not_happen(number: int) -> None:
    host = prepared()
    before = host.snapshot()
    host.before_call = kill
    with pytest.raises(Killed):
        calls_of(host)[number]()
    assert host.snapshot() == before


@pytest.mark.parametrize("number", range(20))
def test_a_kill_after_a_call_means_that_it_did_happen(number: int) -> None:
    undisturbed = prepared()
    calls_of(undisturbed)[number]()
    host = prepared()
    before = host.snapshot()
    host.after_call = kill
    with pytest.raises(Killed):
        calls_of(host)[number]()
    assert host.snapshot() == undisturbed.snapshot() != before


def test_hooks_are_told_the_method_and_its_path() -> None:
    told: list[tuple[str, str]] = []
    host = MemoryHost()
    host.before_call = host.after_call = lambda method, path: told.append((method, path))
    host.make_directory("/a", 0o755)
    host.make_link("a", "/link")
    assert told == [("make_directory", "/a")] * 2 + [("make_link", "/link")] * 2


def test_a_failed_call_is_not_followed_by_the_hook() -> None:
    host = MemoryHost()
    host.after_call = kill
    with pytest.raises(FileNotFoundError):
        host.make_directory("/missing/a", 0o755)


def test_a_kill_between_two_files_leaves_the_first() -> None:
    host = prepared()
    host.between_steps = kill
    with pytest.raises(Killed, match="write_files /b/one"):
        host.write_files("/b", [NewFile(path=name, data=b"", mode=0o644) for name in ("one", "two")])
    assert host.names_in("/b") == ["one"]


def test_a_held_mount_is_busy_until_it_is_released() -> None:
    host = prepared()
    host.hold("/m")
    with pytest.raises(OSError, match="busy"):
        host.unmount("/m")
    host.release("/m")
    host.unmount("/m")
    assert host.mount_at("/m") is None


def test_a_reboot_loses_mounts_and_memory_and_keeps_the_disk() -> None:
    host = prepared()
    before = host.snapshot("/a")
    host.write_files("/m", [NewFile(path="volatile", data=b"", mode=0o644)])
    host.bind("/a", "/b")
    host.hold("/m")
    host.reboot()
    assert [mount.path for mount in host.mounts()] == ["/"]
    assert (host.names_in("/m"), host.names_in("/b")) == ([], [])
    assert host.snapshot("/a") == before


def test_ids_are_never_used_again_not_even_after_a_reboot() -> None:
    host = prepared()
    seen = {mount.id for mount in host.mounts()}
    host.reboot()
    host.mount_tmpfs("/m")
    facts = host.mount_at("/m")
    assert facts is not None
    assert facts.id not in seen


def test_a_full_disk_takes_no_more_until_something_goes() -> None:
    host = MemoryHost()
    host.limit_disk(8192)
    host.write_files("/", [NewFile(path="a", data=b"x" * 5000, mode=0o644)])
    with pytest.raises(OSError, match="No space"):
        host.write_files("/", [NewFile(path="b", data=b"x", mode=0o644)])
    host.remove_file("/a")
    host.remove_file("/b")
    host.write_files("/", [NewFile(path="b", data=b"x", mode=0o644)])


def test_mount_paths_follow_a_rename_above_them() -> None:
    host = MemoryHost()
    host.make_directories("/a/m", 0o755)
    host.mount_tmpfs("/a/m")
    host.rename("/a", "/b")
    assert [mount.path for mount in host.mounts()] == ["/", "/b/m"]


def test_a_bind_whose_source_was_removed_is_marked() -> None:
    host = prepared()
    host.make_directories("/a/sub", 0o755)
    host.bind("/a/sub", "/b")
    host.remove_directory("/a/sub")
    facts = host.mount_at("/b")
    assert facts is not None
    assert facts.root == "/sub//deleted"


def test_a_mount_made_through_a_bind_is_seen_there_only() -> None:
    host = prepared()
    host.make_directories("/a/sub", 0o755)
    host.bind("/a", "/b")
    host.mount_tmpfs("/b/sub")
    assert host.mount_at("/b/sub") is not None
    assert host.mount_at("/a/sub") is None


def test_snapshots_differ_in_content_mode_owner_and_mounts() -> None:
    host = prepared()
    seen = [host.snapshot()]
    host.change_mode("/a/file", 0o600)
    seen.append(host.snapshot())
    host.set_ownership("/a/file", Ownership(gid=1, file_mask=0, directory_mask=0))
    seen.append(host.snapshot())
    host.remove_file("/a/file")
    seen.append(host.snapshot())
    host.mount_tmpfs("/b")
    seen.append(host.snapshot())
    assert all(earlier != later for index, earlier in enumerate(seen) for later in seen[index + 1 :])


def test_a_snapshot_can_be_read() -> None:
    host = prepared()
    host.make_link("file", "/a/link")
    assert host.snapshot("/a").entries == {
        "/a": "directory 0755 0:0",
        "/a/file": "file 0644 0:0 b'x'",
        "/a/link": "link 0777 0:0 -> file",
    }
    snapshot = host.snapshot()
    assert snapshot.mounts == (
        "/ ext4 / rw,relatime",
        "/m tmpfs / rw,relatime,noswap",
        "/n ext4 / rw,relatime",
    )
    assert snapshot.devices == (
        "/disk 259:1 rw 1048576 nothing",
        "/formatted 259:2 rw 2097152 a file system ext4 1048576",
        "/dev/loop0 7:0 rw 1048576 nothing <- /disk",
    )


@pytest.mark.parametrize("kind", [FileKind.SOCKET, FileKind.BLOCK_DEVICE, FileKind.CHARACTER_DEVICE, FileKind.FIFO])
def test_special_files_are_seen_as_what_they_are(kind: FileKind) -> None:
    host = MemoryHost()
    host.make_special_file("/special", kind)
    facts = host.look("/special")
    assert facts is not None
    assert facts.kind is kind


def test_times_come_from_the_clock_that_was_handed_in() -> None:
    host = MemoryHost(now=lambda: 42.0)
    host.create_file("/a", 0o644)
    facts = host.look("/a")
    assert facts is not None
    assert facts.modified_at == 42.0


async def test_a_scheduler_decides_about_batches() -> None:
    seen: list[tuple[Risk, str]] = []

    async def schedule(call: Callable[[], T], risk: Risk, what: str, /) -> T:
        seen.append((risk, what))
        return call()

    host = MemoryHost()
    host.scheduler = schedule
    assert await host.run(lambda: host.names_in("/"), risk=Risk.BULKY, what="list the root") == []
    assert seen == [(Risk.BULKY, "list the root")]
