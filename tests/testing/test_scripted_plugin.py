"""The scripted plugin: its answers, its idea of the machine, and what it does not play along with."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import MooringError, NotYet, Refused
from mooring.plugins.interface import Setup
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    OK,
    PLAIN,
    Abilities,
    Answer,
    Impossible,
    ScriptedPlugin,
    Step,
    doubtful,
    not_yet,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

WEB = PodUid("uid-web")
SPEC = VolumeSpec(volume=scripted("disk"))
REQUEST = Setup(pod=pod("web", scripted("disk")), uid=WEB, spec=SPEC)


def on_a_node(abilities: Abilities) -> ScriptedPlugin:
    plugin = ScriptedPlugin(abilities)
    MemoryNode(plugins=lambda context: [plugin.on(context)])
    return plugin


async def test_answers_are_given_in_the_order_they_were_written_and_then_all_is_well() -> None:
    plugin = on_a_node(PLAIN)
    plugin.script(Step.SET_UP, refused(), not_yet())
    with pytest.raises(Refused):
        await plugin.set_up(REQUEST)
    with pytest.raises(NotYet):
        await plugin.set_up(REQUEST)
    assert not plugin.mounted
    await plugin.set_up(REQUEST)
    assert plugin.mounted == {(WEB, "disk")}
    assert plugin.count(Step.SET_UP, pod=WEB) == 3


async def test_a_standing_answer_is_given_until_it_is_taken_back() -> None:
    plugin = on_a_node(PLAIN)
    plugin.always(Step.SET_UP, refused())
    for _ in range(2):
        with pytest.raises(Refused):
            await plugin.set_up(REQUEST)
    plugin.always(Step.SET_UP, None)
    await plugin.set_up(REQUEST)


async def test_an_answer_for_another_pod_is_not_taken() -> None:
    plugin = on_a_node(PLAIN)
    plugin.script(Step.SET_UP, refused(), pod=PodUid("uid-other"))
    await plugin.set_up(REQUEST)


@pytest.mark.parametrize("happened", [True, False])
async def test_a_call_without_an_answer_happened_or_did_not(happened: bool) -> None:
    plugin = on_a_node(PLAIN)
    plugin.script(Step.SET_UP, doubtful(happened=happened))
    with pytest.raises(MooringError):
        await plugin.set_up(REQUEST)
    assert bool(plugin.mounted) is happened


async def test_a_refusal_after_a_call_without_an_answer_leaves_nothing_of_it() -> None:
    """R22: what is refused is not there, so nobody needs to take it down."""
    plugin = on_a_node(PLAIN)
    plugin.script(Step.SET_UP, doubtful(happened=True), refused())
    for _ in range(2):
        with pytest.raises(MooringError):
            await plugin.set_up(REQUEST)
    assert not plugin.mounted


async def test_a_hanging_call_waits_until_it_is_released_and_then_takes_the_next_answer() -> None:
    plugin = on_a_node(PLAIN)
    hanging = plugin.hang(Step.SET_UP)
    plugin.script(Step.SET_UP, refused())
    call = asyncio.ensure_future(plugin.set_up(REQUEST))
    await hanging.reached.wait()
    assert not call.done()
    hanging.release()
    with pytest.raises(Refused):
        await call


@in_virtual_time
async def test_a_slow_answer_takes_its_time() -> None:
    plugin = on_a_node(PLAIN)
    plugin.script(Step.SET_UP, Answer(seconds=3.0))
    await plugin.set_up(REQUEST)
    assert asyncio.get_running_loop().time() == 3.0


async def test_a_stage_without_attachment_is_not_played_along_with() -> None:
    plugin = on_a_node(ATTACHABLE)
    with pytest.raises(Impossible):
        await plugin.stage(SPEC, "")


async def test_a_set_up_without_stage_is_not_played_along_with() -> None:
    plugin = on_a_node(ATTACHABLE)
    with pytest.raises(Impossible):
        await plugin.set_up(REQUEST)


async def test_taking_a_device_away_below_its_users_is_not_played_along_with() -> None:
    plugin = on_a_node(ATTACHABLE)
    await plugin.attach(SPEC)
    await plugin.stage(SPEC, "/dev/disk")
    await plugin.set_up(REQUEST)
    with pytest.raises(Impossible):
        await plugin.unstage(SPEC, "/stages/disk")
    with pytest.raises(Impossible):
        await plugin.detach(SPEC)


async def test_a_plugin_that_is_on_no_node_says_so() -> None:
    with pytest.raises(MooringError, match="on no node"):
        await ScriptedPlugin(PLAIN).set_up(REQUEST)


async def test_a_resize_is_recorded() -> None:
    plugin = on_a_node(Abilities(resizes=True))
    plugin.script(Step.RESIZE, OK)
    await plugin.resize(WEB, SPEC, 5)
    assert plugin.calls[0].size == 5
