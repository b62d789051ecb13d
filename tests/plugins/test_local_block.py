"""Local volumes as raw devices: mapped for each pod, and taken back without a trace (plugins.md 16 and 22.5)."""

from __future__ import annotations

import pytest
from tests.plugins.local_bench import DISK, MAPS, MEBIBYTE, ONE, ROOT, TWO, LocalBench

from mooring.errors import Doubtful, Refused
from mooring.host.interface import FileKind
from mooring.plugins.local_places import NAME
from mooring.testing.sample_objects import local_volume
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


@pytest.fixture
def bench() -> LocalBench:
    return LocalBench()


@pytest.fixture
def raw(bench: LocalBench) -> VolumeSpec:
    return bench.spec(local_volume("c", DISK, mode="Block"))


def link(uid: PodUid) -> str:
    return f"{ROOT}/pods/{uid}/volumeDevices/{NAME.replace('/', '~')}/pv-c"


def loops(bench: LocalBench) -> list[str]:
    """The loop devices in use, each with what it has open."""
    return [line for line in bench.host.snapshot("/dev").devices if "<-" in line]


def assert_nothing_left(bench: LocalBench) -> None:
    assert (bench.mounted(), loops(bench)) == ([], [])
    assert (bench.host.look(MAPS), bench.host.look(link(ONE))) == (None, None)


def test_a_pod_gets_a_link_to_the_device_and_the_device_is_held_open(bench: LocalBench, raw: VolumeSpec) -> None:
    """B1."""
    assert bench.offer(raw).maps_devices
    assert bench.set_up(raw) == link(ONE)
    assert bench.host.read_link(link(ONE)) == DISK
    assert bench.mounted() == [f"{MAPS}/{ONE}"]
    assert bench.host.loop_of(f"{MAPS}/{ONE}") is not None


def test_the_link_leads_to_the_device_itself_whatever_name_the_volume_uses(bench: LocalBench) -> None:
    bench.host.make_directories("/dev/by-id", 0o755)
    bench.host.make_link("../disk", "/dev/by-id/wwn-1")
    bench.set_up(bench.spec(local_volume("c", "/dev/by-id/wwn-1", mode="Block")))
    assert bench.host.read_link(link(ONE)) == DISK


def test_a_raw_device_is_neither_formatted_nor_mounted(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw, group=7)
    assert bench.host.programs_run == []
    assert bench.stage(raw) == MAPS


def test_a_set_up_that_finds_its_work_done_changes_nothing(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    before = bench.host.snapshot()
    bench.set_up(raw)
    assert bench.host.snapshot() == before


def test_everything_is_taken_back_from_the_name_alone(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    skeleton = bench.plugin.reconstruct("pv-c", block=True)
    assert skeleton.is_block
    bench.tear_down(skeleton)
    bench.unstage(skeleton)
    assert_nothing_left(bench)


def test_taking_back_what_is_gone_is_fine(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.tear_down(raw)
    bench.unstage(raw)
    assert_nothing_left(bench)


def test_two_pods_have_maps_of_their_own(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw, ONE)
    bench.set_up(raw, TWO)
    bench.tear_down(raw, ONE)
    assert bench.mounted() == [f"{MAPS}/{TWO}"]
    assert bench.host.read_link(link(TWO)) == DISK


def test_the_map_directory_stays_while_a_pod_uses_the_device(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    with pytest.raises(Doubtful, match="still referenced from other pods"):
        bench.unstage(raw, MAPS)
    assert bench.mounted() == [f"{MAPS}/{ONE}"]


def test_after_a_reboot_the_map_is_made_again(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    bench.host.reboot()
    bench.set_up(raw)
    assert bench.mounted() == [f"{MAPS}/{ONE}"]
    bench.tear_down(raw)
    bench.unstage(raw)
    assert_nothing_left(bench)


def test_empty_files_that_a_reboot_left_go_with_the_map_directory(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    bench.host.reboot()
    bench.host.remove_file(link(ONE))
    bench.unstage(raw)
    assert bench.host.look(MAPS) is None


@pytest.mark.parametrize("path", ["/srv/data", "/srv/missing", "/dev/../dev/disk"])
def test_what_is_no_device_is_refused(bench: LocalBench, path: str) -> None:
    before = bench.host.snapshot()
    with pytest.raises(Refused):
        bench.set_up(bench.spec(local_volume("c", path, mode="Block")))
    assert bench.host.snapshot() == before


def test_a_character_device_is_refused(bench: LocalBench) -> None:
    bench.host.make_special_file("/dev/tty", FileKind.CHARACTER_DEVICE)
    with pytest.raises(Refused, match="volumeMode is Block"):
        bench.set_up(bench.spec(local_volume("c", "/dev/tty", mode="Block")))


def test_another_device_in_its_place_leaves_the_first_map_in_doubt(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    bench.host.make_device("/dev/other", MEBIBYTE)
    with pytest.raises(Doubtful, match="already shows another device"):
        bench.set_up(bench.spec(local_volume("c", "/dev/other", mode="Block")))
    assert bench.host.read_link(link(ONE)) == DISK


def test_a_device_that_goes_away_leaves_doubt_until_it_is_unmapped(bench: LocalBench, raw: VolumeSpec) -> None:
    bench.set_up(raw)
    bench.host.remove_file(DISK)
    with pytest.raises(Doubtful, match="does not exist"):
        bench.mount(raw, stage_path=MAPS)
    bench.tear_down(raw)
    assert (bench.mounted(), loops(bench)) == ([], [])


class Killed(Exception):
    pass


def test_a_kill_at_any_call_leaves_a_trace_from_which_all_is_taken_back() -> None:
    for number in range(100):
        bench = LocalBench()
        spec = bench.spec(local_volume("c", DISK, mode="Block"))
        left = number

        def kill(method: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        bench.host.before_call = kill
        try:
            bench.set_up(spec)
        except Killed:
            bench.host.before_call = None
        else:
            assert number > 3
            return
        for trace in bench.plugin.traces():
            assert trace.spec.is_block
            for uid in trace.pods:
                bench.tear_down(trace.spec, uid)
            bench.unstage(trace.spec)
        assert_nothing_left(bench)
    raise AssertionError("it is killed again and again")
