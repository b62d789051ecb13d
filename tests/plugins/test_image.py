"""Image volumes are passed on to whoever runs the containers."""

from __future__ import annotations

import pytest

from mooring.errors import Refused
from mooring.kube.objects.volumes import ImageVolumeSource, Volume
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

TOOLS = Volume(name="tools", image=ImageVolumeSource(reference="registry.example/tools:1"))


@in_virtual_time
async def test_an_image_volume_is_ready_without_a_path_and_its_container_is_told_the_image() -> None:
    node = MemoryNode()
    web = pod("web", TOOLS)
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        (view,) = await manager.get_container_mounts(web)
        (mount,) = view.mounts
        assert (mount.image, mount.host_path, mount.read_only) == ("registry.example/tools:1", None, True)
        assert manager.get_mounted_volumes_for_pod(PodUid("uid-web"))["tools"].path == ""


@in_virtual_time
async def test_an_image_volume_leaves_nothing_when_its_pod_goes() -> None:
    node = MemoryNode()
    web = pod("web", TOOLS)
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        node.remove_pod(PodUid("uid-web"))
        await manager.wait_for_unmount(web, timeout=5)
        await manager.reconciler.until_idle()
        assert manager.actual.is_empty()
        assert node.host.look(node.paths.pod_dir("uid-web")) is None


@in_virtual_time
async def test_a_volume_that_names_no_image_is_refused() -> None:
    node = MemoryNode()
    spec_less = pod("web", Volume(name="tools", image=ImageVolumeSource()))
    async with node.running() as manager:
        node.add_pod(spec_less)
        await manager.reconciler.until_idle()
        (failure,) = manager.actual.volumes[manager.desired.names_for_pod(PodUid("uid-web"))["tools"]].failures.values()
        assert failure.why == "it names no image"


def test_an_image_is_never_a_block_device() -> None:
    plugin = MemoryNode().manager.plugins.plugins
    image = next(each for each in plugin.values() if each.name == "kubernetes.io/image")
    with pytest.raises(Refused, match="no raw block volumes"):
        image.reconstruct("tools", block=True)
