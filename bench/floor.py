"""The floor: the system calls that the four-volume pod needs, made by a plain Python loop that keeps no state.

Directories, modes, files, links and mounts are those that mooring leaves behind; nothing is checked, planned,
remembered or told. What mooring takes longer than this is the price of being a volume manager.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

_libc = ctypes.CDLL(None, use_errno=True)
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
_STAMP = "..2026_01_01_00_00_00.1234567890"

CONFIG = {f"key-{number}": b"x" * 100 for number in range(5)}
SECRET = {f"key-{number}": b"x" * 100 for number in range(3)}
PROJECTED = {**CONFIG, "labels": b'app="bench"'}


def mount_tmpfs(path: str) -> None:
    options = b"size=1073741824,noswap"
    if _libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount", path)


def unmount(path: str) -> None:
    if _libc.umount2(path.encode(), 8) != 0:
        raise OSError(ctypes.get_errno(), "umount2", path)


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, _NEW, 0o644)
    os.write(descriptor, data)
    os.fchmod(descriptor, 0o644)
    os.close(descriptor)


def _payload(directory: str, files: Mapping[str, bytes]) -> None:
    data = f"{directory}/{_STAMP}"
    os.mkdir(data, 0o755)
    os.chmod(data, 0o755)
    for name, content in files.items():
        _write(f"{data}/{name}", content)
    os.symlink(_STAMP, f"{directory}/..data_tmp")
    os.rename(f"{directory}/..data_tmp", f"{directory}/..data")
    for name in files:
        os.symlink(f"..data/{name}", f"{directory}/{name}")


def _volume(pod: str, plugin: str, name: str, ready: str, *, memory: bool) -> str:
    os.mkdir(f"{pod}/volumes/{plugin}", 0o755)
    path = f"{pod}/volumes/{plugin}/{name}"
    os.mkdir(path, 0o777)
    if memory:
        mount_tmpfs(path)
    else:
        os.chmod(path, 0o777)
    os.mkdir(f"{pod}/plugins/kubernetes.io~empty-dir/{ready}", 0o750)
    os.close(os.open(f"{pod}/plugins/kubernetes.io~empty-dir/{ready}/ready", _NEW, 0o644))
    return path


def set_up_pod(root: str, uid: str) -> None:
    """Make the four volumes of one pod."""
    pod = f"{root}/pods/{uid}"
    os.mkdir(pod, 0o750)
    os.mkdir(f"{pod}/volumes", 0o750)
    os.mkdir(f"{pod}/plugins", 0o750)
    os.mkdir(f"{pod}/plugins/kubernetes.io~empty-dir", 0o750)
    _payload(_volume(pod, "kubernetes.io~configmap", "config", "wrapped_config", memory=False), CONFIG)
    _payload(_volume(pod, "kubernetes.io~secret", "secret", "wrapped_secret", memory=True), SECRET)
    _payload(_volume(pod, "kubernetes.io~projected", "projected", "wrapped_projected", memory=True), PROJECTED)
    _volume(pod, "kubernetes.io~empty-dir", "memory", "memory", memory=True)


def tear_down_pod(root: str, uid: str) -> None:
    """Take the four volumes of one pod and its directory away."""
    pod = f"{root}/pods/{uid}"
    for plugin, name in _IN_MEMORY:
        unmount(f"{pod}/volumes/{plugin}/{name}")
        os.rmdir(f"{pod}/volumes/{plugin}/{name}")
    config = f"{pod}/volumes/kubernetes.io~configmap/config"
    for name in CONFIG:
        os.unlink(f"{config}/{_STAMP}/{name}")
        os.unlink(f"{config}/{name}")
    os.rmdir(f"{config}/{_STAMP}")
    os.unlink(f"{config}/..data")
    os.rmdir(config)
    for ready in ("wrapped_config", "wrapped_secret", "wrapped_projected", "memory"):
        os.unlink(f"{pod}/plugins/kubernetes.io~empty-dir/{ready}/ready")
        os.rmdir(f"{pod}/plugins/kubernetes.io~empty-dir/{ready}")
    os.rmdir(f"{pod}/plugins/kubernetes.io~empty-dir")
    for plugin in ("configmap", "secret", "projected", "empty-dir"):
        os.rmdir(f"{pod}/volumes/kubernetes.io~{plugin}")
    for directory in ("volumes", "plugins"):
        os.rmdir(f"{pod}/{directory}")
    os.rmdir(pod)


_IN_MEMORY = (
    ("kubernetes.io~secret", "secret"),
    ("kubernetes.io~projected", "projected"),
    ("kubernetes.io~empty-dir", "memory"),
)


def update_volumes(root: str, uid: str, files: Mapping[str, bytes]) -> None:
    """Write a new version of a pod's two volumes that show the ConfigMap, and switch to it."""
    volumes = f"{root}/pods/{uid}/volumes"
    _update(f"{volumes}/kubernetes.io~configmap/config", files)
    _update(f"{volumes}/kubernetes.io~projected/projected", {**files, "labels": PROJECTED["labels"]})


def _update(directory: str, files: Mapping[str, bytes]) -> None:
    old = os.readlink(f"{directory}/..data")
    stamp = f"{_STAMP}1"
    data = f"{directory}/{stamp}"
    os.mkdir(data, 0o755)
    os.chmod(data, 0o755)
    for name, content in files.items():
        _write(f"{data}/{name}", content)
    os.symlink(stamp, f"{directory}/..data_tmp")
    os.rename(f"{directory}/..data_tmp", f"{directory}/..data")
    for name in os.listdir(f"{directory}/{old}"):
        os.unlink(f"{directory}/{old}/{name}")
    os.rmdir(f"{directory}/{old}")


def find_pod(root: str, uid: str) -> int:
    """Look at everything a restarted manager must look at for one pod; returns the bytes read."""
    seen = 0
    volumes = f"{root}/pods/{uid}/volumes"
    for plugin in os.listdir(volumes):
        for name in os.listdir(f"{volumes}/{plugin}"):
            path = f"{volumes}/{plugin}/{name}"
            os.lstat(path)
            if plugin == "kubernetes.io~empty-dir":
                continue
            data = f"{path}/{os.readlink(f'{path}/..data')}"
            for file in os.listdir(data):
                descriptor = os.open(f"{data}/{file}", os.O_RDONLY | os.O_CLOEXEC)
                seen += len(os.read(descriptor, 1 << 16))
                os.close(descriptor)
    return seen
