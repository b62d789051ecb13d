"""A cluster in memory for the attach/detach controller: nodes, pods with claims, and an attacher to be told things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mooring.controllers.attachdetach.attachers import (
    AttacherByType,
    CSIVolumeAttacher,
    NetworkDiskAttacher,
    VolumeAttacher,
)
from mooring.controllers.attachdetach.controller import AttachDetachController, Timing
from mooring.controllers.attachdetach.orders import ApiAttachmentOrders
from mooring.csi.attachments import finalizer
from mooring.engine.pending import Backoff
from mooring.kube.api import NO_PRECONDITIONS, ApiError, InternalError, NotFound, Preconditions
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, NODE, PERSISTENT_VOLUME, POD, VOLUME_ATTACHMENT, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.node import AttachedVolume, Node, NodeStatus
from mooring.kube.objects.pod import Pod, PodSpec
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    VolumeAttachment,
)
from mooring.kube.objects.volumes import PersistentVolumeClaimVolumeSource, Volume
from mooring.world.names import VolumeName
from mooring.world.presence import Presence

DRIVER = "disk.csi.test"
MANAGED = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
ONCE, MANY = ("ReadWriteOnce",), ("ReadWriteMany",)
SOON = 1.0
"""Seconds in which all that is due happens, on the loop's virtual clock."""


def unique(volume: str) -> VolumeName:
    return VolumeName(f"kubernetes.io/csi/{DRIVER}^{volume}")


def node(name: str, *, in_use: Sequence[str] = (), attached: Sequence[str] = (), ready: bool = True) -> Node:
    status = NodeStatus(
        conditions=({"type": "Ready", "status": "True" if ready else "False"},),
        volumes_in_use=tuple(map(unique, in_use)),
        volumes_attached=tuple(AttachedVolume(name=unique(each), device_path="/dev/old") for each in attached),
    )
    return Node(metadata=ObjectMeta(name=name, annotations=MANAGED), status=status)


def pod(name: str, on: str, *claims: str, namespace: str = "shop") -> Pod:
    sources = (PersistentVolumeClaimVolumeSource(claim_name=each) for each in claims)
    volumes = tuple(Volume(name=each.claim_name, persistent_volume_claim=each) for each in sources)
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=PodSpec(node_name=on, volumes=volumes))


