"""Single objects of the API, watched or fetched one by one as long as somebody needs them.

A node may not list config maps, secrets, claims or volumes: it may read those that its pods use, each by its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.errors import MooringError
from mooring.kube.api import ApiError, InternalError, NotFound, Reader
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.gated_reader import GatedReader
from mooring.kube.object_tracking import (
    FIRST_RETRY,
    LONGEST_RETRY,
    RETRY_JITTER,
    Fetch,
    ObjectKey,
    Strategy,
    Watch,
    replaces,
    retry_delay,
    went_back,
)
from mooring.kube.objects.kinds import Kind, ObjectT, kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.reflector import Reflector, ReflectorOptions

__all__ = ["Fetch", "ObjectKey", "Strategy", "TrackedObjects", "Watch"]

log = logging.getLogger(__name__)

_WATCH_BACKOFF = BackoffSettings(base=FIRST_RETRY, cap=LONGEST_RETRY, jitter=RETRY_JITTER)


@dataclass(slots=True)
class _Entry:
    """What is known of one object."""

    owners: dict[str, int] = field(default_factory=dict)  # and the first read that is news to each
    object: KubernetesObject | None = None
    known: bool = False
    seeded: bool = False  # known from before only: any answer is newer, whatever its version
    error: ApiError | None = None
    failures: int = 0  # in a row
    same: int = 0  # answers in a row that brought nothing new
    reads: int = 0  # begun so far
    answered: int = 0  # the last read that was
    told: asyncio.Event = field(default_factory=asyncio.Event)  # of the next answer, or that it is needed no more
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # somebody wants it looked at now
    task: asyncio.Task[None] | None = None
    reflector: Reflector[Any] | None = None  # that follows it


class TrackedObjects:
    """A cache of what is needed. All look-ups answer at once; `changed` is called for each change while it runs.

    A server that is away costs nothing but retries: what was known stays. An object that is needed no more is
    forgotten. `strategies` are by the name of the kind.
    """

    def __init__(
        self,
        api: Reader,
        *,
        strategies: Mapping[str, Strategy],
        changed: Callable[[ObjectKey], None],
        random_source: random.Random | None = None,
    ) -> None:
        self._api = GatedReader(api)
        self._strategies = strategies
        self._changed = changed
        self._random = random_source or random.Random()
        self._entries: dict[ObjectKey, _Entry] = {}
        self._needed: dict[str, frozenset[ObjectKey]] = {}  # by owner
        self._seeds: dict[ObjectKey, KubernetesObject] = {}  # that nobody has needed yet
        self._unserved: dict[ObjectKey, None] = {}  # in order
        self._wake = asyncio.Event()

    # -- what is needed --------------------------------------------------------------------------------------------
    def need(self, owner: str, keys: Collection[ObjectKey]) -> None:
        """Let this be all that an owner needs. Nothing is asked before the next turn of the loop."""
        before, after = self._needed.get(owner, frozenset()), frozenset(keys)
        if before == after:
            return
        for key in keys:
            if key not in before:
                self._add(owner, key)
        for key in before - after:
            self._release(owner, key)
        if after:
            self._needed[owner] = after
        else:
            del self._needed[owner]

    def _add(self, owner: str, key: ObjectKey) -> None:
        if key.kind.name not in self._strategies:
            raise ValueError(f"no strategy is given for {key.kind}")
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
            if (seed := self._seeds.pop(key, None)) is not None:
                _plant(entry, seed)
            self._unserved[key] = None
            self._wake.set()
        elif entry.known:
            self.look_again(key)  # who comes later may rely on what was written later
        entry.owners[owner] = entry.reads + 1 if self._may_have_changed(key, entry) else 0

    def _may_have_changed(self, key: ObjectKey, entry: _Entry) -> bool:
        """Whether an object may be another by now than an answer said. Nobody need wait for more than a seed."""
        return entry.known and not entry.seeded and not self._is_watched(key, entry)

    def _is_watched(self, key: ObjectKey, entry: _Entry) -> bool:
        return isinstance(self._strategies[key.kind.name], Watch) and not _is_immutable(entry.object)

    def _release(self, owner: str, key: ObjectKey) -> None:
        entry = self._entries[key]
        del entry.owners[owner]
        if not entry.owners:
            del self._entries[key]
            self._unserved.pop(key, None)
            entry.told.set()
            if entry.task is not None:
                entry.task.cancel()

    def look_again(self, key: ObjectKey) -> None:
        """Read an object now, or once more after the read that is under way. One that is watched needs none."""
        if (entry := self._entries.get(key)) is not None:
            entry.same = 0
            entry.asked.set()

    def hurry(self) -> None:
        """Try again now what failed last, and open again the watches that wait: the server serves again."""
        for entry in self._entries.values():
            if entry.reflector is not None:
                entry.reflector.hurry()
            if entry.error is not None:
                entry.failures = 0
                entry.asked.set()

    def seed(self, objects: Iterable[KubernetesObject]) -> None:
        """Take last known values: as good as answers until the server gives one. Answers win over seeds."""
        for obj in objects:
            kind, meta = kind_of(obj), obj.metadata
            key = ObjectKey(kind, meta.namespace if kind.namespaced else "", meta.name)
            entry = self._entries.get(key)
            if entry is None:
                self._seeds[key] = obj
            elif not entry.known:
                _plant(entry, obj)
                self._changed(key)

    def forget_seeds(self) -> None:
        """Drop the seeds that nobody has needed."""
        self._seeds.clear()

    # -- what is known ---------------------------------------------------------------------------------------------
    def get(self, key: ObjectKey) -> KubernetesObject | None:
        entry = self._entries.get(key)
        return entry.object if entry is not None else None

    def find(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT | None:
        """As `get`, with the type of the kind."""
        found = self.get(ObjectKey(kind, namespace, name))
        return found if isinstance(found, kind.type) else None

    def owners(self, key: ObjectKey) -> tuple[str, ...]:
        """Who needs an object now."""
        return tuple(entry.owners) if (entry := self._entries.get(key)) is not None else ()

    def is_known(self, key: ObjectKey) -> bool:
        """Whether the server has said what the object is, or that there is none, since it was first needed."""
        return (entry := self._entries.get(key)) is not None and entry.known

    def is_served(self, owner: str) -> bool:
        """Whether all that an owner needs is known, and was read since it came where it could have changed unseen."""
        return all(self._serves(owner, key) for key in self._needed.get(owner, ()))

    def _serves(self, owner: str, key: ObjectKey) -> bool:
        entry = self._entries[key]
        return entry.known and entry.answered >= entry.owners[owner]

    def error(self, key: ObjectKey) -> ApiError | None:
        """Why the last try failed; None after one that did not."""
        return entry.error if (entry := self._entries.get(key)) is not None else None

    async def until_known(self, keys: Collection[ObjectKey], *, timeout: float) -> bool:
        """Whether all are known, after at most so many seconds. What nobody needs never is."""
        try:
            async with asyncio.timeout(timeout):
                for key in keys:
                    while (entry := self._entries.get(key)) is not None and not entry.known:
                        await entry.told.wait()
        except TimeoutError:
            pass
        return all(map(self.is_known, keys))

    async def until_served(self, owner: str) -> None:
        """Return when all that an owner needs now is as `is_served` says."""
        for key in self._needed.get(owner, frozenset()):
            while key in self._needed.get(owner, ()) and not self._serves(owner, key):
                await self._entries[key].told.wait()

    def __iter__(self) -> Iterator[ObjectKey]:
        """What is needed now, oldest first."""
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    # -- asking ----------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Serve until cancelled."""
        self._unserved = dict.fromkeys(self._entries)
        self._wake.set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for key in self._unserved:
                    entry = self._entries[key]
                    entry.task = tasks.create_task(self._serve(key, entry), name=f"track {key}")
                self._unserved.clear()

    async def _serve(self, key: ObjectKey, entry: _Entry) -> None:
        match self._strategies[key.kind.name]:
            case Watch() as strategy:
                while True:
                    entry.asked.clear()
                    entry.reads += 1
                    with contextlib.suppress(_ReadForGood):
                        await self._follow(key, entry, strategy)
                    await entry.asked.wait()  # another may have taken its name by the time that another pod needs it
            case Fetch() as strategy:
                await self._fetch(key, entry, strategy)

    async def _fetch(self, key: ObjectKey, entry: _Entry, strategy: Fetch) -> None:
        pause: float | None
        while True:
            entry.asked.clear()
            entry.reads += 1
            try:
                found = await self._api.get(key.kind, key.namespace, key.name)
                self._learn(key, entry, found, is_newest=True)
                pause = strategy.again(entry.object, entry.same)
            except NotFound:
                self._learn(key, entry, None)
                pause = strategy.again(None, entry.same)
            except ApiError as error:
                pause = self._failed(key, entry, error)
            await _rest(entry, pause)

    async def _follow(self, key: ObjectKey, entry: _Entry, strategy: Watch) -> None:
        options = ReflectorOptions(
            namespace=key.namespace,
            field_selector=key.field_selector,
            watch_list=False,  # for one object a list is as cheap, and its refusals come back here
            shortest_watch_timeout=strategy.shortest_timeout,
            backoff=_WATCH_BACKOFF,
        )
        feed = _Feed(lambda found, version: self._learn_for_good(key, entry, found, version))
        reflector = entry.reflector = Reflector(self._api, key.kind, feed, random_source=self._random, options=options)
        if entry.object is not None and entry.object.metadata.resource_version.isdigit():
            reflector.last_resource_version = entry.object.metadata.resource_version  # nothing older is of interest
        between = Backoff(_WATCH_BACKOFF, self._random)
        while True:
            error = await reflector.list_and_watch()
            entry.asked.clear()
            await _rest(entry, self._failed(key, entry, _as_api_error(error)) if error else between.step())

    def _learn_for_good(self, key: ObjectKey, entry: _Entry, found: KubernetesObject | None, version: str) -> None:
        self._learn(key, entry, found, is_newest=went_back(version, entry.object))
        if _is_immutable(entry.object):
            raise _ReadForGood

    def _learn(self, key: ObjectKey, entry: _Entry, found: KubernetesObject | None, *, is_newest: bool = False) -> None:
        news = found != entry.object if entry.seeded else replaces(found, entry.object, is_newest=is_newest)
        entry.same = 1 if news else entry.same + 1
        entry.error, entry.failures, entry.seeded = None, 0, False
        if news:
            entry.object = found
        entry.answered = entry.reads
        is_first, entry.known = not entry.known, True
        _tell(entry)
        if (news or is_first) and self._entries.get(key) is entry:
            self._changed(key)

    def _failed(self, key: ObjectKey, entry: _Entry, error: ApiError) -> float:
        """Seconds until the next try."""
        entry.error, entry.failures = error, entry.failures + 1
        if entry.failures == 1:
            log.info("cannot read %s yet: %s", key, error)
        return retry_delay(error, entry.failures) * (1.0 + RETRY_JITTER * self._random.random())


