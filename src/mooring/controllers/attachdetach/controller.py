"""The attach/detach controller: keeps volumes attached where pods want them, and nowhere else."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.controllers.attachdetach import planner
from mooring.controllers.attachdetach.actual import ActualStateOfWorld, Use
from mooring.controllers.attachdetach.attachers import VolumeAttacher, attachment_name
from mooring.controllers.attachdetach.caches import ClusterCaches, is_out_of_service, is_ready
from mooring.controllers.attachdetach.desired import DesiredStateOfWorld
from mooring.controllers.attachdetach.feeder import WorldFeeder
from mooring.controllers.attachdetach.operations import Operation, Operations, Outcome, WriteReport, kind_of
from mooring.controllers.attachdetach.outcomes import Outcomes, Teller, Watcher
from mooring.controllers.attachdetach.planner import NodeView, Policy, Wait
from mooring.controllers.attachdetach.pod_volumes import plugin_of
from mooring.engine.pending import Backoff, PendingOperations, Slot
from mooring.engine.reconciler import Reconciler
from mooring.kube.api import Api
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import VolumeAttachment
from mooring.world.names import VolumeName
from mooring.world.presence import Presence

log = logging.getLogger(__name__)

VERIFY = "verify_volumes_are_attached_per_node"
_VOLUME, _NODE = "volume:", "node:"
_AT_ONCE = 4096
"""Operations at once. Each mostly waits for somebody else, so that one driver that is stuck must not hold up others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times in seconds."""

    max_wait_for_unmount: float = 360.0
    force_detach_on_timeout: bool = True
    verify: bool = True
    heal_interval: float = 60.0  # how often everything is compared once more, and attachments are verified


class AttachDetachController:
    """A subject of the engine with one key for each volume of the cluster and one for each node's status.

    A volume leaves a node in steps of which each is proven before the next: the node says that it does not use it,
    its status is written without it, the node read once more still does not use it, and then it is detached.
    """

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        attacher: VolumeAttacher,
        *,
        tell: Teller,
        watcher: Watcher,
        backoff: Backoff,
        timing: Timing = Timing(),
    ) -> None:
        self._factory, self._attacher, self._timing = factory, attacher, timing
        self._watcher = watcher
        self._policy = Policy(
            max_wait_for_unmount=timing.max_wait_for_unmount,
            force_detach_on_timeout=timing.force_detach_on_timeout,
        )
        self.caches = ClusterCaches(factory)
        self.desired, self.actual = DesiredStateOfWorld(), ActualStateOfWorld()
        self._feeder = WorldFeeder(
            self.caches, self.desired, self.actual, touch=self._touch, touch_node=self._touch_node
        )
        self._operations = Operations(api, attacher, self.caches.node)
        self._outcomes = Outcomes(
            self.desired, self.actual, tell, watcher, touch=self._touch, touch_node=self._touch_node
        )
        self._reconciler: Reconciler[Operation, Outcome] = Reconciler(
            self, PendingOperations(backoff), limit=_AT_ONCE, resync_interval=timing.heal_interval
        )
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.waits: dict[VolumeName, Sequence[Wait]] = {}

    async def run(self) -> None:
        """Learn what there is, then act until cancelled. Nothing is done before all caches are filled."""
        await self._factory.wait_for_cache_sync()
        self._feeder.reconstruct()
        self._listen()
        for key in self.keys():
            self._reconciler.touch(key)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._heal_forever(), name="attach/detach self-healing")
                await self._reconciler.run()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    # -- what informers tell ---------------------------------------------------------------------------------------
    def _listen(self) -> None:
        caches, feeder = self.caches, self._feeder
        caches.pods.add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: feeder.pod_changed(pod),
                on_update=self._pod_updated,
                on_delete=lambda pod: feeder.pod_gone(pod.object if isinstance(pod, Tombstone) else pod),
            )
        )
        caches.nodes.add_event_handler(
            Handler(
                on_add=lambda node, is_initial: feeder.node_changed(node, added=not is_initial),
                on_update=self._node_updated,
                on_delete=lambda node: feeder.node_gone(node.object if isinstance(node, Tombstone) else node),
            )
        )
        caches.claims.add_event_handler(
            Handler(
                on_add=lambda claim, is_initial: feeder.claim_changed(claim.key),
                on_update=lambda old, new: feeder.claim_changed(new.key),
            )
        )
        caches.volumes.add_event_handler(
            Handler(
                on_add=lambda volume, is_initial: feeder.volume_changed(volume),
                on_update=lambda old, new: feeder.volume_changed(new),
            )
        )
        caches.drivers.add_event_handler(
            Handler(
                on_add=lambda each, is_initial: None if is_initial else feeder.heal(),
                on_update=lambda old, new: feeder.heal() if old.spec != new.spec else None,
                on_delete=lambda each: feeder.heal(),
            )
        )
        caches.attachments.add_event_handler(
            Handler(
                on_add=lambda each, is_initial: feeder.attachment_found(each),
                on_update=lambda old, new: self._attachment_changed(new, gone=False),
                on_delete=lambda each: self._attachment_changed(
                    each.object if isinstance(each, Tombstone) else each, gone=True
                ),
            )
        )

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._feeder.pod_gone(old)  # another pod has taken its name while nobody looked
        self._feeder.pod_changed(new)

    def _node_updated(self, old: Node, new: Node) -> None:
        self._feeder.node_changed(new, added=old.metadata.uid != new.metadata.uid)

    def _attachment_changed(self, attachment: VolumeAttachment, *, gone: bool) -> None:
        """What has come to an end is not waited for any longer; a failure that was told rests as any other."""
        node = attachment.spec.node_name
        for name in self.actual.on_node(node):
            if attachment_name(name, node) == attachment.metadata.name:
                if gone and self._is_on_its_own(node):
                    self.actual.mark(name, None, node, Presence.ABSENT)
                self._verify(name, node)
                self._touch(name, gone or attachment.status.attached)

    # -- self-healing ----------------------------------------------------------------------------------------------
    async def _heal_forever(self) -> None:
        while True:
            await asyncio.sleep(self._timing.heal_interval)
            self._feeder.heal()
            for node in self.actual.nodes():
                self._verify_node(node)

    def _verify_node(self, node: str) -> None:
        """Compare all that is attached to a node with what is known of it; told for each plugin."""
        if not self._timing.verify:
            return
        clock = asyncio.get_running_loop().time
        of_node = sorted((plugin_of(name) or "", name) for name in self.actual.on_node(node))
        for plugin, names in itertools.groupby(of_node, key=lambda each: each[0]):
            begun = clock()
            for _, name in names:
                self._verify(name, node)
            self._watcher.finished(plugin, VERIFY, succeeded=True, migrated=False, seconds=clock() - begun)

    def _verify(self, name: VolumeName, node: str) -> None:
        """What was attached and is no more has to be attached again, or is gone.

        Only an attachment that does not exist any more, of a volume that the node does not use, is taken for proof.
        """
        if not self._timing.verify or self.actual.presence(name, node) is not Presence.PRESENT:
            return
        found = self._attacher.look(name, node)
        if found in (None, Presence.PRESENT) or self._reconciler.pending.is_busy(Slot(_VOLUME + name, node)):
            return
        gone = found is Presence.ABSENT and self.actual.use(name, node) is Use.FREE
        log.warning("volume %s is not attached to node %s any more", name, node)
        self.actual.mark(name, None, node, Presence.ABSENT if gone else Presence.UNCERTAIN)
        self._touch(name, True)
        self._touch_node(node)

    # -- the subject -----------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        names = {each.name for each in self.desired.volumes()} | {each.name for each in self.actual.volumes()}
        return [*(_VOLUME + name for name in sorted(names)), *(_NODE + node for node in self.actual.nodes())]

    def plan(self, key: str) -> Sequence[Operation]:
        if key.startswith(_NODE):
            node = key[len(_NODE) :]
            return (WriteReport(node, self.actual.report(node)),) if self.actual.needs_report(node) else ()
        return self._plan_volume(VolumeName(key[len(_VOLUME) :]))

    def _plan_volume(self, name: VolumeName) -> Sequence[Operation]:
        now = asyncio.get_running_loop().time()
        self._note_requests(name, now)
        wanted, held = self.desired.wanted_on(name), self.actual.volume(name)
        nodes = {*wanted, *(held.nodes if held is not None else ())}
        views = {node: self._view(name, node) for node in nodes}
        decided = planner.plan(name, wanted, held, views, policy=self._policy, now=now)
        self._note_waits(name, decided.waits)
        self._wake(_VOLUME + name, decided.wake_at)
        if not nodes:
            self._reconciler.forget(_VOLUME + name)
        return decided.operations

    def _note_requests(self, name: VolumeName, now: float) -> None:
        """Since when nobody wants an attachment; being wanted again ends that."""
        held = self.actual.volume(name)
        for node in held.nodes if held is not None else ():
            if self.desired.get(name, node) is None:
                self.actual.request_detach(name, node, now)
            else:
                self.actual.reset_detach(name, node)

    def _view(self, name: VolumeName, node: str) -> NodeView:
        found = self.caches.node(node)
        return NodeView(
            use=self.actual.use(name, node),
            ready=found is not None and is_ready(found),
            out_of_service=found is not None and is_out_of_service(found),
            on_its_own=self._is_on_its_own(node),
            written=self.actual.written(node),
            writing=bool(self._reconciler.pending.running(_NODE + node)),
        )

    def _is_on_its_own(self, node: str) -> bool:
        return self.caches.node(node) is not None and not self.desired.is_managed(node)

    def _note_waits(self, name: VolumeName, waits: Sequence[Wait]) -> None:
        for wait in waits:
            if wait not in self.waits.get(name, ()):
                log.info("volume %s on node %s waits: %s", name, wait.node, wait.why)
        if waits:
            self.waits[name] = waits
        else:
            self.waits.pop(name, None)

    def _wake(self, key: str, at: float | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if at is not None:
            self._timers[key] = asyncio.get_running_loop().call_at(at, self._reconciler.touch, key)

    def slot(self, operation: Operation) -> Slot:
        if isinstance(operation, WriteReport):
            return Slot(_NODE + operation.node)
        key = _VOLUME + operation.volume
        return Slot(key, None, operation.node) if operation.exclusive else Slot(key, operation.node)

    def kind(self, operation: Operation) -> str:
        return kind_of(operation)

    async def execute(self, operation: Operation) -> Outcome:
        return await self._operations.execute(operation)

    def apply(self, operation: Operation, outcome: Outcome) -> bool:
        return self._outcomes.apply(operation, outcome)

    def _touch(self, name: VolumeName, news: bool) -> None:
        (self._reconciler.resume if news else self._reconciler.touch)(_VOLUME + name)

    def _touch_node(self, node: str) -> None:
        self._reconciler.touch(_NODE + node)
