"""Random histories of pods that ask for different SELinux labels: in the end nobody waits for nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.manager.test_histories import Come, Go, Pass, Restart, Say, answers, calls

from mooring.kube.objects.pod import Pod, PodSecurityContext, SELinuxOptions
from mooring.plugins.interface import NO_WISHES, Setup, StageWishes
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import Abilities, Impossible, ScriptedPlugin
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

LEVELS = {"a": "s0:c1", "b": "s0:c2", "c": "s0:c1", "d": "s0:c2"}
names = st.sampled_from(sorted(LEVELS))
events = st.one_of(
    names.map(Come),
    names.map(Go),
    st.builds(Say, calls, answers),
    st.sampled_from([0.0, 0.5, 3.0, 200.0]).map(Pass),
    st.just(Restart()),
)


def user(name: str) -> Pod:
    context = PodSecurityContext(se_linux_options=SELinuxOptions(level=LEVELS[name]))
    return pod(name, claimed("data", "data"), security=context)


def uid(name: str) -> PodUid:
    return PodUid(f"uid-{name}")


class LabellingPlugin(ScriptedPlugin):
    """Knows with which label the volume is really staged, and that a stage and a bind of it have the same one."""

    label = ""

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        if self.staged:
            self._must_be(wishes.label)
            return await super().stage(spec, device_path, wishes)
        try:
            return await super().stage(spec, device_path, wishes)
        finally:
            self.label = wishes.label

    async def set_up(self, request: Setup) -> None:
        self._must_be(request.label)
        await super().set_up(request)

    def _must_be(self, label: str) -> None:
        if label != self.label:
            raise Impossible(f"mounted with {self.label}, and asked for with {label}")


class World:
    """A node with SELinux and one volume, and the pods that its one source of pods knows, the oldest first."""

    def __init__(self) -> None:
        self.plugin = LabellingPlugin(Abilities(attaches=True, stages=True, takes_labels=True))
        self.node = MemoryNode(
            plugins=lambda context: [self.plugin.on(context)],
            settings=Settings(root=ROOT, node_name="memory-node", selinux_mount="on"),
        )
        self.node.facts = replace(self.node.facts, selinux=True)
        self.node.put(claim("data"))
        self.node.put(persistent_volume("data", access_modes=("ReadWriteMany",)))
        self.pods: dict[str, None] = {}

    async def live(self, history: list[Come | Go | Say | Pass | Restart]) -> None:
        remaining = list(history)
        while True:
            async with self.node.running(sources_heard=False) as manager:
                await manager.wait_for_states_synced()
                for name in reversed(self.pods):  # of a newer pod first: the older one may have the volume
                    self.node.add_pod(user(name))
                manager.sources_heard()
                while remaining:
                    event = remaining.pop(0)
                    if isinstance(event, Restart):
                        break
                    await self.play(event)
                else:
                    await self.settle()
                    return
            self.node.new_manager()

    async def play(self, event: Come | Go | Say | Pass) -> None:
        match event:
            case Come(name):
                self.pods[name] = None
                self.node.add_pod(user(name))
            case Go(name):
                self.pods.pop(name, None)
                self.node.remove_pod(uid(name))
            case Say(step, answer):
                self.plugin.script(step, answer)
            case Pass(seconds):
                await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """The pods of one label have the volume, the others are told so; and get it when the former have left."""
        manager = self.node.manager
        while self.pods:
            kept_out = [name for name in self.pods if manager.desired.problems(uid(name))]
            served = [name for name in self.pods if name not in kept_out]
            for name in served:
                await manager.wait_for_attach_and_mount(user(name), timeout=3600)
            await asyncio.sleep(3600)
            assert {LEVELS[name] for name in served} == {self.plugin.label[-len("s0:c1") :]}
            assert {LEVELS[name] for name in kept_out}.isdisjoint(LEVELS[name] for name in served)
            assert {pod for pod, _ in self.plugin.mounted} == set(map(uid, served))
            assert manager.reconciler.resync_found_work == 0
            for name in served:
                await self.play(Go(name))
        await manager.wait_for_nothing_left(timeout=7200)
        assert not self.plugin.staged
        assert not self.plugin.attached
        assert manager.desired.is_empty()
        assert manager.populator.is_empty()
        assert manager.reconciler.pending.is_empty()


# Attaching once more must not make a record forget the label of what an earlier process may have staged.
@example([Come("b"), Pass(0.0), Come("a"), Pass(0.0), Restart(), Pass(0.0), Restart()])
@given(history=st.lists(events, max_size=25))
@settings(max_examples=120, deadline=None)
def test_pods_with_different_labels_get_the_volume_one_after_the_other(
    history: list[Come | Go | Say | Pass | Restart],
) -> None:
    """I12, I19, I28."""
    run_virtual(World().live(history))