class _ReadForGood(Exception):
    """An immutable object was read: no watch will tell more of it than that it is gone."""


def _is_immutable(found: KubernetesObject | None) -> bool:
    return bool(getattr(found, "immutable", False))


def _plant(entry: _Entry, seed: KubernetesObject) -> None:
    entry.object, entry.seeded, entry.known = seed, True, True
    _tell(entry)


def _tell(entry: _Entry) -> None:
    """Wake whoever waits for an answer; who waits from now on waits for the next one."""
    told, entry.told = entry.told, asyncio.Event()
    told.set()


def _as_api_error(error: MooringError) -> ApiError:
    return error if isinstance(error, ApiError) else InternalError(error.what, why=error.why)


async def _rest(entry: _Entry, seconds: float | None) -> None:
    """Wait until it is time to ask, or somebody wants to know now."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await entry.asked.wait()


class _Feed:
    """What a reflector of one object feeds. `learn` is told the object, and the version of the list it came in."""

    full = False

    def __init__(self, learn: Callable[[KubernetesObject | None, str], None]) -> None:
        self._learn = learn

    def add(self, obj: KubernetesObject) -> None:
        self._learn(obj, "")

    update = add

    def delete(self, obj: KubernetesObject) -> None:
        self._learn(None, "")

    def replace(
        self, items: Sequence[KubernetesObject], resource_version: str, unreadable: Collection[str] = ()
    ) -> None:
        if unreadable:
            raise InternalError("cannot read it", why="the API server's answer makes no sense")
        self._learn(items[0] if items else None, resource_version)

    def bookmark(self, resource_version: str) -> None:
        return None

    def resync(self) -> None:
        return None

    async def wait_for_room(self) -> None:
        return None
