"""Operations under way, and the pauses of those that failed: who may start now."""

from __future__ import annotations

import msgspec


class Slot(msgspec.Struct, frozen=True):
    """What an operation works on: one part of a key, or with `part=None` the whole of it.

    The whole conflicts with everything of the same key; two different parts do not conflict.
    """

    key: str
    part: str | None = None
    owner: str | None = None  # the part for whose sake the whole is taken: a failure pauses that part alone

    @property
    def paused_part(self) -> str | None:
        """The part that rests after a failure here."""
        return self.part if self.part is not None else self.owner


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How pauses grow: the first failure waits `initial`, each further one twice as long, up to `maximum`."""

    initial: float = 0.5
    maximum: float = 122.0

    def after(self, failures: int) -> float:
        """The pause after this many failures in a row."""
        return min(self.initial * 2.0 ** min(failures - 1, 64), self.maximum)


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A failed operation kind that rests until `until` (time of the loop's clock)."""

    failures: int
    until: float


class PendingOperations:
    """The table of running operations and of pauses. It owns no clock and starts nothing."""

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self._running: dict[str, dict[str | None, str]] = {}
        self._pauses: dict[str, dict[tuple[str | None, str], Pause]] = {}
        self.running_count = 0

    def is_busy(self, slot: Slot) -> bool:
        """Whether a running operation conflicts with this slot."""
        running = self._running.get(slot.key)
        if not running:
            return False
        return slot.part is None or None in running or slot.part in running

    def running(self, key: str) -> dict[str | None, str]:
        """The kinds of operations under way on a key, by part."""
        return dict(self._running.get(key, ()))

    def pause(self, slot: Slot, kind: str) -> Pause | None:
        """The pause of this kind on this slot, over or not; None when its last try did not fail."""
        return self._pauses.get(slot.key, {}).get((slot.paused_part, kind))

    def start(self, slot: Slot, kind: str) -> None:
        """Occupy a slot. The caller has asked `is_busy` without awaiting in between."""
        if self.is_busy(slot):
            raise RuntimeError(f"an operation on {slot} is already under way")
        self._running.setdefault(slot.key, {})[slot.part] = kind
        self.running_count += 1

    def finish(self, slot: Slot, kind: str, *, failed: bool, now: float) -> None:
        """Free a slot. A failure begins or doubles the pause of this kind; a success ends it."""
        parts = self._running[slot.key]
        del parts[slot.part]
        if not parts:
            del self._running[slot.key]
        self.running_count -= 1
        if failed:
            before = self.pause(slot, kind)
            failures = before.failures + 1 if before else 1
            pause = Pause(failures=failures, until=now + self.backoff.after(failures))
            self._pauses.setdefault(slot.key, {})[slot.paused_part, kind] = pause
        else:
            self._drop_pause(slot, kind)

    def _drop_pause(self, slot: Slot, kind: str) -> None:
        pauses = self._pauses.get(slot.key)
        if pauses is not None:
            pauses.pop((slot.paused_part, kind), None)
            if not pauses:
                del self._pauses[slot.key]

    def resume(self, key: str) -> None:
        """End all pauses of a key now, because something it waited for has changed; failures stay counted."""
        pauses = self._pauses.get(key)
        if pauses:
            self._pauses[key] = {at: Pause(failures=pause.failures, until=0.0) for at, pause in pauses.items()}

    def resting(self) -> tuple[str, ...]:
        """The keys of which something rests, oldest first."""
        return tuple(self._pauses)

    def forget(self, key: str, part: str | None = None) -> None:
        """Drop the pauses of a key (or of one part of it) whose wish has gone."""
        if part is None:
            self._pauses.pop(key, None)
            return
        pauses = self._pauses.get(key)
        if pauses is None:
            return
        for at in [at for at in pauses if at[0] == part]:
            del pauses[at]
        if not pauses:
            del self._pauses[key]

    def is_empty(self) -> bool:
        """Whether nothing runs and nothing rests."""
        return not self._running and not self._pauses
