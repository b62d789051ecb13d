"""What a caller wants of a volume, and whether this driver can do it. Nothing here touches the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grpc import StatusCode

from mooring.host.file_systems import DEFAULT_TYPE
from mooring.kube.quantity import parse_quantity
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.volumes import Access
from mooring.stubs import csi_pb2 as csi

Mode = csi.VolumeCapability.AccessMode

EPHEMERAL_KEY = "csi.storage.k8s.io/ephemeral"
FS_TYPE_KEY = "fsType"
SIZE_KEY = "size"

BLOCK = 4096
SMALLEST = 1 << 20
_DEFAULT_SIZE = 1 << 30
_DEFAULT_INLINE_SIZE = "64Mi"
_SMALLEST_OF_TYPE = {"ext2": SMALLEST, "ext3": 4 << 20, "ext4": SMALLEST, "xfs": 300 << 20, "btrfs": 110 << 20}
_READERS = (Mode.SINGLE_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY)
_MODES = (Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER, *_READERS)
_RESERVED = "csi.storage.k8s.io/"  # what provisioners tell of claims, which is nothing to act upon


def access_of(what: str, capability: csi.VolumeCapability) -> Access:
    """How a volume is to be handed out; a capability that this driver cannot serve is refused."""
    why = objection(capability)
    if why:
        raise invalid(what, why)
    return Access.BLOCK if capability.HasField("block") else Access.MOUNT


def objection(capability: csi.VolumeCapability) -> str:
    """Why a capability cannot be served; empty when it can."""
    if not capability.HasField("block") and not capability.HasField("mount"):
        return "the volume capability says neither mount nor block"
    mode = capability.access_mode.mode
    if mode not in _MODES:
        known = csi.VolumeCapability.AccessMode.Mode.values()
        name = csi.VolumeCapability.AccessMode.Mode.Name(mode) if mode in known else str(mode)
        return f"volumes of this driver are on one node only, and cannot have the access mode {name}"
    fs_type = capability.mount.fs_type
    if fs_type and fs_type not in _SMALLEST_OF_TYPE:
        return f"the file system {fs_type!r} is not among {', '.join(_SMALLEST_OF_TYPE)}"
    return ""


def is_reader(capability: csi.VolumeCapability) -> bool:
    return capability.access_mode.mode in _READERS


def is_alone(capability: csi.VolumeCapability) -> bool:
    """Whether a volume may be published at one target only."""
    return capability.access_mode.mode == Mode.SINGLE_NODE_SINGLE_WRITER


def fs_type_of(what: str, parameters: Mapping[str, str], capabilities: Iterable[csi.VolumeCapability]) -> str:
    """The file system that a new volume is to get, or empty when that is left open; unknown parameters are refused."""
    for key in sorted(parameters):
        if key != FS_TYPE_KEY and not key.startswith(_RESERVED):
            raise invalid(what, f"the parameter {key!r} is not known; there is only {FS_TYPE_KEY!r}")
    wanted = parameters.get(FS_TYPE_KEY, "")
    if wanted and wanted not in _SMALLEST_OF_TYPE:
        raise invalid(what, f"the file system {wanted!r} is not among {', '.join(_SMALLEST_OF_TYPE)}")
    return wanted or next((each.mount.fs_type for each in capabilities if each.mount.fs_type), "")


def staged_type(asked: str, of_volume: str) -> str:
    """The file system of a stage: what is asked for now, what the volume was made for, or the usual one."""
    return asked or of_volume or DEFAULT_TYPE


def new_size(what: str, wanted: csi.CapacityRange, *, fs_type: str = "", source: int = 0) -> int:
    """The size of a new volume, in whole blocks; OUT_OF_RANGE when none fits."""
    required, limit = _range(what, wanted)
    if source and required and required < source:
        raise out_of_range(what, f"{required} bytes are less than the source has, which is {source}")
    least = max(_SMALLEST_OF_TYPE.get(fs_type, SMALLEST), source)
    default = source or min(_DEFAULT_SIZE, limit or _DEFAULT_SIZE)
    size = _in_blocks(max(required or default, least))
    if limit and size > limit:
        raise out_of_range(what, f"at least {size} bytes are needed, and the limit is {limit}")
    return size


def grown_size(what: str, wanted: csi.CapacityRange, size: int) -> int:
    """The size that a volume of this size is to have; volumes never become smaller."""
    required, limit = _range(what, wanted)
    grown = max(_in_blocks(required), size)
    if limit and grown > limit:
        raise out_of_range(what, f"the volume would have {grown} bytes, and the limit is {limit}")
    return grown


def fits(wanted: csi.CapacityRange, size: int) -> bool:
    """Whether a volume of this size is what was asked for."""
    return wanted.required_bytes <= size and (not wanted.limit_bytes or size <= wanted.limit_bytes)


def inline_size(what: str, context: Mapping[str, str]) -> int:
    """The size that a pod asks for its inline volume."""
    written = context.get(SIZE_KEY) or _DEFAULT_INLINE_SIZE
    try:
        size = parse_quantity(written).value
    except ValueError as error:
        raise invalid(what, f"the volume attribute {SIZE_KEY!r} is wrong: {error}") from None
    return max(_in_blocks(size), SMALLEST)


def invalid(what: str, why: str) -> Failure:
    return Failure(StatusCode.INVALID_ARGUMENT, f"cannot {what}", why=why)


def out_of_range(what: str, why: str) -> Failure:
    return Failure(StatusCode.OUT_OF_RANGE, f"cannot {what}", why=why)


def _range(what: str, wanted: csi.CapacityRange) -> tuple[int, int]:
    required, limit = wanted.required_bytes, wanted.limit_bytes
    if required < 0 or limit < 0:
        raise out_of_range(what, "a size is less than nothing")
    if limit and required > limit:
        raise out_of_range(what, f"{required} bytes are required, and {limit} are the limit")
    return required, limit


def _in_blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
