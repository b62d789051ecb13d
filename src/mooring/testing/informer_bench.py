"""A bench for the informer stack: pods to play with, a reflector over a script, a handler that takes notes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Collection, Sequence

from mooring.errors import MooringError
from mooring.kube.api import ObjectList
from mooring.kube.backoff import BackoffSettings
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.reflector import Reflector, ReflectorOptions
from mooring.testing.scripted_api import ScriptedApi

STEADY_BACKOFF = BackoffSettings(base=1.0, factor=1.0, cap=1.0, jitter=0.0)
"""Each wait is exactly one second."""


def pod(name: str, version: int | str = "", *, uid: str = "", **labels: str) -> Pod:
    """A pod in the namespace "ns"; with a version it looks as if read from a server."""
    meta = ObjectMeta(name=name, namespace="ns", resource_version=str(version), uid=uid, labels=labels)
    return Pod(metadata=meta)


def listing(version: int | str, *names: str, token: str = "") -> ObjectList[Pod]:
    """The answer to a list of pods."""
    items = [pod(name, version) for name in names]
    return ObjectList(items=items, resource_version=str(version), continue_token=token)


class Mirror:
    """A store for a reflector: keeps the pods by name. It rejects updates labelled "broken"."""

    def __init__(self, *, failing_resync: int | None = None) -> None:
        self.objects: dict[str, Pod] = {}
        self.bookmarks: list[str] = []
        self.replaced_at: list[str] = []
        self.replaced_with: list[int] = []
        self.resyncs = 0
        self._failing_resync = failing_resync

    @property
    def full(self) -> bool:
        return False

    def add(self, obj: Pod) -> None:
        self.objects[obj.metadata.name] = obj

    def update(self, obj: Pod) -> None:
        if "broken" in obj.metadata.labels:
            raise MooringError(f"cannot keep {obj.key!r}", why="it is broken")
        self.objects[obj.metadata.name] = obj

    def delete(self, obj: Pod) -> None:
        self.objects.pop(obj.metadata.name, None)

    def replace(self, items: Sequence[Pod], resource_version: str, unreadable: Collection[str] = ()) -> None:
        kept = {name: obj for name, obj in self.objects.items() if obj.key in unreadable}
        self.objects = kept | {obj.metadata.name: obj for obj in items}
        self.replaced_at.append(resource_version)
        self.replaced_with.append(len(items))

    def bookmark(self, resource_version: str) -> None:
        self.bookmarks.append(resource_version)

    def resync(self) -> None:
        self.resyncs += 1
        if self.resyncs == self._failing_resync:
            raise MooringError("cannot resync", why="it was to fail")

    async def wait_for_room(self) -> None:
        """There is always room."""


class ReflectorBench:
    """A reflector of pods over a scripted API, with everything it says."""

    def __init__(self, options: ReflectorOptions, store: Mirror | None = None) -> None:
        self.api = ScriptedApi()
        self.store = store or Mirror()
        self.errors: list[MooringError] = []
        self.reflector = Reflector(
            self.api,
            POD,
            self.store,
            random_source=random.Random(7),
            options=options,
            on_error=self.errors.append,
        )

    async def run_script(self) -> None:
        """Run the reflector until the script is finished, then cancel it."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.reflector.run())
            await self.api.finished.wait()
            task.cancel()

    def list_requests(self) -> list[tuple[str, int]]:
        """The resourceVersion and limit of each list."""
        return [(request.resource_version, request.limit) for request in self.api.lists]

    def watch_versions(self) -> list[str]:
        return [request.resource_version for request in self.api.watches]


class RecordingHandler:
    """Notes what it hears: "*name" initial, "+name" added, "~name" updated, "-name" deleted, "!name" a tombstone."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.updates: list[tuple[Pod, Pod]] = []

    def on_add(self, obj: Pod, is_initial: bool) -> None:
        self.heard.append(("*" if is_initial else "+") + obj.metadata.name)

    def on_update(self, old: Pod, new: Pod) -> None:
        self.heard.append("~" + new.metadata.name)
        self.updates.append((old, new))

    def on_delete(self, obj: Pod | Tombstone[Pod]) -> None:
        self.heard.append("!" + obj.object.metadata.name if isinstance(obj, Tombstone) else "-" + obj.metadata.name)

    def take(self) -> list[str]:
        """What was heard since the last call."""
        heard, self.heard = self.heard, []
        return heard


@contextlib.asynccontextmanager
async def running(informer: SharedIndexInformer[Pod]) -> AsyncIterator[None]:
    """A synced informer that stops when the context is left."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        try:
            await informer.wait_synced()
            yield
        finally:
            task.cancel()


async def settle() -> None:
    """Let everything run that is ready; for virtual time, which passes only when nothing is."""
    await asyncio.sleep(0.001)
