"""The metrics of the rules for SELinux labels, under the kubelet's names (operations.md 4.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from mooring.kube.objects.pod import Container, ContainerSecurityContext, Pod, PodSecurityContext, SELinuxOptions
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.observe.events import EventRecorder
from mooring.observe.history import History
from mooring.observe.metrics import Metrics
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import Abilities, ScriptedPlugin
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Labelled
from mooring.world.names import PluginName
from mooring.world.selinux import Breach, Decision, Rule
from mooring.world.spec import VolumeSpec

PREFIX = "volume_manager_selinux"
ADMITTED = f"{PREFIX}_volumes_admitted_total"
NAMES = {
    ADMITTED,
    *(
        f"{PREFIX}_{rule}_{ending}_total"
        for rule in ("container", "pod_context_mismatch", "volume_context_mismatch")
        for ending in ("errors", "warnings")
    ),
}
RWX, RWOP = ("ReadWriteMany",), ("ReadWriteOncePod",)
GOOD, OTHER, BAD = (SELinuxOptions(level=level) for level in ("s0:c1", "s0:c2", 's0"'))


class Measured:
    """A node with SELinux whose metrics are read."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        plugin = ScriptedPlugin(Abilities(stages=True, takes_labels=True))
        settings = Settings(root=ROOT, node_name="memory-node")
        self.node = MemoryNode(plugins=lambda context: [plugin.on(context)], settings=settings)
        self.node.facts = replace(self.node.facts, selinux=True)
        self.node.put(claim("data"))
        self.node.put(persistent_volume("data", access_modes=modes))
        manager = self.node.manager
        self.metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: 0)
        manager.subscribe(self.metrics.listen)

    def values(self) -> dict[str, dict[str, float]]:
        """What is not zero, by name without the prefix, and by labels."""
        found: dict[str, dict[str, float]] = {}
        families = text_string_to_metric_families(self.metrics.text().decode())
        for sample in (sample for family in families for sample in family.samples):
            if sample.name.startswith(PREFIX):
                name = sample.name.removeprefix(f"{PREFIX}_").removesuffix("_total")
                labels = [sample.labels[key] for key in ("volume_plugin", "access_mode") if key in sample.labels]
                found.setdefault(name, {})[" ".join(labels)] = sample.value
        return found


def asking(name: str, *options: SELinuxOptions) -> Pod:
    """A pod with a container for each of these options."""
    wanted = pod(name, claimed("data", "data"), security=PodSecurityContext())
    mounts = wanted.spec.containers[0].volume_mounts
    containers = tuple(
        Container(name=f"c{at}", volume_mounts=mounts, security_context=ContainerSecurityContext(se_linux_options=each))
        for at, each in enumerate(options)
    )
    return structs.replace(wanted, spec=structs.replace(wanted.spec, containers=containers))


def test_all_are_there_before_anything_happened() -> None:
    text = Measured(RWOP).metrics.text().decode()
    assert {line.split()[2] for line in text.splitlines() if line.startswith(f"# TYPE {PREFIX}")} == NAMES
    assert f"# TYPE {ADMITTED} gauge" in text


@pytest.mark.parametrize(("modes", "mode", "ending"), [(RWOP, "RWOP", "errors"), (RWX, "RWX", "warnings")])
@in_virtual_time
async def test_each_attempt_is_counted(modes: tuple[str, ...], mode: str, ending: str) -> None:
    """S08, S09, S13."""
    measured = Measured(modes)
    volume = f"test/scripted {mode}"
    node = measured.node
    node.add_pod(asking("bad", BAD))
    node.remove_pod(node.add_pod(asking("bad", BAD)))
    assert measured.values() == {f"container_{ending}": {mode: 2}}
    node.remove_pod(node.add_pod(asking("torn", GOOD, OTHER)))
    assert measured.values()[f"pod_context_mismatch_{ending}"] == {mode: 1}
    node.add_pod(asking("one", GOOD))
    node.add_pod(asking("same", GOOD))
    assert measured.values()["volumes_admitted"] == {volume: 1}
    node.add_pod(asking("two", OTHER))
    assert measured.values()[f"volume_context_mismatch_{ending}"] == {volume: 1}


def test_a_csi_driver_follows_a_slash() -> None:
    measured = Measured(RWX)
    source = CSIPersistentVolumeSource(driver="d.test", volume_handle="v")
    spec = VolumeSpec(persistent_volume=PersistentVolume(spec=PersistentVolumeSpec(access_modes=RWX, csi=source)))
    breach = Breach(rule=Rule.VOLUME, why="w", next_step="n")
    told = Labelled(
        decision=Decision(breaches=(breach,), admitted=True), plugin=PluginName("kubernetes.io/csi"), spec=spec
    )
    measured.metrics.listen(told)
    labels = {"kubernetes.io/csi/d.test RWX": 1.0}
    assert measured.values() == {"volume_context_mismatch_warnings": labels, "volumes_admitted": labels}


def test_events_and_history_do_not_tell_of_it() -> None:
    spec = VolumeSpec(persistent_volume=PersistentVolume())
    told = Labelled(decision=Decision(), plugin=PluginName("p"), spec=spec)
    EventRecorder().listen(told)
    history = History(length=3, wall=lambda: 0.0, clock=lambda: 0.0)
    history.listen(told)
    assert history.pods_named("") == []
