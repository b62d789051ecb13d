"""The data file of a CSI volume: what is needed to take it away again, in the kubelet's own format."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from mooring.csi.names import DATA_FILE, Identity
from mooring.errors import Doubtful, Refused
from mooring.host.durable_files import NEW
from mooring.host.interface import Host
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import CSIVolumeSource, Volume
from mooring.world.spec import VolumeSpec

EPHEMERAL = "Ephemeral"
PERSISTENT = "Persistent"


class VolumeData(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the file holds; keys that nobody knows are passed over."""

    driver_name: str
    volume_handle: str
    spec_vol_id: str = msgspec.field(name="specVolID", default="")
    node_name: str = ""
    attachment_id: str = msgspec.field(name="attachmentID", default="")
    volume_lifecycle_mode: str = ""
    se_linux_mount_context: str = msgspec.field(name="seLinuxMountContext", default="")

    @property
    def identity(self) -> Identity:
        return Identity(driver=self.driver_name, handle=self.volume_handle)


def encoded(data: VolumeData) -> bytes:
    return msgspec.json.encode(data, order="sorted") + b"\n"  # a kubelet's file is the same to the byte


def decoded(raw: bytes) -> VolumeData:
    """ValueError for what is no data file, or does not say which volume it is about."""
    data = msgspec.json.decode(raw, type=VolumeData)
    if not data.driver_name or not data.volume_handle:
        raise ValueError("it names no driver or no volume")
    return data


def write(host: Host, directory: str, data: VolumeData) -> None:
    """Put the file into a directory, in one step; the directory is made where it is missing."""
    host.make_directories(directory, 0o750)
    host.write_durably(directory, {DATA_FILE: encoded(data)})


def read(host: Host, directory: str) -> VolumeData | None:
    """What the file in a directory says; None when there is none, `Doubtful` when it makes no sense."""
    path = f"{directory}/{DATA_FILE}"
    try:
        return decoded(host.read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise Doubtful(
            f"cannot tell which volume {directory!r} is",
            why=f"{path} makes no sense: {error}",
            next_step="Find out what is mounted there, unmount it and remove the file",
        ) from error


def is_there(host: Host, directory: str) -> bool:
    return host.look(f"{directory}/{DATA_FILE}") is not None


def remove(host: Host, directory: str) -> None:
    """Remove the file, and what is left of one that was not finished."""
    for name in (f"{DATA_FILE}{NEW}", DATA_FILE):
        with suppress(FileNotFoundError, NotADirectoryError):
            host.remove_file(f"{directory}/{name}")


def skeleton(data: VolumeData, name: str, *, block: bool) -> VolumeSpec:
    """The spec of a volume as far as its data file tells."""
    if data.volume_lifecycle_mode == EPHEMERAL:
        if block:
            raise Refused(f"cannot make sense of block volume {name!r}", why="an inline volume is never a raw device")
        return VolumeSpec(volume=Volume(name=name, csi=CSIVolumeSource(driver=data.driver_name)))
    source = CSIPersistentVolumeSource(driver=data.driver_name, volume_handle=data.volume_handle)
    spec = PersistentVolumeSpec(csi=source, volume_mode="Block" if block else "Filesystem")
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))
