"""Runs a script on a `MemoryNode` under virtual time, and checks after each step what must hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mooring.manager.waits import NotMounted
from mooring.settings import Settings
from mooring.testing.memory_host import MemoryHost, Snapshot
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.simulation.faults import Faults, Killed
from mooring.testing.simulation.invariants import PRECIOUS, Invariants
from mooring.testing.simulation.journal import Entry, Journal, Violation
from mooring.testing.simulation.script import (
    AnyStep,
    Crash,
    Ending,
    Pass,
    Reboot,
    Restart,
    Script,
    Settle,
    Strike,
    Turn,
    WaitForPod,
    describe,
)
from mooring.testing.simulation.surroundings import Surroundings
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import make_pod
from mooring.testing.simulation.world_model import WorldModel
from mooring.testing.virtual_time import VirtualTimeLoop, VirtualTimeStuck
from mooring.world.names import PodUid

CALM = 400.0
"""Seconds after which all is done that can be done: an unanswered call, and the longest pause of each kind."""

MOST_TURNS = 100_000
"""How often the clock may be read without any time passing; an ordinary history does so some hundred times."""

NO_FALLBACK = 1e9
"""The periodic refresh would hide a lost event; here it never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a script led to. `violation` is None when everything held."""

    script: Script
    violation: Violation | None
    entries: tuple[Entry, ...]
    steps: int
    crashes: int
    faults: int
    operations: int
    seconds: float
    end: Snapshot


def run_script(script: Script) -> History:
    """Run a history to its end or to the first violation."""
    stage: list[Simulation] = []
    try:
        with asyncio.Runner(loop_factory=_WatchedLoop) as runner:
            runner.run(_play(script, stage))
    except VirtualTimeStuck as stuck:
        stage[0].journal.violation = Violation("alive", str(stuck))
    journal = stage[0].journal
    return History(
        script=script,
        violation=journal.violation,
        entries=tuple(journal.entries),
        steps=journal.steps,
        crashes=journal.crashes,
        faults=journal.faults,
        operations=journal.operations,
        seconds=journal.clock(),
        end=stage[0].node.host.snapshot(),
    )


async def _play(script: Script, stage: list[Simulation]) -> None:
    stage.append(Simulation(script))
    await stage[0].run()


class _WatchedLoop(VirtualTimeLoop):
    """Notices when everything turns in a circle and no time passes any more."""

    def __init__(self) -> None:
        self._since, self._turns = 0.0, 0
        super().__init__()

    def time(self) -> float:
        now = super().time()
        self._turns = self._turns + 1 if now == self._since else 0
        self._since = now
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise VirtualTimeStuck(f"virtual time stands still at {now:g} s", why="the same is done over and over")
        return now


class Simulation:
    """One node, one manager after the other, and the world around them."""

    def __init__(self, script: Script) -> None:
        loop = asyncio.get_running_loop()
        self._script = script
        self.journal = Journal(loop.time)
        settings = Settings(root=ROOT, node_name="memory-node", refresh_interval=NO_FALLBACK)
        self.node = MemoryNode(host=MemoryHost(now=loop.time), settings=settings, seed=script.seed)
        self.model = WorldModel()
        self.watcher = Watcher(self.model, self.journal, ROOT)
        self.faults = Faults(
            self.node.host,
            self.journal,
            seed=script.seed,
            latency=script.latency,
            changing=self.watcher.changing,
            changed=self._look_as_container,
            is_in_doubt=self.watcher.is_in_doubt,
        )
        self._surroundings = Surroundings(self.node, self.model, self.faults, self.watcher)
        self._invariants = Invariants(self.node, self.model)
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
        self._start(Ending())
        for step in self._script.steps:
            self.journal.steps += 1
            self.journal.note("step", describe(step))
            await self._take(step)
            await self._revive()
            self.check()
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
            case Settle():
                await self._settle()
            case Crash() | Strike():
                self.faults.arm(step)
            case Restart():
                await self._stop()
                self._begin_anew(step)
            case Reboot():
                await self._kill()
                self.node.host.reboot()
                self.model.lose_memory()
                self._begin_anew(step)
            case _:
                self._surroundings.take(step)

    def check(self) -> None:
        """What must hold at any time."""
        self.journal.raise_violation()
        self._invariants.check_data()
        self._invariants.check_wake_ups()
        if self.watcher.told and self.faults.killed_by is None:
            self.watcher.compare_all()
            self.journal.raise_violation()
            self._invariants.check_mounted()

    def _look_as_container(self, changed: str) -> None:
        """See what containers see in the middle of an operation."""
        if self.watcher.told:
            try:
                self._invariants.check_readers(changed)
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
        lacking = [volume.name for volume in wish.volumes if volume.name not in mounted]
        if lacking:
            raise Violation("I20", f"a wait for {step.pod!r} succeeded without {', '.join(lacking)}")

    async def _settle(self) -> None:
        self.faults.calm()
        self.node.host.limit_disk(None)
        await self._pass(CALM)
        self.check()
        self._invariants.check_settled()

    async def _finish(self) -> None:
        """All faults end, everybody lets go, all pods leave: then nothing is left."""
        await self._settle()
        self._surroundings.let_go()
        for name in sorted(self.model.pods):
            self._surroundings.remove_pod(name)
        await self._pass(CALM)
        self.check()
        self._invariants.check_empty()

    # -- managers come and go ------------------------------------------------------------------------------------
    def _begin_anew(self, ending: Ending) -> None:
        for name in ending.lost:
            self.model.remove_pod(name)
        self._start(ending)

    def _start(self, ending: Ending) -> None:
        self.faults.new_process()
        manager = self.node.new_manager()
        self.watcher.watch(manager)
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
        crash = self.faults.killed_by
        if crash is not None:
            await self._kill()
            self._begin_anew(crash)
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

    def _check_alive(self) -> None:
        if self._death is not None:
            raise Violation("alive", f"the manager broke: {_innermost(self._death)!r}")


def _innermost(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
