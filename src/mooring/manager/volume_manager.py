"""The volume manager: pods in, usable volumes out. Its public methods are the kubelet's, in Python's spelling."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from mooring.engine.pending import Backoff, PendingOperations
from mooring.engine.reconciler import Reconciler
from mooring.errors import Refused
from mooring.host.interface import Host, Risk
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.manager import container_mounts, sub_paths
from mooring.manager.claims import Claims
from mooring.manager.container_mounts import ContainerView, MountedVolume
from mooring.manager.operation_executor import OperationExecutor
from mooring.manager.operations.context import OperationContext
from mooring.manager.pods import KnownPods, PodManager, PodStates
from mooring.manager.populator import DesiredStateOfWorldPopulator
from mooring.manager.reconstruction import Leftover, reconstruct
from mooring.manager.second_looks import SecondLooks
from mooring.manager.volume_subject import VolumeSubject, pod_key
from mooring.manager.waits import PodWaits
from mooring.plugins.interface import NodeFacts, ObjectRef
from mooring.plugins.manager import VolumePluginManager
from mooring.settings import Settings
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, Listener
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import MOUNT_KIND, Operation
from mooring.world.outcomes import Outcome
from mooring.world.planner import Gates
from mooring.world.pod_facts import volume_use
from mooring.world.presence import Attachability
from mooring.world.spec import VolumeSpec

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class VolumeManager:
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
        states: PodStates | None = None,
        clock: Callable[[], float] | None = None,
        strict: bool = False,
    ) -> None:
        self.settings = settings
        self.pods = PodManager()
        self.states: PodStates = states if states is not None else KnownPods(self.pods)
        self.leftovers: list[Leftover] = []
        self._host, self._paths, self.plugins = host, paths, plugins
        self._clock = clock if clock is not None else (lambda: asyncio.get_running_loop().time())
        self._synced = asyncio.Event()
        self.desired = DesiredStateOfWorld(self._desire_changed)
        self.second_looks = SecondLooks(self.desired)
        self._listeners: list[Listener] = [self.second_looks.listen]
        self.actual = ActualStateOfWorld(lambda _: self._waits.notify_node())
        context = OperationContext(
            desired=self.desired, actual=self.actual, plugins=plugins, host=host, paths=paths, node=node
        )
        self._sub_path_locks = context.sub_path_locks
        self.executor = OperationExecutor(context, strict=strict)
        self._subject = VolumeSubject(
            self.desired, self.actual, self.executor, self.pods, self.states, clock=self._clock, tell=self.tell
        )
        self._waits = PodWaits(self.desired, self.actual, self._subject.mounting)
        backoff = Backoff(initial=settings.backoff_initial, maximum=settings.backoff_maximum)
        self.reconciler: Reconciler[Operation, Outcome] = Reconciler(
            self._subject,
            PendingOperations(backoff),
            limit=settings.running_operations,
            resync_interval=settings.resync_interval,
        )
        self._subject.touch = self.reconciler.touch
        self._subject.forget = self.reconciler.forget
        self._subject.pod_moved = self._waits.notify
        self.populator = DesiredStateOfWorldPopulator(
            self.desired,
            plugins,
            claims,
            self.pods,
            self.states,
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

    def object_changed(self, ref: ObjectRef) -> None:
        """An object that pods may name, such as a ConfigMap or a claim, was added, changed or removed."""
        self.populator.object_changed(ref)

    def sources_heard(self) -> None:
        """Every source of pods has told all it has: from now on what nobody wants may be taken away."""
        self.populator.sources_heard = True
        self._subject.gates = replace(self.gates, sources_heard=True)
        self._touch_everything()

    def _touch_everything(self) -> None:
        for key in sorted(self._subject.keys()):
            self.reconciler.touch(key)

    def _worked_out(self, uid: PodUid) -> None:
        """What a pod wants is known again, or is not: open or close its gate, and let everybody concerned look."""
        in_doubt = bool(self.desired.problems(uid))
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
        self.second_looks.wish_changed(name)
        self.reconciler.touch(name)

    # -- the kubelet's interface ---------------------------------------------------------------------------------
    async def run(self) -> None:
        """Find what earlier processes left, then keep everything as it is wanted until cancelled or stopped."""
        self.leftovers = reconstruct(self._host, self._paths, self.plugins, self.actual, self.tell)
        self._synced.set()
        self._touch_everything()
        try:
            async with asyncio.TaskGroup() as tasks:
                refreshing = tasks.create_task(self._refresh_forever(), name="refresh")
                await self.reconciler.run()
                refreshing.cancel()
        finally:
            self.second_looks.stop()

    async def _refresh_forever(self) -> None:
        """The fallback behind refresh by events: compare all content again, seldom."""
        while True:
            await asyncio.sleep(self.settings.refresh_interval)
            for uid in sorted(self.desired.pods()):
                self.populator.refresh_pod(uid)

    async def stop(self) -> None:
        """Start nothing more and let running operations end; volumes stay in place. Bounded by `stop_timeout`."""
        self.reconciler.stop()
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

    def get_mounted_volumes_for_pod(self, uid: PodUid) -> Mapping[str, MountedVolume]:
        """By the names they have in the pod: the volumes it wants and can use now."""
        found: dict[str, MountedVolume] = {}
        for outer, name in self.desired.names_for_pod(uid).items():
            if self.actual.is_mounted(uid, name):
                mount = self.actual.volumes[name].mounts[uid]
                offer = self.plugins.find_by_name(self.actual.volumes[name].plugin).offer(mount.spec)
                found[outer] = MountedVolume(
                    name=name,
                    inner_name=mount.spec.name,
                    plugin=self.actual.volumes[name].plugin,
                    path=mount.path,
                    mounter=offer.mounter,
                    attributes=offer.attributes,
                    read_only=mount.spec.read_only,
                    is_block=mount.spec.is_block,
                )
        return found

    async def get_container_mounts(self, pod: Pod, *, recursive_read_only: bool = True) -> list[ContainerView]:
        """What each container of a pod should see, its sub-paths being there; `Refused` while a volume is not mounted.

        `recursive_read_only` says whether whoever starts the containers can make mounts recursively read-only.
        """
        uid = PodUid(pod.metadata.uid)
        async with self._sub_path_locks.of(uid):
            mounted = self.get_mounted_volumes_for_pod(uid)
            views = container_mounts.work_out(pod, mounted, self._paths, recursive_read_only=recursive_read_only)
            return await self._host.run(
                lambda: sub_paths.prepare(self._host, views),
                risk=Risk.HANGING,
                what=f"prepare the mounts of the containers of pod {pod.key!r}",
            )

    def get_possibly_mounted_volumes_for_pod(self, uid: PodUid) -> list[VolumeName]:
        """Every volume that is, may be or is being mounted for a pod, wanted or not."""
        return sorted({name for name, _ in self.actual.mounts_of_pod(uid)} | self._subject.mounting(uid))

    def has_possibly_mounted_volumes_for_pod(self, uid: PodUid) -> bool:
        """Whether anything of a pod is or may be mounted, a mount under way included."""
        return self.actual.may_hold(uid) or bool(self._subject.mounting(uid))

    def get_extra_supplemental_groups_for_pod(self, pod: Pod) -> list[int]:
        """Groups that mounted PersistentVolumes ask for and the pod does not name itself."""
        security = pod.spec.security_context
        own = set(security.supplemental_groups) if security is not None else set()
        groups: set[int] = set()
        for mounted in self.get_mounted_volumes_for_pod(PodUid(pod.metadata.uid)).values():
            gid = self.actual.volumes[mounted.name].mounts[PodUid(pod.metadata.uid)].spec.gid
            if _WHOLE_NUMBER.fullmatch(gid) and -(2**63) <= int(gid) < 2**63:
                groups.add(int(gid))
        return sorted(groups - own)

    def get_volumes_in_use(self) -> list[VolumeName]:
        """Attachable volumes that are wanted, there, or being worked on."""
        wanted = {name for name, volume in self.desired.volumes.items() if volume.attachable}
        there = {n for n, volume in self.actual.volumes.items() if volume.attachability is Attachability.TRUE}
        return sorted(wanted | there | self._subject.attachable_in_flight())

    def reconciler_states_has_been_synced(self) -> bool:
        """Whether what earlier processes left has been found; never false again."""
        return self._synced.is_set()

    def volume_is_attached(self, name: VolumeName) -> bool:
        volume = self.actual.volumes.get(name)
        return volume is not None and not volume.is_vacant

    def holds_claim(self, claim: PersistentVolumeClaim) -> bool:
        """Whether something of a claim's volume is or may be on this node. Of one found on disk only the name tells."""
        return any(
            not held.is_vacant and (held.spec.claim == claim.key or held.spec.is_volume(claim.spec.volume_name))
            for held in self.actual.volumes.values()
        )

    def mark_volumes_as_reported_in_use(self, names: Iterable[VolumeName]) -> None:
        self.desired.mark_reported_in_use(names)

    async def resize_ephemeral_volume(self, pod: Pod, volume: str, size: int) -> None:
        """Give a mounted memory-backed emptyDir another size."""
        found = next((each for each in pod.spec.volumes if each.name == volume), None)
        if found is None:
            raise Refused(f"cannot resize volume {volume!r}", why=f"it is not found in pod {pod.key!r}")
        spec = VolumeSpec(volume=found)
        offer = self.plugins.find_by_spec(spec).offer(spec)
        if offer.resizer is None:
            raise Refused(f"cannot resize volume {volume!r}", why="its type does not support direct resizing")
        await offer.resizer.resize(PodUid(pod.metadata.uid), spec, size)
