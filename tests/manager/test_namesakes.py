"""A pod's volume that changes its type under the same name."""

from __future__ import annotations

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret, VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, SecretVolumeSource, Volume
from mooring.testing.memory_node import MemoryNode
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

UID = PodUid("uid-1")
AS_SECRET = Volume(name="v", secret=SecretVolumeSource(secret_name="s"))
AS_CONFIG_MAP = Volume(name="v", config_map=ConfigMapVolumeSource(name="c"))


def pod(volume: Volume) -> Pod:
    mounts = (VolumeMount(name="v", mount_path="/v"),)
    meta = ObjectMeta(name="p", namespace="default", uid=UID)
    return Pod(metadata=meta, spec=PodSpec(volumes=(volume,), containers=(Container(name="c", volume_mounts=mounts),)))


def node_with_objects() -> MemoryNode:
    node = MemoryNode()
    node.objects.put(ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"k": "v"}))
    node.objects.put(Secret(metadata=ObjectMeta(name="s", namespace="default"), data={"k": b"v"}))
    return node


@in_virtual_time
async def test_a_volume_that_changes_its_type_is_mounted_after_its_namesake_has_gone_and_keeps_its_mark() -> None:
    node = node_with_objects()
    async with node.running() as manager:
        node.add_pod(pod(AS_SECRET))
        await manager.wait_for_attach_and_mount(pod(AS_SECRET), timeout=5)
        node.add_pod(pod(AS_CONFIG_MAP))
        await manager.wait_for_attach_and_mount(pod(AS_CONFIG_MAP), timeout=5)
        await manager.reconciler.until_idle()
        mark = node.paths.pod_plugin_dir(UID, "kubernetes.io/empty-dir", "wrapped_v")
        assert node.host.look(f"{mark}/ready") is not None
        assert node.host.look(node.paths.pod_volume_dir(UID, "kubernetes.io/secret", "v")) is None
        assert [name for name, _ in manager.actual.mounts_of_pod(UID)] == [f"kubernetes.io/configmap/{UID}-v"]


@in_virtual_time
async def test_a_type_changed_while_the_first_mount_is_under_way_still_leaves_the_mark_of_the_second() -> None:
    node = node_with_objects()
    async with node.running() as manager:
        node.add_pod(pod(AS_SECRET))
        node.add_pod(pod(AS_CONFIG_MAP))
        await manager.wait_for_attach_and_mount(pod(AS_CONFIG_MAP), timeout=5)
        await manager.reconciler.until_idle()
        mark = node.paths.pod_plugin_dir(UID, "kubernetes.io/empty-dir", "wrapped_v")
        assert node.host.look(f"{mark}/ready") is not None
        assert len(list(manager.actual.mounts_of_pod(UID))) == 1
