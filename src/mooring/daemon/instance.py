"""The one place where an instance is put together: store, informers, sources, manager and what can be seen of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mooring.controllers.attachdetach.orders import ApiAttachmentOrders
from mooring.controllers.claims_controller import ClaimsController
from mooring.controllers.ephemeral import EphemeralClaims
from mooring.controllers.flex_driver_watcher import FlexDriverWatcher
from mooring.controllers.limit_watcher import LimitWatcher
from mooring.controllers.token_manager import TokenManager
from mooring.controllers.token_signer import NodeIdentity, TokenSigner, default_issuer
from mooring.csi.drivers import Drivers
from mooring.csi.node_info import NodeInfoManager
from mooring.daemon.building import build_manager
from mooring.daemon.claim_status import ApiClaimStatus
from mooring.daemon.csi_parts import CSIParts, inspectors, make_csi_parts
from mooring.daemon.node_facts import node_facts, node_name
from mooring.daemon.node_watchers import watch_flex_drivers, watch_limits
from mooring.daemon.runs import PodsAndRuns, RunVolumes
from mooring.engine.pending import Backoff
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore, utc_now
from mooring.kube.objects.kinds import POD
from mooring.manager.node_affinity import matches_node
from mooring.manager.pods import KnownPods
from mooring.manager.volume_manager import VolumeManager
from mooring.observe.csi_metrics import CSIMetrics
from mooring.observe.events import EventRecorder
from mooring.observe.history import History, Journal
from mooring.observe.metrics import Metrics
from mooring.observe.mount_metrics import MountMetrics
from mooring.observe.ownership_metrics import OwnershipMetrics
from mooring.observe.status import NodeView, Status
from mooring.observe.usage import UsageMeter
from mooring.observe.usage_metrics import ClaimUsage
from mooring.runtimes.choice import make_runtime
from mooring.runtimes.supervisor import RunSupervisor
from mooring.settings import Settings
from mooring.sources.informed import InformedObjects, InformedPods
from mooring.sources.manifest_directory import ManifestDirectory
from mooring.world.changes import Change, Finished
from mooring.world.findings import Finding
from mooring.world.leftovers import leftovers
from mooring.world.operations import Detach, Unmount, Unstage

_LONGEST_PAUSE = 15.0
"""Seconds between two tries to reach a container runtime that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """All parts of a running mooring, wired."""

    settings: Settings
    paths: Paths
    store: LocalStore
    factory: SharedInformerFactory
    manifests: ManifestDirectory
    pods: InformedPods
    claims: ClaimsController
    ephemeral_claims: EphemeralClaims
    csi: CSIParts
    signer: TokenSigner
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
            self.factory.start(tasks)
            tasks.create_task(self.claims.run(), name="claims")
            tasks.create_task(self.ephemeral_claims.run(), name="ephemeral claims")
            tasks.create_task(self.csi.run(), name="csi")
            await self.pods.run()
            self.manager.sources_heard()
            self.runs.look_at_all()


