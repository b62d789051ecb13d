"""Why a pod's volumes are not ready, in one sentence each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.world.actual import ActualMount, ActualVolume, Failure
from mooring.world.desired import DesiredMount, DesiredVolume, Problem
from mooring.world.explain import (
    HoldUp,
    RunningKinds,
    VolumeReport,
    VolumeState,
    describe_wait,
    explain,
    report_problem,
    report_volume,
)
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.planner import Gates, Reason, Wait
from mooring.world.presence import Presence
from mooring.world.progress import Progress
from mooring.world.spec import VolumeSpec

V, PLUGIN, POD = VolumeName("test/plugin/v"), PluginName("test/plugin"), PodUid("u")
SPEC = VolumeSpec(volume=Volume(name="data"))
WISH = DesiredVolume(
    name=V,
    plugin=PLUGIN,
    mounts={POD: DesiredMount(pod=Pod(), spec=SPEC, outer_names=("data",), requested_at=0.0)},
)
EMPTY = ActualVolume(name=V, plugin=PLUGIN, spec=SPEC)
NOBODY: RunningKinds = {}


def held(presence: Presence) -> ActualVolume:
    return replace(EMPTY, mounts={POD: ActualMount(pod=POD, presence=presence, spec=SPEC)})


def failing(*, waiting: bool = False, part: PodUid | None = POD) -> ActualVolume:
    failure = Failure(
        operation="volume_mount",
        what="cannot mount",
        why="no device",
        next_step="Plug it in",
        attempts=3,
        waiting=waiting,
    )
    return replace(EMPTY, failures={part: failure})


def report(
    desired: DesiredVolume | None,
    actual: ActualVolume | None,
    *,
    gates: Gates | None = None,
    running: RunningKinds = NOBODY,
) -> VolumeReport:
    return report_volume(POD, "data", desired, actual, gates if gates is not None else Gates(), running)


def test_a_mounted_volume_has_no_cause() -> None:
    assert report(WISH, held(Presence.PRESENT)) == VolumeReport(
        volume="data", name=V, state=VolumeState.MOUNTED, attempts=1
    )


def test_a_volume_not_yet_begun_waits_to_be_mounted() -> None:
    found = report(WISH, None)
    assert (found.state, found.cause, found.attempts) == (VolumeState.WAITING, "it is about to be mounted", 0)


@pytest.mark.parametrize(
    ("part", "kind", "state"),
    [
        (None, "volume_attach", VolumeState.ATTACHING),
        (None, "mount_device", VolumeState.STAGING),
        (POD, "volume_mount", VolumeState.MOUNTING),
        (POD, "volume_fs_resize", VolumeState.MOUNTING),
        (POD, "volume_unmount", VolumeState.UNMOUNTING),
        (None, "unmount_device", VolumeState.UNMOUNTING),
        (None, "volume_detach", VolumeState.UNMOUNTING),
    ],
)
def test_what_is_under_way_is_the_state(part: str | None, kind: str, state: VolumeState) -> None:
    assert report(WISH, EMPTY, running={part: kind}).state is state


def test_what_holds_up_the_operation_under_way_is_the_cause() -> None:
    held_up = HoldUp(cause="bind volume data: no answer for 5 s", next_step="Bring it back")
    found = report_volume(POD, "data", WISH, EMPTY, Gates(), {POD: "volume_mount"}, held_up=held_up)
    assert (found.state, found.cause, found.next_step) == (VolumeState.MOUNTING, held_up.cause, "Bring it back")
    assert report_volume(POD, "data", WISH, EMPTY, Gates(), NOBODY, held_up=held_up).cause != held_up.cause


def test_how_far_the_operation_under_way_is_is_the_cause() -> None:
    progress = Progress(group=7, visited=10, changed=5, failed=0, seconds=0)
    found = report_volume(POD, "data", WISH, EMPTY, Gates(), {POD: "volume_mount"}, progress=progress)
    assert (found.state, found.cause, found.progress) == (VolumeState.MOUNTING, str(progress), progress)


def test_a_failure_is_the_cause_with_its_next_step() -> None:
    found = report(WISH, failing())
    assert (found.state, found.attempts) == (VolumeState.FAILED, 3)
    assert (found.cause, found.next_step) == ("cannot mount: no device", "Plug it in")


def test_a_failure_of_the_whole_volume_is_a_cause_too() -> None:
    assert report(WISH, failing(part=None)).cause == "cannot mount: no device"


def test_another_pods_failure_is_not_the_cause() -> None:
    assert report(WISH, failing(part=PodUid("other"))).cause == "it is about to be mounted"


def test_a_failure_stays_the_state_while_it_is_tried_again() -> None:
    assert report(WISH, failing(), running={POD: "volume_mount"}).state is VolumeState.FAILED


def test_a_missing_precondition_is_waiting_and_no_failure() -> None:
    assert report(WISH, failing(waiting=True), running={POD: "volume_mount"}).state is VolumeState.WAITING


def test_doubt_is_a_state_of_its_own() -> None:
    assert report(WISH, held(Presence.UNCERTAIN)).state is VolumeState.UNCERTAIN


def test_an_unwanted_mount_is_about_to_be_unmounted() -> None:
    found = report(None, held(Presence.PRESENT))
    assert (found.state, found.cause) == (VolumeState.UNMOUNTING, "it is about to be unmounted")


def test_a_volume_that_other_pods_want_is_still_unmounted_from_this_one() -> None:
    others = replace(WISH, mounts={PodUid("other"): WISH.mounts[POD]})
    assert report(others, held(Presence.PRESENT)).state is VolumeState.UNMOUNTING


def test_a_closed_gate_is_the_cause_that_is_named() -> None:
    found = report(None, held(Presence.PRESENT), gates=Gates(sources_heard=False))
    assert found.cause == "it waits: not every source of pods has been heard since the start"


def test_another_pods_wait_is_not_the_cause() -> None:
    gates = Gates(pods_being_removed=frozenset({PodUid("other")}))
    both = replace(WISH, mounts={**WISH.mounts, PodUid("other"): WISH.mounts[POD]})
    assert report(both, None, gates=gates).cause == "it is about to be mounted"


def test_the_whole_volumes_wait_is_the_cause_of_each_pod() -> None:
    found = report(replace(WISH, attachable=True), None, gates=Gates(attaches_itself=False))
    assert found.cause == "it waits: the node's status does not list it as in use yet"


def test_a_namesake_that_is_still_there_is_the_cause() -> None:
    found = report_volume(POD, "data", WISH, None, Gates(), NOBODY, namesakes=frozenset({POD}))
    assert found.cause == f"it waits: {Reason.NAMESAKE_STILL_THERE.value}"


def test_a_wait_reads_as_its_reason_and_detail() -> None:
    assert describe_wait(Wait(POD, Reason.USED_BY_ANOTHER_POD, "pod x")).endswith("another pod uses it (pod x)")


def test_a_volume_that_could_not_be_worked_out_waits_with_its_problem() -> None:
    problem = Problem(what="error processing PVC", why="PVC is not bound", next_step="Bind it")
    assert report_problem("data", problem) == VolumeReport(
        volume="data",
        name=None,
        state=VolumeState.WAITING,
        cause="error processing PVC: PVC is not bound",
        next_step="Bind it",
    )
    assert report_problem("data", replace(problem, next_step="")).next_step is None


def shown(volume: str, state: VolumeState) -> VolumeReport:
    cause = None if state is VolumeState.MOUNTED else f"because of {volume}"
    return VolumeReport(volume=volume, name=V, state=state, cause=cause)


def test_a_pod_is_ready_when_all_its_volumes_are_mounted() -> None:
    verdict = explain((shown("a", VolumeState.MOUNTED),))
    assert verdict.ready
    assert verdict.cause is None
    assert explain(()).ready


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        ((VolumeState.MOUNTED, VolumeState.WAITING, VolumeState.FAILED), "c"),
        ((VolumeState.MOUNTING, VolumeState.UNCERTAIN, VolumeState.WAITING), "b"),
        ((VolumeState.STAGING, VolumeState.ATTACHING, VolumeState.MOUNTED), "a"),
    ],
)
def test_the_verdict_names_the_most_serious_volume(states: tuple[VolumeState, ...], worst: str) -> None:
    reports = tuple(shown(volume, state) for volume, state in zip("abc", states, strict=True))
    verdict = explain(reports)
    assert not verdict.ready
    assert verdict.cause == f"volume '{worst}' is not ready: because of {worst}"
    assert verdict.volumes == reports


def test_a_volume_mounted_with_another_label_is_not_ready_and_says_why() -> None:
    told = report(replace(WISH, label="b"), replace(held(Presence.PRESENT), label="a"))
    assert told.state is VolumeState.WAITING
    assert told.cause is not None
    assert "another SELinux label" in told.cause
    assert "(a, and not b)" in told.cause
