"""What happens around a manager: sources that tell of pods and objects, containers that write, people who mount."""

from __future__ import annotations

from functools import partial

import msgspec

from mooring.host.interface import NewFile
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Secret
from mooring.manager.pods import KnownPods
from mooring.plugins.interface import ObjectRef
from mooring.testing.memory_node import MemoryNode
from mooring.testing.memory_tree import PAGE
from mooring.testing.simulation.disks import DISKS, NAMESPACE, make_claim, make_persistent_volume
from mooring.testing.simulation.faults import Faults
from mooring.testing.simulation.oracle import volume_path
from mooring.testing.simulation.script import (
    DeleteClaim,
    DeleteDisk,
    DeleteObject,
    DropVolume,
    EndContainers,
    HoldOpen,
    JumpClock,
    LetGo,
    LimitDisk,
    MakePath,
    MountForeign,
    PutClaim,
    PutObject,
    PutPod,
    PutVolume,
    RelabelPod,
    RemovePod,
    RunContainers,
    UnmountByHand,
    WriteFile,
)
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import DiskWish, EmptyDirWish, InlineWish, PodWish, VolumeWish, make_pod
from mooring.testing.simulation.world_model import Obstacle, WorldModel
from mooring.world.names import PodUid

Happening = (
    PutPod
    | RelabelPod
    | PutVolume
    | DropVolume
    | RemovePod
    | PutObject
    | DeleteObject
    | PutClaim
    | DeleteClaim
    | DeleteDisk
    | WriteFile
    | MountForeign
    | UnmountByHand
    | HoldOpen
    | LetGo
    | MakePath
    | RunContainers
    | EndContainers
    | JumpClock
    | LimitDisk
)