def assemble(settings: Settings, host: Host, manifests: Sequence[str]) -> Instance:
    """An instance over manifests. Must be called on the event loop that will run it."""
    loop = asyncio.get_running_loop()
    name = node_name(settings)
    paths = Paths(settings.root)
    store = LocalStore(f"{paths.store_dir}/objects.db")
    factory = SharedInformerFactory(store)
    objects = InformedObjects(factory, name)
    factory.informer(POD)
    drivers = Drivers(timeout=settings.csi_timeout)
    csi_node = NodeInfoManager(store, name)
    facts = node_facts(settings, objects.node, topology=csi_node.topology)
    issuer = settings.issuer or default_issuer(name)
    signer = TokenSigner(paths.service_account_key, issuer=issuer, node=lambda: _identity(objects, name))
    tokens = TokenManager(signer, clock=time.time, random=random.SystemRandom())
    events = EventRecorder(store, node_name=name, now=utc_now, lifetime=settings.event_lifetime)
    manager = build_manager(
        settings,
        host,
        objects,
        facts,
        tokens=tokens,
        drivers=drivers,
        orders=ApiAttachmentOrders(store, factory) if settings.attach == "local" else None,
        claim_status=ApiClaimStatus(store, events),
    )
    assert isinstance(manager.states, KnownPods)
    journal = Journal(paths.history_file, size=settings.journal_size, soon=loop.call_soon)
    history = History(length=settings.history_length, wall=time.time, clock=loop.time, journal=journal)
    metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: manager.executor.surprises)
    for listener in (history.listen, metrics.listen, events.listen):
        manager.subscribe(listener)
    inspector_of = inspectors(manager)
    usage = UsageMeter(
        host, manager.actual, clock=loop.time, lifetime=settings.usage_lifetime, inspector_of=inspector_of
    )
    metrics.registry.register(ClaimUsage(usage, manager.actual))
    metrics.registry.register(OwnershipMetrics(manager.walks))
    metrics.registry.register(MountMetrics(lambda: {c.value: n for c, n in manager.mount_watch.counts.items()}))
    source = ManifestDirectory(manifests, store, node_name=name)
    backoff = Backoff(initial=settings.backoff_initial, maximum=settings.backoff_maximum)
    claims = ClaimsController(
        store,
        factory,
        is_held=manager.holds_claim,
        fits_node=lambda volume: matches_node(volume, facts().labels),
        now=utc_now,
        tell=events.claim_changed,
        backoff=backoff,
        resync_interval=settings.resync_interval,
    )
    manager.subscribe(lambda change: _tell_claims(claims, change))
    ephemeral_claims = EphemeralClaims(
        store, factory, tell=events.pod_waits, backoff=backoff, resync_interval=settings.resync_interval
    )
    patience = Backoff(initial=settings.backoff_initial, maximum=min(settings.backoff_maximum, _LONGEST_PAUSE))
    runs = RunSupervisor(paths, RunVolumes(manager, manager.states), make_runtime, pause=patience.after)
    runs.load()
    csi = make_csi_parts(settings, host, store, factory, drivers, csi_node, objects, manager, events, backoff)
    drivers.observe = CSIMetrics(metrics.registry, csi.plugins.counts).observe
    return Instance(
        settings=settings,
        paths=paths,
        store=store,
        factory=factory,
        manifests=source,
        pods=InformedPods(factory, objects, PodsAndRuns(manager, runs), name),
        claims=claims,
        ephemeral_claims=ephemeral_claims,
        csi=csi,
        signer=signer,
        manager=manager,
        states=manager.states,
        runs=runs,
        events=events,
        history=history,
        journal=journal,
        metrics=metrics,
        usage=usage,
        limits=watch_limits(settings, host, store, manager),
        flex_drivers=watch_flex_drivers(host, manager),
        status=Status(_view(host, manager, runs, source, history, csi)),
    )


def _identity(objects: InformedObjects, name: str) -> NodeIdentity:
    node = objects.node()
    return NodeIdentity(name=name) if node is None else NodeIdentity(name=node.metadata.name, uid=node.metadata.uid)


def _tell_claims(claims: ClaimsController, change: Change) -> None:
    """A claim that was deleted while it was used may go once its volume has left this node."""
    if isinstance(change, Finished) and isinstance(change.operation, Unmount | Unstage | Detach) and change.claim:
        claims.volume_left(change.claim)


def _view(
    host: Host,
    manager: VolumeManager,
    runs: RunSupervisor,
    source: ManifestDirectory,
    history: History,
    csi: CSIParts,
) -> NodeView:
    return NodeView(
        pods=manager.pods,
        desired=manager.desired,
        actual=manager.actual,
        gates=lambda: manager.gates,
        running=manager.reconciler.pending.running,
        findings=lambda: (*_findings(host, manager, source), *runs.findings(), *csi.findings()),
        history=history,
        namesakes=manager.namesakes,
        containers=runs.words,
        held_up=manager.held_up,
        progress=manager.walks.progress,
        drivers=csi.rows,
        complaints=csi.health.complaints,
    )


def _findings(host: Host, manager: VolumeManager, source: ManifestDirectory) -> Iterator[Finding]:
    yield from source.findings
    yield from manager.recovery.findings()
    yield from manager.mount_watch.findings()
    unwanted = (each for each in manager.actual.volumes.values() if each.name not in manager.desired.volumes)
    yield from leftovers(unwanted)
    for debt in host.debts():
        yield Finding(
            kind="debt",
            where=debt.path,
            what=f"{debt.source!r} ({debt.fs_type}) was unmounted while it was in use, because {debt.why}",
            next_step="It is over when those who use it end, or its server does; a reboot ends it, too",
        )
    for problem in manager.plugins.problems:
        yield Finding(kind="plugin", where=problem.what, what=problem.why, next_step=problem.next_step)
