"""How the access modes of Kubernetes are told to a driver."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.rpc import csi

READ_WRITE_ONCE = "ReadWriteOnce"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

_PLAIN = {
    READ_WRITE_ONCE: "SINGLE_NODE_WRITER",
    "ReadOnlyMany": "MULTI_NODE_READER_ONLY",
    "ReadWriteMany": "MULTI_NODE_MULTI_WRITER",
    READ_WRITE_ONCE_POD: "SINGLE_NODE_WRITER",
}
_EXACT = {
    **_PLAIN,
    READ_WRITE_ONCE: "SINGLE_NODE_MULTI_WRITER",
    READ_WRITE_ONCE_POD: "SINGLE_NODE_SINGLE_WRITER",
}


def access_mode(modes: Sequence[str], *, multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode.ValueType:
    """The mode for a driver with or without SINGLE_NODE_MULTI_WRITER: only the first of a volume's modes counts."""
    first = modes[0] if modes else READ_WRITE_ONCE
    named = (_EXACT if multi_writer else _PLAIN).get(first, "UNKNOWN")
    return csi.VolumeCapability.AccessMode.Mode.Value(named)
