"""Local volumes as directories: bound into pods, from a directory of the machine or from a disk (plugins.md 16)."""

from __future__ import annotations

import errno

import pytest
from tests.plugins.local_bench import DISK, EXT4, MEBIBYTE, ONE, ROOT, STAGE, TWO, LocalBench

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host.file_systems import MountErrorKind, MountProblem
from mooring.host.interface import FileKind, NewFile
from mooring.host.programs import ProgramResult
from mooring.plugins.interface import Attributes, Setup
from mooring.testing.sample_objects import local_volume, pod
from mooring.world.spec import VolumeSpec


@pytest.fixture
def bench() -> LocalBench:
    return LocalBench()


@pytest.fixture
def directory(bench: LocalBench) -> VolumeSpec:
    return bench.spec(local_volume("c", "/srv/data"))


@pytest.fixture
def disk(bench: LocalBench) -> VolumeSpec:
    return bench.spec(local_volume("c", DISK))


def pod_path(uid: str) -> str:
    return f"{ROOT}/pods/{uid}/volumes/kubernetes.io~local-volume/pv-c"


# -- where things lie ----------------------------------------------------------------------------------------------
def test_only_persistent_volumes_are_served_and_pods_share_them_by_name(
    bench: LocalBench, directory: VolumeSpec
) -> None:
    assert bench.plugin.supports(directory)
    assert bench.plugin.volume_name(directory) == "pv-c"
    assert bench.offer(directory).stager is not None
    assert bench.offer(directory).takes_mount_options


def test_a_directory_is_its_own_stage(bench: LocalBench, directory: VolumeSpec) -> None:
    """L1."""
    assert bench.stage(directory) == "/srv/data"
    assert bench.mounted() == []


def test_a_disk_is_staged_below_the_plugin_s_directory(bench: LocalBench, disk: VolumeSpec) -> None:
    """L1."""
    assert bench.stage(disk) == STAGE
    assert bench.mounted() == [STAGE]


def test_attributes_follow_read_only(bench: LocalBench) -> None:
    volume = local_volume("c", "/srv/data")
    assert bench.offer(bench.spec(volume)).attributes == Attributes(managed=True, relabel=True)
    read_only = bench.spec(volume, read_only=True)
    assert bench.offer(read_only).attributes == Attributes(read_only=True, relabel=True)


# -- mounting ------------------------------------------------------------------------------------------------------
def test_a_directory_is_bound_into_the_pod_and_taken_away_again(bench: LocalBench, directory: VolumeSpec) -> None:
    """L2."""
    bench.host.write_files("/srv/data", [NewFile(path="file", data=b"kept", mode=0o644)])
    path = bench.set_up(directory)
    assert path == pod_path(ONE)
    assert bench.host.read_file(f"{path}/file") == b"kept"
    bench.tear_down(directory)
    assert (bench.mounted(), bench.host.look(path)) == ([], None)
    assert bench.host.read_file("/srv/data/file") == b"kept"


def test_an_empty_disk_gets_a_file_system_once_and_keeps_its_content(bench: LocalBench, disk: VolumeSpec) -> None:
    path = bench.set_up(disk)
    bench.host.write_files(path, [NewFile(path="file", data=b"kept", mode=0o644)])
    bench.tear_down(disk)
    bench.unstage(disk)
    assert bench.mounted() == []
    bench.set_up(disk)
    assert bench.host.read_file(f"{path}/file") == b"kept"
    assert [command[0] for command in bench.host.programs_run if command[0].startswith("mkfs")] == ["mkfs.ext4"]


def test_the_type_of_the_file_system_is_the_volume_s(bench: LocalBench) -> None:
    bench.stage(bench.spec(local_volume("c", DISK, fs_type="xfs")))
    mount = bench.host.mount_at(STAGE)
    assert mount is not None
    assert mount.fs_type == "xfs"


def test_a_disk_is_found_behind_a_link(bench: LocalBench) -> None:
    bench.host.make_link("disk", "/dev/by-name")
    bench.stage(bench.spec(local_volume("c", "/dev/by-name")))
    mount = bench.host.mount_at(STAGE)
    assert mount is not None
    assert mount.source == DISK


def test_two_pods_see_one_mount_of_a_disk(bench: LocalBench, disk: VolumeSpec) -> None:
    one, two = bench.set_up(disk, ONE), bench.set_up(disk, TWO)
    assert bench.mounted() == [STAGE, one, two]
    bench.tear_down(disk, ONE)
    assert bench.mounted() == [STAGE, two]


