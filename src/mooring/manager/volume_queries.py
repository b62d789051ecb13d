"""What can be asked of a volume manager about pods, containers and volumes, under the kubelet's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from mooring.errors import Refused
from mooring.host.interface import Host, Risk
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.manager import container_mounts, sub_paths
from mooring.manager.container_mounts import ContainerView, MountedVolume, SubPath
from mooring.manager.environment import EnvironmentSources
from mooring.manager.expected_mounts import ExpectedMounts
from mooring.manager.mount_verdicts import Owner
from mooring.manager.pod_locks import PodLocks
from mooring.manager.recovery import Recovery
from mooring.manager.volume_subject import VolumeSubject
from mooring.plugins.interface import NodeFacts, Objects
from mooring.plugins.manager import VolumePluginManager
from mooring.world.actual import ActualStateOfWorld
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.planner import is_ready
from mooring.world.presence import Attachability
from mooring.world.spec import VolumeSpec

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class VolumeQueries:
    """What `VolumeManager` inherits: answers from both worlds, none of which changes them."""

    desired: DesiredStateOfWorld
    actual: ActualStateOfWorld
    plugins: VolumePluginManager
    recovery: Recovery
    _subject: VolumeSubject
    _host: Host
    _paths: Paths
    _node: Callable[[], NodeFacts]
    _objects: Objects | None
    _address: str
    _sub_path_locks: PodLocks
    expected: ExpectedMounts

    def get_mounted_volumes_for_pod(self, uid: PodUid) -> Mapping[str, MountedVolume]:
        """By the names they have in the pod: the volumes it wants and can use now."""
        found: dict[str, MountedVolume] = {}
        for outer, name in self.desired.names_for_pod(uid).items():
            wanted, held = self.desired.volumes[name], self.actual.volumes.get(name)
            plugin = self.plugins.plugins.get(wanted.plugin)  # None: it has gone meanwhile
            if plugin is not None and held is not None and is_ready(wanted, held, uid):
                mount = held.mounts[uid]
                offer = plugin.offer(mount.spec)
                found[outer] = MountedVolume(
                    name=name,
                    inner_name=mount.spec.name,
                    plugin=held.plugin,
                    path=mount.path,
                    mounter=offer.mounter,
                    attributes=replace(offer.attributes, relabel=False) if held.label else offer.attributes,
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
            views = container_mounts.work_out(
                pod, mounted, self._paths, self.environment_sources(), recursive_read_only=recursive_read_only
            )
            with self.expected.preparing(uid):
                prepared = await self._host.run(
                    lambda: sub_paths.prepare(self._host, views),
                    risk=Risk.HANGING,
                    what=f"prepare the mounts of the containers of pod {pod.key!r}",
                )
                self.expected.sub_paths_shown(uid, mounted, prepared)
            return prepared

    async def _show_again(self, owner: Owner, sub_path: SubPath) -> None:
        """Make a sub-path that somebody else unmounted once more, as long as its volume is there."""
        uid = owner.pod
        assert uid is not None
        async with self._sub_path_locks.of(uid):
            if not self.actual.is_mounted(uid, owner.volume):
                return
            with self.expected.preparing(uid):
                await self._host.run(
                    lambda: sub_paths.show(self._host, sub_path),
                    risk=Risk.HANGING,
                    what=f"make the sub-path at {sub_path.target} again",
                )
                self.expected.expect(sub_path.target, owner, sub_path)

    def environment_sources(self) -> EnvironmentSources:
        """What the variables of containers are taken from."""
        return EnvironmentSources(objects=self._objects, node=self._node(), address=self._address)

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
        # What was found on disk may be attached: doubt counts as use.
        there = {n for n, volume in self.actual.volumes.items() if volume.attachability is not Attachability.FALSE}
        return sorted(wanted | there | self._subject.attachable_in_flight() | set(self.recovery.volumes()))

    def awaited_attachments(self) -> dict[VolumeName, VolumeSpec]:
        """Volumes that others are to attach, know to be used here, and have not said to be attached."""
        return {
            name: volume.mounts[min(volume.mounts)].spec
            for name, volume in self.desired.volumes.items()
            if volume.attachable and volume.reported_in_use and name not in self._subject.gates.attached
        }

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
