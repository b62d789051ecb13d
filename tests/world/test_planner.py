"""What is done next, and what is held back and why (core.md 5.3 to 5.7)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import Volume
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.growth import Growth
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    MakePodDirectory,
    Mount,
    PodOperation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
)
from mooring.world.planner import Gates, Plan, Reason, Wait, is_ready, plan, plan_pod, wants
from mooring.world.presence import Attachability, Presence
from mooring.world.spec import VolumeSpec

V = VolumeName("test/plugin/v")
PLUGIN = PluginName("test/plugin")
ONE, TWO, THREE = PodUid("uid-1"), PodUid("uid-2"), PodUid("uid-3")
SPEC = VolumeSpec(volume=Volume(name="data"))
EXCLUSIVE = VolumeSpec(
    persistent_volume=PersistentVolume(
        metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(access_modes=("ReadWriteOncePod",))
    )
)
OPEN = Gates()
A, U, P = Presence.ABSENT, Presence.UNCERTAIN, Presence.PRESENT


def wanted(
    *pods: PodUid,
    attachable: bool = False,
    stageable: bool = False,
    refreshes: bool = False,
    revision: int = 0,
    spec: VolumeSpec = SPEC,
    at: dict[PodUid, float] | None = None,
) -> DesiredVolume:
    mounts = {
        pod: DesiredMount(
            pod=Pod(), spec=spec, outer_names=("data",), requested_at=(at or {}).get(pod, 0.0), revision=revision
        )
        for pod in pods
    }
    return DesiredVolume(
        name=V, plugin=PLUGIN, attachable=attachable, stageable=stageable, refreshes=refreshes, mounts=mounts
    )


def there(*, attachment: Presence = A, stage: Presence = A, revision: int = 0, **mounts: Presence) -> ActualVolume:
    """What is there; pods given as one=…, two=…, three=…."""
    pods = {"one": ONE, "two": TWO, "three": THREE}
    found = {
        pods[key]: ActualMount(pod=pods[key], presence=presence, spec=SPEC, revision=revision)
        for key, presence in mounts.items()
    }
    return ActualVolume(
        name=V,
        plugin=PLUGIN,
        spec=SPEC,
        attachment=attachment,
        attachability=Attachability.FALSE if attachment is A else Attachability.TRUE,
        stage=stage,
        mounts=found,
    )


def test_nothing_wanted_and_nothing_there_is_nothing_to_do() -> None:
    """R01."""
    assert plan(None, None, OPEN) == Plan()


@pytest.mark.parametrize(("stage", "due"), [(U, (Stage(V),)), (P, ()), (A, ())])
def test_a_stage_in_doubt_is_set_up_again_although_every_pod_has_the_volume(
    stage: Presence, due: tuple[Stage, ...]
) -> None:
    assert plan(wanted(ONE, stageable=True), there(stage=stage, one=P), OPEN).operations == due


def test_a_volume_without_a_stage_has_none_in_doubt() -> None:
    assert plan(wanted(ONE), there(stage=U, one=P), OPEN) == Plan()


def test_a_plain_volume_is_mounted_for_each_pod() -> None:
    """R34, R36: plain volumes need no step before."""
    assert plan(wanted(TWO, ONE), None, OPEN).operations == (Mount(V, ONE), Mount(V, TWO))


def test_attaching_staging_and_mounting_follow_each_other() -> None:
    """R02."""
    desired = wanted(ONE, attachable=True, stageable=True)
    assert plan(desired, None, OPEN).operations == (Attach(V),)
    assert plan(desired, there(attachment=P), OPEN).operations == (Stage(V),)
    assert plan(desired, there(attachment=P, stage=P), OPEN).operations == (Mount(V, ONE),)
    assert plan(desired, there(attachment=P, stage=P, one=P), OPEN) == Plan()


def test_taking_away_goes_the_same_way_back() -> None:
    """R07, I5, I6."""
    assert plan(None, there(attachment=P, stage=P, one=P), OPEN).operations == (Unmount(V, ONE),)
    assert plan(None, there(attachment=P, stage=P), OPEN).operations == (Unstage(V),)
    assert plan(None, there(attachment=P), OPEN).operations == (Detach(V),)
    assert plan(None, there(), OPEN) == Plan()


@pytest.mark.parametrize("doubtful", ["attachment", "stage", "mount"])
def test_doubt_is_settled_by_setting_up_again_when_wanted(doubtful: str) -> None:
    """operations.md 3.6; I17."""
    desired = wanted(ONE, attachable=True, stageable=True)
    held = {
        "attachment": (there(attachment=U), Attach(V)),
        "stage": (there(attachment=P, stage=U), Stage(V)),
        "mount": (there(attachment=P, stage=P, one=U), Mount(V, ONE)),
    }
    actual, operation = held[doubtful]
    assert plan(desired, actual, OPEN).operations == (operation,)


@pytest.mark.parametrize("doubtful", ["attachment", "stage", "mount"])
def test_doubt_is_settled_by_tearing_down_when_unwanted(doubtful: str) -> None:
    """operations.md 3.6; I19."""
    held = {
        "attachment": (there(attachment=U), Detach(V)),
        "stage": (there(attachment=P, stage=U), Unstage(V)),
        "mount": (there(attachment=P, stage=P, one=U), Unmount(V, ONE)),
    }
    actual, operation = held[doubtful]
    assert plan(None, actual, OPEN).operations == (operation,)


def test_a_surplus_mount_goes_before_what_is_missing() -> None:
    """R29: surplus first, and the stage stays for the one that comes."""
    desired = wanted(TWO, stageable=True)
    assert plan(desired, there(stage=P, one=P), OPEN).operations == (Unmount(V, ONE), Mount(V, TWO))


def test_one_pod_leaving_a_shared_volume_takes_nothing_from_the_other() -> None:
    """R28."""
    desired = wanted(TWO, stageable=True)
    assert plan(desired, there(stage=P, one=P, two=P), OPEN).operations == (Unmount(V, ONE),)


def test_a_mounted_volume_whose_content_may_have_changed_is_refreshed() -> None:
    """A18."""
    desired = wanted(ONE, refreshes=True, revision=1)
    assert plan(desired, there(one=P), OPEN).operations == (Mount(V, ONE, refresh=True),)


def test_a_volume_that_does_not_refresh_is_left_alone_however_its_wish_changes() -> None:
    """A18."""
    assert plan(wanted(ONE, revision=1), there(one=P), OPEN) == Plan()


def test_nothing_is_taken_away_until_every_source_has_been_heard() -> None:
    """I1, R32."""
    closed = Gates(sources_heard=False)
    assert plan(None, there(one=P), closed).waits == (Wait(ONE, Reason.SOURCES_NOT_HEARD),)
    assert plan(None, there(stage=P), closed).waits == (Wait(None, Reason.SOURCES_NOT_HEARD),)
    assert plan(wanted(TWO), there(one=P), closed).operations == (Mount(V, TWO),)


def test_what_was_found_on_disk_stays_while_its_attachment_is_unknown() -> None:
    """I2, R33, C11."""
    found = replace(there(attachment=U, stage=U, one=U), attachability=Attachability.UNCERTAIN)
    closed = Gates(attachments_known=False)
    assert plan(None, found, closed).waits == (Wait(ONE, Reason.ATTACHMENT_UNKNOWN),)
    assert plan(None, found, OPEN).operations == (Unmount(V, ONE),)
    assert plan(None, there(one=P), closed).operations == (Unmount(V, ONE),)


def test_nothing_is_unmounted_under_containers_that_have_not_ended() -> None:
    closed = Gates(pods_with_containers={ONE: "podman runs them"})
    assert plan(None, there(one=P, two=P), closed) == Plan(
        operations=(Unmount(V, TWO),), waits=(Wait(ONE, Reason.CONTAINERS_LEFT, "podman runs them"),)
    )
    unheard = Gates(sources_heard=False, pods_with_containers={ONE: ""})
    assert plan(None, there(one=P), unheard).waits == (Wait(ONE, Reason.SOURCES_NOT_HEARD),)


def test_the_mounts_of_a_pod_whose_wishes_are_unknown_stay() -> None:
    """core.md 8.3-1."""
    closed = Gates(pods_in_doubt=frozenset({ONE}))
    assert plan(None, there(one=P, two=P), closed) == Plan(
        operations=(Unmount(V, TWO),), waits=(Wait(ONE, Reason.WISH_UNKNOWN),)
    )


def test_a_volume_that_others_attach_waits_until_it_is_reported_in_use_and_attached() -> None:
    """R05, I8: a wait, not an operation, so that no pause begins."""
    gates = Gates(attaches_itself=False)
    desired = wanted(ONE, attachable=True)
    assert plan(desired, None, gates) == Plan(waits=(Wait(None, Reason.NOT_REPORTED_IN_USE),))
    reported = replace(desired, reported_in_use=True)
    assert plan(reported, None, gates) == Plan(waits=(Wait(None, Reason.NOT_ATTACHED),))
    told = replace(gates, attach_errors={V: "no such disk"})
    assert plan(desired, None, told).waits == (Wait(None, Reason.NOT_REPORTED_IN_USE),)
    assert plan(reported, None, told).waits == (Wait(None, Reason.NOT_ATTACHED, "no such disk"),)
    assert plan(desired, None, replace(gates, attached={V: ""})).waits == (Wait(None, Reason.NOT_REPORTED_IN_USE),)
    assert plan(reported, None, replace(gates, attached={V: ""})).operations == (Attach(V),)  # R04, R06


@pytest.mark.parametrize(
    ("mode", "gates", "waits"),
    [
        ("ReadWriteOnce", Gates(status_heard=False), True),
        ("ReadWriteOncePod", Gates(status_heard=False), True),
        ("ReadWriteMany", Gates(status_heard=False), False),
        ("ReadWriteOnce", Gates(status_heard=False, begun_since_boot=frozenset([V])), False),
        ("ReadWriteOnce", OPEN, False),
    ],
)
def test_after_a_boot_a_volume_for_one_node_waits_for_news_of_where_it_is(mode: str, gates: Gates, waits: bool) -> None:
    volume = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(access_modes=(mode,)))
    spec = VolumeSpec(persistent_volume=volume)
    desired = wanted(ONE, attachable=True, stageable=True, spec=spec)
    expected = Plan(waits=(Wait(None, Reason.PERHAPS_ELSEWHERE),)) if waits else Plan(operations=(Stage(V),))
    assert plan(desired, there(attachment=P), gates) == expected
    assert plan(replace(desired, attachable=False), there(attachment=P), gates).operations == (Stage(V),)


def test_a_volume_found_on_disk_and_attached_by_others_is_used_without_being_reported() -> None:
    """core.md 6.4."""
    found = replace(there(attachment=U, stage=U, one=U), attachability=Attachability.UNCERTAIN)
    desired = wanted(ONE, attachable=True, stageable=True)
    assert plan(desired, found, Gates(attaches_itself=False)).operations == (Stage(V),)
    assert plan(desired, found, OPEN).operations == (Attach(V),)


def test_a_read_write_once_pod_volume_waits_for_the_pod_that_has_it() -> None:
    """R30, I11."""
    desired = wanted(ONE, TWO, spec=EXCLUSIVE)
    for presence in (P, U):
        held = replace(there(one=presence), stage=A)
        waits = plan(desired, held, OPEN).waits
        assert Wait(TWO, Reason.USED_BY_ANOTHER_POD) in waits


def test_the_pod_that_has_a_read_write_once_pod_volume_in_doubt_may_set_it_up_again() -> None:
    assert plan(wanted(ONE, TWO, spec=EXCLUSIVE), there(one=U), OPEN).operations == (Mount(V, ONE),)


def test_of_two_pods_that_want_a_read_write_once_pod_volume_the_first_to_ask_gets_it() -> None:
    """I11."""
    desired = wanted(ONE, TWO, spec=EXCLUSIVE, at={ONE: 2.0, TWO: 1.0})
    assert plan(desired, None, OPEN) == Plan(
        operations=(Mount(V, TWO),), waits=(Wait(ONE, Reason.USED_BY_ANOTHER_POD),)
    )


def test_pods_that_both_have_a_read_write_once_pod_volume_in_doubt_both_wait() -> None:
    held = there(one=U, two=U)
    assert plan(wanted(ONE, TWO, spec=EXCLUSIVE), held, OPEN).operations == ()


def test_a_pod_whose_directory_is_being_removed_is_not_mounted_into() -> None:
    gates = Gates(pods_being_removed=frozenset({ONE}))
    assert plan(wanted(ONE, TWO), None, gates) == Plan(
        operations=(Mount(V, TWO),), waits=(Wait(ONE, Reason.DIRECTORY_BEING_REMOVED),)
    )


def test_a_volume_waits_until_a_namesake_of_another_type_is_gone() -> None:
    planned = plan(wanted(ONE, TWO), None, OPEN, namesakes=frozenset({ONE}))
    assert planned == Plan(operations=(Mount(V, TWO),), waits=(Wait(ONE, Reason.NAMESAKE_STILL_THERE),))


MAKE, REMOVE = MakePodDirectory(ONE), RemovePodDirectory(ONE)
NOTHING, SHARED, OF_ITS_OWN = (False, False), (True, False), (True, True)  # what a pod wants


@pytest.mark.parametrize(
    ("known", "wishes", "directory", "may_hold", "heard", "expected"),
    [
        (True, NOTHING, A, False, False, (MAKE,)),
        (True, NOTHING, U, False, True, (MAKE,)),  # a failed attempt, or found on disk: making it settles the doubt
        (True, NOTHING, P, False, True, ()),
        (True, OF_ITS_OWN, A, False, True, ()),  # its mounts make it
        (True, SHARED, A, False, True, (MAKE,)),  # it may be long until a stage lets it be mounted
        (True, SHARED, P, False, True, ()),
        (False, NOTHING, P, False, True, (REMOVE,)),
        (False, NOTHING, U, False, True, (REMOVE,)),
        (False, NOTHING, A, False, True, ()),
        (False, NOTHING, P, True, True, ()),  # I10
        (False, OF_ITS_OWN, P, False, True, ()),
        (False, NOTHING, P, False, False, ()),  # I1
    ],
)
def test_pod_directories_are_made_and_removed_as_the_table_says(
    known: bool,
    wishes: tuple[bool, bool],
    directory: Presence,
    may_hold: bool,
    heard: bool,
    expected: tuple[PodOperation, ...],
) -> None:
    has_wishes, is_made_by_mounts = wishes
    planned = plan_pod(
        ONE,
        known=known,
        has_wishes=has_wishes,
        is_made_by_mounts=is_made_by_mounts,
        directory=directory,
        may_hold=may_hold,
        gates=Gates(sources_heard=heard),
    )
    assert planned == expected


# -- what was found and is kept apart ------------------------------------------------------------------------------
def test_an_exclusive_volume_waits_for_what_another_pod_may_have_of_it() -> None:
    gates = Gates(kept_apart=frozenset({(PLUGIN, "pv", TWO)}))
    assert plan(wanted(ONE, spec=EXCLUSIVE), None, gates).waits == (Wait(ONE, Reason.KEPT_APART),)
    assert plan(wanted(TWO, spec=EXCLUSIVE), None, gates).operations == (Mount(V, TWO, refresh=False),)


def test_a_stage_stays_while_something_that_may_lie_on_it_is_kept_apart() -> None:
    gates = Gates(kept_apart=frozenset({(PLUGIN, "data", TWO)}))
    assert plan(None, there(stage=P), gates).waits == (Wait(None, Reason.KEPT_APART),)
    assert plan(None, there(stage=P), OPEN).operations == (Unstage(V),)


# -- growing -------------------------------------------------------------------------------------------------------
def growing(*pods: PodUid, wanted_size: int) -> DesiredVolume:
    wish = wanted(*pods)
    grown = {pod: replace(mount, growth=Growth(wanted=wanted_size)) for pod, mount in wish.mounts.items()}
    return replace(wish, mounts=grown)


def test_a_volume_that_should_be_larger_is_grown_through_the_first_pod_that_has_it() -> None:
    held = replace(there(two=P, three=P), size=10)
    assert plan(growing(ONE, TWO, THREE, wanted_size=15), held, OPEN).operations == (Mount(V, ONE), Expand(V, TWO))


@pytest.mark.parametrize("size", [10, 15])
def test_a_volume_that_is_large_enough_stays_as_it_is(size: int) -> None:
    assert plan(growing(ONE, wanted_size=10), replace(there(one=P), size=size), OPEN) == Plan()


def test_a_volume_of_unknown_size_is_not_grown() -> None:
    assert plan(growing(ONE, wanted_size=10), there(one=P), OPEN) == Plan()


def test_a_volume_that_its_driver_does_not_grow_in_use_stays_small() -> None:
    """operations.md scenario 52."""
    assert plan(growing(ONE, wanted_size=15), replace(there(one=P), size=10, stays_small=True), OPEN) == Plan()


def test_a_volume_in_doubt_is_mounted_again_before_it_grows() -> None:
    planned = plan(growing(ONE, wanted_size=15), replace(there(one=U), size=10), OPEN)
    assert planned.operations == (Mount(V, ONE),)


def test_a_volume_that_one_pod_may_only_read_is_grown_through_another() -> None:
    wish = growing(ONE, TWO, wanted_size=15)
    reads = replace(wish.mounts[ONE], growth=Growth(held=10))
    held = replace(there(one=P, two=P), size=10)
    assert plan(replace(wish, mounts={**wish.mounts, ONE: reads}), held, OPEN).operations == (Expand(V, TWO),)


# -- SELinux labels ------------------------------------------------------------------------------------------------
def test_a_volume_mounted_with_another_label_is_taken_away_before_it_is_mounted_with_the_one_wanted() -> None:
    """S14, S15."""
    desired = replace(wanted(TWO, stageable=True, attachable=True), label="b")
    waits = (Wait(None, Reason.OTHER_LABEL, "a, and not b"),)
    held = replace(there(attachment=P, stage=P, one=P), label="a")
    assert plan(desired, held, OPEN) == Plan(operations=(Unmount(V, ONE),), waits=waits)
    unmounted = replace(there(attachment=P, stage=P), label="a")
    assert plan(desired, unmounted, OPEN) == Plan(operations=(Unstage(V),), waits=waits)
    assert plan(desired, there(attachment=P), OPEN) == Plan(operations=(Stage(V),))


@pytest.mark.parametrize(("mounted", "label"), [("a", ""), ("", "a")])
def test_no_label_is_another_one_too(mounted: str, label: str) -> None:
    """S14."""
    planned = plan(replace(wanted(ONE), label=label), replace(there(one=P), label=mounted), OPEN)
    assert planned.operations == (Unmount(V, ONE),)
    assert planned.waits == (Wait(None, Reason.OTHER_LABEL, f"{mounted or 'none'}, and not {label or 'none'}"),)


@pytest.mark.parametrize(("mounted", "label"), [(None, "a"), ("a", None), ("a", "a"), (None, None)])
def test_an_unknown_label_is_as_good_as_the_one_wanted(mounted: str | None, label: str | None) -> None:
    assert plan(replace(wanted(ONE), label=label), replace(there(one=P), label=mounted), OPEN) == Plan()


def test_a_volume_with_another_label_stays_while_nothing_may_be_taken_away() -> None:
    desired, held = replace(wanted(TWO), label="b"), replace(there(one=P), label="a")
    waits = plan(desired, held, Gates(sources_heard=False)).waits
    assert [wait.reason for wait in waits] == [Reason.OTHER_LABEL, Reason.SOURCES_NOT_HEARD]
    left = plan(desired, held, Gates(pods_with_containers={ONE: "main"}))
    assert left.operations == ()
    assert Wait(ONE, Reason.CONTAINERS_LEFT, "main") in left.waits


def test_a_pod_wants_a_volume_only_as_it_should_be_mounted() -> None:
    desired, held = replace(wanted(ONE), label="a"), replace(there(one=P), label="a")
    assert wants(desired, held, ONE)
    assert wants(desired, None, ONE)
    assert not wants(desired, replace(held, label="b"), ONE)
    assert not wants(desired, held, TWO)
    assert not wants(None, held, ONE)


@pytest.mark.parametrize(("presence", "label", "ready"), [(P, "a", True), (P, "b", False), (U, "a", False)])
def test_a_pod_has_a_volume_when_it_is_mounted_as_it_should_be(presence: Presence, label: str, ready: bool) -> None:
    desired = replace(wanted(ONE), label="a")
    assert is_ready(desired, replace(there(one=presence), label=label), ONE) is ready
    assert not is_ready(desired, None, ONE)
