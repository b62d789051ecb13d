"""One node, one manager after the other, and the world around them, as a script tells it."""

from __future__ import annotations

import asyncio

from mooring.errors import MooringError, Refused
from mooring.manager.waits import NotMounted
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.simulation.device_invariants import DeviceInvariants
from mooring.testing.simulation.disks import PLAIN
from mooring.testing.simulation.driver_effects import Thing
from mooring.testing.simulation.driver_registry import DriverRegistry
from mooring.testing.simulation.drivers import Drivers
from mooring.testing.simulation.faults import Faults, Killed
from mooring.testing.simulation.invariants import PRECIOUS, Invariants
from mooring.testing.simulation.journal import Journal, Violation
from mooring.testing.simulation.oracle import plugin_of
from mooring.testing.simulation.record_keeper import RecordKeeper
from mooring.testing.simulation.script import (
    AnyStep,
    BreakReads,
    Crash,
    DamageRecord,
    DriverStrike,
    Ending,
    LoseDriver,
    Pass,
    Reboot,
    Resize,
    Restart,
    ReturnDriver,
    Script,
    Settle,
    Strike,
    Turn,
    WaitForPod,
    describe,
)
from mooring.testing.simulation.surroundings import Surroundings
from mooring.testing.simulation.unreliable_host import UnreliableHost
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import InlineWish, make_pod
from mooring.testing.simulation.world_model import WorldModel
from mooring.world.names import PluginName, PodUid

CALM = 400.0
"""Seconds after which all is done that can be done: an unanswered call, and the longest pause of each kind."""

NO_FALLBACK = 1e9
"""The periodic refresh would hide a lost event; here it never comes."""


