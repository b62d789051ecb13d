"""What pods of a history want, drawn at random."""

from __future__ import annotations

import random
from typing import Literal

from mooring.testing.simulation.disks import DISKS, FULL
from mooring.testing.simulation.wishes import (
    DiskWish,
    DownwardWish,
    EmptyDirWish,
    HostPathWish,
    InlineWish,
    ObjectWish,
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
DIRECTORIES, MEMORIES, CONTENTS, HOST_PATHS = ("d0", "d1"), ("m0",), ("c0", "c1", "c2"), ("h0",)
CLAIMED, INLINES = ("p0", "p1", "p2"), ("i0",)  # from drivers: by a claim, or written in the pod
OWN = (*DIRECTORIES, *MEMORIES, *CONTENTS, *HOST_PATHS)
WRITABLE = (*DIRECTORIES, *MEMORIES, *CLAIMED, *INLINES)


class VolumeDrawing:
    """Draws volumes from one `random.Random`. Few disks are used in a history, so that pods share them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._drivers = self._random.random() < 0.65  # the others have no volumes of drivers
        most = [name for name, disk in sorted(DISKS.items()) if disk.driver == FULL]  # of the driver that does all
        self._disks = list(dict.fromkeys([self._random.choice(most), *self._random.sample(sorted(DISKS), 2)]))

    def _volume_names(self) -> list[str]:
        if not self._drivers:
            return self._random.sample(OWN, self._random.choice((0, 1, 2, 2, 3, 4)))
        own = self._random.sample(OWN, self._random.choice((0, 0, 0, 1)))
        return own + self._random.sample((*CLAIMED, *INLINES), self._random.choice((1, 1, 2, 2, 3)))

    def _any_volume(self) -> str:
        if self._drivers and self._random.random() < 0.8:
            return self._random.choice((*CLAIMED, *CLAIMED, *INLINES))
        return self._random.choice(OWN)

    def _volume(self, name: str) -> VolumeWish:
        if name in CLAIMED:
            return DiskWish(name=name, disk=self._random.choice(self._disks))
        if name in INLINES:
            return InlineWish(name=name)
        if name in DIRECTORIES or name in MEMORIES:
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
