"""From a seed to a script: everything is drawn from one `random.Random`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal

from mooring.testing.simulation.script import (
    AnyStep,
    Crash,
    DeleteObject,
    DropVolume,
    HoldOpen,
    LetGo,
    LimitDisk,
    MakePath,
    MountForeign,
    Pass,
    PutObject,
    PutPod,
    PutVolume,
    Reboot,
    RelabelPod,
    RemovePod,
    Restart,
    Script,
    Settle,
    Strike,
    Turn,
    WaitForPod,
    WriteFile,
)
from mooring.testing.simulation.wishes import (
    DownwardWish,
    EmptyDirWish,
    HostPathWish,
    ObjectWish,
    PodWish,
    ProjectedWish,
    VolumeWish,
)

PODS = ("a", "b", "c", "d")
OBJECTS: tuple[tuple[Literal["ConfigMap", "Secret"], str], ...] = (
    ("ConfigMap", "colours"),
    ("ConfigMap", "shapes"),
    ("Secret", "password"),
    ("Secret", "token"),
)
KEYS = ("one", "two", "three")
FIELDS = ("metadata.name", "metadata.uid", "metadata.labels", "metadata.labels['app']", "status.phase")
"""What downwardAPI files show; the last one is no field that a volume can show."""

PATHS = ("/srv/data", "/srv/other")
DISKS, MEMORIES, CONTENTS, HOST_PATHS = ("d0", "d1"), ("m0",), ("c0", "c1", "c2"), ("h0",)
VOLUMES = (*DISKS, *MEMORIES, *CONTENTS, *HOST_PATHS)


def make_script(seed: int) -> Script:
    """The history of a seed: always the same one."""
    return _Author(seed).write()


class _Author:
    """Draws steps. It remembers roughly what there is, so that most steps find something to act on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._pods: dict[str, list[str]] = {}  # names of the volumes by pod
        self._count = 0
        self._troubled = self._random.random() < 0.85  # the others have neither faults nor crashes

    def write(self) -> Script:
        latency = self._random.choice((0.0, 0.05, 0.5, 0.5, 5.0))
        steps: list[AnyStep] = []
        for kind, name in OBJECTS:
            if self._random.random() < 0.8:
                steps.append(PutObject(kind=kind, name=name, data=self._data()))
        length = self._random.randint(14, 38)
        while len(steps) < length:
            step = self._step()
            steps.append(step)
            if isinstance(step, Crash | Strike):  # give it something to hit
                steps.append(
                    self._random.choice((self._put_pod, self._remove_pod, self._put_volume, self._put_object))()
                )
            if self._random.random() < 0.55:
                steps.append(self._time())
        return Script(seed=self._seed, latency=latency, steps=tuple(steps))

    def _step(self) -> AnyStep:
        makers: list[tuple[int, Callable[[], AnyStep]]] = [
            (5 if len(self._pods) < 2 else 2, self._put_pod),
            (2, self._remove_pod),
            (5, self._put_object),
            (1, self._delete_object),
            (3, self._relabel),
            (2, self._put_volume),
            (1, self._drop_volume),
            (1, self._wait),
            (4, self._write_file),
            (2, self._obstruct),
            (1, LetGo),
            (1, lambda: MakePath(path=self._random.choice(PATHS))),
            (1, Settle),
        ]
        if self._troubled:
            makers += [(5, self._strike), (8, self._crash), (3, self._end), (1, self._limit_disk)]
        weights = [weight for weight, _ in makers]
        return self._random.choices([make for _, make in makers], weights)[0]()

    def _time(self) -> AnyStep:
        if self._random.random() < 0.5:
            return Turn(turns=self._random.randint(1, 4))
        return Pass(seconds=self._random.choice((0.01, 0.3, 0.5, 1.0, 3.0, 20.0, 130.0)))

    # -- pods and objects ----------------------------------------------------------------------------------------
    def _put_pod(self) -> AnyStep:
        name = self._random.choice(PODS)
        generation = self._random.choice(("", "", "", "-2"))
        volumes = tuple(self._volume(each) for each in self._volume_names())
        self._pods[name] = [volume.name for volume in volumes]
        return PutPod(
            pod=PodWish(
                name=name,
                uid=f"uid-{name}{generation}",
                volumes=volumes,
                label=f"l{self._next()}",
                # A pod's group never changes while it keeps its UID, as for the kubelet.
                fs_group=2000 if name in "bc" else None,
            )
        )

    def _volume_names(self) -> list[str]:
        return self._random.sample(VOLUMES, self._random.choice((0, 1, 2, 2, 3, 4)))

    def _volume(self, name: str) -> VolumeWish:
        if name in DISKS or name in MEMORIES:
            return EmptyDirWish(name=name, memory=name in MEMORIES)
        if name in HOST_PATHS:
            check = self._random.choice(("", "Directory", "DirectoryOrCreate"))
            return HostPathWish(name=name, path=self._random.choice(PATHS), check=check)
        mode = 0o600 if name == "c2" else None
        match self._random.randrange(4):
            case 0:
                return DownwardWish(name=name, items=self._fields(), mode=mode)
            case 1:
                parts = [self._object_wish("") for _ in range(self._random.randint(1, 2))]
                downward = [DownwardWish(items=self._fields())] if self._random.random() < 0.5 else []
                return ProjectedWish(name=name, parts=(*parts, *downward), mode=mode)
            case _:
                return self._object_wish(name, mode)

    def _object_wish(self, name: str, mode: int | None = None) -> ObjectWish:
        kind, wanted = self._random.choice(OBJECTS)
        items = {}
        if self._random.random() < 0.4:
            items = {key: f"sub/{key}" for key in self._random.sample(KEYS, self._random.randint(1, 2))}
        optional = self._random.random() < 0.3
        return ObjectWish(name=name, kind=kind, object=wanted, optional=optional, items=items, mode=mode)

    def _fields(self) -> dict[str, str]:
        chosen = self._random.sample(FIELDS[:-1], self._random.randint(1, 2))
        if self._random.random() < 0.15:
            chosen[0] = FIELDS[-1]
        return {f"field{FIELDS.index(each)}": each for each in chosen}

    def _data(self) -> dict[str, str]:
        return {key: f"v{self._next()}" for key in self._random.sample(KEYS, self._random.randint(1, 3))}

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _some_pod(self) -> str:
        return self._random.choice(sorted(self._pods) or PODS)

    def _some_volume(self, pod: str, among: tuple[str, ...]) -> str:
        return self._random.choice([name for name in self._pods.get(pod, ()) if name in among] or among)

    def _remove_pod(self) -> AnyStep:
        pod = self._some_pod()
        self._pods.pop(pod, None)
        return RemovePod(pod=pod)

    def _relabel(self) -> AnyStep:
        return RelabelPod(pod=self._some_pod(), label=f"l{self._next()}")

    def _put_volume(self) -> AnyStep:
        pod = self._some_pod()
        volume = self._volume(self._random.choice(VOLUMES))
        self._pods.setdefault(pod, []).append(volume.name)
        return PutVolume(pod=pod, volume=volume)

    def _drop_volume(self) -> AnyStep:
        pod = self._some_pod()
        return DropVolume(pod=pod, volume=self._some_volume(pod, VOLUMES))

    def _put_object(self) -> AnyStep:
        kind, name = self._random.choice(OBJECTS)
        return PutObject(kind=kind, name=name, data=self._data())

    def _delete_object(self) -> AnyStep:
        kind, name = self._random.choice(OBJECTS)
        return DeleteObject(kind=kind, name=name)

    # -- around the manager --------------------------------------------------------------------------------------
    def _wait(self) -> AnyStep:
        return WaitForPod(pod=self._some_pod(), timeout=self._random.choice((0.5, 5.0, 60.0)))

    def _write_file(self) -> AnyStep:
        pod = self._some_pod()
        volume = self._some_volume(pod, DISKS + MEMORIES)
        number = self._next()
        return WriteFile(pod=pod, volume=volume, file=f"f{number}", text=f"data {number}")

    def _obstruct(self) -> AnyStep:
        pod = self._some_pod()
        if self._random.random() < 0.5:
            return HoldOpen(pod=pod, volume=self._some_volume(pod, MEMORIES))
        return MountForeign(pod=pod, volume=self._some_volume(pod, DISKS + MEMORIES))

    def _limit_disk(self) -> AnyStep:
        return LimitDisk(pages=self._random.choice((None, 0, 1, 3)))

    # -- faults and ends -----------------------------------------------------------------------------------------
    def _strike(self) -> AnyStep:
        return Strike(
            fault=self._random.choice(
                ("refuse", "busy", "silent", "silent", "lost", "late", "hang", "slow", "full", "broken", "broken")
            ),
            skip=self._random.choice((0, 0, 1, 2, 4)),
            seconds=self._random.choice((0.2, 2.0, 70.0)),
            call=self._random.choice((0, 1, 2, 3, 5, 8)),
        )

    def _lost(self) -> tuple[str, ...]:
        if self._random.random() < 0.6:
            return ()
        pod = self._some_pod()
        self._pods.pop(pod, None)
        return (pod,)

    def _delays(self) -> tuple[float, float]:
        return self._random.choice((0.0, 0.0, 0.1, 2.0)), self._random.choice((0.0, 0.0, 1.0, 30.0))

    def _crash(self) -> AnyStep:
        told, heard = self._delays()
        return Crash(
            skip=self._random.choice((0, 0, 1, 2, 3, 5, 8, 13, 20)),
            when=self._random.choice(("before", "during", "after")),
            lost=self._lost(),
            told_after=told,
            heard_after=heard,
        )

    def _end(self) -> AnyStep:
        told, heard = self._delays()
        if self._random.random() < 0.6:
            return Restart(lost=self._lost(), told_after=told, heard_after=heard)
        return Reboot(lost=self._lost(), told_after=told, heard_after=heard)
