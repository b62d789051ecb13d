"""From pods to the desired state of the world (core.md 4, P01 to P32)."""

from __future__ import annotations

import pytest

from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import ConfigMap
from mooring.kube.objects.volumes import Volume
from mooring.manager.pods import PodManager
from mooring.manager.populator import DesiredStateOfWorldPopulator
from mooring.manager.volume_labels import VolumeLabels
from mooring.plugins.interface import NodeFacts, ObjectRef
from mooring.plugins.manager import VolumePluginManager
from mooring.sources.object_table import ObjectTable
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import ATTACHABLE, DEVICE_MOUNTABLE, PLAIN, REFRESHING, Abilities, ScriptedPlugin
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, ProblemArose
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName

WEB = PodUid("uid-web")
CLAIM = ObjectRef("PersistentVolumeClaim", "default", "c")


class States:
    """What somebody who runs containers would say of pods."""

    def __init__(self) -> None:
        self.terminating: set[PodUid] = set()
        self.removed: set[PodUid] = set()

    def containers_terminating(self, uid: PodUid) -> bool:
        return uid in self.terminating

    def runtime_removed(self, uid: PodUid) -> bool:
        return uid in self.removed


class Bench:
    """A populator with all it reads, and what it tells."""

    def __init__(self, abilities: Abilities = PLAIN) -> None:
        self.plugin = ScriptedPlugin(abilities)
        self.desired = DesiredStateOfWorld()
        self.pods, self.states, self.objects = PodManager(), States(), ObjectTable()
        self.node = NodeFacts(name="node", memory=2**30, cpu_milli=1000)
        self.time = 0.0
        self.resumed: list[VolumeName] = []
        self.worked_out: list[PodUid] = []
        self.told: list[Change] = []
        self.populator = DesiredStateOfWorldPopulator(
            self.desired,
            VolumePluginManager([self.plugin]),
            self.objects,
            self.pods,
            self.states,
            VolumeLabels(
                self.desired, ActualStateOfWorld(), node=lambda: self.node, any_access_mode=False, tell=self.told.append
            ),
            clock=lambda: self.time,
            resume=self.resumed.append,
            worked_out=self.worked_out.append,
            tell=self.told.append,
        )

    def add(self, name: str, *volumes: Volume, used: list[str] | None = None) -> PodUid:
        uid = self.pods.put(pod(name, *volumes, used=used))
        self.populator.pod_changed(uid)
        return uid

    def put(self, *objects: KubernetesObject) -> None:
        for each in objects:
            self.populator.object_changed(self.objects.put(each))

    def is_empty(self) -> bool:
        return self.populator.is_empty() and self.desired.is_empty()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def heard(bench: Bench) -> Bench:
    bench.populator.sources_heard = True
    return bench


def test_a_pod_whose_containers_are_gone_gains_nothing_at_start(bench: Bench) -> None:
    """P01."""
    bench.states.removed.add(WEB)
    bench.add("web", scripted("data"))
    assert bench.is_empty()


def test_a_terminating_pod_gains_its_volumes_at_start(bench: Bench) -> None:
    """P02: its containers may still be using them."""
    bench.states.terminating.add(WEB)
    bench.add("web", scripted("data"))
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_pod_gains_its_volumes(bench: Bench) -> None:
    """P03, P05."""
    bench.add("web", scripted("data"))
    assert bench.desired.names_for_pod(WEB) == {"data": "test/scripted/uid-web-data"}
    assert bench.worked_out == [WEB]


def test_after_the_start_a_terminating_pod_gains_nothing(bench: Bench) -> None:
    """P04."""
    heard(bench).states.terminating.add(WEB)
    bench.add("web", scripted("data"))
    assert bench.desired.names_for_pod(WEB) == {}


def test_after_the_start_a_terminating_pod_keeps_what_it_has(bench: Bench) -> None:
    """P11."""
    bench.add("web", scripted("data"))
    heard(bench).states.terminating.add(WEB)
    bench.populator.pod_changed(WEB)
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_volume_that_cannot_be_worked_out_is_a_problem_and_its_siblings_are_wanted(bench: Bench) -> None:
    """P06."""
    bench.add("web", claimed("data", "c"), scripted("cache"))
    assert list(bench.desired.names_for_pod(WEB)) == ["cache"]
    assert list(bench.desired.problems(WEB)) == ["data"]


