"""What cannot be made sense of after a start holds up whatever may lie below it, and nothing else."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from mooring.host.durable_files import NEW
from mooring.manager.intents import Intent, Intents
from mooring.plugins.interface import PluginContext, VolumePlugin
from mooring.testing.memory_host import MemoryHost
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import ATTACHABLE, ScriptedPlugin, Step, doubtful
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.actual import ActualVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach, Detach, Unstage
from mooring.world.planner import Gates, Reason, Wait, plan
from mooring.world.presence import Attachability, Presence
from mooring.world.spec import VolumeSpec

WEB = PodUid("uid-web")
PLUGIN = PluginName("test/scripted")
DISK = VolumeName("test/scripted/disk-7")
SPEC = VolumeSpec(persistent_volume=persistent_volume("data", backing="disk-7"))
STAGED = ActualVolume(name=DISK, plugin=PLUGIN, spec=SPEC, stage=Presence.PRESENT, attachment=Presence.PRESENT)
POD = pod("web", claimed("data", "data"))
RECORDS = "/var/intents"


def gates(*names: str) -> Gates:
    return Gates(kept_apart=frozenset((PLUGIN, name, WEB) for name in names))


# -- planning ------------------------------------------------------------------------------------------------------
def test_a_stage_stays_while_something_of_its_volume_is_kept_apart() -> None:
    planned = plan(None, STAGED, gates("pv-data"))
    assert (planned.operations, planned.waits) == ((), (Wait(None, Reason.KEPT_APART),))


def test_an_attachment_stays_while_something_of_its_volume_is_kept_apart() -> None:
    attached = replace(STAGED, stage=Presence.ABSENT)
    assert plan(None, attached, gates("pv-data")).operations == ()
    assert plan(None, attached, gates()).operations == (Detach(DISK),)


def test_what_is_kept_apart_of_another_volume_holds_up_nothing() -> None:
    assert plan(None, STAGED, gates("pv-other")).operations == (Unstage(DISK),)


# -- records -------------------------------------------------------------------------------------------------------
def intents_after_damage(host: MemoryHost) -> Intents:
    """The records of a second process, which finds the only one damaged."""
    (name,) = host.names_in(RECORDS)
    host.put_file(f"{RECORDS}/{name}", b"")
    intents = Intents(host, RECORDS)
    assert len(intents.read().damaged) == 1
    return intents


async def noted() -> tuple[MemoryHost, Intent]:
    host = MemoryHost()
    host.make_directories("/var", 0o755)
    intent = Intent(volume=DISK, plugin=PLUGIN, spec=SPEC)
    await Intents(host, RECORDS).note(intent)
    return host, intent


async def test_a_set_up_that_failed_does_not_remove_the_record_in_the_place_of_a_damaged_one() -> None:
    host, intent = await noted()
    intents = intents_after_damage(host)
    await intents.note(intent)
    intents.settle(Attach(DISK), None)
    assert len(host.names_in(RECORDS)) == 1


async def test_a_teardown_that_worked_removes_the_record_in_the_place_of_a_damaged_one() -> None:
    host, intent = await noted()
    intents = intents_after_damage(host)
    await intents.note(intent)
    intents.settle(Detach(DISK), None)
    assert host.names_in(RECORDS) == []


async def test_what_a_crash_left_half_written_is_swept_away() -> None:
    host, _ = await noted()
    host.put_file(f"{RECORDS}/other.record{NEW}", b"half")
    Intents(host, RECORDS).sweep()
    assert [name.endswith(NEW) for name in host.names_in(RECORDS)] == [False]


# -- plugins that go -----------------------------------------------------------------------------------------------
class Bench:
    """A node whose one plugin can go and come back."""

    def __init__(self) -> None:
        self.plugin = ScriptedPlugin(ATTACHABLE)
        self.node = MemoryNode(plugins=self._no_plugins)
        self.node.put(claim("data"))
        self.node.put(persistent_volume("data", backing="disk-7"))
        self.node.manager.plugins.replace(self._served())

    def _no_plugins(self, context: PluginContext) -> list[VolumePlugin]:
        self.context = context
        return []

    def _served(self) -> ScriptedPlugin:
        return self.plugin.on(self.context)

    def lose(self) -> None:
        self.node.manager.plugins.remove(PLUGIN)


@in_virtual_time
async def test_a_volume_whose_plugin_has_gone_is_not_shown_and_breaks_no_question() -> None:
    bench = Bench()
    async with bench.node.running() as manager:
        bench.node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        bench.lose()
        assert manager.get_mounted_volumes_for_pod(WEB) == {}
        assert manager.actual.is_mounted(WEB, DISK)


@in_virtual_time
async def test_doubt_outlasts_the_time_in_which_a_plugin_is_gone() -> None:
    for step in (Step.ATTACH, Step.STAGE, Step.SET_UP):
        bench = Bench()
        bench.plugin.script(step, doubtful(happened=True))
        async with bench.node.running() as manager:
            bench.node.add_pod(POD)
            await asyncio.sleep(0.1)
            bench.lose()
            await asyncio.sleep(60)
            held = manager.actual.volumes[DISK]
            in_doubt = {Step.ATTACH: held.attachment, Step.STAGE: held.stage}
            mount = held.mounts.get(WEB)
            presence = in_doubt.get(step, mount.presence if mount is not None else Presence.ABSENT)
            assert presence is Presence.UNCERTAIN, step


@in_virtual_time
async def test_what_may_be_attached_after_a_start_counts_as_in_use() -> None:
    bench = Bench()
    async with bench.node.running() as manager:
        bench.node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
    manager = bench.node.new_manager()
    manager.plugins.replace(bench.plugin.on(bench.context))
    async with bench.node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert manager.actual.volumes[DISK].attachability is Attachability.UNCERTAIN
        assert manager.get_volumes_in_use() == [DISK]
