"""Random histories: pods come and go while a plugin answers as it likes; in the end everything is as wanted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.kube.objects.pod import Pod
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    DEVICE_MOUNTABLE,
    OK,
    PLAIN,
    Abilities,
    Answer,
    ScriptedPlugin,
    Step,
    doubtful,
    not_yet,
    refused,
)
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid

PODS = ["a", "b", "c"]


@dataclass(frozen=True)
class Come:
    name: str


@dataclass(frozen=True)
class Go:
    name: str


@dataclass(frozen=True)
class Say:
    step: Step
    answer: Answer


@dataclass(frozen=True)
class Pass:
    seconds: float


@dataclass(frozen=True)
class Restart:
    """The manager is killed, whatever it is doing, and a new one starts on the same machine."""


names = st.sampled_from(PODS)
answers = st.builds(
    replace,
    st.sampled_from([OK, refused(), not_yet(), doubtful(), doubtful(happened=True)]),
    seconds=st.sampled_from([0.0, 0.5, 2.0]),
)
calls = st.sampled_from([step for step in Step if step is not Step.RESIZE])
events = st.one_of(
    names.map(Come), names.map(Go), st.builds(Say, calls, answers), st.sampled_from([0.0, 0.5, 3.0, 200.0]).map(Pass)
)
histories = st.lists(events, max_size=25)
restarts = st.lists(events | st.just(Restart()), max_size=25)


def user(name: str) -> Pod:
    return pod(name, scripted("disk"), scripted(f"own-{name}"))


class World:
    """A node, and the pods that its one source of pods knows."""

    def __init__(self, abilities: Abilities) -> None:
        self.plugin = ScriptedPlugin(abilities)
        self.node = MemoryNode(plugins=lambda context: [self.plugin.on(context)])
        self.pods: set[str] = set()

    async def live(self, history: list[Come | Go | Say | Pass | Restart]) -> None:
        """Play a history over one or several managers, then let everything settle and check it."""
        remaining = list(history)
        while True:
            async with self.node.running(sources_heard=False) as manager:
                for name in sorted(self.pods):
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
                self.pods.add(name)
                self.node.add_pod(user(name))
            case Go(name):
                self.pods.discard(name)
                self.node.remove_pod(PodUid(f"uid-{name}"))
            case Say(step, answer):
                self.plugin.script(step, answer)
            case Pass(seconds):
                await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """After a while all answers are used up: exactly what is wanted is there, and after the pods nothing."""
        manager = self.node.manager
        for name in sorted(self.pods):
            await manager.wait_for_attach_and_mount(user(name), timeout=3600)
        await asyncio.sleep(3600)
        wanted = {(PodUid(f"uid-{name}"), volume) for name in self.pods for volume in ("disk", f"own-{name}")}
        assert self.plugin.mounted == wanted
        assert manager.reconciler.resync_found_work == 0
        for name in sorted(self.pods):
            self.node.remove_pod(PodUid(f"uid-{name}"))
        await manager.wait_for_nothing_left(timeout=7200)
        assert not self.plugin.mounted
        assert not self.plugin.staged
        assert not self.plugin.attached
        assert manager.desired.is_empty()
        assert manager.populator.is_empty()
        assert manager.reconciler.pending.is_empty()


@pytest.mark.parametrize("abilities", [PLAIN, DEVICE_MOUNTABLE, ATTACHABLE])
@given(history=histories)
@settings(max_examples=60, deadline=None)
def test_every_history_ends_with_what_is_wanted_and_leaves_nothing_behind(
    abilities: Abilities, history: list[Come | Go | Say | Pass | Restart]
) -> None:
    """I19, I27; the plugin itself refuses what I5 and I6 forbid."""
    run_virtual(World(abilities).live(history))


@given(history=restarts)
@settings(max_examples=60, deadline=None)
def test_a_history_with_restarts_ends_like_one_without(history: list[Come | Go | Say | Pass | Restart]) -> None:
    """I28, for volumes whose whole trace lies below the pod's directory."""
    run_virtual(World(PLAIN).live(history))
