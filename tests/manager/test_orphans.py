"""Directories of pods that are gone: removed when empty, refused when they may hold data (core.md 7.5, V15 to V20)."""

from __future__ import annotations

import pytest

from mooring.errors import Refused
from mooring.host.paths import Paths
from mooring.manager.orphans import remove_pod_directory
from mooring.testing.memory_host import MemoryHost
from mooring.world.names import PodUid

UID = PodUid("uid-web")
PATHS = Paths("/var/lib/mooring")
POD = PATHS.pod_dir(UID)
VOLUMES = PATHS.pod_volumes_dir(UID)
DATA = PATHS.pod_volume_dir(UID, "kubernetes.io/empty-dir", "data")
SUBPATH = PATHS.pod_subpath(UID, "data", "main", 0)


@pytest.fixture
def host() -> MemoryHost:
    machine = MemoryHost()
    machine.make_directories(POD, 0o750)
    return machine


def refusal(host: MemoryHost) -> str:
    """Why the directory is not removed; it must still be there."""
    with pytest.raises(Refused) as caught:
        remove_pod_directory(host, PATHS, UID)
    assert host.look(POD) is not None
    return caught.value.why


def test_a_pod_directory_without_volumes_is_removed(host: MemoryHost) -> None:
    """V15."""
    remove_pod_directory(host, PATHS, UID)
    assert host.look(POD) is None


def test_a_pod_directory_that_is_gone_is_fine() -> None:
    remove_pod_directory(MemoryHost(), PATHS, UID)


def test_empty_volume_and_subpath_directories_are_removed(host: MemoryHost) -> None:
    """V18."""
    host.make_directories(f"{DATA}/nested", 0o755)
    host.make_directories(SUBPATH, 0o755)
    host.make_directories(f"{PATHS.pod_subpaths_dir(UID)}/empty", 0o755)
    remove_pod_directory(host, PATHS, UID)
    assert host.look(POD) is None


def test_what_lies_beside_the_volumes_is_removed_with_its_content(host: MemoryHost) -> None:
    """core.md 7.5 step 8."""
    host.make_directories(f"{PATHS.pod_containers_dir(UID)}/main", 0o755)
    host.create_file(f"{PATHS.pod_containers_dir(UID)}/main/log", 0o644)
    host.create_file(f"{POD}/etc-hosts", 0o644)
    remove_pod_directory(host, PATHS, UID)
    assert host.look(POD) is None


def test_a_file_in_a_volume_directory_is_never_deleted(host: MemoryHost) -> None:
    """V19, I9."""
    host.make_directories(DATA, 0o755)
    host.create_file(f"{DATA}/precious", 0o644)
    assert refusal(host) == f"{DATA} still holds 'precious'"
    assert host.look(f"{DATA}/precious") is not None


def test_a_link_in_a_volume_directory_is_neither_followed_nor_deleted(host: MemoryHost) -> None:
    """I9."""
    host.make_directories("/elsewhere", 0o755)
    host.make_directories(DATA, 0o755)
    host.make_link("/elsewhere", f"{DATA}/link")
    assert refusal(host) == f"{DATA} still holds 'link'"
    assert host.look("/elsewhere") is not None


def test_a_file_in_a_subpath_directory_is_never_deleted(host: MemoryHost) -> None:
    """V20."""
    host.make_directories(SUBPATH, 0o755)
    host.create_file(f"{SUBPATH}/precious", 0o644)
    assert refusal(host) == f"{SUBPATH} still holds 'precious'"


@pytest.mark.parametrize("place", [DATA, f"{DATA}/mount", SUBPATH])
def test_a_mount_point_keeps_the_whole_directory_untouched(host: MemoryHost, place: str) -> None:
    """V21, I9, I10."""
    host.make_directories(place, 0o755)
    host.make_directories(f"{VOLUMES}/other", 0o755)
    host.mount_tmpfs(place)
    before = host.snapshot(POD)
    assert refusal(host) == f"{place} is still a mount point"
    assert host.snapshot(POD) == before


def test_a_mount_beside_the_volumes_is_not_crossed(host: MemoryHost) -> None:
    """I9: what is mounted there stays, and so does its content."""
    place = f"{PATHS.pod_plugins_dir(UID)}/vendor"
    host.make_directories(place, 0o755)
    host.mount_tmpfs(place)
    host.create_file(f"{place}/precious", 0o644)
    with pytest.raises(OSError, match="it is a mount point"):
        remove_pod_directory(host, PATHS, UID)
    assert host.look(f"{place}/precious") is not None


def test_an_error_that_is_not_about_content_is_passed_on(host: MemoryHost) -> None:
    host.make_directories(DATA, 0o755)

    def broken(method: str, path: str) -> None:
        if method == "remove_directory":
            raise OSError(5, "Input/output error", path)

    host.before_call = broken
    with pytest.raises(OSError, match="Input/output error"):
        remove_pod_directory(host, PATHS, UID)
