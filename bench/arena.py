"""Where measurements take place: a private mount namespace, and a fresh journaled file system for each of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

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
            subprocess.run(["umount", "--recursive", place], check=True)
    finally:
        remove_tree(work, probe())
