"""The one place where a node of a cluster is put together: the same node as over manifests, fed by an API server."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from mooring.controllers.api_tokens import ApiTokens
from mooring.controllers.attachdetach.attachable import AskedObjects
from mooring.controllers.attachment_looks import AttachmentLooks
from mooring.controllers.kept_tokens import KeptTokens
from mooring.controllers.mirror_pods import MirrorPods
from mooring.controllers.node_reporter import NodeReporter
from mooring.csi.patient_node_info import PatientNodeInfo
from mooring.daemon.agent_parts import (
    Options,
    SignedElsewhere,
    attachment_names,
    deletion_of,
    follow_node,
    hurry_when_back,
    of_this_node,
    register,
    run_when_heard,
    run_when_listed,
    run_when_synced,
)
from mooring.daemon.agent_sink import AgentSink
from mooring.daemon.csi_parts import Attaching
from mooring.daemon.followed_factory import FollowedFactory
from mooring.daemon.instance import Instance, Part
from mooring.daemon.machine import machine_facts
from mooring.daemon.node_facts import node_facts, node_name
from mooring.daemon.node_parts import NodeParts, Surroundings, make_node
from mooring.daemon.offline import KeptView
from mooring.daemon.runs import RunVolumes
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube import offline_view
from mooring.kube.api_server import ApiServer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore, utc_now
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.kube.objects.pod import Pod
from mooring.manager.pod_status_states import PodStatusStates
from mooring.observe.cluster_events import ClusterEvents
from mooring.observe.events import EventRecorder
from mooring.observe.stored_events import StoredEvents
from mooring.runtimes.pod_watcher import RuntimePodWatcher
from mooring.settings import Settings
from mooring.sources.cluster_objects import ClusterObjects
from mooring.sources.cluster_pods import ClusterPods
from mooring.sources.manifest_directory import ManifestDirectory
from mooring.sources.manifest_files import ManifestFiles
from mooring.sources.node_pods import NodePods
from mooring.sources.static_pods import StaticPods
from mooring.sources.trust_bundles import TrustBundles
from mooring.world.findings import Finding
from mooring.world.names import PodUid, VolumeName


@contextlib.asynccontextmanager
async def assembled(settings: Settings, host: Host, options: Options) -> AsyncIterator[Instance]:
    """A node of a cluster, closed in the end. The server need not be there."""
    if settings.attach == "auto":  # in a cluster others attach, also for a driver without a CSIDriver object
        settings = replace(settings, attach="external")
    async with ApiServer(options.access, agent="mooring-agent") as api, contextlib.AsyncExitStack() as closing:
        yield await _Agent(settings, host, options, api, closing).instance()


class _Agent:
    """The parts of the node that a cluster makes necessary, in the order in which they need each other."""

    def __init__(
        self, settings: Settings, host: Host, options: Options, api: ApiServer, closing: contextlib.AsyncExitStack
    ) -> None:
        self._settings, self._host, self._options = settings, host, options
        self._api, self._closing = api, closing
        self._name = name = node_name(settings)
        self._attached_by_others = settings.attach != "local"
        self._store = LocalStore(f"{Paths(settings.root).store_dir}/objects.db")
        self._local = SharedInformerFactory(self._store)
        self._manifests = ManifestDirectory(options.manifests, self._store, ManifestFiles(name))
        self._factory = FollowedFactory(api, tweak=partial(of_this_node, name))
        self._objects = ClusterObjects(
            api,
            self._factory,
            TrustBundles(api),
            name,
            watches_content=settings.content_strategy == "watch",
            claim_interval=settings.claim_interval,
            attachments=None if self._attached_by_others else self._local.informer(VOLUME_ATTACHMENT),
        )
        self._csi_node = PatientNodeInfo(api, name)
        follow_node(self._factory, self._csi_node)
        self._tokens = KeptTokens(ApiTokens(api))
        self._events = EventRecorder(
            ClusterEvents(api, node_name=name, random_source=random.Random()),
            # A node may not read events: `mooring events` shows what this one said.
            StoredEvents(self._store, node_name=name, now=utc_now, lifetime=settings.event_lifetime),
        )
        self._node = self._make_node()
        self._looks = AttachmentLooks(api, name, self._node.manager, limit_reached=self._node.csi.drivers.limit_reached)
        self._watcher = self._watch_containers()
        self._deletion = deletion_of(self._node, api) if options.registration is not None else None
        self._sink = AgentSink(self._node.manager, self._node.runs, self._watcher, self._deletion)
        self._pods = ClusterPods(self._factory, self._objects, self._sink, self._node.manager.populator.references)
        self._mirrors = MirrorPods(api, self._factory, name, random_source=random.Random())
        self._static = StaticPods(
            self._local, self._manifests, changed=self._static_pod_changed, removed=self._static_pod_removed
        )

    def _make_node(self) -> NodeParts:
        return make_node(
            self._settings,
            self._host,
            Surroundings(
                api=self._api,
                factory=self._factory,
                objects=self._objects,
                facts=node_facts(self._settings, self._objects.node, topology=self._csi_node.topology),
                issuer=self._tokens,
                csi_node=self._csi_node,
                events=self._events,
                findings=self._findings,
                expands=False,
                # Its own orders stay here: a node may not write VolumeAttachments, and whoever attaches for the
                # cluster would take them for its own.
                attaching=Attaching(api=self._store, factory=self._local, objects=AskedObjects(self._api)),
                attached_by_others=self._attached_by_others,
                states=partial(PodStatusStates, runtime_tells=bool(self._options.cri)),
            ),
        )

    def _watch_containers(self) -> RuntimePodWatcher | None:
        if not self._options.cri:
            return None
        from mooring.runtimes.cri_pods import CriPods  # noqa: PLC0415 - loads gRPC

        runtime = CriPods(self._options.cri)
        self._closing.push_async_callback(runtime.close)
        return RuntimePodWatcher(runtime, self._containers_changed)

    def _containers_changed(self, uid: PodUid, left: str | None) -> None:
        RunVolumes(self._node.manager, self._node.states).containers_changed(uid, left)
        pod = self._node.manager.pods.get(uid)
        if self._deletion is not None and pod is not None:
            self._deletion.pod_changed(pod)

    def _static_pod_changed(self, pod: Pod) -> None:
        self._pods.pod_changed(pod)
        self._mirrors.pod_changed(pod)

    def _static_pod_removed(self, uid: PodUid) -> None:
        self._pods.pod_removed(uid)
        self._mirrors.pod_removed(uid)

    def _findings(self) -> Iterator[Finding]:
        yield from self._static.findings
        yield from self._mirrors.findings()
        if (trouble := self._api.trouble) is not None:
            yield Finding(
                kind="cluster",
                where=self._options.access.server,
                what=f"the API server does not answer, and what it said last counts: {trouble.why}",
                next_step="It is asked again by itself; look whether it runs and can be reached from here",
            )

    async def instance(self) -> Instance:
        node, manager = self._node, self._node.manager
        pods = NodePods(self._pods, self._static, containers_known=self._containers_known)
        reporter = NodeReporter(
            self._api,
            self._factory,
            self._name,
            manager,
            managed=self._attached_by_others,
            attached=self._attachments_told,
        )
        manager.use_changed = reporter.use_changed
        instance = Instance(
            settings=self._settings,
            paths=Paths(self._settings.root),
            store=self._store,
            manifests=self._manifests,
            pods=pods,
            csi=node.csi,
            manager=manager,
            states=node.states,
            runs=node.runs,
            events=self._events,
            history=node.history,
            journal=node.journal,
            metrics=node.metrics,
            usage=node.usage,
            limits=node.limits,
            flex_drivers=node.flex_drivers,
            status=node.status,
            claims=self._objects.claims,
            openid=SignedElsewhere(self._options.access.server),
            cluster=self._options.access.server,
            await_pod=self._sink.until_known,
            factories=(self._local, self._factory),
            beside=tuple(self._parts(pods, reporter)),
        )
        self._closing.push_async_callback(instance.close)
        return instance

    def _parts(self, pods: NodePods, reporter: NodeReporter) -> Iterator[Part]:
        """What runs beside the node."""
        manager = self._node.manager
        yield "single objects", partial(run_when_listed, self._pods, self._objects.tracked)
        yield "the server's return", partial(hurry_when_back, self._api, tuple(self._waiting(reporter)))
        yield "trust bundles", self._objects.trust_bundles.run
        yield "CSINode", self._csi_node.run
        yield "volumes in use", partial(run_when_synced, manager, reporter)
        if self._attached_by_others:
            yield "awaited attachments", self._looks.run
        if self._options.registration is not None:
            machine = machine_facts(self._settings, boot_id=self._host.boot_id())
            made_with = self._options.registration
            yield (
                "node registration",
                partial(register, self._api, machine, made_with, manager, self._csi_node, reporter),
            )
        if self._deletion is not None:
            yield "deletion of pods", partial(run_when_heard, pods, self._deletion)
        yield "mirror pods", partial(run_when_heard, pods, self._mirrors)
        if self._watcher is not None:
            yield "containers", self._watcher.run
        view = offline_view.chosen(self._settings)
        if view is not None:
            kept = KeptView(view, self._factory, self._objects, self._tokens, is_known=self._sink.is_known)
            self._sink.forgotten, self._pods.object_told = kept.pod_removed, kept.object_changed
            self._closing.push_async_callback(kept.close)
            yield "last view", partial(kept.run, pods.heard)

    def _waiting(self, reporter: NodeReporter) -> Iterator[Callable[[], None]]:
        """Lets all try again who wait after a failure of the server."""
        yield self._factory.hurry
        yield self._objects.tracked.hurry
        yield reporter.hurry
        yield self._csi_node.hurry
        yield self._mirrors.hurry
        if self._deletion is not None:
            yield self._deletion.hurry
        yield self._node.manager.reconciler.resume_all

    async def _containers_known(self) -> None:
        if self._watcher is not None:
            await self._watcher.answered.wait()

    def _attachments_told(self, attached: Mapping[VolumeName, str]) -> None:
        self._pods.attachments_told(attachment_names(attached, self._name))
        self._looks.wake()