def test_a_problem_is_told_once_until_it_changes(bench: Bench) -> None:
    """P07."""
    bench.add("web", claimed("data", "c"))
    bench.populator.pod_changed(WEB)
    bench.put(claim("c", phase="Pending"))
    whys = [change.why for change in bench.told if isinstance(change, ProblemArose)]
    assert [why.rsplit(": ", 1)[1] for why in whys] == ['persistentvolumeclaims "c" not found', "PVC is not bound"]


def test_a_problem_is_over_as_soon_as_the_missing_object_is_there(bench: Bench) -> None:
    """P23."""
    bench.add("web", claimed("data", "c"))
    bench.put(persistent_volume("c"), claim("c"))
    assert bench.desired.problems(WEB) == {}
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_volume_that_appears_after_its_claim_is_noticed_too(bench: Bench) -> None:
    bench.add("web", claimed("data", "c"))
    bench.put(claim("c"))
    bench.put(persistent_volume("c"))
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_problem_keeps_the_wish_that_was_there_before(bench: Bench) -> None:
    """I22, core.md 8.3-1."""
    bench.put(persistent_volume("c"), claim("c"))
    bench.add("web", claimed("data", "c"))
    bench.populator.object_changed(bench.objects.remove(CLAIM))
    assert list(bench.desired.problems(WEB)) == ["data"]
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_working_out_an_unchanged_pod_again_changes_no_wish(bench: Bench) -> None:
    """I22."""
    bench.add("web", scripted("data"))
    before = dict(bench.desired.volumes)
    bench.time = 5.0
    bench.populator.pod_changed(WEB)
    assert bench.desired.volumes == before


def test_a_pod_that_its_source_forgot_is_kept_while_its_containers_may_run(bench: Bench) -> None:
    """P08."""
    bench.add("web", scripted("data"))
    bench.pods.remove(WEB)
    bench.populator.pod_changed(WEB)
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_pod_is_let_go_once_its_containers_are_gone(bench: Bench) -> None:
    """P09, P12, P13 as in core.md 8.3-3: at once, whatever is mounted and whoever still knows the pod."""
    bench.add("web", scripted("data"))
    bench.states.removed.add(WEB)
    bench.populator.pod_changed(WEB)
    assert bench.is_empty()


def test_looking_at_a_pod_that_is_gone_leaves_nothing_behind(bench: Bench) -> None:
    """P10."""
    bench.states.removed.add(WEB)
    bench.populator.pod_changed(WEB)
    bench.populator.refresh_pod(WEB)
    assert bench.is_empty()


def test_problems_go_with_their_pod(bench: Bench) -> None:
    """P32."""
    bench.add("web", claimed("data", "c"))
    bench.pods.remove(WEB)
    bench.states.removed.add(WEB)
    bench.populator.pod_changed(WEB)
    assert bench.is_empty()


def test_a_volume_that_no_container_uses_is_not_wanted(bench: Bench) -> None:
    """P26."""
    bench.add("web", scripted("data"), scripted("spare"), used=["data"])
    assert list(bench.desired.names_for_pod(WEB)) == ["data"]


def test_a_volume_that_no_plugin_serves_is_a_problem(bench: Bench) -> None:
    """D13."""
    bench.add("web", scripted("data", driver="test/unknown"))
    assert "no volume plugin matched" in bench.desired.problems(WEB)["data"].why
    assert not bench.desired.volumes


def test_a_shared_volume_that_its_plugin_cannot_name_is_a_problem() -> None:
    """core.md 2.2: the plugin's name for it must not be empty."""
    bench = Bench(ATTACHABLE)
    bench.add("web", scripted("data", backing=""))
    assert "gave no name" in bench.desired.problems(WEB)["data"].why
    assert not bench.desired.volumes


def test_attachable_volumes_are_shared_between_pods_and_plain_ones_are_not() -> None:
    """D03, D05."""
    shared = Bench(ATTACHABLE)
    for name in ("one", "two"):
        shared.add(name, scripted("data"))
    assert list(shared.desired.volumes) == ["test/scripted/data"]
    plain = Bench(PLAIN)
    for name in ("one", "two"):
        plain.add(name, scripted("data"))
    assert len(plain.desired.volumes) == 2


def test_one_claim_under_two_names_is_one_volume(bench: Bench) -> None:
    """I23."""
    bench.put(persistent_volume("c"), claim("c"))
    bench.add("web", claimed("a", "c"), claimed("b", "c"))
    names = bench.desired.names_for_pod(WEB)
    assert set(names) == {"a", "b"}
    assert len(set(names.values())) == 1


