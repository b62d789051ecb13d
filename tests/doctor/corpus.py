"""Broken root directories, as crashes, drivers and people leave them. Each says what must go and what must be told."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

EMPTY_DIR = "volumes/kubernetes.io~empty-dir"
CSI = "volumes/kubernetes.io~csi"
SECRET = "volumes/kubernetes.io~secret"
CONFIG_MAP = "volumes/kubernetes.io~configmap"
STAMP = "..2026_01_02_03_04_05.0123456789"


@dataclass
class Broken:
    """A root directory in the making."""

    root: Path
    gone: set[str] = field(default_factory=set)  # relative paths that a repair must clear
    named: set[str] = field(default_factory=set)  # relative paths that must be told after it

    def directory(self, path: str) -> Path:
        made = self.root / path
        made.mkdir(parents=True, exist_ok=True)
        return made

    def file(self, path: str, data: bytes | str = b"bytes of a user") -> Path:
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(data.encode() if isinstance(data, str) else data)
        return made

    def link(self, path: str, text: str) -> None:
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.symlink_to(text)

    def socket(self, path: str) -> None:
        """A socket whose listener has ended."""
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(made))

    def clears(self, *paths: str) -> None:
        self.gone.update(paths)

    def names(self, *paths: str) -> None:
        self.named.update(paths)


Build = Callable[[Broken], None]
CORPUS: dict[str, Build] = {}


def broken(build: Build) -> Build:
    CORPUS[build.__name__] = build
    return build


def fingerprints(top: Path) -> dict[str, str]:
    """What every non-empty regular file below a directory holds, and every link, device and fifo, by path."""
    found: dict[str, str] = {}
    for directory, directories, files in os.walk(top):
        for name in [*files, *directories]:
            path = os.path.join(directory, name)
            facts = os.lstat(path)
            if stat.S_ISREG(facts.st_mode) and facts.st_size:
                found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            elif stat.S_ISFIFO(facts.st_mode):
                found[path] = "fifo"
    return found


def vol_data(handle: str = "vol-1") -> str:
    return json.dumps({"driverName": "disk.example.com", "volumeHandle": handle, "specVolID": "pv-1"})


# -- orphaned pods -----------------------------------------------------------------------------------------------
@broken
def empty_pod(it: Broken) -> None:
    it.directory("pods/u1")
    it.clears("pods/u1")


@broken
def empty_volumes(it: Broken) -> None:
    it.directory(f"pods/u1/{EMPTY_DIR}/cache")
    it.directory(f"pods/u1/{SECRET}/token")
    it.file("pods/u1/plugins/kubernetes.io~empty-dir/cache/ready", b"")
    it.file("pods/u1/plugins/kubernetes.io~empty-dir/wrapped_token/ready", b"")
    it.clears("pods/u1")


@broken
def deep_empty_directories(it: Broken) -> None:
    it.directory(f"pods/u1/{EMPTY_DIR}/cache/" + "/".join("abcdefghij" * 8))
    it.clears("pods/u1")


@broken
def volume_with_data(it: Broken) -> None:
    it.file(f"pods/u1/{EMPTY_DIR}/data/precious.db")
    it.directory(f"pods/u1/{EMPTY_DIR}/data/empty")
    it.directory(f"pods/u1/{EMPTY_DIR}/cache")
    it.clears(f"pods/u1/{EMPTY_DIR}/cache")
    it.names("pods/u1", f"pods/u1/{EMPTY_DIR}/data")


@broken
def marker_without_bytes_in_a_volume(it: Broken) -> None:
    it.file(f"pods/u1/{EMPTY_DIR}/data/.initialised", b"")
    it.names(f"pods/u1/{EMPTY_DIR}/data")


@broken
def hosts_file_and_logs(it: Broken) -> None:
    it.file("pods/u1/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.5\tweb-0\n")
    it.file("pods/u1/containers/main/0a1b2c3d", "it failed")
    it.directory(f"pods/u1/{EMPTY_DIR}")
    it.clears("pods/u1/volumes")
    it.names("pods/u1/etc-hosts", "pods/u1/containers/main")


@broken
def empty_termination_log(it: Broken) -> None:
    it.file("pods/u1/containers/main/0a1b2c3d", b"")
    it.file("pods/u1/etc-hosts", b"")
    it.clears("pods/u1")


@broken
def csi_volume_not_mounted(it: Broken) -> None:
    it.directory(f"pods/u1/{CSI}/pv-1/mount")
    it.file(f"pods/u1/{CSI}/pv-1/vol_data.json", vol_data())
    it.names(f"pods/u1/{CSI}/pv-1")


@broken
def csi_volume_with_truncated_data_file(it: Broken) -> None:
    it.directory(f"pods/u1/{CSI}/pv-1/mount")
    it.file(f"pods/u1/{CSI}/pv-1/vol_data.json", vol_data()[:20])
    it.names(f"pods/u1/{CSI}/pv-1", f"pods/u1/{CSI}/pv-1/vol_data.json")


@broken
def csi_volume_with_empty_data_file(it: Broken) -> None:
    it.directory(f"pods/u1/{CSI}/pv-1/mount")
    it.file(f"pods/u1/{CSI}/pv-1/vol_data.json", b"")
    it.clears("pods/u1")


@broken
def csi_volume_without_data_file(it: Broken) -> None:
    it.file(f"pods/u1/{CSI}/pv-1/mount/file")
    it.names(f"pods/u1/{CSI}/pv-1", f"pods/u1/{CSI}/pv-1/vol_data.json")


@broken
def sub_path_placeholders(it: Broken) -> None:
    it.file("pods/u1/volume-subpaths/data/main/0", b"")
    it.directory("pods/u1/volume-subpaths/data/main/1")
    it.clears("pods/u1")


@broken
def sub_path_with_bytes(it: Broken) -> None:
    it.file("pods/u1/volume-subpaths/data/main/0", "written after the unmount")
    it.file("pods/u1/volume-subpaths/data/main/1", b"")
    it.clears("pods/u1/volume-subpaths/data/main/1")
    it.names("pods/u1/volume-subpaths/data/main/0")


@broken
def dangling_device_link(it: Broken) -> None:
    it.link("pods/u1/volumeDevices/kubernetes.io~csi/pv-1", "/dev/there-is-no-such-disk")
    it.clears("pods/u1")


@broken
def device_link_that_leads_somewhere(it: Broken) -> None:
    it.link("pods/u1/volumeDevices/kubernetes.io~csi/pv-1", "/dev/null")
    it.names("pods/u1/volumeDevices/kubernetes.io~csi/pv-1")


@broken
def file_where_a_device_belongs(it: Broken) -> None:
    it.file("pods/u1/volumeDevices/kubernetes.io~csi/pv-1", "image")
    it.names("pods/u1/volumeDevices/kubernetes.io~csi/pv-1")


# -- what killed writers leave -----------------------------------------------------------------------------------
@broken
def secret_on_disk(it: Broken) -> None:
    it.file(f"pods/u1/{SECRET}/token/{STAMP}/password", "hunter2")
    it.link(f"pods/u1/{SECRET}/token/..data", STAMP)
    it.link(f"pods/u1/{SECRET}/token/password", "..data/password")
    it.names(f"pods/u1/{SECRET}/token")


@broken
def content_without_files(it: Broken) -> None:
    it.directory(f"pods/u1/{CONFIG_MAP}/config/{STAMP}")
    it.link(f"pods/u1/{CONFIG_MAP}/config/..data", STAMP)
    it.link(f"pods/u1/{CONFIG_MAP}/config/key", "..data/key")
    it.clears("pods/u1")


@broken
def half_switched_content(it: Broken) -> None:
    it.file(f"pods/u1/{CONFIG_MAP}/config/{STAMP}/key", "1")
    it.link(f"pods/u1/{CONFIG_MAP}/config/..data_tmp", STAMP)
    it.clears(f"pods/u1/{CONFIG_MAP}/config/..data_tmp")
    it.names(f"pods/u1/{CONFIG_MAP}/config", f"pods/u1/{CONFIG_MAP}/config/{STAMP}")


@broken
def foreign_link_in_content(it: Broken) -> None:
    it.link(f"pods/u1/{CONFIG_MAP}/config/..data", "/etc")
    it.link(f"pods/u1/{CONFIG_MAP}/config/key", "/etc/passwd")
    it.names(f"pods/u1/{CONFIG_MAP}/config")


# -- odd things --------------------------------------------------------------------------------------------------
@broken
def pod_that_is_a_file(it: Broken) -> None:
    it.file("pods/u1", "not a directory")
    it.names("pods/u1")


@broken
def pod_that_leads_out(it: Broken) -> None:
    outside = it.root.parent / "outside"
    (outside / EMPTY_DIR / "data").mkdir(parents=True)
    it.link("pods/u1", str(outside))
    it.names("pods/u1")


@broken
def volumes_that_lead_out(it: Broken) -> None:
    (it.root.parent / "outside" / "kubernetes.io~empty-dir" / "data").mkdir(parents=True)
    it.link("pods/u1/volumes", "../../../outside")
    it.names("pods/u1/volumes")


@broken
def odd_names(it: Broken) -> None:
    it.directory(f"pods/new\nline/{EMPTY_DIR}/tab\there")
    it.directory(os.fsdecode(b"pods/\xff\xfe"))
    it.file(f"pods/quo'te\"s/{EMPTY_DIR}/$(reboot)/x")
    it.clears("pods/new\nline", os.fsdecode(b"pods/\xff\xfe"))
    it.names(f"pods/quo'te\"s/{EMPTY_DIR}/$(reboot)")


@broken
def fifo_in_a_volume(it: Broken) -> None:
    it.directory(f"pods/u1/{EMPTY_DIR}/data")
    os.mkfifo(it.root / f"pods/u1/{EMPTY_DIR}/data/queue")
    it.names(f"pods/u1/{EMPTY_DIR}/data")


@broken
def socket_in_a_volume(it: Broken) -> None:
    it.socket(f"pods/u1/{EMPTY_DIR}/d/s")
    it.names(f"pods/u1/{EMPTY_DIR}/d")


@broken
def hard_links(it: Broken) -> None:
    first = it.file(f"pods/u1/{EMPTY_DIR}/data/one")
    os.link(first, first.with_name("two"))
    placeholder = it.file("pods/u1/volume-subpaths/data/main/0", b"")
    os.link(placeholder, it.root.parent / "elsewhere")
    it.names(f"pods/u1/{EMPTY_DIR}/data", "pods/u1/volume-subpaths/data/main/0")


@broken
def links_in_circles(it: Broken) -> None:
    it.link(f"pods/u1/{EMPTY_DIR}/data/a", "b")
    it.link(f"pods/u1/{EMPTY_DIR}/data/b", "a")
    it.names(f"pods/u1/{EMPTY_DIR}/data")


@broken
def huge_directory(it: Broken) -> None:
    directory = it.directory(f"pods/u1/{EMPTY_DIR}/data")
    for number in range(6000):
        (directory / str(number)).mkdir()
    it.file(f"pods/u1/{EMPTY_DIR}/data/5999/last")
    it.names(f"pods/u1/{EMPTY_DIR}/data")


@broken
def very_deep_directory(it: Broken) -> None:
    here = it.directory(f"pods/u1/{EMPTY_DIR}/data")
    for _ in range(300):
        here = here / "d"
        here.mkdir()
    (here / "bottom").write_text("bytes")
    it.names(f"pods/u1/{EMPTY_DIR}/data")
