"""The directories of pods: made, removed, and never pulled away under a mount."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mooring.host.interface import Risk
from mooring.kube.objects.pod import Pod
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import (
    PLAIN,
    Abilities,
    ScriptedPlugin,
    Step,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

T = TypeVar("T")
WEB, OTHER = PodUid("uid-web"), PodUid("uid-other")
DISK = VolumeName("test/scripted/disk")


def bench(abilities: Abilities = PLAIN, *, limit: int = 64) -> tuple[ScriptedPlugin, MemoryNode]:
    plugin = ScriptedPlugin(abilities)
    settings = Settings(root=ROOT, node_name="memory-node", running_operations=limit)
    return plugin, MemoryNode(plugins=lambda context: [plugin.on(context)], settings=settings)


def web(name: str = "web") -> Pod:
    return pod(name, scripted("disk"))


def is_clean(node: MemoryNode) -> bool:
    """I27."""
    manager = node.manager
    worlds = manager.desired.is_empty() and manager.actual.is_empty()
    return worlds and manager.populator.is_empty() and manager.reconciler.pending.is_empty()


class Gatekeeper:
    """Lets a machine's calls with a certain name wait until they are let through."""

    def __init__(self, words: str) -> None:
        self._words = words
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def _call(self, call: Callable[[], T], what: str) -> T:
        if self._words in what:
            self.reached.set()
            await self.released.wait()
        return call()

    def __call__(self, call: Callable[[], T], risk: Risk, what: str, /) -> Awaitable[T]:
        return self._call(call, what)


@in_virtual_time
async def test_a_pod_without_volumes_gets_its_directory_and_loses_it_again() -> None:
    _, node = bench()
    async with node.running() as manager:
        node.add_pod(pod("web"))
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_volumes_dir(WEB)) is not None
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_dir(WEB)) is None
        assert is_clean(node)


@in_virtual_time
async def test_a_pod_directory_that_could_not_be_made_is_tried_again() -> None:
    _, node = bench()
    failing = True

    def full(method: str, path: str) -> None:
        if failing and method == "make_directories":
            raise OSError(28, "No space left on device", path)

    node.host.before_call = full
    async with node.running() as manager:
        node.add_pod(pod("web"))
        await asyncio.sleep(10)
        failing = False
        await asyncio.sleep(120)
        assert manager.actual.directories[WEB] is Presence.PRESENT
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert is_clean(node)


@in_virtual_time
async def test_a_pod_whose_directory_could_never_be_made_leaves_nothing_when_it_goes() -> None:
    """I27."""
    _, node = bench()

    def full(method: str, path: str) -> None:
        if method == "make_directories":
            raise OSError(28, "No space left on device", path)

    node.host.before_call = full
    async with node.running() as manager:
        node.add_pod(pod("web"))
        await asyncio.sleep(10)
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert is_clean(node)


@in_virtual_time
async def test_a_pod_that_returns_while_its_directory_is_removed_is_mounted_afterwards() -> None:
    plugin, node = bench()
    async with node.running() as manager:
        node.add_pod(web())
        await manager.wait_for_attach_and_mount(web())
        keeper = Gatekeeper("remove the directory of pod")
        node.host.scheduler = keeper
        node.remove_pod(WEB)
        await keeper.reached.wait()
        node.add_pod(web())
        await asyncio.sleep(10)
        assert plugin.count(Step.SET_UP) == 1
        keeper.released.set()
        await manager.wait_for_attach_and_mount(web())
        facts = node.host.look(node.paths.pod_volumes_dir(WEB))
        assert facts is not None
        assert facts.mode == 0o750


@in_virtual_time
async def test_a_pod_that_returns_after_a_half_done_removal_gets_its_directories_again() -> None:
    _, node = bench()
    plugins = node.paths.pod_plugins_dir(WEB)
    async with node.running() as manager:
        node.add_pod(web())
        await manager.wait_for_attach_and_mount(web())
        node.host.make_directories(f"{plugins}/held", 0o755)
        node.host.mount_tmpfs(f"{plugins}/held")
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_volumes_dir(WEB)) is None  # removed before the mount stopped it
        node.add_pod(web())
        await manager.wait_for_attach_and_mount(web())
        facts = node.host.look(node.paths.pod_volumes_dir(WEB))
        assert facts is not None
        assert facts.mode == 0o750


@in_virtual_time
async def test_a_directory_is_not_removed_while_a_mount_for_the_pod_is_under_way() -> None:
    """I10."""
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(web())
        await hanging.reached.wait()
        node.remove_pod(WEB)
        await asyncio.sleep(10)
        assert node.host.look(node.paths.pod_dir(WEB)) is not None
        hanging.release()
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_dir(WEB)) is None


@in_virtual_time
async def test_a_directory_that_holds_data_is_left_and_tried_again() -> None:
    """V19."""
    _, node = bench()
    path = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "data")
    node.host.make_directories(path, 0o755)
    node.host.create_file(f"{path}/precious", 0o644)
    async with node.running() as manager:
        await asyncio.sleep(600)
        assert node.host.look(f"{path}/precious") is not None
        node.host.remove_file(f"{path}/precious")
        await asyncio.sleep(122)
        assert node.host.look(node.paths.pod_dir(WEB)) is None
        assert manager.reconciler.pending.is_empty()
