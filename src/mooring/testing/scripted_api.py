"""An API that answers reads from a script, and remembers every request."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mooring.kube.api import (
    INITIAL_EVENTS_END,
    LIST_ALL,
    WATCH_ALL,
    ApiError,
    EventType,
    InternalError,
    ListOptions,
    ObjectList,
    Unreadable,
    WatchEvent,
    WatchOptions,
    object_title,
)
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject


@dataclass(frozen=True, slots=True)
class Pause:
    """A step of a watch's script: nothing happens for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StayOpen:
    """The last step of a watch's script: the stream stays open, and the script counts as finished."""


Step = WatchEvent[Any] | Pause | StayOpen | Callable[[], None]
"""An event to send, a pause, staying open, or a function to call (to look at things between two events)."""


class ScriptedApi:
    """A `Reader` with answers prepared in order; a stream closes normally at the end of its steps.

    A request that the script has no answer for is remembered and never answered. Then, or when a stream reaches
    `StayOpen`, `finished` is set.
    """

    def __init__(self) -> None:
        self.requests: list[ListOptions | WatchOptions] = []
        self.times: list[float] = []  # of the requests, on the loop's clock
        self.gets: list[tuple[float, str]] = []  # when, and of which object
        self.streams_opened = 0
        self.streams_closed = 0
        self.finished = asyncio.Event()
        self._gets: deque[KubernetesObject | ApiError] = deque()
        self._lists: deque[ObjectList[Any] | ApiError] = deque()
        self._watches: deque[Sequence[Step] | ApiError] = deque()

    @property
    def lists(self) -> list[ListOptions]:
        return [request for request in self.requests if isinstance(request, ListOptions)]

    @property
    def watches(self) -> list[WatchOptions]:
        return [request for request in self.requests if isinstance(request, WatchOptions)]

    def answer_gets(self, *answers: KubernetesObject | ApiError) -> None:
        self._gets.extend(answers)

    def answer_lists(self, *answers: ObjectList[Any] | ApiError) -> None:
        self._lists.extend(answers)

    def answer_watches(self, *answers: Sequence[Step] | ApiError) -> None:
        """Append answers: an error on opening, or the steps of a stream."""
        self._watches.extend(answers)

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self.gets.append((asyncio.get_running_loop().time(), object_title(kind, namespace, name)))
        if not self._gets:
            await self._stay_silent()
        answer = self._gets.popleft()
        if isinstance(answer, ApiError):
            raise answer
        return cast("ObjectT", answer)

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        self._remember(options)
        if not self._lists:
            await self._stay_silent()
        answer = self._lists.popleft()
        if isinstance(answer, ApiError):
            raise answer
        return cast("ObjectList[ObjectT]", answer)

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        self._remember(options)
        if not self._watches:
            await self._stay_silent()
        answer = self._watches.popleft()
        if isinstance(answer, ApiError):
            raise answer
        self.streams_opened += 1
        try:
            async with contextlib.aclosing(self._play(answer)) as events:
                yield events
        finally:
            self.streams_closed += 1

    async def _play(self, steps: Sequence[Step]) -> AsyncGenerator[WatchEvent[Any], None]:
        for step in steps:
            match step:
                case WatchEvent():
                    yield step
                case Pause():
                    await asyncio.sleep(step.seconds)
                case StayOpen():
                    await self._stay_silent()
                case _:
                    step()

    def _remember(self, options: ListOptions | WatchOptions) -> None:
        self.requests.append(options)
        self.times.append(asyncio.get_running_loop().time())

    async def _stay_silent(self) -> None:
        self.finished.set()
        await asyncio.get_running_loop().create_future()


def added(obj: ObjectT) -> WatchEvent[ObjectT]:
    return _event(EventType.ADDED, obj)


def modified(obj: ObjectT) -> WatchEvent[ObjectT]:
    return _event(EventType.MODIFIED, obj)


def deleted(obj: ObjectT) -> WatchEvent[ObjectT]:
    return _event(EventType.DELETED, obj)


def bookmark(resource_version: str, *, ends_initial: str | None = None) -> WatchEvent[KubernetesObject]:
    """A bookmark; `ends_initial` is the value of the annotation that ends the initial events."""
    annotations = {} if ends_initial is None else {INITIAL_EVENTS_END: ends_initial}
    return WatchEvent(type=EventType.BOOKMARK, resource_version=resource_version, annotations=annotations)


def unreadable(key: str) -> WatchEvent[KubernetesObject]:
    """A change of an object of which nobody can make sense."""
    return WatchEvent(type=EventType.MODIFIED, resource_version="", unreadable=nonsense(key))


def nonsense(key: str) -> Unreadable:
    return Unreadable(key=key, error=InternalError(f"cannot read '{key}'", why="it makes no sense"))


def failed(error: ApiError) -> WatchEvent[KubernetesObject]:
    return WatchEvent(type=EventType.ERROR, resource_version="", error=error)


def _event(event_type: EventType, obj: ObjectT) -> WatchEvent[ObjectT]:
    return WatchEvent(type=event_type, resource_version=obj.metadata.resource_version, object=obj)
