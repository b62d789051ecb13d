"""What happens around a manager: sources that tell of pods and objects, containers that write, people who mount."""

from __future__ import annotations

from functools import partial

import msgspec

from mooring.host.interface import NewFile
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Secret
from mooring.plugins.interface import ObjectRef
from mooring.testing.memory_node import MemoryNode
from mooring.testing.memory_tree import PAGE
from mooring.testing.simulation.faults import Faults
from mooring.testing.simulation.oracle import volume_path
from mooring.testing.simulation.script import (
    DeleteObject,
    DropVolume,
    HoldOpen,
    LetGo,
    LimitDisk,
    MakePath,
    MountForeign,
    PutObject,
    PutPod,
    PutVolume,
    RelabelPod,
    RemovePod,
    WriteFile,
)
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import NAMESPACE, EmptyDirWish, PodWish, make_pod
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
    | WriteFile
    | MountForeign
    | HoldOpen
    | LetGo
    | MakePath
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
            case WriteFile():
                self._faults.act(lambda: self._write(step))
            case MountForeign() | HoldOpen():
                self._faults.act(lambda: self._obstruct(step))
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

    # -- containers and people -----------------------------------------------------------------------------------
    def _usable(self, pod: str, volume: str) -> tuple[PodWish, EmptyDirWish] | None:
        """An emptyDir that the manager has reported mounted, so that containers may run."""
        found = self._model.find(pod, volume)
        if found is None or not self._watcher.told or self._faults.killed_by is not None:
            return None
        wish, directory = found
        mounted = self._node.manager.get_mounted_volumes_for_pod(PodUid(wish.uid))
        return (wish, directory) if isinstance(directory, EmptyDirWish) and volume in mounted else None

    def _write(self, step: WriteFile) -> None:
        found = self._usable(step.pod, step.volume)
        if found is None:
            return
        pod, volume = found
        place = volume_path(self._node.paths.root, pod.uid, volume)
        files = self._model.user_files.setdefault((pod.uid, volume.name), {})
        if step.file in files or self._host.look(f"{place}/{step.file}") is not None:
            return
        try:
            self._host.write_files(place, [NewFile(path=step.file, data=step.text.encode(), mode=0o640)])
        except OSError:
            return  # the disk is full, as containers know it
        files[step.file] = step.text

    def _obstruct(self, step: MountForeign | HoldOpen) -> None:
        found = self._usable(step.pod, step.volume)
        if found is None or self._model.is_obstructed(found[0].uid):
            return
        pod, volume = found
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
