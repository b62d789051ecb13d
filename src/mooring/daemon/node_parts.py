"""The parts of a node that are the same whoever feeds it: the manager, what drivers need, and what can be seen."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mooring.controllers.attachdetach.orders import ApiAttachmentOrders
from mooring.controllers.flex_driver_watcher import FlexDriverWatcher
from mooring.controllers.limit_watcher import LimitWatcher
from mooring.controllers.token_manager import Issuer, TokenManager
from mooring.csi.drivers import Drivers
from mooring.csi.node_info import NodeInfoManager
from mooring.daemon.building import Lookups, build_manager
from mooring.daemon.claim_status import ApiClaimStatus
from mooring.daemon.csi_parts import Attaching, CSIParts, inspectors, make_csi_parts
from mooring.daemon.node_watchers import watch_flex_drivers, watch_limits
from mooring.daemon.runs import RunVolumes
from mooring.engine.pending import Backoff
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.api import Api
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.manager.pods import KnownPods, PodManager
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
from mooring.plugins.interface import NodeFacts
from mooring.runtimes.choice import make_runtime
from mooring.runtimes.supervisor import RunSupervisor
from mooring.settings import Settings
from mooring.world.findings import Finding
from mooring.world.leftovers import leftovers

_LONGEST_PAUSE = 15.0
"""Seconds between two tries to reach a container runtime that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a node is fed from, and what it writes to."""

    api: Api
    factory: SharedInformerFactory
    objects: Lookups
    facts: Callable[[], NodeFacts]
    issuer: Issuer
    csi_node: NodeInfoManager
    events: EventRecorder
    findings: Callable[[], Iterable[Finding]]  # about what feeds it
    expands: bool  # the storage behind claims, which in a cluster a controller does
    attaching: Attaching  # for the setting `attach = "local"`
    attached_by_others: bool = False  # who write into the Node's status what they attached
    states: Callable[[PodManager], KnownPods] = KnownPods


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    csi: CSIParts
    manager: VolumeManager
    states: KnownPods
    runs: RunSupervisor
    history: History
    journal: Journal
    metrics: Metrics
    usage: UsageMeter
    limits: LimitWatcher
    flex_drivers: FlexDriverWatcher
    status: Status


def usual_backoff(settings: Settings) -> Backoff:
    return Backoff(initial=settings.backoff_initial, maximum=settings.backoff_maximum)


def make_node(settings: Settings, host: Host, around: Surroundings) -> NodeParts:
    """The parts, wired. Must be called on the event loop that will run them."""
    loop, paths = asyncio.get_running_loop(), Paths(settings.root)
    attaching = around.attaching if settings.attach == "local" else None
    drivers = Drivers(timeout=settings.csi_timeout)
    pods = PodManager()
    states = around.states(pods)
    manager = build_manager(
        settings,
        host,
        around.objects,
        around.facts,
        pods=pods,
        states=states,
        tokens=TokenManager(around.issuer, clock=time.time, random=random.SystemRandom()),
        drivers=drivers,
        orders=ApiAttachmentOrders(attaching.api, attaching.factory) if attaching is not None else None,
        claim_status=ApiClaimStatus(around.api, around.events),
        attached_by_others=around.attached_by_others,
    )
    journal = Journal(paths.history_file, size=settings.journal_size, soon=loop.call_soon)
    history = History(length=settings.history_length, wall=time.time, clock=loop.time, journal=journal)
    metrics = Metrics(manager.desired, manager.actual, manager.reconciler, surprises=lambda: manager.executor.surprises)
    for listener in (history.listen, metrics.listen, around.events.listen):
        manager.subscribe(listener)
    usage = UsageMeter(
        host, manager.actual, clock=loop.time, lifetime=settings.usage_lifetime, inspector_of=inspectors(manager)
    )
    metrics.registry.register(ClaimUsage(usage, manager.actual))
    metrics.registry.register(OwnershipMetrics(manager.walks))
    metrics.registry.register(MountMetrics(lambda: {c.value: n for c, n in manager.mount_watch.counts.items()}))
    patience = Backoff(initial=settings.backoff_initial, maximum=min(settings.backoff_maximum, _LONGEST_PAUSE))
    runs = RunSupervisor(paths, RunVolumes(manager, states), make_runtime, pause=patience.after)
    runs.load()
    csi = make_csi_parts(
        settings,
        host,
        around.api,
        around.factory,
        drivers,
        around.csi_node,
        around.objects,
        manager,
        around.events,
        usual_backoff(settings),
        attaching=attaching,
        expands=around.expands,
    )
    drivers.observe = CSIMetrics(metrics.registry, csi.plugins.counts).observe
    return NodeParts(
        csi=csi,
        manager=manager,
        states=states,
        runs=runs,
        history=history,
        journal=journal,
        metrics=metrics,
        usage=usage,
        limits=watch_limits(settings, host, around.api, manager),
        flex_drivers=watch_flex_drivers(host, manager),
        status=Status(_view(host, manager, runs, around.findings, history, csi)),
    )


def _view(
    host: Host,
    manager: VolumeManager,
    runs: RunSupervisor,
    findings: Callable[[], Iterable[Finding]],
    history: History,
    csi: CSIParts,
) -> NodeView:
    return NodeView(
        pods=manager.pods,
        desired=manager.desired,
        actual=manager.actual,
        gates=lambda: manager.gates,
        running=manager.reconciler.pending.running,
        findings=lambda: (*findings(), *_findings(host, manager), *runs.findings(), *csi.findings()),
        history=history,
        namesakes=manager.namesakes,
        containers=manager.containers_left,
        held_up=manager.held_up,
        progress=manager.walks.progress,
        drivers=csi.rows,
        complaints=csi.health.complaints,
    )


def _findings(host: Host, manager: VolumeManager) -> Iterator[Finding]:
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
