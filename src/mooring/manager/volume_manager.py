"""The volume manager: pods in, usable volumes out. Its public methods are the kubelet's, in Python's spelling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mooring.engine.pending import Backoff, PendingOperations
from mooring.engine.reconciler import Reconciler
from mooring.errors import Refused
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Pod
from mooring.manager.claims import Claims, ClaimStatus, NoClaimStatus
from mooring.manager.expected_mounts import ExpectedMounts
from mooring.manager.hangs import Hangs
from mooring.manager.intents import Intents
from mooring.manager.mount_watch import MountWatch
from mooring.manager.operation_executor import OperationExecutor
from mooring.manager.operations.context import OperationContext
from mooring.manager.ownership_walks import OwnershipWalks
from mooring.manager.pods import KnownPods, PodManager, PodStates
from mooring.manager.populator import DesiredStateOfWorldPopulator
from mooring.manager.recovery import Recovery
from mooring.manager.second_looks import SecondLooks
from mooring.manager.volume_labels import VolumeLabels
from mooring.manager.volume_queries import VolumeQueries
from mooring.manager.volume_subject import VolumeSubject, pod_key
from mooring.manager.waits import PodWaits
from mooring.plugins.interface import NodeFacts, ObjectRef, Objects
from mooring.plugins.manager import VolumePluginManager
from mooring.settings import Settings
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, Listener, Noticed
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.explain import HoldUp
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import MOUNT_KIND, Operation, VolumeOperation, pod_of
from mooring.world.outcomes import Outcome, told_of_attachment
from mooring.world.planner import Gates
from mooring.world.pod_facts import volume_use


class _LoopClock:
    """The time of the loop that asks first: to find the running loop takes a system call each time."""

    def __init__(self) -> None:
        self._time: Callable[[], float] | None = None

    def __call__(self) -> float:
        if self._time is None:
            self._time = asyncio.get_running_loop().time
        return self._time()


class VolumeManager(VolumeQueries):
    """Keeps the volumes of this node as its pods want them. Runs on one event loop; nothing here blocks it."""

    def __init__(
        self,
        *,
        settings: Settings,
        host: Host,
        paths: Paths,
        plugins: VolumePluginManager,
        claims: Claims,
        node: Callable[[], NodeFacts],
        objects: Objects | None = None,
        address: str = "",
        claim_status: ClaimStatus | None = None,
        pods: PodManager | None = None,
        states: PodStates | None = None,
        clock: Callable[[], float] | None = None,
        attached_by_others: bool = False,
        strict: bool = False,
    ) -> None:
        self.settings = settings
        self.pods = pods if pods is not None else PodManager()
        self.states: PodStates = states if states is not None else KnownPods(self.pods)
        self._host, self._paths, self.plugins = host, paths, plugins
        self._node, self._objects, self._address = node, objects, address
        self._clock = clock if clock is not None else _LoopClock()
        self._synced = asyncio.Event()
        self.desired = DesiredStateOfWorld(self._desire_changed)
        self.second_looks = SecondLooks(self.desired)
        self.expected = ExpectedMounts(host, paths.root)
        self._listeners: list[Listener] = [self.second_looks.listen, self.expected.listen]
        self.actual = ActualStateOfWorld(self._actual_changed)
        self.use_changed: Callable[[], None] = lambda: None  # `get_volumes_in_use` may answer otherwise now
        self.intents = Intents(host, paths.intents_dir)
        self.walks = OwnershipWalks(
            tell=self.tell, patience=settings.ownership_patience, interval=settings.ownership_interval
        )
        context = OperationContext(
            desired=self.desired,
            actual=self.actual,
            plugins=plugins,
            host=host,
            paths=paths,
            node=node,
            intents=self.intents,
            walks=self.walks,
            expected=self.expected,
            claims=claims,
            claim_status=claim_status if claim_status is not None else NoClaimStatus(),
            tell=self.tell,
            told_device=lambda name: self.gates.attached.get(name, ""),
        )
        self._sub_path_locks = context.sub_path_locks
        self.executor = OperationExecutor(context, strict=strict)
        self._subject = VolumeSubject(
            self.desired,
            self.actual,
            self.executor,
            self.pods,
            self.states,
            self.intents,
            clock=self._clock,
            tell=self.tell,
        )
        if attached_by_others:
            self._subject.gates = replace(
                self.gates, attaches_itself=False, attachments_known=False, status_heard=False
            )
        self.recovery = Recovery(
            host, paths, plugins, self.actual, self.intents, may_clean=self._may_clean, tell=self.tell
        )
        self._waits = PodWaits(self.desired, self.actual, self._subject.mounting)
        backoff = Backoff(initial=settings.backoff_initial, maximum=settings.backoff_maximum)
        self.reconciler: Reconciler[Operation, Outcome] = Reconciler(
            self._subject,
            PendingOperations(backoff),
            limit=settings.running_operations,
            resync_interval=settings.resync_interval,
        )
        self._hangs = Hangs(host, is_wanted=self._subject.is_wanted, make_room=self.reconciler.make_room)
        self.mount_watch = MountWatch(
            host,
            paths.root,
            self.expected,
            self.desired,
            self.actual,
            interval=settings.resync_interval,
            tell=self.tell,
            remake=self._show_again,
        )
        self.mount_watch.resume = self.reconciler.resume
        self.mount_watch.pod_moved = self._waits.notify
        self._subject.touch = self.reconciler.touch
        self._subject.forget = self.reconciler.forget
        self._subject.pod_moved = self._waits.notify
        self.populator = DesiredStateOfWorldPopulator(
            self.desired,
            plugins,
            claims,
            self.pods,
            self.states,
            VolumeLabels(
                self.desired, self.actual, node=node, any_access_mode=settings.selinux_mount == "on", tell=self.tell
            ),
            clock=self._clock,
            resume=self.reconciler.resume,
            worked_out=self._worked_out,
            tell=self.tell,
        )

    # -- what is told to it --------------------------------------------------------------------------------------
    def pod_changed(self, pod: Pod) -> None:
        """A source tells of a new or changed pod."""
        before = self.pods.find(pod.key)
        if before is not None and before.metadata.uid != pod.metadata.uid:
            self.pod_removed(PodUid(before.metadata.uid))
        self.populator.pod_changed(self.pods.put(pod))

    def pod_removed(self, uid: PodUid) -> None:
        """A source tells that a pod is gone."""
        self.pods.remove(uid)
        self.populator.pod_changed(uid)

    def pod_state_changed(self, uid: PodUid) -> None:
        """The pod state provider has something new to say of a pod."""
        self.populator.pod_changed(uid)

    def containers_changed(self, uid: PodUid, left: str | None) -> None:
        """Whoever runs containers tells what is left of a pod's, in words, or with None that nothing is.

        As long as something is left, nothing of the pod is unmounted.
        """
        others = {pod: words for pod, words in self.gates.pods_with_containers.items() if pod != uid}
        self._subject.gates = replace(
            self.gates, pods_with_containers=others if left is None else {**others, uid: left}
        )
        for name, _ in self.actual.mounts_of_pod(uid):
            self.reconciler.touch(name)
        self.pod_state_changed(uid)

    def containers_left(self, uid: PodUid) -> str | None:
        """What was told last of a pod's containers."""
        return self.gates.pods_with_containers.get(uid)

    def object_changed(self, ref: ObjectRef) -> None:
        """An object that pods may name, such as a ConfigMap or a claim, was added, changed or removed."""
        self.populator.object_changed(ref)

    def attachments_told(self, attached: Mapping[VolumeName, str]) -> None:
        """Whoever attaches volumes to this node tells which are, with their devices, in the node's status."""
        before, now = self.gates.attached, dict(attached)
        if before == now and self.gates.attachments_known:
            return
        for volume in list(self.actual.volumes.values()):
            self.actual.put(told_of_attachment(volume, attached.get(volume.name)))
        first = not self.gates.attachments_known
        self._subject.gates = replace(self.gates, attached=now, attachments_known=True)
        for name in sorted(self._subject.keys() if first else before.keys() ^ now.keys()):
            self.reconciler.resume(name)

    def attachments_failed(self, why: Mapping[VolumeName, str]) -> None:
        """Whoever attaches says why it cannot: of all volumes of which that is known, in words."""
        before = self.gates.attach_errors
        self._subject.gates = replace(self.gates, attach_errors=dict(why))
        for name in sorted(name for name in why if before.get(name) != why[name]):
            volume = self.desired.volumes.get(name)
            for wish in volume.mounts.values() if volume is not None else ():
                message = f"volume {wish.spec.name!r} is not attached: {why[name]}"
                self.tell(Noticed(pod=wish.pod, volume=wish.spec.name, reason="FailedAttachVolume", message=message))

    def status_heard(self) -> None:
        """The node's status, as it was told last, is the server's own answer, and no news from before the start."""
        if not self.gates.status_heard:
            self._subject.gates = replace(self.gates, status_heard=True)
            self._touch_everything()

    def sources_heard(self) -> None:
        """Every source of pods has told all it has: from now on what nobody wants may be taken away."""
        self.populator.sources_heard = True
        self._subject.gates = replace(self.gates, sources_heard=True)
        self.populator.look_at_kept_out()
        self._touch_everything()

    def _touch_everything(self) -> None:
        for key in sorted(self._subject.keys()):
            self.reconciler.touch(key)

    def _worked_out(self, uid: PodUid) -> None:
        """What a pod wants is known again, or is not: open or close its gate, and let everybody concerned look."""
        in_doubt = self.desired.is_in_doubt(uid)
        if in_doubt != (uid in self.gates.pods_in_doubt):
            self._subject.gates = replace(self.gates, pods_in_doubt=self.gates.pods_in_doubt ^ {uid})
            for name, _ in self.actual.mounts_of_pod(uid):
                self.reconciler.touch(name)
        self.reconciler.touch(pod_key(uid))
        self._waits.notify(uid)

    def namesakes(self, name: VolumeName) -> frozenset[PodUid]:
        """Pods whose mount of a volume waits until another volume of the same name has gone."""
        volume = self.desired.volumes.get(name)
        return self._subject.namesakes(volume) if volume is not None else frozenset()

    def held_up(self, name: VolumeName, uid: PodUid) -> HoldUp | None:
        """What holds up the operation under way on a volume of a pod, if it takes suspiciously long."""
        for work, held_up in self._hangs.held_up.items():
            if isinstance(work, VolumeOperation) and work.volume == name and pod_of(work) in (uid, None):
                return held_up
        return None

    @property
    def gates(self) -> Gates:
        return self._subject.gates

    # -- what it tells -------------------------------------------------------------------------------------------
    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def tell(self, change: Change) -> None:
        """Pass on what happened to everyone who subscribed."""
        for listener in self._listeners:
            listener(change)

    def _desire_changed(self, name: VolumeName) -> None:
        volume = self.desired.volumes.get(name)
        held = self.actual.volumes.get(name)
        if held is not None:
            wanted = volume.mounts if volume is not None else {}
            for part in [part for part in held.failures if part is not None and part not in wanted]:
                if held.failures[part].operation == MOUNT_KIND:  # a failing unmount goes on, and goes on resting
                    self.actual.clear_failure(name, part)
                    self.reconciler.forget(name, part)
        self.walks.wish_changed(name, volume.mounts if volume is not None else ())
        self.second_looks.wish_changed(name)
        self.reconciler.touch(name)
        if volume is None or volume.attachable is not volume.reported_in_use:
            self.use_changed()

    def _actual_changed(self, name: VolumeName) -> None:
        self._waits.notify_node()
        if name not in self.desired.volumes:
            self.use_changed()

    # -- the kubelet's interface ---------------------------------------------------------------------------------
    async def run(self) -> None:
        """Find what earlier processes left, then keep everything as it is wanted until cancelled or stopped."""
        if self.plugins.prober is not None:
            await self.plugins.prober.probe()  # what its plugins left is found below
        self.recovery.begin()
        self._subject.gates = replace(self.gates, begun_since_boot=self.intents.of_this_boot())
        self._note_kept_apart()
        self._synced.set()
        self._touch_everything()
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [
                    tasks.create_task(self._refresh_forever(), name="refresh"),
                    tasks.create_task(self._hangs.run(), name="hangs"),
                    tasks.create_task(self._look_again_forever(), name="leftovers"),
                ]
                if self.settings.mount_events != "off":
                    beside.append(tasks.create_task(self.mount_watch.run(), name="mounts"))
                await self.reconciler.run()
                for task in beside:
                    task.cancel()
        finally:
            self.second_looks.stop()

    def _may_clean(self, uid: PodUid) -> bool:
        """Whether a pod's leftovers may go: every source was heard, and nobody wants anything for it."""
        return self.gates.sources_heard and self.states.runtime_removed(uid) and not self.desired.names_for_pod(uid)

    async def _look_again_forever(self) -> None:
        """What was found and not understood may be by now: its plugin may have come, or its pod gone."""
        while self.recovery.leftovers:
            told_by_records = set(self.recovery.volumes())
            for uid in self.recovery.look_again():
                self.reconciler.touch(pod_key(uid))
                for name, _ in self.actual.mounts_of_pod(uid):
                    self.reconciler.touch(name)
            for name in sorted(told_by_records.difference(self.recovery.volumes())):
                self.reconciler.touch(name)
            self._note_kept_apart()
            await asyncio.sleep(self.settings.resync_interval)

    def _note_kept_apart(self) -> None:
        """Let nothing be taken from below what is kept apart, and look again at what waited for it."""
        kept = self.recovery.kept_apart()
        settled = {(plugin, name) for plugin, name, _ in self.gates.kept_apart - kept}
        self._subject.gates = replace(self.gates, kept_apart=kept)
        for volume in self.actual.volumes.values():
            if (volume.plugin, volume.spec.name) in settled:
                self.reconciler.touch(volume.name)

    async def _refresh_forever(self) -> None:
        """The fallback behind refresh by events: compare all content again, seldom."""
        while True:
            await asyncio.sleep(self.settings.refresh_interval)
            for uid in sorted(self.desired.pods()):
                self.populator.refresh_pod(uid)

    async def stop(self) -> None:
        """Start nothing more and let running operations end; volumes stay in place. Bounded by `stop_timeout`."""
        self.reconciler.stop()
        self._hangs.stop()
        try:
            async with asyncio.timeout(self.settings.stop_timeout):
                await self.reconciler.until_idle()
        except TimeoutError:
            return

    async def wait_for_attach_and_mount(
        self, pod: Pod, *, timeout: float | None = None, fail_fast: bool = True
    ) -> None:
        """Return when every volume that the pod's containers use is mounted; else raise `NotMounted` with the lists.

        A volume that cannot be worked out ends the wait at once, unless `fail_fast` is off.
        """
        uid = PodUid(pod.metadata.uid)
        expected = volume_use(pod).names
        if expected:
            if not self._waits.unmounted(uid, expected):
                self.populator.refresh_pod(uid)  # as a kubelet's pod sync; what is being mounted is fresh anyway
            limit = self.settings.wait_timeout if timeout is None else timeout
            await self._waits.until_mounted(uid, expected, timeout=limit, fail_fast=fail_fast)

    async def wait_for_unmount(self, pod: Pod, *, timeout: float | None = None) -> None:
        """Return when nothing of the pod is or may be mounted; else raise `StillMounted`."""
        await self.wait_for_uid_unmount(PodUid(pod.metadata.uid), timeout=timeout)

    async def wait_for_uid_unmount(self, uid: PodUid, *, timeout: float | None = None) -> None:
        """As `wait_for_unmount`, also for a pod of which only the UID is known any more."""
        limit = self.settings.wait_timeout if timeout is None else timeout
        await self._waits.until_unmounted(uid, timeout=limit)

    async def wait_for_nothing_left(self, *, timeout: float) -> None:
        """Return when no volume and no pod directory is left on this node; TimeoutError or an error else."""
        async with asyncio.timeout(timeout):
            await self._synced.wait()
            while not self.actual.is_empty() or not self.reconciler.is_idle():
                await self._waits.until_nothing_held()
                await self.reconciler.until_idle()
                if not self.actual.volumes and self.actual.directories:
                    uid = min(self.actual.directories)
                    why = "it could not be removed; `mooring get findings` and the log tell more"
                    raise Refused(f"the directory of pod {uid!r} is left", why=why)

    async def wait_for_all_pods_unmount(self, pods: Sequence[Pod], *, timeout: float | None = None) -> None:
        """Wait for all pods at once; raise an ExceptionGroup with one error for each pod that is not done."""
        waits = (self.wait_for_unmount(pod, timeout=timeout) for pod in pods)
        ended = await asyncio.gather(*waits, return_exceptions=True)
        failed = [error for error in ended if isinstance(error, Exception)]
        if failed:
            raise ExceptionGroup("volumes are still mounted", failed)

    async def wait_for_states_synced(self) -> None:
        """Return when what earlier processes left has been found."""
        await self._synced.wait()

    def reconciler_states_has_been_synced(self) -> bool:
        """Whether what earlier processes left has been found; never false again."""
        return self._synced.is_set()
