"""What holds for every plan, whatever is wanted and whatever is there."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach, Detach, Mount, Stage, Unmount, Unstage, VolumeOperation, pod_of
from mooring.world.outcomes import Outcome, apply_outcome, begin
from mooring.world.planner import Gates, has_other_label, plan
from mooring.world.presence import Attachability, Presence, Result
from mooring.world.spec import VolumeSpec

V = VolumeName("test/plugin/v")
PLUGIN = PluginName("test/plugin")
PODS = [PodUid(f"uid-{number}") for number in range(4)]
pods = st.sampled_from(PODS)
presences = st.sampled_from(Presence)
labels = st.sampled_from([None, "", "a", "b"])
there = st.sampled_from([Presence.UNCERTAIN, Presence.PRESENT])


def spec(*, exclusive: bool) -> VolumeSpec:
    modes = ("ReadWriteOncePod",) if exclusive else ("ReadWriteMany",)
    volume = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(access_modes=modes))
    return VolumeSpec(persistent_volume=volume)


@st.composite
def wishes(draw: st.DrawFn) -> DesiredVolume:
    shared = spec(exclusive=draw(st.booleans()))
    mounts = {
        pod: DesiredMount(
            pod=Pod(),
            spec=shared,
            outer_names=("data",),
            requested_at=draw(st.sampled_from([0.0, 1.0])),
            revision=draw(st.integers(0, 1)),
        )
        for pod in draw(st.sets(pods, min_size=1))
    }
    return DesiredVolume(
        name=V,
        plugin=PLUGIN,
        attachable=draw(st.booleans()),
        stageable=draw(st.booleans()),
        refreshes=draw(st.booleans()),
        reported_in_use=draw(st.booleans()),
        label=draw(labels),
        mounts=mounts,
    )


@st.composite
def holdings(draw: st.DrawFn) -> ActualVolume:
    mounts = {
        pod: ActualMount(pod=pod, presence=draw(there), spec=spec(exclusive=False), revision=draw(st.integers(-1, 1)))
        for pod in draw(st.sets(pods))
    }
    held = ActualVolume(
        name=V,
        plugin=PLUGIN,
        spec=spec(exclusive=False),
        attachment=draw(presences),
        attachability=draw(st.sampled_from(Attachability)),
        stage=draw(presences),
        stage_reconstructed=draw(st.booleans()),
        mounts=mounts,
    )
    return held if held.is_unmounted else replace(held, label=draw(labels))


@st.composite
def gates(draw: st.DrawFn) -> Gates:
    return Gates(
        sources_heard=draw(st.booleans()),
        attachments_known=draw(st.booleans()),
        attaches_itself=draw(st.booleans()),
        attached=draw(st.sampled_from([frozenset(), frozenset({V})])),
        pods_in_doubt=draw(st.frozensets(pods)),
        pods_being_removed=draw(st.frozensets(pods)),
    )


desires = st.none() | wishes()
actuals = st.none() | holdings()
DESTRUCTIVE = (Unmount, Unstage, Detach)


@given(desires, actuals, gates())
def test_a_wanted_pod_mount_is_never_unmounted(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    """I3: unless it has another SELinux label than is wanted."""
    wanted: Mapping[PodUid, DesiredMount] = desired.mounts if desired is not None else {}
    unmounted = [op for op in plan(desired, actual, gate).operations if isinstance(op, Unmount) and op.pod in wanted]
    assert not unmounted or is_other(desired, actual)


def is_other(desired: DesiredVolume | None, actual: ActualVolume | None) -> bool:
    return desired is not None and actual is not None and has_other_label(desired, actual)


@given(wishes(), holdings(), gates())
def test_nothing_is_mounted_beside_another_label(desired: DesiredVolume, actual: ActualVolume, gate: Gates) -> None:
    """I12."""
    operations = plan(desired, actual, gate).operations
    if has_other_label(desired, actual):
        assert not [op for op in operations if isinstance(op, Attach | Stage | Mount | Detach)]


@given(desires, actuals, gates())
def test_nothing_is_taken_away_before_all_sources_are_heard(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    """I1."""
    closed = replace(gate, sources_heard=False)
    assert not [op for op in plan(desired, actual, closed).operations if isinstance(op, DESTRUCTIVE)]


@given(desires, actuals, gates())
def test_nothing_is_taken_from_a_pod_in_doubt(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    """core.md 8.3-1."""
    unmounted = {op.pod for op in plan(desired, actual, gate).operations if isinstance(op, Unmount)}
    assert not unmounted & gate.pods_in_doubt


@given(desires, actuals, gates())
def test_a_device_goes_only_when_no_pod_has_or_may_have_it(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    """I4, I5, I6."""
    operations = plan(desired, actual, gate).operations
    if any(isinstance(op, Unstage | Detach) for op in operations):
        assert actual is not None
        assert not actual.mounts
        assert desired is None or is_other(desired, actual)
    if any(isinstance(op, Detach) for op in operations):
        assert actual is not None
        assert actual.stage is Presence.ABSENT


@given(desires, actuals, gates())
def test_a_pod_is_mounted_only_on_a_present_stage_and_attachment(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    for operation in plan(desired, actual, gate).operations:
        if isinstance(operation, Mount) and desired is not None and desired.stageable:
            assert actual is not None
            assert actual.stage is Presence.PRESENT
        if isinstance(operation, Mount | Stage) and desired is not None and desired.attachable:
            assert actual is not None
            assert actual.attachment is not Presence.ABSENT


@given(desires, actuals, gates())
def test_no_slot_gets_more_than_one_operation(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    operations = plan(desired, actual, gate).operations
    parts = [pod_of(operation) for operation in operations]
    assert len(parts) == len(set(parts))
    assert sum(part is None for part in parts) <= 1


@given(desires, actuals, gates())
def test_a_plan_is_pure_and_its_operations_are_sorted(
    desired: DesiredVolume | None, actual: ActualVolume | None, gate: Gates
) -> None:
    first = plan(desired, actual, gate)
    assert plan(desired, actual, gate) == first
    for kind in (Unmount, Mount):
        served = [op.pod for op in first.operations if isinstance(op, kind)]
        assert served == sorted(served)


@given(wishes(), actuals)
def test_a_read_write_once_pod_volume_is_mounted_for_one_pod_at_a_time(
    desired: DesiredVolume, actual: ActualVolume | None
) -> None:
    """I11."""
    mounted = [op.pod for op in plan(desired, actual, Gates()).operations if isinstance(op, Mount)]
    if all(mount.spec.is_exclusive for mount in desired.mounts.values()):
        assert len(mounted) <= 1
        assert not actual or not mounted or set(actual.mounts) <= set(mounted)


def done(desired: DesiredVolume | None, operation: VolumeOperation) -> Outcome:
    """A success, with what the operation would have found out."""
    if isinstance(operation, Mount):
        assert desired is not None
        mount = desired.mounts[operation.pod]
        return Outcome(
            result=Result.DONE, revision=mount.revision, spec=mount.spec, path="/mounted", label=desired.label
        )
    if isinstance(operation, Attach):
        return Outcome(result=Result.DONE, device_path="/dev/v")
    label = desired.label if desired is not None and isinstance(operation, Stage) else None
    return Outcome(result=Result.DONE, path="/stage", label=label)


@given(desires, actuals)
def test_successes_lead_to_what_is_wanted_and_then_nothing_is_planned(
    desired: DesiredVolume | None, actual: ActualVolume | None
) -> None:
    """I19; I27: with nothing wanted, nothing is left."""
    for _ in range(20):
        operations = plan(desired, actual, Gates()).operations
        if not operations:
            break
        known = next(iter(desired.mounts.values())).spec if desired is not None else None
        actual = apply_outcome(begin(actual, desired, known), operations[0], done(desired, operations[0]))
    else:
        raise AssertionError("it does not come to an end")
    if desired is None:
        assert actual is None or actual.is_vacant
        return
    assert actual is not None
    assert not has_other_label(desired, actual)
    settled = {pod for pod, mount in actual.mounts.items() if mount.presence is Presence.PRESENT}
    exclusive = any(mount.spec.is_exclusive for mount in desired.mounts.values())
    if not exclusive or len(desired.mounts) == 1:
        assert settled == set(desired.mounts)
