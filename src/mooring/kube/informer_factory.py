"""SharedInformerFactory: one informer for each kind that is asked for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from mooring.kube.api import ListerWatcher
from mooring.kube.indexer import Lister
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.objects.kinds import Kind, ObjectT, kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.reflector import REFLECT_ALL, ReflectorOptions

Tweak = Callable[[Kind[Any]], ReflectorOptions]


class SharedInformerFactory:
    """Informers by kind, made when first asked for. Only kinds that were asked for are watched.

    `tweak` says what to reflect of a kind (namespace, selectors); `resync_periods` goes by the kind's name.
    `transform` is installed on all informers.
    """

    def __init__(
        self,
        api: ListerWatcher,
        *,
        default_resync: float = 0.0,
        resync_periods: Mapping[str, float] | None = None,
        tweak: Tweak = lambda kind: REFLECT_ALL,
        transform: Callable[[Any], Any] | None = None,
        random_source: random.Random | None = None,
    ) -> None:
        self._api = api
        self._default_resync = default_resync
        self._resync_periods = resync_periods or {}
        self._tweak = tweak
        self._transform = transform
        self._random = random_source or random.Random()
        self._informers: dict[str, SharedIndexInformer[Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._seeds: dict[str, list[Any]] | None = None
        self._shutting_down = False

    def informer(self, kind: Kind[ObjectT]) -> SharedIndexInformer[ObjectT]:
        """The informer of a kind, always the same one."""
        known = self._informers.get(kind.name)
        if known is not None:
            return cast("SharedIndexInformer[ObjectT]", known)
        informer = SharedIndexInformer(
            self._api,
            kind,
            resync_period=self._resync_periods.get(kind.name, self._default_resync),
            options=self._tweak(kind),
            random_source=self._random,
        )
        if self._transform is not None:
            informer.set_transform(self._transform)
        if self._seeds is not None:
            informer.seed(self._seeds.pop(kind.name, ()))
        self._informers[kind.name] = informer
        return informer

    def seed(self, objects: Iterable[KubernetesObject]) -> None:
        """Let all informers begin with what was known before, also those that are asked for later.

        Call it before `start`. A kind of which nothing was known begins with no objects; nothing known at all, as on
        the first start of a node, is no state, and seeds nothing.
        """
        seeds: dict[str, list[Any]] = {}
        for obj in objects:
            seeds.setdefault(kind_of(obj).name, []).append(obj)
        if not seeds:
            return
        self._seeds = seeds
        for name, informer in self._informers.items():
            informer.seed(seeds.pop(name, ()))

    def hurry(self) -> None:
        """Let all informers try again now that wait after a failure: the server serves again."""
        for informer in self._informers.values():
            informer.hurry()

    def lister(self, kind: Kind[ObjectT]) -> Lister[ObjectT]:
        return self.informer(kind).lister()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run the informers that were asked for and do not run yet, as tasks of a group that the caller owns."""
        if self._shutting_down:
            return
        for name, informer in self._informers.items():
            if name not in self._tasks:
                self._tasks[name] = tasks.create_task(informer.run(), name=f"informer of {name}")

    async def wait_for_cache_sync(self, *, timeout: float | None = None) -> Mapping[str, bool]:
        """Wait for the informers started so far; which kinds are synced, by name.

        A kind is false when its informer stopped or when `timeout` seconds passed before its initial list came.
        """
        return await self._wait(SharedIndexInformer.wait_synced, lambda informer: informer.has_synced, timeout)

    async def wait_for_state(self, *, timeout: float | None = None) -> Mapping[str, bool]:
        """Wait for the informers started so far to have a state, seeded or synced; which kinds have one, by name."""
        return await self._wait(SharedIndexInformer.wait_state, lambda informer: informer.has_state, timeout)

    async def _wait(
        self,
        wait: Callable[[SharedIndexInformer[Any]], Awaitable[bool]],
        is_so: Callable[[SharedIndexInformer[Any]], bool],
        timeout: float | None,
    ) -> Mapping[str, bool]:
        started = [self._informers[name] for name in self._tasks]
        try:
            async with asyncio.timeout(timeout):
                for informer in started:
                    await wait(informer)
        except TimeoutError:
            pass
        return {informer.kind.name: is_so(informer) for informer in started}

    def stop(self) -> None:
        """Ask all informers to end; `shutdown` waits until they have."""
        for task in self._tasks.values():
            task.cancel()

    async def shutdown(self) -> None:
        """Start nothing any more, and wait until all informers have ended. It does not end them itself."""
        self._shutting_down = True
        if self._tasks:
            await asyncio.wait(self._tasks.values())