class Simulation:
    """Plays a script on a `MemoryNode`, and checks after each step what must hold."""

    def __init__(self, script: Script) -> None:
        loop = asyncio.get_running_loop()
        self._script = script
        self.journal = Journal(loop.time)
        self.model = WorldModel()
        host = UnreliableHost(now=lambda: loop.time() + self.model.clock_offset)
        self.watcher = Watcher(self.model, self.journal, ROOT)
        self.faults = Faults(
            host,
            self.journal,
            seed=script.seed,
            latency=script.latency,
            changing=self._changing,
            changed=self._look_as_container,
            is_in_doubt=self.watcher.is_in_doubt,
        )
        self.drivers = Drivers(host, self.faults, self.journal, ROOT)
        self._registry = DriverRegistry(self.drivers)
        settings = Settings(root=ROOT, node_name="memory-node", refresh_interval=NO_FALLBACK)
        self.node = self.faults.act(
            lambda: MemoryNode(host=host, plugins=self._registry.plugins, settings=settings, seed=script.seed)
        )
        self._surroundings = Surroundings(self.node, self.model, self.faults, self.watcher)
        self._records = RecordKeeper(host, self.faults, self.model, self.journal, self.node.paths.intents_dir)
        self._invariants = Invariants(self.node, self.model, self.drivers, self.watcher)
        self._devices = DeviceInvariants(
            self.node, self.model, self.drivers, self._records, self.faults, self.journal, self.watcher
        )
        self._while_down: list[DamageRecord | BreakReads] = []
        self._tasks: asyncio.TaskGroup
        self._run: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._death: BaseException | None = None

    async def run(self) -> None:
        """Play the script and its end; the first violation is left in the journal."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await self._play()
            except Violation as found:
                self.journal.violation = found
            finally:
                await self._kill()

    async def _play(self) -> None:
        self.faults.act(lambda: self._surroundings.make_foreign(PRECIOUS))
        self._invariants.remember()
        self._start(Ending())
        for step in self._script.steps:
            self.journal.steps += 1
            self.journal.note("step", describe(step))
            await self._take(step)
            await self._revive()
            self.check()
        await self._end_pending_kill()
        await self._finish()

    # -- steps ---------------------------------------------------------------------------------------------------
    async def _take(self, step: AnyStep) -> None:
        match step:
            case Turn():
                for _ in range(step.turns):
                    await asyncio.sleep(0)
            case Pass():
                await self._pass(step.seconds)
            case WaitForPod():
                await self._wait_for(step)
            case Resize():
                await self._resize(step)
            case Settle():
                await self._end_pending_kill()
                await self._settle()
            case Crash():
                await self._end_pending_kill()
                self.faults.arm(step)
            case Strike():
                self.faults.arm(step)
            case DriverStrike():
                self.drivers.arm(step)
            case LoseDriver():
                self._registry.lose(self.node.manager, PluginName(step.driver))
            case ReturnDriver():
                self._registry.bring_back(self.node.manager, PluginName(step.driver))
            case DamageRecord() | BreakReads():
                self._while_down.append(step)
            case Restart() | Reboot():
                await self._end_pending_kill()
                await self._end(step)
            case _:
                self._surroundings.take(step)

    async def _end(self, step: Restart | Reboot) -> None:
        if isinstance(step, Restart):
            await self._stop()
        else:
            await self._kill()
            self.node.host.reboot()
            self.drivers.reboot()
            self.watcher.boots += 1
            self.model.lose_memory()
        self._begin_anew(step)

    async def _end_pending_kill(self) -> None:
        """A kill that no call has met strikes now."""
        crash = self.faults.pending_kill
        if crash is not None:
            self.faults.kill(crash)
        await self._revive()

    def _changing(self, method: str, path: str) -> None:
        self.watcher.changing(method, path)
        self._records.changing(method, path)

    def check(self) -> None:
        """What must hold at any time."""
        self.faults.act(self._check)

    def _check(self) -> None:
        self.journal.raise_violation()
        self._invariants.check_data()
        self._devices.check_data()
        self._invariants.check_wake_ups()
        if self.faults.killed_by is None:
            self._devices.check_known()
        if self.watcher.told and self.faults.killed_by is None:
            self.watcher.compare_all()
            self.journal.raise_violation()
            self._invariants.check_mounted()
            self._devices.check_mounted()

    def _look_as_container(self, changed: str) -> None:
        """See what containers see in the middle of an operation."""
        if self.watcher.told:
            try:
                self.faults.act(lambda: self._invariants.check_readers(changed))
            except Violation as found:
                self.journal.accuse(found.invariant, found.what)

    async def _pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            assert self._run is not None
            await asyncio.wait({self._run}, timeout=until - loop.time())
            if not self._run.done():
                return
            await self._revive()

    async def _wait_for(self, step: WaitForPod) -> None:
        wish = self.model.pods.get(step.pod)
        if wish is None or not self.watcher.told:
            return
        manager = self.node.manager
        try:
            await manager.wait_for_attach_and_mount(make_pod(wish), timeout=step.timeout, fail_fast=False)
        except NotMounted as error:
            self.journal.note("wait", str(error))
            return
        if self.faults.killed_by is not None:
            return
        self.journal.note("wait", "all mounted")
        mounted = manager.get_mounted_volumes_for_pod(PodUid(wish.uid))
        present = [volume for volume in wish.volumes if plugin_of(volume) not in self.drivers.away]
        lacking = [volume.name for volume in present if volume.name not in mounted]
        if lacking:
            raise Violation("I20", f"a wait for {step.pod!r} succeeded without {', '.join(lacking)}")

    async def _resize(self, step: Resize) -> None:
        """Ask for another size as whoever owns the pod does, and believe only what was answered."""
        found = self._surroundings.usable(step.pod, step.volume)
        if found is None or not isinstance(found[1], InlineWish):
            return
        pod = found[0]
        try:
            await self.node.manager.resize_ephemeral_volume(make_pod(pod), step.volume, step.size)
        except (MooringError, Killed) as error:
            self.journal.note("resize", str(error) or "killed")
            return
        self.journal.note("resize", "done")
        size = self.drivers.sizes.get(Thing("published", PLAIN, step.volume, pod.uid))
        if size not in (None, step.size):  # None: it was unmounted while it was answered
            raise Violation("expand", f"volume {step.volume!r} of {pod.uid} has size {size} and not {step.size}")
        self.journal.note("resize", f"volume {step.volume!r} of {pod.uid} to {step.size}")

    async def _settle(self) -> None:
        self.faults.calm()
        self.node.host.limit_disk(None)
        self._registry.bring_all_back(self.node.manager)
        self.drivers.calm()
        if self.faults.unread:  # what could not be read is looked at again at the next start, and not before
            await self._end(Restart())
        await self._pass(CALM)
        self.check()
        self.watcher.calm()
        self.check()
        self.faults.act(self._invariants.check_settled)
        self.faults.act(self._devices.check_settled)

    async def _finish(self) -> None:
        """All faults end, everybody lets go, all pods leave: then nothing is left."""
        self._while_down.clear()
        await self._settle()
        self._surroundings.let_go()
        for name in sorted({pod.name for pod in self.model.containers.values()}):
            self._surroundings.end_containers(name)
        for name in sorted(self.model.pods):
            self._surroundings.remove_pod(name)
        await self._pass(CALM)
        self.check()
        if self._records.damaged:
            self._devices.repair()
            await self._end(Restart())
            await self._pass(CALM)
        self.faults.act(self._invariants.check_empty)
        self._devices.check_empty()

    # -- managers come and go ------------------------------------------------------------------------------------
    def _begin_anew(self, ending: Ending) -> None:
        for name in ending.lost:
            self.model.remove_pod(name)
        for step in self._while_down:
            if isinstance(step, DamageRecord):
                self._records.damage(step)
        self._start(ending)
        for step in self._while_down:
            if isinstance(step, BreakReads):
                self.faults.break_reads(step)
        self._while_down.clear()

    def _start(self, ending: Ending) -> None:
        self.faults.new_process()
        self._death = None
        manager = self.node.new_manager()
        self._registry.join(manager)
        self.watcher.watch(manager)
        self._surroundings.tell_of_all_containers()
        self._run = self._tasks.create_task(self._run_manager())
        self._telling = self._tasks.create_task(self._tell(ending))

    async def _run_manager(self) -> None:
        try:
            await self.node.manager.run()
        except* Killed:
            pass
        except* Exception as error:
            self._death = error

    async def _tell(self, ending: Ending) -> None:
        """Let the sources speak: first of their pods, then that these are all."""
        if ending.told_after:
            await asyncio.sleep(ending.told_after)
        for name in sorted(self.model.pods):
            self.node.add_pod(make_pod(self.model.pods[name]))
        self.watcher.told = True
        if ending.heard_after:
            await asyncio.sleep(ending.heard_after)
        self.watcher.heard = True
        self.journal.note("heard", "all sources")
        self.node.manager.sources_heard()

    async def _revive(self) -> None:
        """Notice that the manager was killed, and start the next one."""
        assert self._run is not None
        pending = self.faults.pending_kill
        if pending is not None and self._death is not None and self._is_excused():
            self.faults.kill(pending)
        crash = self.faults.killed_by
        if crash is not None:
            await self._kill()
            self._begin_anew(crash)
        elif self._death is not None and self._is_excused():
            await self._kill()
            self._begin_anew(Ending())
        else:
            self._check_alive()

    async def _kill(self) -> None:
        for task in (self._telling, self._run):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _stop(self) -> None:
        """End the manager as the daemon does; it waits for what runs, and for nothing else."""
        loop, manager = asyncio.get_running_loop(), self.node.manager
        begun = loop.time()
        await manager.stop()
        self._check_alive()
        waited = loop.time() - begun
        idle = manager.reconciler.pending.running_count == 0 and self.watcher.last_end < loop.time()
        if idle and waited >= manager.settings.stop_timeout:
            raise Violation("stop", f"stopping took {waited:g} s, and nothing was under way any more")
        await self._kill()

    def _is_excused(self) -> bool:
        """A manager that cannot even read what there is says so and ends, and somebody starts it again."""
        return bool(self.faults.unread) and isinstance(_innermost(self._death), OSError | Refused)

    def _check_alive(self) -> None:
        if self._death is not None and not self._is_excused():
            raise Violation("alive", f"the manager broke: {_innermost(self._death)!r}")


def _innermost(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
