"""The one place where an instance over manifests is put together: store, informers, sources and controllers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mooring.controllers.attachdetach import attachable
from mooring.controllers.claims_controller import ClaimsController
from mooring.controllers.ephemeral import EphemeralClaims
from mooring.controllers.flex_driver_watcher import FlexDriverWatcher
from mooring.controllers.limit_watcher import LimitWatcher
from mooring.controllers.token_signer import NodeIdentity, TokenSigner, default_issuer
from mooring.csi.node_info import NodeInfoManager
from mooring.daemon.csi_parts import Attaching, CSIParts
from mooring.daemon.node_facts import node_facts, node_name
from mooring.daemon.node_parts import Surroundings, make_node, usual_backoff
from mooring.daemon.runs import PodsAndRuns
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore, utc_now
from mooring.kube.objects.kinds import CLAIM, POD
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.manager.node_affinity import matches_node
from mooring.manager.pods import KnownPods
from mooring.manager.volume_manager import VolumeManager
from mooring.observe.control import OpenId
from mooring.observe.events import EventRecorder
from mooring.observe.history import History, Journal
from mooring.observe.metrics import Metrics
from mooring.observe.status import Status
from mooring.observe.stored_events import StoredEvents
from mooring.observe.usage import UsageMeter
from mooring.runtimes.supervisor import RunSupervisor
from mooring.settings import Settings
from mooring.sources.informed import InformedObjects, InformedPods
from mooring.sources.manifest_directory import ManifestDirectory
from mooring.sources.manifest_files import ManifestFiles
from mooring.world.changes import Change, Finished
from mooring.world.operations import Detach, Unmount, Unstage


class PodSource(Protocol):
    """Where the pods of this node come from."""

    @property
    def heard(self) -> asyncio.Event:
        """Set once all pods that there were at the start have been told of."""
        ...

    @property
    def known(self) -> asyncio.Event:
        """Set at the latest then; before, where the pods of an earlier view serve for the time being."""
        ...

    async def run(self) -> None: ...

    async def until_told(self, pod: Pod) -> None:
        """Return when the manager has been told of a pod as it stands, or was not within a while."""
        ...


Part = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
"""Something that runs as long as the instance does, and what it is called."""


class AwaitPod(Protocol):
    """Returns the pod that `find` finds, once it has come; TimeoutError when it does not."""

    async def __call__(self, find: Callable[[], Pod | None], *, timeout: float) -> Pod: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """All parts of a running mooring, wired. It is the same whoever feeds it: manifests, or a cluster."""

    settings: Settings
    paths: Paths
    store: LocalStore
    manifests: ManifestDirectory
    pods: PodSource
    csi: CSIParts
    manager: VolumeManager
    states: KnownPods
    runs: RunSupervisor
    events: EventRecorder
    history: History
    journal: Journal
    metrics: Metrics
    usage: UsageMeter
    limits: LimitWatcher
    flex_drivers: FlexDriverWatcher
    status: Status
    claims: Callable[[], Sequence[PersistentVolumeClaim]]
    openid: OpenId
    cluster: str = ""  # the API server that objects come from; empty: they come from here
    await_pod: AwaitPod | None = None  # where pods may come later than those who ask for them
    factories: tuple[SharedInformerFactory, ...] = ()  # run once manifests are stored
    beside: tuple[Part, ...] = ()

    async def close(self) -> None:
        """Let go of files and sockets once nothing runs any more."""
        self.journal.close()
        await self.csi.close()
        await self.store.close()

    async def run(self) -> None:
        """Run everything until cancelled. Sources count as heard once manifests are stored and pods are known."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run(), name="manager")
            tasks.create_task(self.runs.run(), name="runs")
            tasks.create_task(self.manifests.run(), name="manifests")
            tasks.create_task(self.events.run(), name="events")
            tasks.create_task(self.limits.run(), name="limits")
            tasks.create_task(self.flex_drivers.run(), name="flex drivers")
            await self.manifests.heard.wait()
            for factory in self.factories:
                factory.start(tasks)
            for name, part in self.beside:
                tasks.create_task(part(), name=name)
            tasks.create_task(self.csi.run(), name="csi")
            tasks.create_task(self.pods.run(), name="pods")
            await self.pods.heard.wait()
            self.manager.sources_heard()
            self.runs.look_at_all()


