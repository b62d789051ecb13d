"""The desired state of the world (core.md 2 and 9.1)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.world.desired import DesiredMount, DesiredStateOfWorld, DesiredVolume, Problem
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.spec import VolumeSpec

PLUGIN = PluginName("test/plugin")
ONE, TWO = PodUid("uid-one"), PodUid("uid-two")
V, W = VolumeName("test/plugin/v"), VolumeName("test/plugin/w")
UNBOUND = Problem(what="error processing PVC", why="PVC is not bound")


class Changes(list[VolumeName]):
    def __call__(self, name: VolumeName) -> None:
        self.append(name)


def volume(name: VolumeName = V, *, attachable: bool = True, refreshes: bool = False) -> DesiredVolume:
    return DesiredVolume(name=name, plugin=PLUGIN, attachable=attachable, refreshes=refreshes)


def mount(outer: str = "data", *, at: float = 0.0, inner: str = "pv1", label: str = "") -> DesiredMount:
    pod = Pod(metadata=ObjectMeta(name="p", labels={"l": label} if label else {}))
    return DesiredMount(pod=pod, spec=VolumeSpec(volume=Volume(name=inner)), outer_names=(outer,), requested_at=at)


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def desired(changes: Changes) -> DesiredStateOfWorld:
    return DesiredStateOfWorld(changes)


def test_an_added_volume_is_wanted_under_its_name_in_the_pod(desired: DesiredStateOfWorld, changes: Changes) -> None:
    """D01."""
    desired.add(volume(), ONE, mount())
    assert desired.names_for_pod(ONE) == {"data": V}
    assert desired.mount(ONE, V) == mount()
    assert desired.pods() == {ONE}
    assert not desired.volumes[V].reported_in_use
    assert changes == [V]


def test_adding_the_same_wish_again_changes_nothing(desired: DesiredStateOfWorld, changes: Changes) -> None:
    """D02."""
    desired.add(volume(), ONE, mount())
    before = dict(desired.volumes)
    desired.add(volume(), ONE, mount(at=9.0))
    assert desired.volumes == before
    assert changes == [V]


def test_two_pods_share_one_volume(desired: DesiredStateOfWorld) -> None:
    """D04, D05."""
    desired.add(volume(), ONE, mount())
    desired.add(volume(), TWO, mount("other"))
    assert list(desired.volumes) == [V]
    assert set(desired.volumes[V].mounts) == {ONE, TWO}


def test_two_names_in_one_pod_share_one_wish(desired: DesiredStateOfWorld) -> None:
    """D06, I23."""
    desired.add(volume(), ONE, mount("a"))
    desired.add(volume(), ONE, mount("b"))
    assert desired.volumes[V].mounts[ONE].outer_names == ("a", "b")
    assert desired.names_for_pod(ONE) == {"a": V, "b": V}


def test_removing_the_last_pod_removes_the_volume_with_its_flags(
    desired: DesiredStateOfWorld, changes: Changes
) -> None:
    """D07."""
    desired.add(volume(), ONE, mount())
    desired.mark_reported_in_use([V])
    desired.remove(ONE, V)
    assert desired.is_empty()
    desired.add(volume(), ONE, mount())
    assert not desired.volumes[V].reported_in_use
    assert changes == [V, V, V, V]


def test_removing_one_pod_keeps_the_volume_for_the_other(desired: DesiredStateOfWorld) -> None:
    """D08."""
    desired.add(volume(), ONE, mount())
    desired.add(volume(), TWO, mount())
    desired.remove(ONE, V)
    assert set(desired.volumes[V].mounts) == {TWO}
    assert desired.names_for_pod(ONE) == {}


def test_removing_one_volume_keeps_the_other_names_of_the_pod(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(), ONE, mount("a"))
    desired.add(volume(W), ONE, mount("b"))
    desired.remove(ONE, V)
    assert desired.names_for_pod(ONE) == {"b": W}


@pytest.mark.parametrize(("pod", "name"), [(TWO, V), (ONE, W)])
def test_removing_what_is_not_wanted_changes_nothing(
    desired: DesiredStateOfWorld, changes: Changes, pod: PodUid, name: VolumeName
) -> None:
    desired.add(volume(), ONE, mount())
    desired.remove(pod, name)
    desired.refresh(pod, name)
    assert changes == [V]


def test_marking_as_reported_in_use_replaces_all_earlier_marks(desired: DesiredStateOfWorld) -> None:
    """D09."""
    names = [VolumeName(f"test/plugin/{letter}") for letter in "abc"]
    for name in names:
        desired.add(volume(name), ONE, mount(name))
    desired.mark_reported_in_use([names[1]])
    assert [desired.volumes[name].reported_in_use for name in names] == [False, True, False]
    desired.mark_reported_in_use([names[0]])
    assert [desired.volumes[name].reported_in_use for name in names] == [True, False, False]


def test_marking_touches_only_volumes_whose_mark_changes(desired: DesiredStateOfWorld, changes: Changes) -> None:
    desired.add(volume(), ONE, mount())
    desired.add(volume(W), ONE, mount("other"))
    changes.clear()
    desired.mark_reported_in_use([V])
    desired.mark_reported_in_use([V])
    assert changes == [V]


def test_a_mark_of_an_unknown_volume_is_not_remembered(desired: DesiredStateOfWorld) -> None:
    """D10."""
    desired.mark_reported_in_use([V])
    desired.add(volume(), ONE, mount())
    assert not desired.volumes[V].reported_in_use


def test_a_problem_is_a_value_that_stays_until_it_is_over(desired: DesiredStateOfWorld) -> None:
    """D14 and I21 as they are here: problems are kept per pod and volume, and reading does not take them away."""
    desired.set_problem(ONE, "data", UNBOUND)
    desired.set_problem(ONE, "data", UNBOUND)
    assert desired.problems(ONE) == {"data": UNBOUND}
    assert desired.problems(ONE) == {"data": UNBOUND}
    desired.clear_problem(ONE, "data")
    assert desired.is_empty()


def test_clearing_one_problem_keeps_the_others_of_the_pod(desired: DesiredStateOfWorld) -> None:
    desired.set_problem(ONE, "a", UNBOUND)
    desired.set_problem(ONE, "b", UNBOUND)
    desired.clear_problem(ONE, "a")
    desired.clear_problem(TWO, "a")
    assert desired.problems(ONE) == {"b": UNBOUND}


def test_a_problem_reads_as_what_and_why() -> None:
    assert str(UNBOUND) == "error processing PVC: PVC is not bound"


def test_the_request_time_is_kept_by_volumes_whose_content_does_not_change(desired: DesiredStateOfWorld) -> None:
    """D15."""
    desired.add(volume(), ONE, mount(at=1.0))
    desired.add(volume(), ONE, mount(at=5.0, label="new"))
    renewed = desired.volumes[V].mounts[ONE]
    assert (renewed.requested_at, renewed.revision, renewed.pod.metadata.labels) == (1.0, 0, {"l": "new"})


def test_a_changed_pod_makes_refreshing_content_due_again_from_now(desired: DesiredStateOfWorld) -> None:
    """D15, A18."""
    desired.add(volume(refreshes=True), ONE, mount(at=1.0))
    desired.add(volume(refreshes=True), ONE, mount(at=5.0, label="new"))
    renewed = desired.volumes[V].mounts[ONE]
    assert (renewed.requested_at, renewed.revision) == (5.0, 1)


def test_a_volume_written_anew_in_its_pod_is_looked_at_again(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(), ONE, mount(inner="old"))
    desired.add(volume(), ONE, mount(inner="new"))
    assert desired.volumes[V].mounts[ONE].revision == 1


def test_a_wish_that_comes_back_is_not_taken_for_the_one_before(desired: DesiredStateOfWorld) -> None:
    """A mount that outlasts its wish must be looked at again for the next one."""
    desired.add(volume(), ONE, mount())
    before = desired.volumes[V].mounts[ONE].revision
    desired.remove(ONE, V)
    desired.add(volume(), ONE, mount())
    assert desired.volumes[V].mounts[ONE].revision > before


def test_refreshing_asks_for_another_look_at_the_content(desired: DesiredStateOfWorld, changes: Changes) -> None:
    desired.add(volume(refreshes=True), ONE, mount())
    desired.refresh(ONE, V)
    assert desired.volumes[V].mounts[ONE].revision == 1
    assert changes == [V, V]


def test_a_volume_that_turns_out_to_need_no_attaching_is_wanted_without_it(
    desired: DesiredStateOfWorld, changes: Changes
) -> None:
    desired.add(volume(attachable=True), ONE, mount())
    desired.add(volume(attachable=False), ONE, mount())
    assert not desired.volumes[V].attachable
    assert changes == [V, V]


def test_other_flags_of_a_volume_stay_as_its_first_pod_set_them(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(attachable=False, refreshes=False), ONE, mount())
    desired.add(volume(attachable=True, refreshes=True), TWO, mount())
    assert not desired.volumes[V].attachable
    assert not desired.volumes[V].refreshes


def test_names_are_told_for_each_pod_alone(desired: DesiredStateOfWorld) -> None:
    """D16."""
    desired.add(volume(), ONE, mount("shared"))
    desired.add(volume(), TWO, mount("ours"))
    desired.add(volume(W), TWO, mount("private"))
    assert desired.names_for_pod(ONE) == {"shared": V}
    assert desired.names_for_pod(TWO) == {"ours": V, "private": W}
    assert desired.names_for_pod(PodUid("unknown")) == {}


def test_forgetting_a_pod_drops_its_wishes_and_problems(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(), ONE, mount("a"))
    desired.add(volume(), ONE, mount("b"))
    desired.add(volume(W), ONE, mount("c"))
    desired.set_problem(ONE, "d", UNBOUND)
    desired.forget_pod(ONE)
    assert desired.is_empty()


def test_a_name_that_comes_to_stand_for_another_volume_lets_go_of_the_first(
    desired: DesiredStateOfWorld, changes: Changes
) -> None:
    """A claim that was deleted and bound anew leads to another volume under the same name; I27."""
    desired.add(volume(V), ONE, mount("data"))
    desired.add(volume(W), ONE, mount("data"))
    assert desired.names_for_pod(ONE) == {"data": W}
    assert list(desired.volumes) == [W]
    assert changes == [V, W, V]


def test_a_volume_that_still_has_another_name_in_the_pod_stays_wanted(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(V), ONE, mount("a"))
    desired.add(volume(V), ONE, mount("b"))
    desired.add(volume(W), ONE, mount("a"))
    assert desired.names_for_pod(ONE) == {"a": W, "b": V}
    assert set(desired.volumes) == {V, W}


def test_one_of_several_names_can_go(desired: DesiredStateOfWorld) -> None:
    desired.add(volume(), ONE, mount("a"))
    desired.add(volume(), ONE, mount("b"))
    desired.drop_name(ONE, "a")
    assert desired.names_for_pod(ONE) == {"b": V}
    assert desired.volumes[V].mounts[ONE].outer_names == ("b",)


def test_nothing_is_mounted_for_a_volume_that_nobody_wants(desired: DesiredStateOfWorld) -> None:
    assert desired.mount(ONE, V) is None


def test_volumes_that_are_attached_or_staged_are_shared() -> None:
    assert volume(attachable=True).is_shared
    assert replace(volume(attachable=False), stageable=True).is_shared
    assert not volume(attachable=False).is_shared


def test_a_world_that_nobody_listens_to_works_all_the_same() -> None:
    silent = DesiredStateOfWorld()
    silent.add(volume(), ONE, mount())
    assert V in silent.volumes


def test_a_pod_that_is_known_not_to_get_a_volume_is_in_no_doubt(desired: DesiredStateOfWorld) -> None:
    assert not desired.is_in_doubt(ONE)
    desired.set_problem(ONE, "data", replace(UNBOUND, leaves_doubt=False))
    assert not desired.is_in_doubt(ONE)
    desired.set_problem(ONE, "other", UNBOUND)
    assert desired.is_in_doubt(ONE)
