"""Simulated drivers, shaped like CSI's: what they attached, staged and published outlives every manager.

A request that has arrived is worked on whether or not its sender still lives. While one is worked on, others for the
same volume are turned away, as drivers do; what is there already is answered at once. What no machine survives, such
as an unstage below a publish, is a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mooring.errors import Doubtful, NotYet, Refused
from mooring.testing.memory_host import MemoryHost
from mooring.testing.simulation.disks import DRIVERS
from mooring.testing.simulation.driver_effects import Request, Thing, Verb, apply_effect, thing_is_shown
from mooring.testing.simulation.faults import DEADLINE, Faults, Killed
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.script import DriverStrike
from mooring.world.names import PluginName

Judge = Callable[[Request], None]
"""Looks at a request that has arrived, and accuses whoever sent what must never be asked for."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A request that is being worked on, and the run of the machine it belongs to."""

    request: Request
    boot: int


class Drivers:
    """All drivers of a machine. `held` is what they really have there."""

    def __init__(self, host: MemoryHost, faults: Faults, journal: Journal, root: str) -> None:
        self._host = host
        self._root = root  # of the instance of mooring that asks
        self._faults = faults
        self._journal = journal
        self._strikes: list[tuple[int, DriverStrike]] = []
        self._under_way: list[_Work] = []
        self._boot = 0
        self.judge: Judge = lambda _: None
        self.held: set[Thing] = set()
        self.sizes: dict[Thing, int] = {}  # of what was expanded
        self.away: set[PluginName] = set()
        self._promised: set[Thing] = set()  # its set-up was answered, and nobody has asked to undo it since

    # -- what steps do -------------------------------------------------------------------------------------------
    def arm(self, strike: DriverStrike) -> None:
        self._strikes.append((strike.skip, strike))

    def calm(self) -> None:
        """No fault from now on, and every driver is there."""
        self._strikes.clear()
        self.away.clear()

    def reboot(self) -> None:
        """Attachments stay; everything else and all that was under way is gone."""
        self._boot += 1
        self._under_way.clear()
        self.held = {thing for thing in self.held if thing.kind == "attached"}
        self._promised &= self.held

    def undo(self, thing: Thing) -> None:
        """Take something away by hand, as an administrator does."""
        self._promised.discard(thing)
        self._land(Request(verb=_REVERSE[thing.kind], thing=thing, place=thing.place(self._root)))

    # -- what managers ask for -----------------------------------------------------------------------------------
    async def ask(self, request: Request) -> None:
        """Do it and answer: returns when it is done; `Refused`, `NotYet` or `Doubtful` else."""
        self._faults.passing("before", str(request.verb.value), str(request.thing))
        if request.thing.driver in self.away:
            why = f"the driver {request.thing.driver!r} is not registered"
            raise NotYet(f"cannot {request.verb.value} {request.thing.disk!r}", why=why)
        strike = self._next_strike(request)
        if any(work.request.thing.hinders(request.thing) for work in self._under_way):
            raise Doubtful(f"cannot {request.verb.value} {request.thing}", why="an operation is already under way")
        self.judge(request)
        if request.verb.takes_down:
            self._promised.discard(request.thing)
        try:
            self._faults.passing("during", str(request.verb.value), str(request.thing))
        except Killed:
            self._start(request, 0.5)  # it has been sent, and is done although nobody waits for it any more
            raise
        if strike is None:
            await self._work(request, self._faults.latency())
        else:
            self._journal.faults += 1
            self._journal.note("fault", f"{strike.answer}: {request.verb.value} {request.thing}")
            await self._struck(request, strike)
        self._faults.passing("after", str(request.verb.value), str(request.thing))
        if request.verb.sets_up:
            self._promised.add(request.thing)

    async def _struck(self, request: Request, strike: DriverStrike) -> None:
        what = f"cannot {request.verb.value} {request.thing.disk!r}"
        match strike.answer:
            case "refuse":
                if request.verb.sets_up and request.thing not in self._promised:
                    self._land(request.undoing())  # who refuses has nothing left of what he did not answer before
                raise Refused(what, why="the driver refuses it")
            case "not yet":
                raise NotYet(what, why="the driver waits for something")
            case "slow":
                await self._work(request, strike.seconds)
                return
            case "done":
                self._land(request)
            case "late":
                self._start(request, DEADLINE + strike.seconds)
                await asyncio.sleep(DEADLINE)
            case "hang":
                await asyncio.sleep(DEADLINE)
            case "die":
                self._land(request)
                self._go_away(request.thing.driver, strike.seconds)
            case "undone":
                pass
        raise Doubtful(what, why="no answer came")

    def _next_strike(self, request: Request) -> DriverStrike | None:
        for number, (skip, strike) in enumerate(self._strikes):
            if strike.verb not in ("", request.verb.value):
                continue
            if skip == 0:
                del self._strikes[number]
                return strike
            self._strikes[number] = (skip - 1, strike)
        return None

    def _go_away(self, driver: PluginName, seconds: float) -> None:
        self.away.add(driver)
        asyncio.get_running_loop().call_later(seconds, self.away.discard, driver)

    # -- working -------------------------------------------------------------------------------------------------
    async def _work(self, request: Request, seconds: float) -> None:
        if seconds:
            done = self._start(request, seconds)
            await done
        else:
            self._land(request)

    def _start(self, request: Request, seconds: float) -> asyncio.Future[None]:
        """Let a request be done after a while, whoever waits for it."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        work = _Work(request, self._boot)
        self._under_way.append(work)

        def end() -> None:
            if work.boot == self._boot:
                self._under_way.remove(work)
                self._land(request)
            if not done.done():
                done.set_result(None)

        loop.call_later(seconds, end)
        return done

    def _land(self, request: Request) -> None:
        thing = request.thing
        there = thing in self.held and (thing.kind != "published" or self.is_shown(thing))
        happened = self._faults.act(lambda: apply_effect(self._host, request, there=there))
        if not happened:
            return
        if request.verb.sets_up:
            self.held.add(request.thing)
        elif request.verb.takes_down:
            self.held.discard(request.thing)
            self.sizes.pop(request.thing, None)
        else:
            self.sizes[request.thing] = request.size

    # -- looking -------------------------------------------------------------------------------------------------
    def things(self, disk: str, kind: str) -> Iterator[Thing]:
        """What is there of a disk, in order."""
        return (thing for thing in sorted(self.held) if thing.disk == disk and thing.kind == kind)

    def is_at_work(self, thing: Thing) -> bool:
        return any(work.request.thing == thing for work in self._under_way)

    def is_shown(self, thing: Thing) -> bool:
        """Whether a pod finds at its place what was published for it."""
        return thing in self.held and thing_is_shown(self._host, thing, thing.place(self._root))

    def lowest(self, thing: Thing) -> Thing | None:
        """What must be there below a thing: the stage or the attachment."""
        abilities = DRIVERS[thing.driver]
        if thing.kind == "published" and thing.inline:
            return None
        if thing.kind == "published" and abilities.stages:
            return Thing("staged", thing.driver, thing.disk)
        if thing.kind in ("published", "staged") and abilities.attaches:
            return Thing("attached", thing.driver, thing.disk)
        return None


_REVERSE = {"attached": Verb.DETACH, "staged": Verb.UNSTAGE, "published": Verb.UNPUBLISH}
