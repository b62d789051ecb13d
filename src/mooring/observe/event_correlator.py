"""What becomes of the things said: a new Event, one more of an Event that was, part of a summary, or nothing.

The rules and figures are those of client-go, which writes the events of a kubelet.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from mooring.kube.objects.meta import ObjectReference
from mooring.observe.events import Said

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

COMBINED = "(combined from similar events): "


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Events are similar that differ in their message alone. `similar` different messages are the first to be combined.

    Each object may have `burst` writes at once, and one more every `refill` seconds.
    """

    similar: int = 10
    window: float = 600.0  # seconds after which similar events are forgotten
    burst: int = 25
    refill: float = 300.0
    remembered: int = 4096  # of each: objects, sorts of similar events, Events


USUAL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Sort:
    """What similar events have in common. Who tells them is always us."""

    object: ObjectReference
    type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How one Event object is to read now. `first` and `last` are nanoseconds of the wall clock."""

    said: Said
    count: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """The Event's name: that of its object, and when it was first seen."""
        return f"{self.said.object.name[:200]}.{self.first:x}"


@dataclass(slots=True)
class _Similar:
    """Messages told of late, at most as many as are told one by one."""

    at: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class _Recent(OrderedDict[KeyT, ValueT], Generic[KeyT, ValueT]):
    """A dict of bounded size: what was not touched for longest goes first."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def touch(self, key: KeyT, value: ValueT) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)


class EventCorrelator:
    """Remembers what was told. It owns no clock: `at` is a steady one's seconds, `stamp` the wall clock's nanoseconds.

    Stamps must be different each time, for they tell Events of one object apart.
    """

    def __init__(self, limits: Limits = USUAL_LIMITS) -> None:
        self._limits = limits
        self._similar: _Recent[Sort, _Similar] = _Recent(limits.remembered)
        self._sightings: _Recent[Said | Sort, Sighting] = _Recent(limits.remembered)
        self._buckets: _Recent[ObjectReference, _Bucket] = _Recent(limits.remembered)

    def observe(self, said: Said, *, at: float, stamp: int) -> Sighting | None:
        """The Event to write, new when its count is one; None when its object has had enough written of late.

        What is not written is counted all the same, so that the next one that is tells of it.
        """
        key: Said | Sort = said
        sort = Sort(said.object, said.type, said.reason)
        if self._is_too_many(sort, said.message, at):
            key, said = sort, replace(said, message=COMBINED + said.message)
        known = self._sightings.get(key)
        if known is None:
            seen = Sighting(said=said, count=1, first=stamp, last=stamp)
        else:
            seen = replace(known, said=said, count=known.count + 1, last=stamp)
        self._sightings.touch(key, seen)
        return seen if self._may_write(said.object, at) else None

    def _is_too_many(self, sort: Sort, message: str, at: float) -> bool:
        """Whether a message comes on top of as many similar ones as are told one by one.

        Those that came first are told by themselves also when they come again.
        """
        known = self._similar.get(sort)
        if known is None or at - known.at > self._limits.window:
            known = _Similar(at)
        known.at = at
        self._similar.touch(sort, known)
        if message in known.messages:
            return False
        if len(known.messages) + 1 >= self._limits.similar:
            return True
        known.messages.add(message)
        return False

    def _may_write(self, about: ObjectReference, at: float) -> bool:
        limits = self._limits
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = _Bucket(limits.burst, at)
        bucket.tokens = min(bucket.tokens + (at - bucket.at) / limits.refill, limits.burst)
        bucket.at = at
        self._buckets.touch(about, bucket)
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True
