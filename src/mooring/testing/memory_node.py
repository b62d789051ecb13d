"""A whole node in memory: a manager over a `MemoryHost`, ready for tests and simulations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from mooring.host.atomic_writer import data_directory_name
from mooring.host.paths import Paths
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import Pod
from mooring.manager.pods import PodStates
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.builtin import BUILTIN
from mooring.plugins.interface import NodeFacts, ObjectRef, PluginContext, Tokens, VolumePlugin
from mooring.plugins.manager import VolumePluginManager
from mooring.settings import Settings
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.world.changes import Noticed
from mooring.world.names import PodUid

ROOT = "/var/lib/mooring"
GIBIBYTE = 2**30
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time is 0."""


class MemoryNode:
    """A node whose machine and objects live in memory and outlive its managers, as disk and API do."""

    def __init__(
        self,
        *,
        host: MemoryHost | None = None,
        plugins: Callable[[PluginContext], Iterable[VolumePlugin]] | None = None,
        states: PodStates | None = None,
        settings: Settings | None = None,
        tokens: Tokens | None = None,
        attached_by_others: bool = False,
        seed: int = 0,
    ) -> None:
        self.host = host if host is not None else MemoryHost()
        self.objects = ObjectTable()
        self.paths = Paths(ROOT)
        self.random = random.Random(seed)
        self.settings = settings if settings is not None else Settings(root=ROOT, node_name="memory-node")
        self.facts = NodeFacts(name="memory-node", memory=GIBIBYTE, cpu_milli=2000)
        self._states = states
        self._plugins = plugins
        self._tokens = tokens
        self._attached_by_others = attached_by_others
        self.wall_offset = 0.0  # seconds by which somebody has set the machine's clock
        self.manager = self.new_manager()

    def new_manager(self) -> VolumeManager:
        """A fresh manager on the same machine: what a restart of the process makes."""
        context = PluginContext(
            host=self.host,
            paths=self.paths,
            objects=self.objects,
            node=lambda: self.facts,
            data_directory=self._data_directory,
            tell=self._tell,
            tokens=self._tokens,
            attached_by_others=self._attached_by_others,
        )
        made = self._plugins(context) if self._plugins is not None else (factory(context) for factory in BUILTIN)
        self.manager = VolumeManager(
            settings=self.settings,
            host=self.host,
            paths=self.paths,
            plugins=VolumePluginManager(made),
            claims=self.objects,
            node=lambda: self.facts,
            objects=self.objects,
            states=self._states,
            attached_by_others=self._attached_by_others,
            strict=True,
        )
        return self.manager

    def _tell(self, notice: Noticed) -> None:
        self.manager.tell(notice)

    def _data_directory(self) -> str:
        seconds = asyncio.get_running_loop().time() + self.wall_offset
        return data_directory_name(EPOCH + timedelta(seconds=seconds), self.random)

    @asynccontextmanager
    async def running(self, *, sources_heard: bool = True) -> AsyncIterator[VolumeManager]:
        """The present manager, running; stopped at the end with its volumes in place."""
        manager = self.manager
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(manager.run())
            if sources_heard:
                manager.sources_heard()
            try:
                yield manager
            finally:
                run.cancel()

    # -- what happens around the node ----------------------------------------------------------------------------
    def put(self, obj: KubernetesObject) -> ObjectRef:
        """Create or change an object, and tell the manager."""
        ref = self.objects.put(obj)
        self.manager.object_changed(ref)
        return ref

    def remove(self, ref: ObjectRef) -> None:
        self.objects.remove(ref)
        self.manager.object_changed(ref)

    def add_pod(self, pod: Pod) -> PodUid:
        self.manager.pod_changed(pod)
        return PodUid(pod.metadata.uid)

    def remove_pod(self, uid: PodUid) -> None:
        self.manager.pod_removed(uid)