class WatchedStore(LocalStore):
    """A store that notes in order what a controller does, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.trace: list[str] = []
        self.fails: dict[str, ApiError] = {}  # by what is noted, or its beginning
        self.after: dict[str, Mapping[str, Any]] = {}  # what a Node says by itself right after it was told something
        self.looked = 0  # live reads of a Node

    def _note(self, what: str) -> None:
        self.trace.append(what)
        for beginning, error in self.fails.items():
            if what.startswith(beginning):
                raise error

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        if kind.name == NODE.name:
            self.looked += 1
        return await super().get(kind, namespace, name)

    async def create(self, obj: ObjectT) -> ObjectT:
        if isinstance(obj, VolumeAttachment):
            self._note(f"order {obj.spec.node_name}")
        return await super().create(obj)

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> ObjectT:
        if kind.name == VOLUME_ATTACHMENT.name:
            found = await self.get(VOLUME_ATTACHMENT, "", name)
            self._note(f"cancel {found.spec.node_name}")
        return await super().delete(kind, namespace, name, preconditions=preconditions, grace_period=grace_period)

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        if kind.name == NODE.name and "volumesAttached" in merge.get("status", {}):
            names = (each["name"].partition("^")[2] for each in merge["status"]["volumesAttached"])
            what = f"tell {name}: {' '.join(names)}".rstrip()
            self._note(what)
            written = await super().patch(kind, namespace, name, merge, subresource=subresource)
            if what in self.after:
                await super().patch(NODE, "", name, {"status": self.after.pop(what)}, subresource="status")
            return written
        return await super().patch(kind, namespace, name, merge, subresource=subresource)


@dataclass
class ScriptedAttacher:
    """Answers VolumeAttachments as an external attacher does, unless it is told otherwise, by node."""

    store: LocalStore
    refuses: dict[str, str] = field(default_factory=dict)  # why it does not attach
    keeps: dict[str, str] = field(default_factory=dict)  # why it does not detach
    silent: set[str] = field(default_factory=set)
    attached: set[str] = field(default_factory=set)
    worst: int = 0  # the most nodes that had the volume at once

    def listen(self, factory: SharedInformerFactory) -> None:
        factory.informer(VOLUME_ATTACHMENT).add_event_handler(
            Handler(on_add=lambda each, is_initial: self._answer(each), on_update=lambda old, new: self._answer(new))
        )

    async def look_again(self) -> None:
        for each in (await self.store.list(VOLUME_ATTACHMENT)).items:
            await self._answer(each)

    async def _answer(self, order: VolumeAttachment) -> None:
        await (self._detach if order.metadata.deletion_timestamp is not None else self._attach)(order)

    async def _attach(self, order: VolumeAttachment) -> None:
        name, to = order.metadata.name, order.spec.node_name
        mark = finalizer(order.spec.attacher)
        if mark not in order.metadata.finalizers:
            await self.store.patch(VOLUME_ATTACHMENT, "", name, {"metadata": {"finalizers": [mark]}})
        if to in self.silent:
            self.attached.add(to)  # and does not say so
        elif to in self.refuses:
            told = {"attachError": {"message": self.refuses[to], "time": "2026-01-01T00:00:00Z"}}
            await self._tell(order, told)
        elif not order.status.attached:
            self.attached.add(to)
            self.worst = max(self.worst, len(self.attached))
            await self._tell(order, {"attached": True, "attachError": None})

    async def _detach(self, order: VolumeAttachment) -> None:
        name, of = order.metadata.name, order.spec.node_name
        if of in self.silent:
            return
        if of in self.keeps:
            await self._tell(order, {"detachError": {"message": self.keeps[of], "time": "2026-01-01T00:00:00Z"}})
        elif order.metadata.finalizers:
            self.attached.discard(of)
            await self.store.patch(VOLUME_ATTACHMENT, "", name, {"metadata": {"finalizers": []}})

    async def _tell(self, order: VolumeAttachment, status: dict[str, Any]) -> None:
        with suppress(NotFound):  # it went meanwhile
            await self.store.patch(VOLUME_ATTACHMENT, "", order.metadata.name, {"status": status}, subresource="status")


@dataclass
class CountingWatcher:
    forced_for: list[str] = field(default_factory=list)
    done: list[tuple[str, bool]] = field(default_factory=list)

    def finished(self, plugin: str, operation: str, *, succeeded: bool, migrated: bool, seconds: float) -> None:
        self.done.append((operation, succeeded))

    def forced(self, reason: str) -> None:
        self.forced_for.append(reason)


class Cluster:
    """Everything, with the words that tests use."""

    def __init__(self, store: WatchedStore, timing: Timing, attacher: VolumeAttacher | None = None) -> None:
        self.store, self.timing, self._own_attacher = store, timing, attacher
        self.attacher = ScriptedAttacher(store)
        self.told: list[tuple[str, str, str]] = []  # pod, reason, message
        self.watcher = CountingWatcher()
        self._tasks: list[asyncio.Task[None]] = []
        self.controller: AttachDetachController

    @property
    def trace(self) -> list[str]:
        return self.store.trace

    @property
    def forced(self) -> list[str]:
        return self.watcher.forced_for

    # -- the controller --------------------------------------------------------------------------------------------
    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start a controller that knows nothing yet, and the attacher."""
        store, factory = self.store, SharedInformerFactory(self.store)
        external = SharedInformerFactory(self.store)
        self.attacher.listen(external)
        known = factory.informer(VOLUME_ATTACHMENT).indexer.get_by_key
        of_csi = CSIVolumeAttacher(ApiAttachmentOrders(store, factory), known, timeout=120.0)
        attacher = self._own_attacher or AttacherByType(of_csi, NetworkDiskAttacher())
        self.controller = AttachDetachController(
            store,
            factory,
            attacher,
            tell=lambda pod, reason, message, warning: self.told.append((pod.metadata.name, reason, message)),
            watcher=self.watcher,
            backoff=Backoff(),
            timing=self.timing,
        )
        factory.start(tasks)
        external.start(tasks)
        self._tasks = [tasks.create_task(self.controller.run())]
        self._factories = (factory, external)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for factory in self._factories:
            factory.stop()
            await factory.shutdown()

    async def passes(self, seconds: float = SOON) -> None:
        await asyncio.sleep(seconds)

    # -- objects ---------------------------------------------------------------------------------------------------
    async def volume(self, name: str, modes: tuple[str, ...] = ONCE, *, bound: bool = True) -> None:
        """A PersistentVolume with a claim of the same name."""
        meta = ObjectMeta(name=name, namespace="shop")
        spec = PersistentVolumeClaimSpec(volume_name=name if bound else "", access_modes=modes)
        claim = await self.store.create(PersistentVolumeClaim(metadata=meta, spec=spec))
        source = CSIPersistentVolumeSource(driver=DRIVER, volume_handle=name)
        owner = ObjectReference(namespace="shop", name=name, uid=claim.metadata.uid)
        made = PersistentVolumeSpec(access_modes=modes, csi=source, claim_ref=owner, capacity={"storage": "1Gi"})
        await self.store.create(PersistentVolume(metadata=ObjectMeta(name=name), spec=made))
        if bound:
            await self.bind(name)

    async def bind(self, name: str) -> None:
        await self.store.patch(CLAIM, "shop", name, {"spec": {"volumeName": name}})
        await self.store.patch(CLAIM, "shop", name, {"status": {"phase": "Bound"}}, subresource="status")

    async def forget_volume(self, name: str) -> None:
        await self.store.delete(PERSISTENT_VOLUME, "", name)
        await self.store.delete(CLAIM, "shop", name)

    async def put(self, *objects: Node | Pod) -> None:
        for each in objects:
            await self.store.create(each)

    async def pod_goes(self, name: str) -> None:
        await self.store.delete(POD, "shop", name)

    async def pod_moves(self, name: str, to: str, *claims: str) -> None:
        """The pod is deleted, and one of the same name comes on another node."""
        await self.pod_goes(name)
        await self.put(pod(name, to, *claims))

    async def pod_says(self, name: str, phase: str) -> None:
        await self.store.patch(POD, "shop", name, {"status": {"phase": phase}}, subresource="status")

    async def pod_runs(self, name: str, *, containers: bool) -> None:
        """Whether the container of a pod runs, or has terminated."""
        state: dict[str, Any] = {"running": {}} if containers else {"running": None, "terminated": {"exitCode": 0}}
        status = {"containerStatuses": [{"name": "main", "state": state}]}
        await self.store.patch(POD, "shop", name, {"status": status}, subresource="status")

    async def node_says(self, name: str, *, in_use: Sequence[str] | None = None, ready: bool | None = None) -> None:
        status: dict[str, Any] = {}
        if in_use is not None:
            status["volumesInUse"] = [unique(each) for each in in_use]
        if ready is not None:
            status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
        await self.store.patch(NODE, "", name, {"status": status}, subresource="status")

    async def node_is_off(self, name: str) -> None:
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await self.store.patch(NODE, "", name, {"spec": {"taints": [taint]}})

    # -- what has become of it -------------------------------------------------------------------------------------
    async def says_attached(self, name: str) -> list[str]:
        """What the status of a node says to be attached."""
        found = await self.store.get(NODE, "", name)
        return [each.name.partition("^")[2] for each in found.status.volumes_attached]

    def presence(self, volume: str, on: str) -> Presence:
        return self.controller.actual.presence(unique(volume), on)

    def warnings(self, reason: str = "FailedAttachVolume") -> list[tuple[str, str]]:
        return [(name, message) for name, why, message in self.told if why == reason]

    def forget_trace(self) -> None:
        self.store.trace.clear()


@asynccontextmanager
async def cluster(
    timing: Timing = Timing(),  # noqa: B008 - a frozen value
    *,
    attacher: VolumeAttacher | None = None,
    started: bool = True,
) -> AsyncIterator[Cluster]:
    """A cluster with nothing in it; one that is not started is left to `running`."""
    store = WatchedStore()
    async with store:
        made = Cluster(store, timing, attacher)
        if not started:
            yield made
            return
        async with running(made):
            yield made


@asynccontextmanager
async def running(made: Cluster) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        made.start(tasks)
        await made.passes()
        yield
        await made.stop()


REFUSAL = InternalError("cannot change the Node", why="the server is not well")
