"""Where measurements take place: a private mount namespace, and a fresh journaled file system for each of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import floor
from mooring.errors import Refused
from mooring.host.features import probe
from mooring.host.namespaces import enter_private_mounts
from mooring.host.removal import remove_tree

IMAGE_BYTES = 2 * 2**30


def enter() -> None:
    """Leave the machine's mounts alone from here on."""
    if os.geteuid() != 0:
        raise Refused("cannot measure mounts", why="only root may mount", next_step="Run it as root")
    enter_private_mounts()
    os.umask(0o022)


@contextlib.contextmanager
def fresh_file_system(*, inodes: int | None = None) -> Iterator[str]:
    """A directory on an ext4 of its own, with a journal: one without it slows down with every run."""
    work = tempfile.mkdtemp(prefix="mooring-bench-")
    image, place = f"{work}/image", f"{work}/root"
    os.mkdir(place)
    try:
        with open(image, "wb") as stream:
            stream.truncate(IMAGE_BYTES)
        mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
        if mkfs is None:
            raise Refused("cannot make a file system", why="mkfs.ext4 is missing", next_step="Install e2fsprogs")
        sized = [] if inodes is None else ["-N", str(inodes)]
        subprocess.run([mkfs, "-q", "-F", *sized, image], check=True)
        subprocess.run(["mount", "-o", "loop", image, place], check=True)
        try:
            os.mkdir(f"{place}/pods", 0o750)
            yield place
        finally:
            _unmount(place)
    finally:
        remove_tree(work, probe())


def _unmount(place: str) -> None:
    """Unmount all that is below a place, the latest first: umount(8) would read the whole table for each of them."""
    mounts = (line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())
    for path in reversed([path for path in mounts if path == place or path.startswith(f"{place}/")]):
        floor.unmount(path)
