"""The parts of an instance that CSI drivers need: registration, what they say of the node, attaching and growing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mooring.controllers.attachdetach.attachable import AttachableObjects
from mooring.controllers.attachdetach.csi_attacher import CSIAttachController
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.controllers.expander import Expander
from mooring.csi.allocatable import AllocatableRefresher
from mooring.csi.drivers import Driver, Drivers
from mooring.csi.handler import CSIHandler
from mooring.csi.node_info import NodeInfoManager
from mooring.csi.plugin import DRIVER_KIND
from mooring.csi.surroundings import CSIObjects
from mooring.engine.pending import Backoff
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.api import Api
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.local_store import utc_now
from mooring.kube.objects.kinds import CSI_DRIVER, VOLUME_ATTACHMENT
from mooring.kube.objects.storage import VolumeAttachment
from mooring.manager.volume_manager import VolumeManager
from mooring.observe.drivers import Row, driver_rows
from mooring.observe.events import EventRecorder
from mooring.observe.health import HealthWatch, InspectorOf
from mooring.plugins.interface import Inspector, ObjectRef
from mooring.registration.plugin_manager import PluginManager
from mooring.settings import Settings
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIParts:
    """What runs beside the manager so that it can use CSI drivers."""

    drivers: Drivers
    node: NodeInfoManager
    plugins: PluginManager
    expander: Expander | None  # None: others let volumes grow
    health: HealthWatch
    allocatable: AllocatableRefresher
    attacher: CSIAttachController | None  # None: others attach

    def rows(self) -> list[Row]:
        return driver_rows(self.drivers, self.plugins.sockets())

    def findings(self) -> list[Finding]:
        """Sockets whose registration fails, and a directory that cannot be watched."""
        found = [
            Finding(
                kind="driver",
                where=socket.path,
                what=f"{socket.name or 'a plugin'} cannot register, at {socket.failing_step.value!r}: {socket.why}",
                next_step="It is tried again by itself; `mooring get drivers -o json` shows how far it gets",
            )
            for socket in self.plugins.sockets()
            if socket.failing_step is not None
        ]
        problem = self.plugins.problem()
        if problem:
            found.append(Finding(kind="driver", where="", what=problem, next_step="Make the directory usable"))
        return found

    async def run(self) -> None:
        """Register drivers and serve what controllers do, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.plugins.run(), name="plugin registration")
            if self.expander is not None:
                tasks.create_task(self.expander.run(), name="expander")
            tasks.create_task(self.health.run(), name="health")
            tasks.create_task(self.allocatable.run(), name="volume limits")
            if self.attacher is not None:
                tasks.create_task(self.attacher.run(), name="attacher")

    async def close(self) -> None:
        """Let go of the drivers' sockets; what is under way there ends by itself."""
        await self.drivers.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attaching:
    """For a node that attaches by itself: where its VolumeAttachments are, and what is known of volumes."""

    api: Api
    factory: SharedInformerFactory
    objects: AttachableObjects


def make_csi_parts(
    settings: Settings,
    host: Host,
    api: Api,
    factory: SharedInformerFactory,
    drivers: Drivers,
    node: NodeInfoManager,
    objects: CSIObjects,
    manager: VolumeManager,
    events: EventRecorder,
    backoff: Backoff,
    *,
    attaching: Attaching | None,
    expands: bool = True,
) -> CSIParts:
    """The parts, wired: a driver that comes or goes wakes whatever waits for it."""
    attacher = _attacher(settings, api, attaching, drivers, backoff) if attaching is not None else None
    expander = _expander(settings, api, factory, drivers, events, backoff) if expands else None
    plugins = PluginManager(
        host,
        settings.plugin_registry or Paths(settings.root).registry_dir,
        [CSIHandler(drivers, node)],
        static=[each.strip() for each in settings.csi_sockets.split(",") if each.strip()],
        backoff=backoff,
        resync_interval=settings.resync_interval,
    )
    health = HealthWatch(
        manager.desired,
        manager.actual,
        inspectors(manager),
        can_tell=lambda: any(_tells(drivers.get(name)) for name in drivers.names()),
        interval=settings.health_interval,
        tell=manager.tell,
    )
    allocatable = AllocatableRefresher(drivers, node, objects.csi_driver)
    factory.informer(CSI_DRIVER).add_event_handler(
        Handler(
            on_add=lambda each, is_initial: allocatable.wake(),
            on_update=lambda old, new: allocatable.wake(),
            on_delete=lambda each: allocatable.wake(),
        )
    )
    if attaching is not None:
        attaching.factory.informer(VOLUME_ATTACHMENT).add_event_handler(
            Handler(
                on_delete=lambda each: attachment_gone(manager, each.object if isinstance(each, Tombstone) else each)
            )
        )
    drivers.limit_reached = allocatable.ask_now
    drivers.abilities_known = lambda name: health.wake()
    waking: list[Callable[[str], None]] = [lambda name: driver_changed(manager, name)]
    waking += [each.driver_changed for each in (expander, attacher) if each is not None]

    def changed(name: str) -> None:
        for wake in waking:
            wake(name)
        allocatable.wake()

    drivers.changed = changed
    return CSIParts(
        drivers=drivers,
        node=node,
        plugins=plugins,
        expander=expander,
        health=health,
        allocatable=allocatable,
        attacher=attacher,
    )


def _attacher(
    settings: Settings, api: Api, attaching: Attaching, drivers: Drivers, backoff: Backoff
) -> CSIAttachController:
    return CSIAttachController(
        attaching.api,
        attaching.factory,
        drivers,
        attaching.objects,
        DriverSecrets(api),
        now=utc_now,
        backoff=backoff,
        resync_interval=settings.resync_interval,
    )


def _expander(
    settings: Settings,
    api: Api,
    factory: SharedInformerFactory,
    drivers: Drivers,
    events: EventRecorder,
    backoff: Backoff,
) -> Expander:
    return Expander(
        api,
        factory,
        drivers,
        DriverSecrets(api),
        now=utc_now,
        tell=events.claim_changed,
        backoff=backoff,
        resync_interval=settings.resync_interval,
    )


def _tells(driver: Driver | None) -> bool:
    known = driver.node_capabilities if driver is not None else None
    return known is not None and (known.health or known.condition)


def inspectors(manager: VolumeManager) -> InspectorOf:
    """Who can be asked about a volume: its driver, if it is one of CSI."""

    def find(volume: ActualVolume, mount: ActualMount) -> Inspector | None:
        if not mount.spec.csi_driver:
            return None
        return manager.plugins.find_by_name(volume.plugin).offer(mount.spec).inspector

    return find


def driver_changed(manager: VolumeManager, name: str) -> None:
    """A driver came or went: whatever waits for it, to be set up or to be taken away, is tried again at once."""
    manager.object_changed(ObjectRef(DRIVER_KIND, "", name))
    for held in list(manager.actual.volumes.values()):
        if held.spec.csi_driver == name:
            manager.reconciler.resume(held.name)


def attachment_gone(manager: VolumeManager, attachment: VolumeAttachment) -> None:
    """A volume is detached: one that nobody wants, and whose detach had failed, need not rest any longer."""
    for held in list(manager.actual.volumes.values()):
        if held.spec.csi_driver == attachment.spec.attacher and held.name not in manager.desired.volumes:
            manager.reconciler.resume(held.name)
