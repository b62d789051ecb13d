"""The machine that the manifests speak of: files, sockets, devices and drivers below `/srv`, the same for each side.

A tmpfs lies over `/srv` in a mount namespace of our own, so paths in manifests can be written down, and nothing of it
is ever seen or left outside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.compare.corpus import NODE

SRV = Path("/srv")
ROOT = SRV / "node"
"""The root directory of both sides."""

FLEX_DRIVERS = SRV / "drivers" / "flex"
_CSI = SRV / "drivers" / "csi"
_DRIVERS = {  # and the volumes that they have
    "staging.example": (
        *("csi-staged", "csi-fs-group", "csi-fs-group-fs-type", "csi-fs-group-many", "csi-read-only", "csi-two-pods"),
        *("csi-volume-read-only", "csi-secret-missing", "csi-stage-secret-missing", "csi-mount-options"),
        *("csi-secrets", "csi-twice-in-one-pod"),
    ),
    "plain.example": ("csi-unstaged", "csi-fs-group-policy-file", "csi-read-only-fs-group"),
    "ungrouped.example": ("csi-fs-group-policy-none",),
    "attaching.example": ("csi-attached", "csi-not-attached"),
    "undescribed.example": ("csi-undescribed",),
}
_WITHOUT_STAGES = ("plain.example", "ungrouped.example")
_IMAGES = SRV / "drivers" / "images"
_MAKE_EXT4 = ("mkfs.ext4", "-q", "-F")
_EMPTY_DISKS = ("disk", "block", "unformatted", "unformattable", "xfs")
_EXT4_DISKS = ("ext4", "ext4-options", "ext4-read-only", "ext4-wrong")
_PATIENCE = 30.0  # seconds
_LARGE = 320 * 2**20  # XFS wants no less
_SMALL = 32 * 2**20
_GROUPED = ("grouped", "root-right", "root-wrong", "shared", "read-only")
_FLEX_DRIVER = """\
#!/bin/sh
case "$1 $3" in
"init "*) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;
"mount "*broken*) echo '{"status": "Failure", "message": "the shelf is broken"}'; exit 1 ;;
"mount "*) mount -t tmpfs -o size=1m,mode=755 flex "$2" && echo '{"status": "Success"}' ;;
"unmount "*) umount "$2" && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
"""


def missing() -> str:
    """What this machine lacks for such a machine, in a few words; nothing when it lacks nothing."""
    if os.geteuid() != 0:
        return "root"
    if not Path("/dev/loop-control").exists():
        return "loop devices"
    if not SRV.is_dir():
        return f"the directory {SRV}"
    for used in (Path(__file__).resolve(), Path(sys.prefix).resolve()):
        if used.is_relative_to(SRV):
            return f"a checkout elsewhere than in {SRV}, for that is mounted over"
    programs = ("losetup", "mkfs.ext4", "mkfs.xfs")
    return next((f"the program {name}" for name in programs if shutil.which(name, path=_search_path()) is None), "")


@contextlib.contextmanager
def fresh_machine(peer: Path) -> Iterator[dict[str, Path]]:
    """A new machine below /srv, gone afterwards; gives the sockets of CSI drivers by name. `peer` has their stub."""
    with ExitStack() as undo:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", SRV], check=True)
        undo.callback(_unmount)
        _make_files()
        undo.callback(_make_socket().close)
        _make_disks(undo)
        yield _serve_csi(peer, undo)


def _unmount() -> None:
    """Take the file system away. That it is not busy shows that nothing was left mounted or open."""
    subprocess.run(["umount", SRV], check=True)


def _make_files() -> None:
    for directory in (ROOT, FLEX_DRIVERS, _CSI, _IMAGES, SRV / "www", SRV / "claimed", SRV / "special"):
        directory.mkdir(parents=True)
    (SRV / "www" / "index.html").write_text("hello\n")
    (SRV / "special" / "link").symlink_to("../www")
    (SRV / "special" / "dangling").symlink_to("nothing")
    (SRV / "special" / "unwritten").symlink_to("../www/written")
    os.mknod(SRV / "special" / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    for name in ("plain", "options", *_GROUPED):
        _make_volume(SRV / "volumes" / name)
    (SRV / "volumes" / "link").symlink_to("plain")
    os.chown(SRV / "volumes" / "root-right", 0, 2000)
    os.chmod(SRV / "volumes" / "root-right", 0o2775)
    driver = FLEX_DRIVERS / "example.com~shelf" / "shelf"
    driver.parent.mkdir()
    driver.write_text(_FLEX_DRIVER)
    driver.chmod(0o755)


def _make_volume(place: Path) -> None:
    """A directory with files of all kinds: what a group is given, and what it must not be given."""
    (place / "deep" / "er").mkdir(parents=True)
    (place / "readme").write_text("read me\n")
    (place / "deep" / "private").write_text("")
    (place / "deep" / "private").chmod(0o600)
    (place / "deep" / "link").symlink_to("../../../www/index.html")
    program = place / "deep" / "er" / "program"
    program.write_text("")
    os.chown(program, 1000, 1000)
    program.chmod(0o4755)  # last: a new owner takes the bit away


def _make_socket() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(SRV / "special" / "socket"))
    listener.listen()
    return listener


def _make_disks(undo: ExitStack) -> None:
    for name in (*_EMPTY_DISKS, *_EXT4_DISKS):
        image = _IMAGES / name
        with image.open("wb") as stream:
            stream.truncate(_LARGE if name == "xfs" else _SMALL)
        if name in _EXT4_DISKS:
            subprocess.run([*_MAKE_EXT4, image], check=True, env=os.environ | {"PATH": _search_path()})
        device = _loop_device(image)
        undo.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        os.mknod(SRV / "special" / name, 0o660 | stat.S_IFBLK, os.stat(device).st_rdev)


def _loop_device(image: Path) -> str:
    command = ["losetup", "--show", "--find", str(image)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _search_path() -> str:
    return f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"


def _serve_csi(peer: Path, undo: ExitStack) -> dict[str, Path]:
    sockets: dict[str, Path] = {}
    for name, volumes in _DRIVERS.items():
        data, sockets[name] = _CSI / name, _CSI / f"{name}.sock"
        for volume in volumes:
            _make_volume(data / volume)
        command: list[str | Path] = [
            peer,
            "csi-stub",
            "--socket",
            sockets[name],
            "--data",
            data,
            "--name",
            name,
            "--node",
            NODE,
        ]
        process = subprocess.Popen([*command, *(["--no-stage"] if name in _WITHOUT_STAGES else [])])
        undo.callback(_end, process)
    for listening in sockets.values():
        _until(listening.exists)
    return sockets


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("a CSI driver did not come to listen")
        time.sleep(0.01)