def test_a_volume_that_left_the_pod_is_not_wanted_any_more(bench: Bench) -> None:
    bench.add("web", scripted("a"), scripted("b"), claimed("c", "missing"))
    bench.add("web", scripted("b"))
    assert list(bench.desired.names_for_pod(WEB)) == ["b"]
    assert bench.desired.problems(WEB) == {}


def test_a_name_that_left_the_pod_is_forgotten_while_its_volume_stays(bench: Bench) -> None:
    bench.put(persistent_volume("c"), claim("c"))
    bench.add("web", claimed("a", "c"), claimed("b", "c"))
    bench.add("web", claimed("b", "c"))
    assert list(bench.desired.names_for_pod(WEB)) == ["b"]


def test_a_claim_bound_to_another_volume_lets_go_of_the_first(bench: Bench) -> None:
    """I27: under the same name in the pod the first volume would be wanted for ever."""
    bench.put(persistent_volume("c"), persistent_volume("c", name="pv-new"), claim("c"))
    bench.add("web", claimed("data", "c"))
    bench.put(claim("c", volume="pv-new"))
    assert [volume.mounts[WEB].spec.name for volume in bench.desired.volumes.values()] == ["pv-new"]
    bench.states.removed.add(WEB)
    bench.populator.pod_changed(WEB)
    assert bench.is_empty()


def test_an_object_that_content_comes_from_refreshes_just_its_volumes() -> None:
    bench = Bench(REFRESHING)
    bench.add("web", scripted("a", follows="settings"), scripted("b", follows="other"))
    bench.populator.object_changed(ObjectRef("ConfigMap", "default", "settings"))
    revisions = {volume.mounts[WEB].spec.name: volume.mounts[WEB].revision for volume in bench.desired.volumes.values()}
    assert revisions == {"a": 1, "b": 0}
    assert bench.resumed == ["test/scripted/uid-web-a"]


def test_a_volume_that_turns_out_to_need_no_attaching_is_wanted_without_it() -> None:
    bench = Bench(ATTACHABLE)
    bench.add("web", scripted("disk", follows="driver"))
    bench.plugin.abilities = DEVICE_MOUNTABLE
    bench.populator.object_changed(ObjectRef("ConfigMap", "default", "driver"))
    assert not bench.desired.volumes[VolumeName("test/scripted/disk")].attachable


def test_a_changed_spec_ends_the_pause_of_what_failed(bench: Bench) -> None:
    bench.put(persistent_volume("c"), claim("c"))
    bench.add("web", claimed("data", "c"))
    bench.put(persistent_volume("c", annotations={"changed": "yes"}))
    assert bench.resumed == ["test/scripted/uid-web-pv-c"]


def test_refreshing_a_pod_looks_at_refreshing_volumes_only() -> None:
    bench = Bench(REFRESHING)
    bench.add("web", scripted("a"))
    bench.populator.refresh_pod(WEB)
    assert bench.desired.volumes[VolumeName("test/scripted/uid-web-a")].mounts[WEB].revision == 1
    plain = Bench(PLAIN)
    plain.add("web", scripted("a"))
    plain.populator.refresh_pod(WEB)
    assert plain.desired.volumes[VolumeName("test/scripted/uid-web-a")].mounts[WEB].revision == 0


def test_the_work_for_one_pod_does_not_grow_with_the_number_of_pods(bench: Bench) -> None:
    for number in range(100):
        bench.add(f"other-{number}", scripted("data"))
    before = bench.plugin.questions
    bench.add("web", scripted("data"))
    assert bench.plugin.questions == before + 1


def test_an_object_that_nobody_uses_costs_nothing(bench: Bench) -> None:
    bench.add("web", claimed("data", "c"))
    bench.worked_out.clear()
    bench.populator.object_changed(ObjectRef("PersistentVolumeClaim", "default", "other"))
    assert bench.worked_out == []


def test_config_maps_are_told_apart_by_namespace() -> None:
    bench = Bench(REFRESHING)
    bench.add("web", scripted("a", follows="settings"))
    elsewhere = ConfigMap(metadata=ObjectMeta(name="settings", namespace="elsewhere"))
    bench.populator.object_changed(bench.objects.put(elsewhere))
    assert bench.resumed == []
