"""Which disk an iSCSI volume is: portals, target, LUN and interface, and how the node's directories spell that."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.errors import NotYet, Refused
from mooring.kube.objects.volumes import ISCSIVolumeSource
from mooring.plugins.interface import ObjectRef, Objects
from mooring.world.spec import VolumeSpec

RECORD = "iscsi.json"
_PORT = 3260
_DIRECTORY = re.compile(r"(?P<portal>.+?)-(?P<iqn>(?:iqn|eui|naa)\..+)-lun-(?P<lun>\d+)")
_WHO = ("username", "password", "username_in", "password_in")
DISCOVERY_KEYS = tuple(f"discovery.sendtargets.auth.{word}" for word in _WHO)
SESSION_KEYS = tuple(f"node.session.auth.{word}" for word in _WHO)


@dataclass(frozen=True, slots=True, kw_only=True)
class IscsiDisk:
    """A LUN of a target. `interface` is the one that sessions use, made from `configured_interface` if they differ."""

    name: str  # of the volume
    portals: tuple[str, ...]
    iqn: str
    lun: int
    interface: str = "default"
    configured_interface: str = "default"
    initiator_name: str = ""
    target_portal: str = ""  # the first of the portals as it was written; nothing where nobody knows

    @property
    def has_own_interface(self) -> bool:
        """Whether the interface was made for this very volume, and goes with it."""
        return self.interface == f"{self.portals[0]}:{self.name}"

    @property
    def directory(self) -> str:
        """Where the node keeps it, below a directory of its plugin."""
        return f"iface-{self.interface}/{self.portals[0]}-{self.iqn}-lun-{self.lun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chap:
    """Who we are for a target; its repr shows no value. Empty maps stand for no authentication."""

    discovery: Mapping[str, str] | None = field(default=None, repr=False)
    session: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def values(self) -> tuple[str, ...]:
        """What must never be shown, longest first."""
        every = {**(self.discovery or {}), **(self.session or {})}.values()
        return tuple(sorted({value for value in every if value}, key=len, reverse=True))

    def masked(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, "<masked>")
        return text


def source_of(spec: VolumeSpec) -> ISCSIVolumeSource | None:
    holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
    return holder.iscsi if holder is not None else None


def backing_name(source: ISCSIVolumeSource) -> str:
    """What a disk is called in unique volume names, by the node and by whoever attaches. The portal is as written."""
    return f"{source.target_portal}:{source.iqn}:{source.lun}"


def portal_with_port(portal: str) -> str:
    """A portal as `address:port`: 3260 unless it says another, and an IPv6 address in brackets."""
    try:
        address = ipaddress.ip_address(portal.removeprefix("[").removesuffix("]"))
    except ValueError:
        return portal if ":" in portal else f"{portal}:{_PORT}"
    return f"[{address}]:{_PORT}" if address.version == 6 else f"{address}:{_PORT}"


def disk_of(spec: VolumeSpec) -> IscsiDisk:
    """The disk of a spec; `Refused` when it names none that could be looked for safely."""
    source = source_of(spec)
    assert source is not None
    interface = source.iscsi_interface or "default"
    portals = tuple(dict.fromkeys(portal_with_port(each) for each in (source.target_portal, *source.portals) if each))
    what = f"cannot use volume {spec.name!r}"
    for word, text in (("target", source.iqn), ("interface", interface), *(("portal", each) for each in portals)):
        if not text or text.startswith("-") or any(letter in text for letter in "/ \t\n\0"):
            raise Refused(what, why=f"its iSCSI {word} {text!r} is none")
    if not portals:
        raise Refused(what, why="it names no iSCSI portal", next_step="Write targetPortal")
    return IscsiDisk(
        name=spec.name,
        portals=portals,
        iqn=source.iqn,
        lun=source.lun,
        interface=f"{portals[0]}:{spec.name}" if source.initiator_name else interface,
        configured_interface=interface,
        initiator_name=source.initiator_name or "",
        target_portal=source.target_portal,
    )


def source_of_disk(disk: IscsiDisk) -> ISCSIVolumeSource:
    """The source that leads to the same directories; of an interface only the one in use is known."""
    first, *others = disk.portals
    return ISCSIVolumeSource(
        target_portal=disk.target_portal or first,
        portals=tuple(others),
        iqn=disk.iqn,
        lun=disk.lun,
        iscsi_interface=disk.interface,
    )


def parse_directory(interface_directory: str, directory: str) -> IscsiDisk | None:
    """The disk that a directory of the node stands for, or None when its name says nothing."""
    found = _DIRECTORY.fullmatch(directory)
    interface = interface_directory.removeprefix("iface-")
    if found is None or not interface or interface == interface_directory:
        return None
    return IscsiDisk(
        name=directory, portals=(found["portal"],), iqn=found["iqn"], lun=int(found["lun"]), interface=interface
    )


def encode_record(disk: IscsiDisk) -> bytes:
    """What `iscsi.json` says, under the kubelet's names and one of our own; of secrets there is nothing in it."""
    return json.dumps(
        {
            "VolName": disk.name,
            "TargetPortal": disk.target_portal,
            "Portals": disk.portals,
            "Iqn": disk.iqn,
            "Lun": str(disk.lun),
            "InitIface": disk.configured_interface,
            "Iface": disk.interface,
            "InitiatorName": disk.initiator_name,
        }
    ).encode()


def decode_record(data: bytes, fallback: IscsiDisk) -> IscsiDisk:
    """The disk that a record tells of; the one that its directory stands for when it cannot be read."""
    try:
        record = json.loads(data)
        portals = tuple(str(portal) for portal in record["Portals"])
        return IscsiDisk(
            name=str(record["VolName"]),
            portals=portals or fallback.portals,
            iqn=str(record["Iqn"]),
            lun=int(record["Lun"]),
            interface=str(record["Iface"]),
            configured_interface=str(record.get("InitIface", "")),
            initiator_name=str(record.get("InitiatorName", "")),
            target_portal=str(record.get("TargetPortal", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return fallback


def secret_reference(spec: VolumeSpec, namespace: str) -> ObjectRef | None:
    """The Secret with a volume's CHAP credentials, where any are wanted: in its own namespace or in its pod's."""
    source = source_of(spec)
    if source is None or source.secret_ref is None or not (source.chap_auth_discovery or source.chap_auth_session):
        return None
    stated = source.secret_ref.namespace if spec.persistent_volume is not None else ""
    return ObjectRef("Secret", stated or namespace, source.secret_ref.name)


def chap_of(spec: VolumeSpec, objects: Objects) -> Chap:
    """The CHAP credentials of a volume; `NotYet` while their Secret is missing."""
    source = source_of(spec)
    assert source is not None
    if not (source.chap_auth_discovery or source.chap_auth_session):
        return Chap()
    reference = secret_reference(spec, spec.namespace or spec.claim.partition("/")[0])
    values: dict[str, str] = {}
    if reference is not None:
        secret = objects.secret(reference.namespace, reference.name)
        if secret is None:
            raise NotYet(
                f"cannot attach volume {spec.name!r}",
                why=f"its Secret '{reference.namespace}/{reference.name}' with the CHAP credentials does not exist",
                next_step="Create it; the volume is attached then",
            )
        values = {key: data.decode("utf-8", "replace") for key, data in secret.data.items()}
    return Chap(
        discovery={key: values.get(key, "") for key in DISCOVERY_KEYS} if source.chap_auth_discovery else None,
        session={key: values.get(key, "") for key in SESSION_KEYS} if source.chap_auth_session else None,
    )
