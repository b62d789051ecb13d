"""What must hold on the machine between any two steps, once all is calm, and at the very end."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.host.durable_files import NEW
from mooring.host.interface import FileKind
from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_host import Snapshot
from mooring.testing.memory_node import MemoryNode
from mooring.testing.simulation.disks import DRIVERS
from mooring.testing.simulation.driver_effects import STORE
from mooring.testing.simulation.drivers import Drivers
from mooring.testing.simulation.journal import Violation
from mooring.testing.simulation.oracle import (
    Expected,
    ExpectedFile,
    directory_mode,
    expected_content,
    is_content,
    is_in_memory,
    volume_name,
    volume_path,
)
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import DiskWish, HostPathWish, InlineWish, PodWish, VolumeWish
from mooring.testing.simulation.world_model import WorldModel
from mooring.world.explain import report_volume
from mooring.world.names import PodUid, VolumeName


class Invariants:
    """Compares the machine and the manager's word with the world model."""

    def __init__(self, node: MemoryNode, model: WorldModel, drivers: Drivers, watcher: Watcher) -> None:
        self._watcher = watcher
        self._node = node
        self._drivers = drivers
        self._host = node.host
        self._root = node.paths.root
        self._model = model
        self._before: Snapshot

    @property
    def _manager(self) -> VolumeManager:
        return self._node.manager

    # -- between any two steps -----------------------------------------------------------------------------------
    def check_data(self) -> None:
        """I9, I10: what containers wrote into a volume they still have is there, and so is what is not ours."""
        for (uid, name), files in self._model.user_files.items():
            pod = self._model.by_uid(uid)
            volume = pod.volume(name) if pod is not None else None
            assert volume is not None
            for file, text in files.items():
                path = f"{volume_path(self._root, uid, volume)}/{file}"
                if self._host.look(path) is None or self._host.read_file(path) != text.encode():
                    raise Violation("I9", f"{path} is lost, and its pod has been wanted all the time")
        if self._host.look(PRECIOUS) is None:
            raise Violation("I9", f"{PRECIOUS} is lost: a teardown crossed into a foreign mount")

    def check_wake_ups(self) -> None:
        """The slow resync is a safety net: an event must have started whatever it would find."""
        if self._manager.reconciler.resync_found_work:
            raise Violation("wake-up", "the resync found work that an event should have started")

    def check_mounted(self) -> None:
        """I18, I20: every volume that is reported mounted is there, with content that it once was to have."""
        for pod, volume in self._model.volumes():
            mounted = self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid)).get(volume.name)
            if self._watcher.is_disturbed(pod.uid, volume):
                continue
            if mounted is None or isinstance(volume, HostPathWish | DiskWish | InlineWish):
                continue  # nothing of a hostPath is ours, and drivers have their own judge
            self._check_directory(pod, volume)
            if not is_content(volume):
                continue
            path = volume_path(self._root, pod.uid, volume)
            self._check_version(pod, volume, path)
            shown = self._shown(path)
            if self._is_up_to_date(pod, volume) and not self._is_expected(pod, volume, shown):
                what = f"volume {volume.name!r} of {pod.uid} counts as up to date and shows {_brief(shown)}"
                raise Violation("I22", what)

    def _check_version(self, pod: PodWish, volume: VolumeWish, path: str) -> None:
        """Through its `..data` link a content volume shows one of its versions, whole, at any moment."""
        written = self._shown(f"{path}/..data")
        versions = self._model.versions[volume_name(pod.uid, volume)]
        if written not in [version.files for version in versions]:
            what = f"volume {volume.name!r} of {pod.uid} holds {_brief(written)}, which it never was to"
            raise Violation("I18", what)

    def check_readers(self, changed: str) -> None:
        """I18 in the middle of an operation, after a call that changed this path: containers may read just now."""
        for pod, volume in self._model.volumes():
            if not is_content(volume):
                continue
            path = volume_path(self._root, pod.uid, volume)
            if changed.startswith(path) and volume.name in self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid)):
                self._check_version(pod, volume, path)

    def _is_up_to_date(self, pod: PodWish, volume: VolumeWish) -> bool:
        """Whether the manager believes that nothing newer is to be shown."""
        name, uid = VolumeName(volume_name(pod.uid, volume)), PodUid(pod.uid)
        wish, mount = self._manager.desired.mount(uid, name), self._manager.actual.mount(uid, name)
        running = self._manager.reconciler.pending.running(name)
        return wish is not None and mount is not None and wish.revision == mount.revision and not running

    def _is_expected(self, pod: PodWish, volume: VolumeWish, shown: dict[str, ExpectedFile]) -> bool:
        expected = expected_content(pod, volume, self._model.objects)
        return not expected.missing and shown == expected.files

    def _check_directory(self, pod: PodWish, volume: VolumeWish) -> None:
        path = volume_path(self._root, pod.uid, volume)
        facts = self._host.look(path)
        if facts is None or facts.kind is not FileKind.DIRECTORY:
            raise Violation("I18", f"{path} counts as mounted and is not there")
        mount = self._host.mount_at(path)
        if is_in_memory(volume) and (mount is None or mount.fs_type != "tmpfs"):
            raise Violation("I18", f"{path} counts as mounted and is not in memory")
        if facts.mode != directory_mode(pod, volume) or facts.gid != (pod.fs_group or 0):
            raise Violation("I18", f"{path} has mode {facts.mode:o} and group {facts.gid}")

    def _shown(self, path: str) -> dict[str, ExpectedFile]:
        """The files that a reader finds in a content volume."""
        found: dict[str, ExpectedFile] = {}
        pending = [name for name in self._host.names_in(path) if not name.startswith("..")]
        while pending:
            name = pending.pop()
            facts = self._host.look_through(f"{path}/{name}")
            if facts is None:
                found[name] = ExpectedFile(data=b"a link that leads nowhere", mode=0, gid=0)
            elif facts.kind is FileKind.DIRECTORY:
                pending += [f"{name}/{child}" for child in self._host.names_in(f"{path}/{name}")]
            else:
                data = self._host.read_file(f"{path}/{name}")
                found[name] = ExpectedFile(data=data, mode=facts.mode, gid=facts.gid)
        return found

    # -- once all is calm ----------------------------------------------------------------------------------------
    def check_settled(self) -> None:
        """I19, I28: all that can be mounted is, exactly as wanted; all that cannot has its true cause; no more."""
        for pod, volume in self._model.volumes():
            expected = expected_content(pod, volume, self._model.objects)
            missing = expected.missing or self._missing_path(volume) or self._model.missing_of(volume)
            mounted = volume.name in self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid))
            if missing and not mounted:
                self._check_cause(pod, volume, missing)
            elif not missing and not isinstance(volume, DiskWish | InlineWish):
                self._check_shows(pod, volume, expected, mounted)
        for pod in self._model.pods.values():
            self._check_pod_directory(pod)
        for path in self._surplus():
            raise Violation("I19", f"{path} is still there, and nothing wants it")

    def _missing_path(self, volume: VolumeWish) -> tuple[str, ...]:
        if isinstance(volume, HostPathWish) and volume.check == "Directory" and self._host.look(volume.path) is None:
            return (volume.path,)
        return ()

    def _check_cause(self, pod: PodWish, volume: VolumeWish, missing: tuple[str, ...]) -> None:
        name, uid = VolumeName(volume_name(pod.uid, volume)), PodUid(pod.uid)
        manager = self._manager
        problem = manager.desired.problems(uid).get(volume.name)
        if problem is not None and all(each in str(problem) for each in missing):
            return
        desired, actual = manager.desired.volumes.get(name), manager.actual.volumes.get(name)
        if desired is None:
            raise Violation("I19", f"volume {volume.name!r} of {pod.uid} is not even wanted")
        running = manager.reconciler.pending.running(name)
        others = manager.namesakes(name)
        if uid in others and self._model.may_keep(pod.uid):
            return  # it waits for another one of its name, which stays
        report = report_volume(uid, volume.name, desired, actual, manager.gates, running, namesakes=others)
        if not all(each in (report.cause or "") for each in missing):
            what = f"volume {volume.name!r} of {pod.uid} lacks {', '.join(missing)}, and its cause is {report.cause!r}"
            raise Violation("cause", what)

    def _check_shows(self, pod: PodWish, volume: VolumeWish, expected: Expected, mounted: bool) -> None:
        where = f"volume {volume.name!r} of {pod.uid}"
        waits = PodUid(pod.uid) in self._manager.namesakes(VolumeName(volume_name(pod.uid, volume)))
        if not mounted and waits and self._model.may_keep(pod.uid):
            return
        if not mounted:
            raise Violation("I28", f"{where} could be mounted and is not")
        path = volume_path(self._root, pod.uid, volume)
        reported = self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid))[volume.name].path
        if reported != path:
            raise Violation("I28", f"{where} is reported at {reported} and belongs at {path}")
        if isinstance(volume, HostPathWish) and volume.check and self._host.look(path) is None:
            raise Violation("I28", f"{where} counts as mounted, and {path} is not there")
        if not is_content(volume):
            return
        shown = self._shown(path)
        if shown != expected.files:
            raise Violation("I28", f"{where} shows {_brief(shown)} instead of {_brief(expected.files)}")
        inner = [name for name in self._host.names_in(path) if name.startswith("..")]
        if len(inner) != 2:
            raise Violation("I28", f"{where} holds what earlier writes left: {inner}")

    def _check_pod_directory(self, pod: PodWish) -> None:
        directory = self._node.paths.pod_dir(pod.uid)
        if not pod.volumes and self._host.look(directory) is None:
            raise Violation("I28", f"{directory} was not made")
        for path in (directory, f"{directory}/volumes", f"{directory}/plugins"):
            facts = self._host.look(path)
            if facts is not None and facts.mode != 0o750:
                raise Violation("I28", f"{path} has mode {facts.mode:o}: it is open to others")

    def _surplus(self) -> Iterator[str]:
        """Pod directories, volume directories and mounts that nothing wants and nothing stands in the way of."""
        wanted = {volume_path(self._root, pod.uid, volume): volume for pod, volume in self._model.volumes()}
        yield from self._surplus_mounts([path for path, volume in wanted.items() if is_in_memory(volume)])
        for uid in self._names(self._node.paths.pods_dir):
            directory = self._node.paths.pod_dir(uid)
            if self._model.is_obstructed(uid) or self._model.may_keep(uid):
                continue
            kept = [path for path in self._volume_paths(directory) if path.rpartition("/")[2] in self._model.traceless]
            if self._model.by_uid(uid) is None and not kept:
                yield directory
            yield from (path for path in self._volume_paths(directory) if path not in wanted and path not in kept)

    def _volume_paths(self, directory: str) -> Iterator[str]:
        for kind in ("volumes", "volumeDevices"):
            for plugin in self._names(f"{directory}/{kind}"):
                for name in self._names(f"{directory}/{kind}/{plugin}"):
                    yield f"{directory}/{kind}/{plugin}/{name}"

    def _surplus_mounts(self, memory: list[str]) -> Iterator[str]:
        allowed = [
            *memory,
            *(obstacle.path for obstacle in self._model.obstacles if obstacle.mounted),
            *(thing.place(self._root) for thing in self._drivers.held if not thing.block),
        ]
        kept = [
            f"{self._node.paths.pod_dir(uid)}/"
            for uid in self._names(self._node.paths.pods_dir)
            if self._model.may_keep(uid) or self._model.is_obstructed(uid)
        ]
        for facts in self._host.mounts()[1:]:
            if facts.path in allowed:
                allowed.remove(facts.path)
            elif not facts.path.startswith(tuple(kept)):
                yield facts.path

    def _lasting(self) -> set[str]:
        """The few places of mooring's own that stay: its directories, and the mark of the last boot."""
        paths = self._node.paths
        stages = [f"{paths.plugin_dir(driver)}/stages" for driver in DRIVERS]
        marks = [f"{paths.root}/boot-id", f"{paths.root}/boot-id{NEW}"]  # the second when a crash came between
        places = [paths.pods_dir, paths.intents_dir, *marks, *stages]
        return {above for place in places for above in _and_above(place)}

    def _names(self, path: str) -> list[str]:
        return self._host.names_in(path) if self._host.look(path) is not None else []

    # -- at the very end -----------------------------------------------------------------------------------------
    def remember(self) -> None:
        """Keep what the machine is like before the first manager starts."""
        self._before = self._host.snapshot()

    def check_empty(self) -> None:
        """I27: nothing is left on the machine or in the manager."""
        for path in self._surplus():
            raise Violation("I27", f"{path} is left")
        now = self._host.snapshot()
        if now.mounts != self._before.mounts:
            raise Violation("I27", f"the machine has other mounts than before: {', '.join(now.mounts)}")
        for path in sorted(now.entries.keys() - self._before.entries.keys() - self._lasting()):
            if not path.startswith(LASTING):
                raise Violation("I27", f"{path} is left")
        for path in sorted(self._before.entries.keys() - now.entries.keys()):
            raise Violation("I27", f"{path} was there before everything, and is gone")
        manager = self._manager
        parts = {
            "desired state": manager.desired.is_empty(),
            "actual state": manager.actual.is_empty(),
            "populator": manager.populator.is_empty(),
            "pending operations": manager.reconciler.pending.is_empty(),
            "doubt about pods": not manager.gates.pods_in_doubt and not manager.gates.pods_being_removed,
        }
        left = [name for name, empty in parts.items() if not empty]
        if left:
            raise Violation("I27", f"something is left in the manager: {', '.join(left)}")


LASTING = ("/srv", STORE)
"""What pods and people have on the machine, whatever mooring does."""

PRECIOUS = "/srv/foreign/precious"
"""A file of somebody else, seen through foreign mounts."""


def _and_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]


def _brief(files: object) -> str:
    if not isinstance(files, dict):
        return str(files)
    return (
        "{" + ", ".join(f"{path}: {file.data!r} {file.mode:o} {file.gid}" for path, file in sorted(files.items())) + "}"
    )
