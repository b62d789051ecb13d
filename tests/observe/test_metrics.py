"""Metrics under the kubelet's names, labels and buckets."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, Volume
from mooring.observe.metrics import Metrics
from mooring.testing.memory_node import MemoryNode
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Reconstructed
from mooring.world.names import PluginName, PodUid, VolumeName

BUCKETS = ["0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "15.0", "25.0", "50.0", "120.0", "300.0", "600.0", "+Inf"]


class Measured:
    """A node in memory whose metrics are read."""

    def __init__(self) -> None:
        self.node = MemoryNode()
        manager = self.node.manager
        self.metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: 3)
        manager.subscribe(self.metrics.listen)

    def samples(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """All samples of a name by their labels, sorted."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        every = (sample for family in families for sample in family.samples if sample.name == name)
        return {tuple(sorted(sample.labels.items())): sample.value for sample in every}

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples(name).get(tuple(sorted(labels.items())))


def pod(name: str, *volumes: Volume) -> Pod:
    mounts = tuple(VolumeMount(name=volume.name, mount_path=f"/{volume.name}") for volume in volumes)
    meta = ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}")
    return Pod(metadata=meta, spec=PodSpec(volumes=volumes, containers=(Container(name="m", volume_mounts=mounts),)))


EMPTY = Volume(name="e", empty_dir=EmptyDirVolumeSource())
CONFIG = Volume(name="c", config_map=ConfigMapVolumeSource(name="c"))
WRONG = Volume(name="h", host_path=HostPathVolumeSource(path="/nowhere", type="Directory"))
CONFIG_MAP = ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"), data={"k": "v"})


@in_virtual_time
async def test_volumes_are_counted_by_plugin_and_world() -> None:
    measured = Measured()
    node = measured.node
    async with node.running() as manager:
        node.put(CONFIG_MAP)
        for each in (pod("one", EMPTY, CONFIG), pod("two", EMPTY, WRONG)):
            node.add_pod(each)
        await manager.wait_for_attach_and_mount(pod("one", EMPTY, CONFIG))
        assert {
            (dict(labels)["plugin_name"], dict(labels)["state"]): value
            for labels, value in measured.samples("volume_manager_total_volumes").items()
        } == {
            ("kubernetes.io/configmap", "desired_state_of_world"): 1,
            ("kubernetes.io/empty-dir", "desired_state_of_world"): 2,
            ("kubernetes.io/host-path", "desired_state_of_world"): 1,
            ("kubernetes.io/configmap", "actual_state_of_world"): 1,
            ("kubernetes.io/empty-dir", "actual_state_of_world"): 2,
        }


@in_virtual_time
async def test_operations_are_timed_by_plugin_name_and_status() -> None:
    measured = Measured()
    node = measured.node
    async with node.running() as manager:
        one = pod("one", EMPTY)
        node.add_pod(one)
        node.add_pod(pod("two", WRONG))
        await manager.wait_for_attach_and_mount(one)
        node.remove_pod(PodUid("uid-one"))
        await manager.wait_for_unmount(one)
    count = "storage_operation_duration_seconds_count"
    empty = {"volume_plugin": "kubernetes.io/empty-dir", "migrated": "false"}
    wrong = {"volume_plugin": "kubernetes.io/host-path", "migrated": "false"}
    assert measured.value(count, operation_name="volume_mount", status="success", **empty) == 1
    assert measured.value(count, operation_name="volume_unmount", status="success", **empty) == 1
    assert (measured.value(count, operation_name="volume_mount", status="fail-unknown", **wrong) or 0) >= 1
    assert measured.value(count, operation_name="volume_mount", status="success", **wrong) is None


@in_virtual_time
async def test_the_whole_way_from_wish_to_mount_is_measured_once() -> None:
    measured = Measured()
    node = measured.node
    async with node.running() as manager:
        one = pod("one", CONFIG)
        node.add_pod(one)
        node.put(CONFIG_MAP)
        await manager.wait_for_attach_and_mount(one)
        node.put(ConfigMap(metadata=CONFIG_MAP.metadata, data={"k": "2"}))
        await asyncio.sleep(1)
    labels = {"plugin_name": "kubernetes.io/configmap", "operation_name": "overall_volume_mount"}
    assert measured.value("volume_operation_total_seconds_count", **labels) == 1
    assert measured.value("mooring_volume_refreshes_total") == 1


@in_virtual_time
async def test_histograms_have_the_kubelets_buckets() -> None:
    measured = Measured()
    node = measured.node
    async with node.running() as manager:
        one = pod("one", EMPTY)
        node.add_pod(one)
        await manager.wait_for_attach_and_mount(one)
    for name in ("storage_operation_duration_seconds_bucket", "volume_operation_total_seconds_bucket"):
        assert [dict(labels)["le"] for labels in measured.samples(name)] == BUCKETS


@in_virtual_time
async def test_what_a_start_found_is_counted() -> None:
    measured = Measured()
    plugin = PluginName("kubernetes.io/secret")
    for name in (VolumeName("kubernetes.io/secret/u-v"), None):
        measured.metrics.listen(Reconstructed(pod=PodUid("u"), plugin=plugin, inner_name="v", volume=name))
    assert measured.value("reconstruct_volume_operations_total") == 2
    assert measured.value("reconstruct_volume_operations_errors_total") == 1


@in_virtual_time
async def test_removed_pod_directories_resyncs_and_surprises_are_counted() -> None:
    measured = Measured()
    node = measured.node
    async with node.running() as manager:
        one = pod("one", EMPTY)
        node.add_pod(one)
        await manager.wait_for_attach_and_mount(one)
        node.remove_pod(PodUid("uid-one"))
        await manager.wait_for_nothing_left(timeout=10)
    assert measured.value("kubelet_orphan_pod_cleaned_volumes") == 1
    assert measured.value("kubelet_orphan_pod_cleaned_volumes_errors") == 0
    assert measured.value("mooring_operation_surprises_total") == 3
    assert measured.value("mooring_resync_found_work_total") == 0
