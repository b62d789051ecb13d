"""The one place where the controllers of `mooring controller` are put together."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mooring.controllers.attachdetach.attachable import InformedObjects
from mooring.controllers.attachdetach.attachers import AttacherByType, CSIVolumeAttacher, NetworkDiskAttacher
from mooring.controllers.attachdetach.controller import AttachDetachController, Timing
from mooring.controllers.attachdetach.csi_attacher import CSIAttachController
from mooring.controllers.attachdetach.orders import ApiAttachmentOrders
from mooring.controllers.attachdetach.outcomes import Watcher
from mooring.controllers.claims_controller import ClaimsController
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.controllers.ephemeral import EphemeralClaims
from mooring.controllers.expander import Expander
from mooring.csi.drivers import Drivers
from mooring.csi.handler import CSIHandler
from mooring.daemon.followed_factory import FollowedFactory
from mooring.engine.pending import Backoff
from mooring.host.linux import LinuxHost
from mooring.kube.api import Api
from mooring.kube.local_store import utc_now
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.kube.objects.pod import Pod
from mooring.observe.cluster_events import ClusterEvents
from mooring.observe.events import EventRecorder
from mooring.registration.plugin_manager import PluginManager
from mooring.settings import Settings
from mooring.world.changes import Noticed

log = logging.getLogger(__name__)

ATTACH_DETACH, CSI_ATTACHER, BINDER, EPHEMERAL, EXPANDER = (
    "attach-detach", "csi-attacher", "binder", "ephemeral", "expander",
)  # fmt: skip
CONTROLLERS = (ATTACH_DETACH, CSI_ATTACHER, BINDER, EPHEMERAL, EXPANDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `mooring controller` was told."""

    controllers: frozenset[str] = frozenset(CONTROLLERS)
    lease: tuple[str, str] | None = ("kube-system", "mooring-controller")  # None: nobody is asked who leads
    csi_sockets: Sequence[str] = ()
    metrics_address: tuple[str, int] | None = None


class Term:
    """The controllers, from the moment this process leads until it does no more. Nothing of it is used again."""

    def __init__(
        self, api: Api, settings: Settings, options: Options, drivers: Drivers, watcher: Watcher, registry_dir: str
    ) -> None:
        self._settings, self._options, self.drivers = settings, options, drivers
        self._factory = factory = FollowedFactory(api)
        self._backoff = Backoff(initial=settings.backoff_initial, maximum=settings.backoff_maximum)
        self._writes = partial(ClusterEvents, api, node_name="", random_source=random.Random())
        self.attach_detach: AttachDetachController | None = None
        self._running: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        chosen = options.controllers
        if ATTACH_DETACH in chosen:
            self._add_attach_detach(api, watcher)
        if BINDER in chosen:
            self._add_binder(api)
        if EPHEMERAL in chosen:
            ephemeral = EphemeralClaims(
                api,
                factory,
                tell=self._events("ephemeral_volume").pod_waits,
                backoff=self._backoff,
                resync_interval=settings.resync_interval,
            )
            self._running.append((EPHEMERAL, ephemeral.run))
        self.plugins: PluginManager | None = None
        if options.csi_sockets or settings.plugin_registry:  # without drivers, nobody reads the Secrets of a cluster
            self._add_drivers(api, registry_dir)

    def _events(self, component: str) -> EventRecorder:
        """Who tells what a controller has to say, under the name of Kubernetes' own one."""
        made = EventRecorder(self._writes(component=component))
        self._running.append((f"events of {component}", made.run))
        return made

    def _add_attach_detach(self, api: Api, watcher: Watcher) -> None:
        settings, events = self._settings, self._events("attachdetach-controller")

        def tell(pod: Pod, reason: str, message: str, warning: bool) -> None:
            events.listen(Noticed(pod=pod, volume="", reason=reason, message=message, warning=warning))

        known = self._factory.informer(VOLUME_ATTACHMENT).indexer.get_by_key
        orders = ApiAttachmentOrders(api, self._factory)
        made = AttachDetachController(
            api,
            self._factory,
            AttacherByType(CSIVolumeAttacher(orders, known, timeout=settings.csi_timeout), NetworkDiskAttacher()),
            tell=tell,
            watcher=watcher,
            backoff=self._backoff,
            timing=Timing(
                max_wait_for_unmount=settings.force_detach_after,
                force_detach_on_timeout=settings.force_detach == "on",
            ),
        )
        self.attach_detach = made
        self._running.append((ATTACH_DETACH, made.run))

    def _add_binder(self, api: Api) -> None:
        """Of no claim is known here what nodes hold of it: pods that use it say enough. No volume has a node to fit."""
        made = ClaimsController(
            api,
            self._factory,
            is_held=lambda claim: False,
            fits_node=lambda volume: True,
            now=utc_now,
            tell=self._events("persistentvolume-controller").claim_changed,
            backoff=self._backoff,
            resync_interval=self._settings.resync_interval,
            scheduled=True,
        )
        self._running.append((BINDER, made.run))

    def _add_drivers(self, api: Api, registry_dir: str) -> None:
        settings, waking = self._settings, list[Callable[[str], None]]()
        if CSI_ATTACHER in self._options.controllers:
            attacher = CSIAttachController(
                api,
                self._factory,
                self.drivers,
                InformedObjects(self._factory),
                DriverSecrets(api),
                now=utc_now,
                backoff=self._backoff,
                resync_interval=settings.resync_interval,
            )
            waking.append(attacher.driver_changed)
            self._running.append((CSI_ATTACHER, attacher.run))
        if EXPANDER in self._options.controllers:
            expander = Expander(
                api,
                self._factory,
                self.drivers,
                DriverSecrets(api),
                now=utc_now,
                tell=self._events("external-resizer").claim_changed,
                backoff=self._backoff,
                resync_interval=settings.resync_interval,
            )
            waking.append(expander.driver_changed)
            self._running.append((EXPANDER, expander.run))
        if not waking:
            return

        def changed(name: str) -> None:
            for wake in waking:
                wake(name)

        self.drivers.changed = changed
        self.plugins = PluginManager(
            LinuxHost(deadline=settings.host_call_timeout),
            settings.plugin_registry or registry_dir,
            [CSIHandler(self.drivers)],
            static=self._options.csi_sockets,
            backoff=self._backoff,
            resync_interval=settings.resync_interval,
        )
        self._running.append(("drivers", self.plugins.run))

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._factory.start(tasks)
                for name, run in self._running:
                    tasks.create_task(run(), name=name)
        finally:
            await self.drivers.close()