@contextlib.asynccontextmanager
async def assembled(
    settings: Settings, host: Host, manifests: Sequence[str], files: ManifestFiles
) -> AsyncIterator[Instance]:
    """An instance over manifests, closed in the end. `files` may have been read already."""
    instance = assemble(settings, host, manifests, files)
    try:
        yield instance
    finally:
        await instance.close()


def assemble(settings: Settings, host: Host, manifests: Sequence[str], files: ManifestFiles | None = None) -> Instance:
    """An instance over manifests. Must be called on the event loop that will run it."""
    name = node_name(settings)
    paths = Paths(settings.root)
    store = LocalStore(f"{paths.store_dir}/objects.db")
    factory = SharedInformerFactory(store)
    objects = InformedObjects(factory, name)
    factory.informer(POD)
    csi_node = NodeInfoManager(store, name)
    facts = node_facts(settings, objects.node, topology=csi_node.topology)
    issuer = settings.issuer or default_issuer(name)
    signer = TokenSigner(
        paths.service_account_key, issuer=issuer, node=lambda: _identity(objects, name), accounts=objects
    )
    events = EventRecorder(StoredEvents(store, node_name=name, now=utc_now, lifetime=settings.event_lifetime))
    source = ManifestDirectory(manifests, store, files or ManifestFiles(name))
    node = make_node(
        settings,
        host,
        Surroundings(
            api=store,
            factory=factory,
            objects=objects,
            facts=facts,
            issuer=signer,
            csi_node=csi_node,
            events=events,
            findings=lambda: source.findings,
            expands=True,
            attaching=Attaching(api=store, factory=factory, objects=attachable.InformedObjects(factory)),
        ),
    )
    manager, backoff = node.manager, usual_backoff(settings)
    claims = ClaimsController(
        store,
        factory,
        is_held=manager.holds_claim,
        fits_node=lambda volume: matches_node(volume, facts().name, facts().labels),
        now=utc_now,
        tell=events.claim_changed,
        backoff=backoff,
        resync_interval=settings.resync_interval,
    )
    manager.subscribe(lambda change: _tell_claims(claims, change))
    ephemeral_claims = EphemeralClaims(
        store, factory, tell=events.pod_waits, backoff=backoff, resync_interval=settings.resync_interval
    )
    return Instance(
        settings=settings,
        paths=paths,
        store=store,
        manifests=source,
        pods=InformedPods(factory, objects, PodsAndRuns(manager, node.runs), name),
        csi=node.csi,
        manager=manager,
        states=node.states,
        runs=node.runs,
        events=events,
        history=node.history,
        journal=node.journal,
        metrics=node.metrics,
        usage=node.usage,
        limits=node.limits,
        flex_drivers=node.flex_drivers,
        status=node.status,
        claims=factory.informer(CLAIM).indexer.list,
        openid=signer,
        factories=(factory,),
        beside=(("claims", claims.run), ("ephemeral claims", ephemeral_claims.run)),
    )


def _identity(objects: InformedObjects, name: str) -> NodeIdentity:
    node = objects.node()
    return NodeIdentity(name=name) if node is None else NodeIdentity(name=node.metadata.name, uid=node.metadata.uid)


def _tell_claims(claims: ClaimsController, change: Change) -> None:
    """A claim that was deleted while it was used may go once its volume has left this node."""
    if isinstance(change, Finished) and isinstance(change.operation, Unmount | Unstage | Detach) and change.claim:
        claims.volume_left(change.claim)
