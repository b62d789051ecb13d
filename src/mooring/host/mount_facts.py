"""`MountFacts` from what the kernel says of one mount: a line of mountinfo, or a `struct statmount`.

Both give equal facts for the same mount, but for its id: a line has the old kind, which may be used again.
"""

from __future__ import annotations

import os
import re
import struct
from functools import cache

from mooring.errors import MooringError
from mooring.host.interface import MountFacts
from mooring.host.mount_events import Shown

SOURCE_FACT = 0x200
_SECURITY_OPTIONS = 0x800
SHOWN_FACTS = 0x1 | 0x2  # numbers of the super block and of the mount: no string, which cost the kernel most
ROOT_FACT = 0x8
ALL_FACTS = 0x1 | 0x2 | 0x8 | 0x10 | 0x20 | 0x80 | 0x100 | SOURCE_FACT | _SECURITY_OPTIONS

_escape = re.compile(r"\\([0-7]{3})")
_option = re.compile(r'(?:"[^"]*"|[^,])+')
_header = struct.Struct("=4xIQIIQIIQQ8xQQ24xII8xII8xII").unpack_from
_shown_fields = struct.Struct("=16xIIQI12xQ8xQ32xI").unpack_from
_MEMORY_MAGIC = frozenset((0x01021994, 0x858458F6, 0x958458F6))
_MEMORY_TYPES = frozenset(("tmpfs", "ramfs", "hugetlbfs"))
_mask_field = struct.Struct("=8xQ").unpack_from
_STRINGS = 512  # where they start, behind the fixed part
_FLAGS = ((0x2, "nosuid"), (0x4, "nodev"), (0x8, "noexec"), (0x10, "noatime"), (0x80, "nodiratime"))
_LATER_FLAGS = ((0x200000, "nosymfollow"), (0x100000, "idmapped"))  # mountinfo has relatime before these
_NOATIME_OR_STRICT = 0x30
_SUPER_FLAGS = ((0x10, "sync"), (0x80, "dirsync"), (0x2000000, "lazytime"))
_READ_ONLY, _SHARED, _SLAVE, _UNBINDABLE = 0x1, 1 << 20, 1 << 19, 1 << 17


def decoded(field: str) -> str:
    """Return a field of mountinfo with its octal escapes (space, tab, newline, backslash) undone."""
    return _escape.sub(lambda found: chr(int(found[1], 8)), field) if "\\" in field else field


def split_options(text: str) -> list[str]:
    """Split options at commas that stand outside of double quotes: an SELinux context contains commas."""
    parts = _option.findall(text) if '"' in text else text.split(",")
    return [decoded(part) for part in parts if part]


def from_line(line: str, number: int) -> MountFacts:
    """Return the facts of one line of mountinfo. Errors name the line by its number: options may hold secrets."""
    fields = line.split(" ")
    try:
        dash = fields.index("-", 6)
        fs_type, source, super_options = fields[dash + 1 : dash + 4]
    except ValueError:
        raise _unreadable(number, f"it has {len(fields)} fields, in an order that is not the kernel's") from None
    major, _, minor = fields[2].partition(":")
    try:
        identity, parent = int(fields[0]), int(fields[1])
        device = os.makedev(int(major), int(minor))
    except ValueError:
        raise _unreadable(number, "its ids or its device are not numbers") from None
    return MountFacts(
        id=identity,
        parent_id=parent,
        path=decoded(fields[4]),
        root=decoded(fields[3]),
        device=device,
        fs_type=fs_type,
        source=decoded(source),
        options=_once(split_options(f"{fields[5]},{super_options}")),
        propagation=_propagation_of_tags(fields[6:dash]),
    )


def facts_mask(answer: bytes) -> int:
    """Return which facts a statmount answer holds."""
    mask: int = _mask_field(answer)[0]
    return mask


def from_statmount(answer: bytes) -> MountFacts:
    """Return the facts in a `struct statmount`, with the id that is never used again."""
    (
        options_at, mask, major, minor, _, super_flags, type_at, identity, parent, attributes, propagation,
        root_at, point_at, subtype_at, source_at, security_count, security_at,
    ) = _header(answer)  # fmt: skip

    def text(start: int) -> str:
        start += _STRINGS
        return answer[start : answer.index(0, start)].decode("utf-8", "surrogateescape")

    fs_type = text(type_at)
    options = list(_flag_options(attributes, super_flags))
    if mask & _SECURITY_OPTIONS:
        strings = answer[_STRINGS + security_at :].split(b"\0", security_count)[:security_count]
        options += [string.decode("utf-8", "surrogateescape") for string in strings]
    if mask & 0x80:
        options += split_options(text(options_at))
    return MountFacts(
        id=identity,
        parent_id=parent,
        path=text(point_at) if mask & 0x10 else "",
        root=text(root_at),
        device=os.makedev(major, minor),
        fs_type=f"{fs_type}.{text(subtype_at)}" if mask & 0x100 else fs_type,
        source=text(source_at) if mask & SOURCE_FACT else "",
        options=_once(options),
        propagation=_propagation(propagation & _SHARED, propagation & _SLAVE, propagation & _UNBINDABLE),
    )


def shown_in_statmount(answer: bytes, *, with_root: bool = False) -> Shown:
    """Return what a mount shows from a `struct statmount` that holds `SHOWN_FACTS`, and `ROOT_FACT` if so said."""
    major, minor, magic, super_flags, parent, attributes, root_at = _shown_fields(answer)
    start = _STRINGS + root_at
    root = answer[start : answer.index(0, start)].decode("utf-8", "surrogateescape") if with_root else ""
    return Shown(
        parent,
        os.makedev(major, minor),
        root,
        magic in _MEMORY_MAGIC,
        bool(attributes & _READ_ONLY),
        bool(super_flags & _READ_ONLY),
    )


def shown_by(mount: MountFacts) -> Shown:
    """Return what a mount shows. Its own flag comes first among the options, which have of two equal flags one."""
    read_only = mount.options[:1] == ("ro",)
    is_file_system_read_only = "ro" in mount.options[1:] or (read_only and "rw" not in mount.options)
    root = mount.root if os.major(mount.device) else ""
    in_memory = mount.fs_type in _MEMORY_TYPES
    return Shown(mount.parent_id, mount.device, root, in_memory, read_only, is_file_system_read_only)


@cache
def _flag_options(attributes: int, super_flags: int) -> tuple[str, ...]:
    """The options that the kernel keeps as bits, worded and ordered as in mountinfo."""
    options = ["ro" if attributes & _READ_ONLY else "rw"]
    options += [name for flag, name in _FLAGS if attributes & flag]
    if not attributes & _NOATIME_OR_STRICT:
        options.append("relatime")
    options += [name for flag, name in _LATER_FLAGS if attributes & flag]
    options.append("ro" if super_flags & _READ_ONLY else "rw")
    return *options, *(name for flag, name in _SUPER_FLAGS if super_flags & flag)


def _propagation_of_tags(tags: list[str]) -> str:
    if not tags:
        return "private"
    kinds = {tag.partition(":")[0] for tag in tags}
    return _propagation("shared" in kinds, "master" in kinds, "unbindable" in kinds)


def _propagation(shared: bool | int, slave: bool | int, unbindable: bool | int) -> str:
    if shared:
        return "shared and slave" if slave else "shared"
    return "slave" if slave else "unbindable" if unbindable else "private"


def _once(options: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(options))


def _unreadable(number: int, why: str) -> MooringError:
    return MooringError("cannot read the mount table", why=f"line {number} is not understood, {why}")
