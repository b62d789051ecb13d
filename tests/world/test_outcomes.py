"""What an operation's end means for the actual state of the world."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.volumes import Volume
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach, Detach, Expand, Mount, Stage, Unmount, Unstage
from mooring.world.outcomes import (
    Outcome,
    apply_outcome,
    begin,
    in_doubt_after_loss,
    in_doubt_while_unmounting,
    told_of_attachment,
)
from mooring.world.presence import Attachability, Presence, Result
from mooring.world.spec import VolumeSpec

V, PLUGIN, POD, OTHER = VolumeName("test/plugin/v"), PluginName("test/plugin"), PodUid("u"), PodUid("o")
SPEC = VolumeSpec(volume=Volume(name="data"))
NEWER = VolumeSpec(volume=Volume(name="data"), read_only=True)
EMPTY = ActualVolume(name=V, plugin=PLUGIN, spec=SPEC)
DONE = Outcome(result=Result.DONE)
REFUSED = Outcome(result=Result.REFUSED, what="cannot", why="no", next_step="Try")
NOT_YET = Outcome(result=Result.NOT_YET, what="not yet", why="missing")
UNKNOWN = Outcome(result=Result.UNKNOWN, what="no answer", why="timeout")


def mounted(presence: Presence = Presence.PRESENT, *, reconstructed: bool = False) -> ActualVolume:
    mount = ActualMount(pod=POD, presence=presence, spec=SPEC, path="/old", revision=3, reconstructed=reconstructed)
    return replace(EMPTY, mounts={POD: mount})


def test_a_volume_begins_as_it_is_wanted() -> None:
    """A01, A02."""
    wish = DesiredVolume(name=V, plugin=PLUGIN, attachable=True)
    assert begin(None, wish, SPEC) == replace(EMPTY, attachability=Attachability.TRUE)
    assert begin(None, replace(wish, attachable=False), SPEC) == EMPTY


def test_a_volume_that_is_known_begins_as_it_is() -> None:
    assert begin(mounted(), None, None) == mounted()


@pytest.mark.parametrize(("wish", "spec"), [(None, SPEC), (DesiredVolume(name=V, plugin=PLUGIN), None), (None, None)])
def test_an_outcome_for_a_volume_that_is_neither_wanted_nor_there_is_a_mistake(
    wish: DesiredVolume | None, spec: VolumeSpec | None
) -> None:
    """A08."""
    with pytest.raises(RuntimeError, match="neither wanted nor there"):
        begin(None, wish, spec)


def test_an_attached_volume_has_its_device_path_and_is_known_to_be_attachable() -> None:
    """A14: attaching what was found on disk settles that it is attachable."""
    found = replace(EMPTY, attachability=Attachability.UNCERTAIN)
    after = apply_outcome(found, Attach(V), replace(DONE, device_path="/dev/x"))
    assert after.attachment is Presence.PRESENT
    assert after.attachability is Attachability.TRUE
    assert after.device_path == "/dev/x"


def test_attaching_again_changes_the_device_path_alone() -> None:
    """A03."""
    before = replace(mounted(), attachment=Presence.PRESENT, attachability=Attachability.TRUE, device_path="/dev/x")
    after = apply_outcome(before, Attach(V), replace(DONE, device_path="/dev/y"))
    assert after == replace(before, device_path="/dev/y")


def test_a_failed_attachment_leaves_attachability_and_device_path_as_they_were() -> None:
    before = replace(EMPTY, attachability=Attachability.UNCERTAIN, device_path="/dev/x")
    after = apply_outcome(before, Attach(V), UNKNOWN)
    assert after.attachment is Presence.UNCERTAIN
    assert after.attachability is Attachability.UNCERTAIN
    assert after.device_path == "/dev/x"


def test_a_refusal_clears_the_doubt_about_an_attachment_unless_it_was_found_on_disk() -> None:
    """I16: what was found on disk is detached before it is forgotten."""
    doubtful = replace(EMPTY, attachment=Presence.UNCERTAIN, attachability=Attachability.TRUE)
    assert apply_outcome(doubtful, Attach(V), REFUSED).attachment is Presence.ABSENT
    found = replace(doubtful, attachability=Attachability.UNCERTAIN)
    assert apply_outcome(found, Attach(V), REFUSED).attachment is Presence.UNCERTAIN


def test_a_stage_that_timed_out_is_in_doubt() -> None:
    """R16."""
    assert apply_outcome(EMPTY, Stage(V), UNKNOWN).stage is Presence.UNCERTAIN


def test_a_refusal_clears_the_doubt_about_a_stage_unless_it_was_found_on_disk() -> None:
    """R18, C07."""
    doubtful = replace(EMPTY, stage=Presence.UNCERTAIN)
    assert apply_outcome(doubtful, Stage(V), REFUSED).stage is Presence.ABSENT
    found = replace(doubtful, stage_reconstructed=True)
    assert apply_outcome(found, Stage(V), REFUSED).stage is Presence.UNCERTAIN


def test_a_stage_remembers_its_path_until_it_is_gone() -> None:
    staged = apply_outcome(EMPTY, Stage(V), replace(DONE, path="/stage"))
    assert (staged.stage, staged.stage_path) == (Presence.PRESENT, "/stage")
    doubtful = apply_outcome(staged, Unstage(V), UNKNOWN)
    assert (doubtful.stage, doubtful.stage_path) == (Presence.UNCERTAIN, "/stage")
    gone = apply_outcome(doubtful, Unstage(V), DONE)
    assert (gone.stage, gone.stage_path) == (Presence.ABSENT, "")


def test_the_device_path_survives_the_stage() -> None:
    """I26, R25."""
    before = replace(EMPTY, attachment=Presence.PRESENT, stage=Presence.PRESENT, device_path="/dev/x")
    assert apply_outcome(before, Unstage(V), DONE).device_path == "/dev/x"


def test_detaching_ends_the_attachment_or_leaves_doubt() -> None:
    before = replace(EMPTY, attachment=Presence.PRESENT)
    assert apply_outcome(before, Detach(V), DONE).attachment is Presence.ABSENT
    assert apply_outcome(before, Detach(V), REFUSED).attachment is Presence.UNCERTAIN


def test_a_done_mount_records_path_revision_and_spec() -> None:
    """P1 of the transition table."""
    outcome = replace(DONE, path="/new", revision=4, spec=NEWER)
    after = apply_outcome(EMPTY, Mount(V, POD), outcome).mounts[POD]
    assert after == ActualMount(pod=POD, presence=Presence.PRESENT, spec=NEWER, path="/new", revision=4)


def test_a_mount_that_timed_out_is_in_doubt_with_the_spec_it_was_begun_from() -> None:
    """R20, I15: the teardown works from this spec."""
    after = apply_outcome(EMPTY, Mount(V, POD), replace(UNKNOWN, spec=NEWER)).mounts[POD]
    assert (after.presence, after.spec, after.revision) == (Presence.UNCERTAIN, NEWER, -1)


def test_a_mount_that_timed_out_without_a_spec_takes_that_of_the_volume() -> None:
    assert apply_outcome(EMPTY, Mount(V, POD), UNKNOWN).mounts[POD].spec == SPEC


def test_a_refused_mount_leaves_nothing() -> None:
    """R21, R22."""
    assert apply_outcome(EMPTY, Mount(V, POD), REFUSED).mounts == {}
    assert apply_outcome(mounted(Presence.UNCERTAIN), Mount(V, POD), REFUSED).mounts == {}


def test_a_failed_refresh_leaves_the_mount_as_it_was() -> None:
    """R23, I16."""
    for outcome in (REFUSED, NOT_YET, replace(UNKNOWN, spec=NEWER)):
        assert apply_outcome(mounted(), Mount(V, POD, refresh=True), outcome).mounts == mounted().mounts


def test_a_refused_mount_of_what_was_found_on_disk_stays_in_doubt() -> None:
    """C06, I16."""
    found = mounted(Presence.UNCERTAIN, reconstructed=True)
    assert apply_outcome(found, Mount(V, POD), REFUSED).mounts == found.mounts


def test_what_was_found_on_disk_and_mounted_is_like_any_other_mount() -> None:
    """A11."""
    found = mounted(Presence.UNCERTAIN, reconstructed=True)
    after = apply_outcome(found, Mount(V, POD), replace(DONE, spec=SPEC, path="/old")).mounts[POD]
    assert not after.reconstructed


def test_a_done_unmount_leaves_the_mounts_of_other_pods() -> None:
    """A12, R28."""
    other = ActualMount(pod=OTHER, presence=Presence.PRESENT, spec=SPEC)
    both = replace(mounted(reconstructed=True), mounts={**mounted().mounts, OTHER: other})
    assert apply_outcome(both, Unmount(V, POD), DONE).mounts == {OTHER: other}


def test_a_mount_that_is_being_taken_away_is_in_doubt() -> None:
    """I18: a pod that comes back must not begin to use it."""
    assert in_doubt_while_unmounting(mounted(), POD) == mounted(Presence.UNCERTAIN)
    assert in_doubt_while_unmounting(EMPTY, POD) == EMPTY


def test_what_somebody_else_unmounted_is_in_doubt() -> None:
    staged = replace(mounted(), stage=Presence.PRESENT)
    assert in_doubt_after_loss(staged, POD) == replace(mounted(Presence.UNCERTAIN), stage=Presence.PRESENT)
    assert in_doubt_after_loss(staged, None) == replace(staged, stage=Presence.UNCERTAIN)


def test_a_failed_unmount_leaves_doubt() -> None:
    """R26, I17."""
    assert apply_outcome(mounted(), Unmount(V, POD), REFUSED).mounts[POD].presence is Presence.UNCERTAIN


def test_an_unmount_of_what_is_not_there_changes_no_mount() -> None:
    assert apply_outcome(EMPTY, Unmount(V, POD), REFUSED).mounts == {}


def test_failures_are_counted_per_pod_and_kind_and_end_with_a_success() -> None:
    once = apply_outcome(EMPTY, Mount(V, POD), REFUSED)
    twice = apply_outcome(once, Mount(V, POD), NOT_YET)
    assert (once.failures[POD].attempts, once.failures[POD].waiting) == (1, False)
    assert (twice.failures[POD].attempts, twice.failures[POD].waiting) == (2, True)
    other = apply_outcome(twice, Unmount(V, POD), UNKNOWN)
    assert (other.failures[POD].operation, other.failures[POD].attempts) == ("volume_unmount", 1)
    assert apply_outcome(other, Mount(V, POD), DONE).failures == {}


def test_a_success_for_one_pod_keeps_the_failure_of_another() -> None:
    failed = apply_outcome(EMPTY, Mount(V, OTHER), REFUSED)
    assert set(apply_outcome(failed, Mount(V, POD), DONE).failures) == {OTHER}


def test_a_failure_keeps_the_words_of_the_outcome() -> None:
    failure = apply_outcome(EMPTY, Stage(V), REFUSED).failures[None]
    assert (failure.what, failure.why, failure.next_step) == ("cannot", "no", "Try")


def test_only_done_is_success() -> None:
    assert [Outcome(result=result).succeeded for result in Result] == [True, False, False, False]


@pytest.mark.parametrize("operation", [Attach(V), Stage(V), Mount(V, POD)])
def test_what_was_set_up_from_a_spec_is_of_that_spec(operation: Attach | Stage | Mount) -> None:
    assert apply_outcome(EMPTY, operation, replace(DONE, spec=NEWER)).spec == NEWER
    assert apply_outcome(EMPTY, operation, replace(UNKNOWN, spec=NEWER)).spec == SPEC


def test_a_stage_set_up_again_is_no_longer_one_found_on_disk() -> None:
    found = replace(EMPTY, stage=Presence.UNCERTAIN, stage_reconstructed=True)
    assert not apply_outcome(found, Stage(V), DONE).stage_reconstructed
    assert apply_outcome(found, Stage(V), REFUSED).stage_reconstructed


@pytest.mark.parametrize("operation", [Mount(V, POD), Expand(V, POD)])
def test_a_volume_is_as_large_as_it_was_last_found_to_be(operation: Mount | Expand) -> None:
    small = replace(mounted(), size=10)
    assert apply_outcome(small, operation, replace(DONE, size=15)).size == 15
    assert apply_outcome(small, operation, DONE).size == 10


def test_a_volume_that_could_not_grow_stays_mounted_and_says_why() -> None:
    after = apply_outcome(replace(mounted(), size=10), Expand(V, POD), REFUSED)
    assert (after.mounts[POD], after.size, after.stays_small) == (mounted().mounts[POD], 10, False)
    assert (after.failures[POD].operation, after.failures[POD].why) == ("volume_fs_resize", "no")


def test_a_volume_that_does_not_grow_in_use_is_remembered_as_such() -> None:
    after = apply_outcome(mounted(), Expand(V, POD), replace(DONE, stays_small=True))
    assert after.stays_small
    assert apply_outcome(after, Mount(V, POD), DONE).stays_small


def test_only_doubt_is_settled_by_what_others_tell_of_an_attachment() -> None:
    known = replace(EMPTY, attachability=Attachability.TRUE, attachment=Presence.PRESENT)
    assert told_of_attachment(known, None) == known
    assert told_of_attachment(EMPTY, "/dev/x") == EMPTY


def test_a_volume_found_on_disk_is_attached_or_not_as_others_tell() -> None:
    """With the path that they name, and else the one that was found."""
    found = replace(EMPTY, attachability=Attachability.UNCERTAIN, device_path="/dev/found")
    away = told_of_attachment(found, None)
    assert (away.attachability, away.attachment) == (Attachability.TRUE, Presence.ABSENT)
    there = told_of_attachment(found, "/dev/told")
    assert (there.attachment, there.device_path) == (Presence.PRESENT, "/dev/told")
    assert told_of_attachment(found, "").device_path == "/dev/found"


# -- SELinux labels ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("result", [Result.DONE, Result.UNKNOWN])
@pytest.mark.parametrize("operation", [Stage(V), Mount(V, POD)])
def test_what_is_or_may_be_mounted_first_decides_the_label(operation: Stage | Mount, result: Result) -> None:
    """S16, D2, P3."""
    after = apply_outcome(EMPTY, operation, Outcome(result=result, label="a"))
    assert after.label == "a"
    assert apply_outcome(after, Mount(V, OTHER), replace(DONE, label="b")).label == "a"
    assert apply_outcome(EMPTY, operation, Outcome(result=result, label="")).label == ""
    assert apply_outcome(EMPTY, operation, Outcome(result=result)).label is None


@pytest.mark.parametrize("outcome", [REFUSED, NOT_YET])
def test_what_was_not_mounted_has_no_label(outcome: Outcome) -> None:
    assert apply_outcome(EMPTY, Stage(V), replace(outcome, label="a")).label is None
    in_doubt = replace(mounted(Presence.UNCERTAIN), label="a")
    refused = outcome.result is Result.REFUSED
    assert apply_outcome(in_doubt, Mount(V, POD), replace(outcome, label="b")).label == (None if refused else "a")


def test_the_label_goes_with_the_last_of_what_is_mounted() -> None:
    held = replace(mounted(), stage=Presence.PRESENT, label="a")
    unmounted = apply_outcome(held, Unmount(V, POD), replace(DONE, label="b"))
    assert unmounted.label == "a"
    assert apply_outcome(unmounted, Unstage(V), UNKNOWN).label == "a"
    assert apply_outcome(unmounted, Unstage(V), replace(DONE, label="b")).label is None
    assert apply_outcome(replace(mounted(), label="a"), Unmount(V, POD), DONE).label is None


def test_taking_away_what_has_an_unknown_label_tells_nothing_of_it() -> None:
    held = replace(mounted(), stage=Presence.UNCERTAIN)
    assert apply_outcome(held, Unmount(V, POD), replace(DONE, label="b")).label is None
