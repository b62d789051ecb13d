"""Makes a failing script short: what can be left out while the same invariant still fails is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from mooring.testing.simulation.runner import History, run_script
from mooring.testing.simulation.script import (
    AnyStep,
    BreakReads,
    Crash,
    DriverStrike,
    Ending,
    Pass,
    PutClaim,
    PutPod,
    Restart,
    Script,
    Strike,
    Turn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The shortest failing history found, and how many were run to find it."""

    history: History
    tries: int


def shrink(failing: History, *, run: Callable[[Script], History] = run_script, most_tries: int = 2000) -> Shrunk:
    """Shrink a history whose violation is not None."""
    return _Shrinker(failing, run, most_tries).shrink()


class _Shrinker:
    def __init__(self, failing: History, run: Callable[[Script], History], most_tries: int) -> None:
        assert failing.violation is not None
        self._invariant = failing.violation.invariant
        self._best = failing
        self._run = run
        self._most_tries = most_tries
        self._tries = 0

    def shrink(self) -> Shrunk:
        progress = True
        while progress and self._tries < self._most_tries:
            progress = any([self._drop_steps(), self._simplify_steps(), self._drop_latency()])
        return Shrunk(history=self._best, tries=self._tries)

    def _fails(self, script: Script) -> bool:
        """Whether the same invariant fails; if so this script is the best one from now on."""
        if self._tries >= self._most_tries:
            return False
        self._tries += 1
        history = self._run(script)
        if history.violation is None or history.violation.invariant != self._invariant:
            return False
        self._best = history
        return True

    @property
    def _steps(self) -> tuple[AnyStep, ...]:
        return self._best.script.steps

    def _with(self, steps: tuple[AnyStep, ...]) -> Script:
        return msgspec.structs.replace(self._best.script, steps=steps)

    def _drop_steps(self) -> bool:
        """Leave out ever smaller runs of steps, the later ones first."""
        before = len(self._steps)
        size = max(1, before // 2)
        while True:
            start = len(self._steps) - size
            while start >= 0:
                self._fails(self._with(self._steps[:start] + self._steps[start + size :]))
                start = min(start - size, len(self._steps) - size)
            if size == 1:
                return len(self._steps) < before
            size //= 2

    def _simplify_steps(self) -> bool:
        progress = False
        for number in range(len(self._steps)):
            for simpler in _simpler(self._steps[number]):
                if self._fails(self._with((*self._steps[:number], simpler, *self._steps[number + 1 :]))):
                    progress = True
                    break
        return progress

    def _drop_latency(self) -> bool:
        script = self._best.script
        return script.latency > 0 and self._fails(msgspec.structs.replace(script, latency=0.0))


def _simpler(step: AnyStep) -> Iterator[AnyStep]:
    """Steps that do a little less than this one."""
    if isinstance(step, PutPod):
        for volume in step.pod.volumes:
            rest = tuple(each for each in step.pod.volumes if each is not volume)
            yield PutPod(pod=msgspec.structs.replace(step.pod, volumes=rest))
        if step.pod.fs_group is not None:
            yield PutPod(pod=msgspec.structs.replace(step.pod, fs_group=None))
    if isinstance(step, Ending):
        for field, plain in (("lost", ()), ("told_after", 0.0), ("heard_after", 0.0)):
            if getattr(step, field) != plain:
                yield msgspec.structs.replace(step, **{field: plain})
    if isinstance(step, Crash):
        yield Restart(lost=step.lost, told_after=step.told_after, heard_after=step.heard_after)
    if isinstance(step, Crash | Strike | DriverStrike | BreakReads) and step.skip:
        yield from (msgspec.structs.replace(step, skip=skip) for skip in (0, step.skip // 2, step.skip - 1))
    if isinstance(step, Strike):
        for field in ("seconds", "call"):
            if getattr(step, field):
                yield msgspec.structs.replace(step, **{field: 0})
    if isinstance(step, DriverStrike) and step.seconds > 1:
        yield msgspec.structs.replace(step, seconds=1.0)
    if isinstance(step, BreakReads) and step.reads > 1:
        yield msgspec.structs.replace(step, reads=1)
    if isinstance(step, PutClaim) and (step.generation or step.size > 1):
        yield PutClaim(disk=step.disk)
    if isinstance(step, Turn) and step.turns > 1:
        yield Turn()
    if isinstance(step, Pass) and step.seconds > 1:
        yield Pass(seconds=1.0)
