"""A manager as the daemon runs it: real host, history on disk, metrics and events; pods come from a library caller."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import floor
from bench.programs import DRIVER
from mooring.csi.drivers import Drivers
from mooring.daemon.building import build_manager, make_host
from mooring.daemon.csi_parts import driver_changed
from mooring.daemon.serve import settle_collector
from mooring.host.paths import Paths
from mooring.kube.local_store import LocalStore, utc_now
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta, ObjectReference
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret, VolumeMount
from mooring.kube.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)
from mooring.manager.volume_manager import VolumeManager
from mooring.observe.events import EventRecorder
from mooring.observe.history import History, Journal
from mooring.observe.metrics import Metrics
from mooring.observe.stored_events import StoredEvents
from mooring.plugins.interface import NodeFacts, ObjectRef
from mooring.settings import Settings
from mooring.sources.object_table import ObjectTable

NAMESPACE = "default"
GIBIBYTE = 2**30


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
    return _pod(number, volumes)


def _pod(number: int, volumes: tuple[Volume, ...]) -> Pod:
    mounts = tuple(VolumeMount(name=volume.name, mount_path=f"/{volume.name}") for volume in volumes)
    meta = ObjectMeta(name=f"pod-{number}", namespace=NAMESPACE, uid=uid(number), labels={"app": "bench"})
    return Pod(metadata=meta, spec=PodSpec(volumes=volumes, containers=(Container(name="main", volume_mounts=mounts),)))


def claiming_pod(number: int, claim: int) -> Pod:
    """A pod with the CSI volume behind the claim of that number."""
    source = PersistentVolumeClaimVolumeSource(claim_name=f"data-{claim}")
    return _pod(number, (Volume(name="data", persistent_volume_claim=source),))


def handle(number: int) -> str:
    return f"volume-{number}"


def csi_objects(volumes: int) -> Iterator[KubernetesObject]:
    """A driver that needs no attaching, and so many bound claims with volumes of it."""
    yield CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=CSIDriverSpec(attach_required=False))
    for number in range(volumes):
        name, modes, size = f"data-{number}", ("ReadWriteOnce",), {"storage": "1Mi"}
        yield PersistentVolume(
            metadata=ObjectMeta(name=f"pv-{number}"),
            spec=PersistentVolumeSpec(
                capacity=size,
                access_modes=modes,
                volume_mode="Filesystem",
                claim_ref=ObjectReference(namespace=NAMESPACE, name=name, uid=f"claim-{number}"),
                csi=CSIPersistentVolumeSource(driver=DRIVER, volume_handle=handle(number)),
            ),
        )
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=f"claim-{number}"),
            spec=PersistentVolumeClaimSpec(access_modes=modes, volume_name=f"pv-{number}", volume_mode="Filesystem"),
            status=PersistentVolumeClaimStatus(phase="Bound", capacity=size),
        )


@dataclass(frozen=True, slots=True)
class BenchNode:
    manager: VolumeManager
    objects: ObjectTable
    drivers: Drivers

    def edit_config(self, files: dict[str, bytes]) -> None:
        self.objects.put(config_map(files))
        self.manager.object_changed(ObjectRef("ConfigMap", NAMESPACE, "settings"))

    async def register(self, endpoint: str) -> None:
        await self.drivers.register(DRIVER, endpoint, ["1.0.0"])


@asynccontextmanager
async def running_node(root: str, *, heard: bool = True) -> AsyncIterator[BenchNode]:
    """A manager at work below root. What it mounted stays when it stops."""
    loop = asyncio.get_running_loop()
    paths, objects = Paths(root), ObjectTable()
    objects.put(config_map(floor.CONFIG))
    objects.put(Secret(metadata=ObjectMeta(name="passwords", namespace=NAMESPACE), data=floor.SECRET))
    facts = NodeFacts(name="bench", memory=GIBIBYTE, cpu_milli=2000)
    settings = Settings(root=root, node_name="bench", share_work=os.environ.get("MOORING_SHARE_WORK", "auto"))
    host = make_host(settings)
    drivers = Drivers(timeout=settings.csi_timeout)
    manager = build_manager(settings, host, objects, lambda: facts, drivers=drivers)
    drivers.changed = lambda name: driver_changed(manager, name)
    store = LocalStore()
    journal = Journal(paths.history_file, size=settings.journal_size, soon=loop.call_soon)
    history = History(length=settings.history_length, wall=time.time, clock=loop.time, journal=journal)
    metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: 0)
    events = EventRecorder(StoredEvents(store, node_name="bench", now=utc_now, lifetime=settings.event_lifetime))
    for listener in (history.listen, metrics.listen, events.listen):
        manager.subscribe(listener)
    async with asyncio.TaskGroup() as tasks:
        work = [tasks.create_task(manager.run()), tasks.create_task(events.run())]
        settle_collector()
        if heard:
            manager.sources_heard()
        try:
            yield BenchNode(manager, objects, drivers)
        finally:
            for task in work:
                task.cancel()
            await drivers.close()
            journal.close()
            await store.close()
            host.close()
