"""A manager as the daemon runs it: real host, history on disk, metrics and events; pods come from a library caller."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import floor
from mooring.daemon.building import build_manager
from mooring.host.linux import LinuxHost
from mooring.host.paths import Paths
from mooring.kube.local_store import LocalStore, utc_now
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret, VolumeMount
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    ObjectFieldSelector,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)
from mooring.manager.volume_manager import VolumeManager
from mooring.observe.events import EventRecorder
from mooring.observe.history import History, Journal
from mooring.observe.metrics import Metrics
from mooring.plugins.interface import NodeFacts, ObjectRef
from mooring.settings import Settings
from mooring.sources.object_table import ObjectTable

NAMESPACE = "default"
GIBIBYTE = 2**30
_NAMES = ("config", "secret", "projected", "memory")


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def config_map(files: dict[str, bytes]) -> ConfigMap:
    data = {key: value.decode() for key, value in files.items()}
    return ConfigMap(metadata=ObjectMeta(name="settings", namespace=NAMESPACE), data=data)


def pod(number: int) -> Pod:
    """The pod of four volumes that `floor.set_up_pod` makes: three of them in memory."""
    labels = DownwardAPIVolumeFile(path="labels", field_ref=ObjectFieldSelector(field_path="metadata.labels"))
    sources = (
        VolumeProjection(config_map=ConfigMapProjection(name="settings")),
        VolumeProjection(downward_api=DownwardAPIProjection(items=(labels,))),
    )
    volumes = (
        Volume(name="config", config_map=ConfigMapVolumeSource(name="settings", default_mode=0o644)),
        Volume(name="secret", secret=SecretVolumeSource(secret_name="passwords", default_mode=0o644)),
        Volume(name="projected", projected=ProjectedVolumeSource(sources=sources, default_mode=0o644)),
        Volume(name="memory", empty_dir=EmptyDirVolumeSource(medium="Memory")),
    )
    mounts = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in _NAMES)
    meta = ObjectMeta(name=f"pod-{number}", namespace=NAMESPACE, uid=uid(number), labels={"app": "bench"})
    return Pod(metadata=meta, spec=PodSpec(volumes=volumes, containers=(Container(name="main", volume_mounts=mounts),)))


@dataclass(frozen=True, slots=True)
class BenchNode:
    manager: VolumeManager
    objects: ObjectTable

    def edit_config(self, files: dict[str, bytes]) -> None:
        self.objects.put(config_map(files))
        self.manager.object_changed(ObjectRef("ConfigMap", NAMESPACE, "settings"))


@asynccontextmanager
async def running_node(root: str, *, heard: bool = True) -> AsyncIterator[BenchNode]:
    """A manager at work below root. What it mounted stays when it stops."""
    loop = asyncio.get_running_loop()
    paths, objects = Paths(root), ObjectTable()
    objects.put(config_map(floor.CONFIG))
    objects.put(Secret(metadata=ObjectMeta(name="passwords", namespace=NAMESPACE), data=floor.SECRET))
    facts = NodeFacts(name="bench", memory=GIBIBYTE, cpu_milli=2000)
    settings = Settings(root=root, node_name="bench")
    manager = build_manager(settings, LinuxHost(), objects, lambda: facts)
    store = LocalStore()
    journal = Journal(paths.history_file, size=settings.journal_size, soon=loop.call_soon)
    history = History(length=settings.history_length, wall=time.time, clock=loop.time, journal=journal)
    metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: 0)
    events = EventRecorder(store, node_name="bench", now=utc_now, lifetime=settings.event_lifetime)
    for listener in (history.listen, metrics.listen, events.listen):
        manager.subscribe(listener)
    async with asyncio.TaskGroup() as tasks:
        work = [tasks.create_task(manager.run()), tasks.create_task(events.run())]
        gc.collect()
        gc.freeze()
        if heard:
            manager.sources_heard()
        try:
            yield BenchNode(manager, objects)
        finally:
            for task in work:
                task.cancel()
            journal.close()
            await store.close()