def test_a_set_up_that_finds_its_work_done_changes_nothing(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.set_up(disk, group=7)
    before = bench.host.snapshot()
    bench.set_up(disk, group=8)
    assert bench.host.snapshot() == before


def test_taking_away_what_is_gone_is_fine(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.tear_down(disk)
    bench.unstage(disk)


def test_stacked_mounts_are_all_taken_away(bench: LocalBench, directory: VolumeSpec) -> None:
    path = bench.set_up(directory)
    bench.host.bind("/srv/data", path)
    bench.tear_down(directory)
    assert (bench.mounted(), bench.host.look(path)) == ([], None)


def test_mount_options_and_read_only_reach_the_mounts_of_a_disk(bench: LocalBench) -> None:
    bench.host.make_device("/dev/full", MEBIBYTE, holds=EXT4)
    volume = local_volume("c", "/dev/full", mount_options=("noatime", "discard"))
    path = bench.set_up(bench.spec(volume, read_only=True))
    assert {"ro", "noatime", "discard"} <= set(bench.options(STAGE))
    assert {"ro", "noatime"} <= set(bench.options(path))


def test_a_read_only_directory_is_bound_read_only(bench: LocalBench) -> None:
    volume = local_volume("c", "/srv/data")
    assert "ro" in bench.options(bench.set_up(bench.spec(volume, read_only=True)))


def test_flags_among_the_mount_options_hold_for_a_directory_too(bench: LocalBench) -> None:
    volume = local_volume("c", "/srv/data", mount_options=("noexec,nosuid", "discard"))
    assert {"rw", "noexec", "nosuid"} <= set(bench.options(bench.set_up(bench.spec(volume))))


# -- refusing ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/srv/../data", "srv/data", "", "/srv/missing"])
def test_a_path_that_leads_nowhere_certain_is_refused(bench: LocalBench, path: str) -> None:
    """L3."""
    before = bench.host.snapshot()
    with pytest.raises(Refused):
        bench.set_up(bench.spec(local_volume("c", path)))
    assert bench.host.snapshot() == before


@pytest.mark.parametrize("kind", [FileKind.SOCKET, FileKind.FIFO, FileKind.FILE, FileKind.CHARACTER_DEVICE])
def test_what_is_neither_directory_nor_disk_is_refused(bench: LocalBench, kind: FileKind) -> None:
    bench.host.make_special_file("/srv/other", kind)
    with pytest.raises(Refused, match=f"neither \\({kind.value}\\)"):
        bench.set_up(bench.spec(local_volume("c", "/srv/other")))


def test_a_disk_that_cannot_be_mounted_leaves_nothing(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.host.program_result = lambda _: ProgramResult(status=1, output="no space")
    with pytest.raises(MountProblem, match="local: failed to mount device /dev/disk") as caught:
        bench.stage(disk)
    assert caught.value.kind is MountErrorKind.FORMAT_FAILED
    assert bench.host.look(STAGE) is None


def test_a_failed_bind_leaves_nothing(bench: LocalBench, directory: VolumeSpec) -> None:
    def fail(method: str, path: str) -> None:
        if method == "bind":
            raise OSError(errno.ENOMEM, "no memory")

    bench.host.before_call = fail
    with pytest.raises(Refused, match="local: failed to mount /srv/data"):
        bench.set_up(directory)
    assert (bench.mounted(), bench.host.look(pod_path(ONE))) == ([], None)


def test_a_bind_that_happened_though_it_failed_is_taken_back(bench: LocalBench, directory: VolumeSpec) -> None:
    def fail(method: str, path: str) -> None:
        if method == "bind":
            raise OSError(errno.EINTR, "interrupted")

    bench.host.after_call = fail
    with pytest.raises(Refused, match="local: failed to mount"):
        bench.set_up(directory)
    assert (bench.mounted(), bench.host.look(pod_path(ONE))) == ([], None)


def test_a_disk_that_vanished_under_its_mount_is_doubt_and_no_refusal(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.stage(disk)
    bench.host.remove_file(DISK)
    with pytest.raises(Doubtful, match="does not exist"):
        bench.stage(disk)


def test_another_disk_under_the_same_name_is_not_taken_for_the_one_mounted(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.stage(disk)
    bench.host.make_device("/dev/other", MEBIBYTE)
    with pytest.raises(Doubtful, match="'/dev/disk' is mounted at"):
        bench.stage(bench.spec(local_volume("c", "/dev/other")))


def test_data_below_the_mount_point_is_never_deleted(bench: LocalBench, directory: VolumeSpec) -> None:
    path = bench.set_up(directory)
    bench.host.unmount(path)
    bench.host.write_files(path, [NewFile(path="late", data=b"x", mode=0o644)])
    with pytest.raises(Doubtful, match="it is not empty"):
        bench.tear_down(directory)
    assert bench.host.read_file(f"{path}/late") == b"x"


def test_a_busy_mount_stays(bench: LocalBench, directory: VolumeSpec) -> None:
    path = bench.set_up(directory)
    bench.host.hold(path)
    with pytest.raises(OSError, match="busy"):
        bench.tear_down(directory)
    assert bench.mounted() == [path]


def test_a_stage_that_a_pod_still_uses_is_not_unmounted(bench: LocalBench, disk: VolumeSpec) -> None:
    path = bench.set_up(disk)
    with pytest.raises(Doubtful, match=f"still mounted by other references: {path}"):
        bench.unstage(disk, STAGE)
    assert bench.mounted() == [STAGE, path]


def test_a_disk_that_somebody_else_has_open_is_not_let_go(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.stage(disk)
    bench.host.claim_device(DISK)
    with pytest.raises(Doubtful, match="in use when it was no longer expected"):
        bench.unstage(disk)
    bench.host.release_device(DISK)
    bench.unstage(disk)
    assert (bench.mounted(), bench.host.look(STAGE)) == ([], None)


def test_unstaging_a_directory_leaves_it_alone(bench: LocalBench, directory: VolumeSpec) -> None:
    bench.host.make_directories("/srv/empty", 0o755)
    spec = bench.spec(local_volume("c", "/srv/empty"))
    bench.unstage(spec, bench.stage(spec))
    assert bench.host.look("/srv/empty") is not None


# -- what is left after a crash ------------------------------------------------------------------------------------
def test_a_skeleton_has_the_device_only_while_it_is_mounted(bench: LocalBench, disk: VolumeSpec) -> None:
    """L4."""
    assert described(bench.plugin.reconstruct("pv-c")) == ("", "Filesystem")
    bench.set_up(disk)
    assert described(bench.plugin.reconstruct("pv-c")) == (DISK, "Filesystem")


def test_a_volume_is_taken_away_from_its_name_alone(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.set_up(disk)
    skeleton = bench.plugin.reconstruct("pv-c")
    bench.tear_down(skeleton)
    bench.unstage(skeleton)
    assert (bench.mounted(), bench.host.look(STAGE), bench.host.look(pod_path(ONE))) == ([], None, None)


def test_a_stage_leaves_a_trace_and_other_files_do_not(bench: LocalBench, disk: VolumeSpec) -> None:
    bench.stage(disk)
    bench.host.create_file(f"{STAGE}-note", 0o644)
    assert [(trace.spec.name, trace.pods) for trace in bench.plugin.traces()] == [("pv-c", ())]


class Killed(Exception):
    pass


@pytest.mark.parametrize("path", ["/srv/data", DISK])
def test_a_kill_at_any_call_is_mended_by_the_next_try_and_by_teardown(path: str) -> None:
    for number in range(100):
        bench = LocalBench()
        spec = bench.spec(local_volume("c", path))
        left = number

        def kill(method: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        bench.host.before_call = kill
        try:
            bench.set_up(spec, group=7)
        except Killed:
            bench.host.before_call = None
        else:
            assert number > 1
            return
        if number % 2:
            bench.set_up(spec, group=7)
            assert bench.group(path if path != DISK else STAGE) == 7
        skeleton = bench.plugin.reconstruct("pv-c")
        bench.tear_down(skeleton)
        bench.unstage(skeleton)
        assert (bench.mounted(), bench.host.look(STAGE), bench.host.look(pod_path(ONE))) == ([], None, None)
    raise AssertionError("it is killed again and again")


def test_looking_ahead_refuses_what_a_set_up_would_refuse(bench: LocalBench, directory: VolumeSpec) -> None:
    missing = bench.spec(local_volume("c", "/srv/missing"))
    checker = bench.offer(missing).checker
    assert checker is not None
    checker.check(Setup(pod=pod("one"), uid=ONE, spec=directory))
    with pytest.raises(MooringError, match="does not exist"):
        checker.check(Setup(pod=pod("one"), uid=ONE, spec=missing))


def described(spec: VolumeSpec) -> tuple[str, str | None]:
    """The path and the mode of a local volume."""
    assert spec.persistent_volume is not None
    assert spec.persistent_volume.spec.local is not None
    return spec.persistent_volume.spec.local.path, spec.persistent_volume.spec.volume_mode