class Surroundings:
    """Changes the world model and the machine, and tells the present manager, once it is told anything at all."""

    def __init__(self, node: MemoryNode, model: WorldModel, faults: Faults, watcher: Watcher) -> None:
        self._node = node
        self._host = node.host
        self._model = model
        self._faults = faults
        self._watcher = watcher

    def take(self, step: Happening) -> None:
        match step:
            case PutPod() | RelabelPod() | PutVolume() | DropVolume():
                self._change_pod(step)
            case RemovePod():
                self.remove_pod(step.pod)
            case PutObject() | DeleteObject():
                self._change_object(step)
            case PutClaim() | DeleteClaim() | DeleteDisk():
                self._change_claim(step)
            case RunContainers():
                self._run_containers(step.pod)
            case EndContainers():
                self.end_containers(step.pod)
            case JumpClock():
                self._model.clock_offset += step.seconds
                self._node.wall_offset = self._model.clock_offset
            case WriteFile():
                self._faults.act(lambda: self._write(step))
            case MountForeign() | HoldOpen():
                self._faults.act(lambda: self._obstruct(step))
            case UnmountByHand():
                self._faults.act(lambda: self._unmount(step))
            case LetGo():
                self.let_go()
            case MakePath():
                self._faults.act(lambda: self._host.make_directories(step.path, 0o755))
            case LimitDisk():
                self._host.limit_disk(None if step.pages is None else step.pages * PAGE)

    # -- pods and objects ----------------------------------------------------------------------------------------
    def _change_pod(self, step: PutPod | RelabelPod | PutVolume | DropVolume) -> None:
        before = self._model.pods.get(step.pod.name if isinstance(step, PutPod) else step.pod)
        if isinstance(step, PutPod):
            pod = step.pod
        elif before is None:
            return
        elif isinstance(step, RelabelPod):
            pod = msgspec.structs.replace(before, label=step.label)
        else:
            pod = _with_volume(before, step)
        self._model.put_pod(pod)
        if self._watcher.told:
            self._node.add_pod(make_pod(pod))

    def remove_pod(self, name: str) -> None:
        pod = self._model.remove_pod(name)
        if pod is not None and self._watcher.told:
            self._node.remove_pod(PodUid(pod.uid))

    def _change_object(self, step: PutObject | DeleteObject) -> None:
        if isinstance(step, DeleteObject):
            self._model.objects.pop((step.kind, step.name), None)
            self._model.note_versions()
            self._node.remove(ObjectRef(step.kind, NAMESPACE, step.name))
            return
        self._model.objects[step.kind, step.name] = dict(step.data)
        self._model.note_versions()
        meta = ObjectMeta(name=step.name, namespace=NAMESPACE)
        if step.kind == "Secret":
            self._node.put(Secret(metadata=meta, data={key: text.encode() for key, text in step.data.items()}))
        else:
            self._node.put(ConfigMap(metadata=meta, data=step.data))

    def _change_claim(self, step: PutClaim | DeleteClaim | DeleteDisk) -> None:
        match step:
            case PutClaim():
                disk = DISKS[step.disk]
                self._model.claims[disk.name] = self._model.volumes_of[disk.name] = step.generation
                self._node.put(make_persistent_volume(disk, step.generation, step.size))
                self._node.put(make_claim(disk, step.generation))
            case DeleteClaim():
                self._model.claims.pop(step.disk, None)
                self._node.remove(ObjectRef("PersistentVolumeClaim", NAMESPACE, step.disk))
            case DeleteDisk():
                self._model.volumes_of.pop(step.disk, None)
                self._node.remove(ObjectRef("PersistentVolume", "", step.disk))

    # -- containers and people -----------------------------------------------------------------------------------
    def _run_containers(self, name: str) -> None:
        pod = self._model.pods.get(name)
        if pod is None or not self._watcher.told or self._faults.killed_by is not None:
            return
        mounted = self._node.manager.get_mounted_volumes_for_pod(PodUid(pod.uid))
        if pod.volumes and all(volume.name in mounted for volume in pod.volumes):
            self._model.containers[pod.uid] = pod
            self._tell_of_containers(pod.uid)

    def end_containers(self, name: str) -> None:
        for uid in [uid for uid, pod in self._model.containers.items() if pod.name == name]:
            del self._model.containers[uid]
            if self._faults.killed_by is None:
                self._states().with_containers.discard(PodUid(uid))
                self._node.manager.containers_changed(PodUid(uid), None)

    def tell_of_all_containers(self) -> None:
        """What whoever runs containers tells a manager before it begins."""
        for uid in sorted(self._model.containers):
            self._tell_of_containers(uid)

    def _tell_of_containers(self, uid: str) -> None:
        self._states().with_containers.add(PodUid(uid))
        self._node.manager.containers_changed(PodUid(uid), "a container runs")

    def _states(self) -> KnownPods:
        states = self._node.manager.states
        assert isinstance(states, KnownPods)
        return states

    def usable(self, pod: str, volume: str) -> tuple[PodWish, VolumeWish] | None:
        """A volume that the manager has reported mounted, so that containers may run."""
        found = self._model.find(pod, volume)
        if found is None or not self._watcher.told or self._faults.killed_by is not None:
            return None
        mounted = self._node.manager.get_mounted_volumes_for_pod(PodUid(found[0].uid))
        return found if volume in mounted else None

    def _write(self, step: WriteFile) -> None:
        found = self.usable(step.pod, step.volume)
        if found is None:
            return
        pod, volume = found
        if self._watcher.is_disturbed(pod.uid, volume):
            return  # it would go where the volume was
        if isinstance(volume, DiskWish) and not volume.of.block:
            files = self._model.disk_files.setdefault(volume.disk, {})
        elif isinstance(volume, EmptyDirWish | InlineWish):
            files = self._model.user_files.setdefault((pod.uid, volume.name), {})
        else:
            return
        place = volume_path(self._node.paths.root, pod.uid, volume)
        if step.file in files or self._host.look(f"{place}/{step.file}") is not None:
            return
        try:
            self._host.write_files(place, [NewFile(path=step.file, data=step.text.encode(), mode=0o640)])
        except OSError:
            return  # the disk is full, as containers know it
        files[step.file] = step.text

    def _obstruct(self, step: MountForeign | HoldOpen) -> None:
        found = self.usable(step.pod, step.volume)
        if found is None or self._model.is_obstructed(found[0].uid):
            return
        pod, volume = found
        if not isinstance(volume, EmptyDirWish) or self._watcher.is_disturbed(pod.uid, volume):
            return
        place = volume_path(self._node.paths.root, pod.uid, volume)
        if isinstance(step, HoldOpen):
            if volume.memory:
                self._host.hold(place)
                self._model.obstacles.append(Obstacle(pod.uid, place, mounted=False))
            return
        path = f"{place}/foreign"
        self._host.make_directories(path, 0o755)
        self._host.bind(FOREIGN, path)
        self._model.obstacles.append(Obstacle(pod.uid, path, mounted=True))

    def _unmount(self, step: UnmountByHand) -> None:
        """Take a mount away behind the manager's back: what was in memory is lost, and it has to be made again."""
        found = self.usable(step.pod, step.volume)
        if found is None or self._model.is_obstructed(found[0].uid):
            return
        pod, volume = found
        place = volume_path(self._node.paths.root, pod.uid, volume)
        if isinstance(volume, EmptyDirWish | InlineWish | DiskWish) and self._host.mount_at(place) is not None:
            self._host.somebody.unmounts(place)
            self._model.user_files.pop((pod.uid, volume.name), None)
            self._watcher.disturb(pod.uid, volume)

    def let_go(self) -> None:
        """Take all obstacles away."""
        for obstacle in self._model.obstacles:
            if obstacle.mounted:
                self._faults.act(partial(self._host.unmount, obstacle.path))
            else:
                self._host.release(obstacle.path)
        self._model.obstacles.clear()

    def make_foreign(self, path: str) -> None:
        """Make the directory that foreign mounts show, with a file in it."""
        self._host.make_directories(FOREIGN, 0o755)
        self._host.create_file(path, 0o600)


FOREIGN = "/srv/foreign"


def _with_volume(pod: PodWish, step: PutVolume | DropVolume) -> PodWish:
    """The pod with a volume more, another one in its place, or one less."""
    name = step.volume.name if isinstance(step, PutVolume) else step.volume
    rest = [volume for volume in pod.volumes if volume.name != name]
    if isinstance(step, PutVolume):
        rest.append(step.volume)
    return msgspec.structs.replace(pod, volumes=tuple(rest))
