"""Where paths lead without links, and how a mount point is cleared without touching anybody's data."""

from __future__ import annotations

import errno

import pytest

from mooring.errors import Doubtful
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
