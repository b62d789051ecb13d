"""Who owns the files of a local volume: the group of its first user, as far as its change policy says so."""

from __future__ import annotations

import errno

import pytest
from tests.plugins.local_bench import DISK, ONE, TWO, LocalBench

from mooring.host.interface import NewFile
from mooring.plugins.empty_dir import read_write
from mooring.testing.sample_objects import local_volume
from mooring.world.spec import VolumeSpec

ON_ROOT_MISMATCH = "OnRootMismatch"


@pytest.fixture
def bench() -> LocalBench:
    return LocalBench()


@pytest.fixture
def directory(bench: LocalBench) -> VolumeSpec:
    return bench.spec(local_volume("c", "/srv/data"))


@pytest.fixture
def disk(bench: LocalBench) -> VolumeSpec:
    return bench.spec(local_volume("c", DISK))


def test_the_first_user_s_group_owns_the_files(bench: LocalBench, directory: VolumeSpec) -> None:
    bench.host.write_files("/srv/data", [NewFile(path="file", data=b"", mode=0o600)])
    path = bench.set_up(directory, group=1234)
    facts = bench.host.look(f"{path}/file")
    assert facts is not None
    assert (facts.gid, facts.mode) == (1234, 0o660)


def test_a_second_group_does_not_take_the_files_over(bench: LocalBench, disk: VolumeSpec) -> None:
    """L5."""
    bench.set_up(disk, ONE, group=1234)
    path = bench.set_up(disk, TWO, group=1235)
    assert bench.group(path) == 1234
    (notice,) = bench.notices
    assert notice.reason == "AlreadyMountedVolume"
    assert "requested fsGroup is 1235, but volume pv-c already belongs to group 1234" in notice.message


def test_binds_outside_of_pods_are_no_users(bench: LocalBench, directory: VolumeSpec) -> None:
    """L6."""
    bench.host.make_directories("/elsewhere", 0o755)
    bench.host.bind("/srv/data", "/elsewhere")
    bench.set_up(directory, group=1234)
    assert bench.group("/srv/data") == 1234


def test_users_are_found_though_the_volume_s_path_has_a_link(bench: LocalBench) -> None:
    bench.host.make_link("data", "/srv/link")
    spec = bench.spec(local_volume("c", "/srv/link"))
    bench.set_up(spec, ONE, group=1234)
    bench.set_up(spec, TWO, group=1235)
    assert bench.group("/srv/data") == 1234


def test_a_read_only_volume_keeps_its_owner(bench: LocalBench) -> None:
    bench.set_up(bench.spec(local_volume("c", "/srv/data"), read_only=True), group=1234)
    assert bench.group("/srv/data") == 0


@pytest.mark.parametrize(("policy", "group"), [(ON_ROOT_MISMATCH, 9), ("Always", 7), (None, 7)])
def test_only_on_root_mismatch_spares_a_matching_root(
    bench: LocalBench, directory: VolumeSpec, policy: str | None, group: int
) -> None:
    bench.set_up(directory, group=7)
    bench.tear_down(directory)
    bench.host.write_files("/srv/data", [NewFile(path="rogue", data=b"", mode=0o644)])
    bench.host.set_ownership("/srv/data/rogue", read_write(9))
    path = bench.set_up(directory, group=7, policy=policy)
    assert bench.group(f"{path}/rogue") == group


def test_a_broken_off_change_of_owner_is_done_again(bench: LocalBench, directory: VolumeSpec) -> None:
    bench.host.write_files("/srv/data", [NewFile(path="file", data=b"", mode=0o600)])

    def fail(method: str, path: str) -> None:
        if method == "set_ownership":
            raise OSError(errno.EIO, "disk error")

    bench.host.between_steps = fail
    with pytest.raises(OSError, match="disk error"):
        bench.set_up(directory, group=7, policy=ON_ROOT_MISMATCH)
    assert bench.mounted() == []
    bench.host.between_steps = None
    bench.set_up(directory, group=7, policy=ON_ROOT_MISMATCH)
    assert bench.group("/srv/data") == 7
