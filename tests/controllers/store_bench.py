"""A store with informers on it, and a CSI driver beside it, for controllers that bring the two together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

from mooring.csi.drivers import Drivers
from mooring.engine.pending import Backoff
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME, VOLUME_ATTACHMENT, Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.storage import CSINode, CSINodeDriver, CSINodeSpec
from mooring.testing.scripted_csi_driver import ScriptedCSIDriver

NODE = "node-1"
NODE_ID = "id-of-node-1"
SOON = Backoff(initial=0.01, maximum=0.02)
PATIENCE = 20.0


T = TypeVar("T")


class StoreBench:
    """What controllers work on. Whoever waits here is woken by each change of an object."""

    def __init__(self, store: LocalStore, driver: ScriptedCSIDriver) -> None:
        self.store, self.driver = store, driver
        self.factory = SharedInformerFactory(store)
        self.drivers = Drivers(timeout=PATIENCE)
        self._changed = asyncio.Event()
        self.seen: list[KubernetesObject] = []  # every version of every object
        self._watch(CLAIM)
        self._watch(PERSISTENT_VOLUME)
        self._watch(VOLUME_ATTACHMENT)

    def _watch(self, kind: Kind[ObjectT]) -> None:
        self.factory.informer(kind).add_event_handler(
            Handler(
                on_add=lambda obj, is_initial: self._saw(obj),
                on_update=lambda old, new: self._saw(new),
                on_delete=lambda obj: self._changed.set(),
            )
        )

    def _saw(self, obj: KubernetesObject) -> None:
        self.seen.append(obj)
        self._changed.set()

    async def put(self, *objects: KubernetesObject) -> None:
        for each in objects:
            await self.store.create(each)

    async def put_node(self) -> None:
        """The node knows the driver."""
        entry = CSINodeDriver(name=self.driver.name, node_id=NODE_ID)
        await self.put(CSINode(metadata=ObjectMeta(name=NODE), spec=CSINodeSpec(drivers=(entry,))))

    async def register(self) -> None:
        await self.drivers.register(self.driver.name, self.driver.socket, ["1.0.0"])

    async def until(self, answer: Callable[[], Awaitable[T | None]]) -> T:
        """The first answer that is not None, asked for after each change."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._changed.clear()
                given = await answer()
                if given is not None:
                    return given
                await self._changed.wait()

    async def until_called(self, method: str, times: int = 1) -> None:
        """Until the driver was called so often."""
        async with asyncio.timeout(PATIENCE):
            while [call.method for call in self.driver.calls].count(method) < times:
                self.driver.called.clear()
                await self.driver.called.wait()

    @asynccontextmanager
    async def at_work(
        self, controller: Callable[[], Coroutine[None, None, None]], *, registered: bool
    ) -> AsyncIterator[None]:
        """The driver, the informers and a controller run."""
        async with self.driver.serving(), asyncio.TaskGroup() as tasks:
            self.factory.start(tasks)
            running = tasks.create_task(controller())
            if registered:
                await self.register()
            try:
                yield
            finally:
                running.cancel()
                self.factory.stop()
        await self.drivers.close()
