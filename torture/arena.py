"""Where the torture takes place: a private mount namespace with small file systems and disks of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import Refused
from mooring.host import loop_devices
from mooring.host.features import probe
from mooring.host.namespaces import enter_private_mounts
from mooring.host.removal import remove_tree

_ROOT_BYTES = 96 * 2**20
_DISK_BYTES = 24 * 2**20
DISKS = 3
DEVICES = 4
"""Disks 0 and 1 are the tortured instance's, 2 and 3 the same for the one that nobody disturbs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """The places of one run: everything lies below `work`."""

    work: Path

    @property
    def root(self) -> Path:
        """The root directory of the tortured instance, on a small file system of its own."""
        return self.work / "small" / "root"

    @property
    def reference_root(self) -> Path:
        """The root directory of the instance that nobody disturbs."""
        return self.work / "reference" / "root"

    @property
    def manifests(self) -> Path:
        return self.work / "manifests"

    @property
    def reference_manifests(self) -> Path:
        return self.work / "reference-manifests"

    def disk(self, number: int) -> Path:
        """A file that stands for a disk."""
        return self.work / f"disk{number}.img"

    def device(self, number: int) -> str:
        """The device of a disk; attached as long as the arena stands."""
        found = loop_devices.of(str(self.disk(number)))
        assert found is not None
        return found

    def directory(self, number: int) -> Path:
        """A directory that a local volume shows."""
        return self.work / f"directory{number}"


def enter() -> None:
    """Leave the machine's mounts alone from here on."""
    if os.geteuid() != 0:
        raise Refused("cannot torture mounts", why="only root may mount", next_step="Run it as root")
    enter_private_mounts()
    os.umask(0o022)


@contextlib.contextmanager
def standing() -> Iterator[Arena]:
    """An arena that leaves nothing behind, whatever happened in it."""
    arena = Arena(work=Path(tempfile.mkdtemp(prefix="mooring-torture-")))
    try:
        _build(arena)
        yield arena
    finally:
        _clear(arena)


def _build(arena: Arena) -> None:
    for name, size in (("small", _ROOT_BYTES), ("reference", _ROOT_BYTES)):
        image, place = arena.work / f"{name}.img", arena.work / name
        _blank(image, size)
        place.mkdir()
        _run("mkfs.ext4", "-q", "-F", str(image))
        _run("mount", "-o", "loop", str(image), str(place))
        (place / "root").mkdir()
    arena.manifests.mkdir()
    arena.reference_manifests.mkdir()
    for number in range(DEVICES):
        _blank(arena.disk(number), _DISK_BYTES)
        loop_devices.attach(str(arena.disk(number)), False)
    for number in range(DISKS):
        arena.directory(number).mkdir()


def _clear(arena: Arena) -> None:
    _detach_loops(arena)  # those on devices first, while their paths still tell whose they are
    for place in ("small", "reference"):
        subprocess.run(["umount", "--recursive", "--lazy", str(arena.work / place)], check=False, capture_output=True)
    _detach_loops(arena)
    remove_tree(str(arena.work), probe())


def _detach_loops(arena: Arena) -> None:
    for name, backing in reversed(list(loop_devices.attached())):
        if backing.startswith(f"{arena.work}/"):
            with contextlib.suppress(OSError):
                loop_devices.detach(f"/dev/{name}")


def loops_below(root: Path) -> list[str]:
    """What loop devices show below a directory, one entry for each device."""
    backings = (backing for _, backing in loop_devices.attached() if backing.startswith(f"{root}/"))
    return sorted(backing.removeprefix(f"{root}/") for backing in backings)


def _blank(path: Path, size: int) -> None:
    with open(path, "wb") as stream:
        stream.truncate(size)


def _run(program: str, *arguments: str) -> None:
    path = shutil.which(program, path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if path is None:
        raise Refused(f"cannot run {program!r}", why="it is not installed", next_step="Run `make setup` first")
    subprocess.run([path, *arguments], check=True)
