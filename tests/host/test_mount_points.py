"""Where paths lead without links, and how a mount point is cleared without touching anybody's data."""

from __future__ import annotations

import errno

import pytest

from mooring.errors import Doubtful
from mooring.host.health import Answer
from mooring.host.mount_points import clear_mount_point
from mooring.host.resolution import resolved
from mooring.testing.memory_host import MemoryHost


@pytest.fixture
def host() -> MemoryHost:
    machine = MemoryHost()
    machine.make_directories("/srv/data/inner", 0o755)
    return machine


# -- resolving -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/srv/data", "/srv//data/", "/srv/./data", "/link", "/srv/up", "/chain/.."])
def test_every_way_to_a_place_resolves_to_the_same_path(host: MemoryHost, path: str) -> None:
    host.make_link("/srv/data", "/link")
    host.make_link("../srv/data", "/srv/up")
    host.make_link("link/inner", "/chain")
    assert resolved(host, path) == "/srv/data"


def test_the_root_is_itself(host: MemoryHost) -> None:
    assert (resolved(host, "/"), resolved(host, "/srv/../..")) == ("/", "/")


def test_a_missing_place_and_a_link_to_one_are_errors(host: MemoryHost) -> None:
    host.make_link("/missing", "/link")
    for path in ("/srv/missing", "/link"):
        with pytest.raises(FileNotFoundError):
            resolved(host, path)


def test_links_in_a_circle_are_an_error(host: MemoryHost) -> None:
    host.make_link("/two", "/one")
    host.make_link("/one", "/two")
    with pytest.raises(OSError, match="symbolic links") as caught:
        resolved(host, "/one/data")
    assert caught.value.errno == errno.ELOOP


# -- clearing ------------------------------------------------------------------------------------------------------
def test_a_mount_point_loses_all_layers_and_goes(host: MemoryHost) -> None:
    host.make_directories("/mnt", 0o755)
    for _ in range(3):
        host.bind("/srv/data", "/mnt")
    clear_mount_point(host, "/mnt")
    assert host.look("/mnt") is None
    assert host.look("/srv/data/inner") is not None


def test_clearing_what_is_gone_is_fine(host: MemoryHost) -> None:
    clear_mount_point(host, "/missing")
    clear_mount_point(host, "/missing/below")


def test_a_directory_with_something_in_it_stays(host: MemoryHost) -> None:
    with pytest.raises(Doubtful, match="does not delete data"):
        clear_mount_point(host, "/srv/data")
    assert host.look("/srv/data/inner") is not None


def test_a_file_in_place_of_a_mount_point_stays(host: MemoryHost) -> None:
    host.create_file("/file", 0o644)
    with pytest.raises(NotADirectoryError):
        clear_mount_point(host, "/file")
    assert host.look("/file") is not None


def test_a_mount_that_another_process_takes_away_meanwhile_is_fine(host: MemoryHost) -> None:
    host.make_directories("/mnt", 0o755)
    host.bind("/srv/data", "/mnt")

    def take_it_first(method: str, path: str) -> None:
        if method == "unmount":
            host.before_call = None
            host.unmount(path)

    host.before_call = take_it_first
    clear_mount_point(host, "/mnt")
    assert host.look("/mnt") is None


def test_a_busy_mount_stays(host: MemoryHost) -> None:
    host.make_directories("/mnt", 0o755)
    host.bind("/srv/data", "/mnt")
    host.hold("/mnt")
    with pytest.raises(OSError, match="busy"):
        clear_mount_point(host, "/mnt")
    assert host.mount_at("/mnt") is not None


# -- servers that do not answer ------------------------------------------------------------------------------------
@pytest.fixture
def served(host: MemoryHost) -> MemoryHost:
    """A machine with a file system of a server at /net, and a part of it bound to /mnt."""
    for path in ("/net", "/mnt"):
        host.make_directories(path, 0o755)
    host.mount_network("/net", "server:/share", "nfs4")
    host.make_directories("/net/part", 0o755)
    host.bind("/net/part", "/mnt")
    return host


@pytest.mark.parametrize("answer", [Answer.SILENT, Answer.BROKEN])
def test_a_dead_server_does_not_keep_an_idle_mount(served: MemoryHost, answer: Answer) -> None:
    served.let_server("/net", answer)
    clear_mount_point(served, "/mnt")
    assert served.look("/mnt") is None
    assert served.debts() == ()


def test_a_mount_that_is_used_while_its_server_is_dead_goes_and_is_owed(served: MemoryHost) -> None:
    served.let_server("/net", Answer.SILENT)
    served.hold("/mnt")
    clear_mount_point(served, "/mnt")
    assert served.look("/mnt") is None
    (debt,) = served.debts()
    assert (debt.path, debt.source, debt.fs_type, debt.why) == ("/mnt", "server:/share", "nfs4", "it does not answer")


def test_a_mount_that_is_used_while_its_server_answers_stays(served: MemoryHost) -> None:
    served.hold("/mnt")
    with pytest.raises(OSError, match="busy"):
        clear_mount_point(served, "/mnt")
    assert (served.mount_at("/mnt") is not None, served.debts()) == (True, ())


def test_only_the_last_mount_of_a_file_system_is_forced(served: MemoryHost) -> None:
    served.let_server("/net", Answer.SILENT)
    forced: list[tuple[str, bool]] = []
    unmount = served.unmount

    def watched(path: str, *, lazy: bool = False, force: bool = False) -> None:
        forced.append((path, force))
        unmount(path, lazy=lazy, force=force)

    served.unmount = watched  # type: ignore[method-assign]
    clear_mount_point(served, "/mnt")
    clear_mount_point(served, "/net")
    assert forced == [("/mnt", False), ("/net", True)]


def test_a_disk_that_is_in_use_is_never_taken_away(host: MemoryHost) -> None:
    host.make_directories("/mnt", 0o755)
    host.bind("/srv/data", "/mnt")
    host.hold("/mnt")
    with pytest.raises(OSError, match="busy"):
        clear_mount_point(host, "/mnt")
    assert host.debts() == ()
