"""Sorts the options of mount(8) as the kernel takes them: flags of the mount, flags of the super block, and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.host.mount_facts import split_options

_MOUNT_FLAGS = {  # name: (the bit for mount(2), the bit for fsmount)
    "ro": (0x1, 0x1),
    "nosuid": (0x2, 0x2),
    "nodev": (0x4, 0x4),
    "noexec": (0x8, 0x8),
    "nosymfollow": (0x100, 0x200000),
    "noatime": (0x400, 0x10),
    "nodiratime": (0x800, 0x80),
    "relatime": (0x200000, 0x0),  # what the kernel does by itself
    "strictatime": (0x1000000, 0x20),
}
_SUPER_FLAGS = {"sync": 0x10, "dirsync": 0x80, "lazytime": 0x2000000}
_TAKEN_BACK = {
    "rw": {"ro"},
    "suid": {"nosuid"},
    "dev": {"nodev"},
    "exec": {"noexec"},
    "symfollow": {"nosymfollow"},
    "atime": {"noatime"},
    "diratime": {"nodiratime"},
    "norelatime": {"relatime"},
    "nostrictatime": {"strictatime"},
    "async": {"sync"},
    "nolazytime": {"lazytime"},
    "noatime": {"relatime", "strictatime"},
    "relatime": {"noatime", "strictatime"},
    "strictatime": {"noatime", "relatime"},
}
_FOR_PEOPLE = frozenset(
    {"defaults", "_netdev", "auto", "noauto", "nofail", "user", "nouser", "users", "owner", "group", "quiet"}
)
"""Options that mount(8) and its surroundings read, and that the kernel would refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """Options of mount(8), sorted. Flags are names in the order given; words are for the file system itself."""

    mount_flags: tuple[str, ...] = ()
    super_flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        return "ro" in self.mount_flags

    def for_mount(self) -> tuple[int, str]:
        """The flags and the data of mount(2)."""
        flags = sum(_MOUNT_FLAGS[name][0] for name in self.mount_flags)
        return flags | sum(_SUPER_FLAGS[name] for name in self.super_flags), ",".join(self.words)

    def for_fsmount(self) -> int:
        """The attributes of fsmount(2)."""
        return sum(_MOUNT_FLAGS[name][1] for name in self.mount_flags)

    def for_fsconfig(self) -> tuple[tuple[str, str | None], ...]:
        """What fsconfig(2) is told: names, with a value or with None. A read-only mount is one of the device too."""
        flags = [(name, None) for name in (*(["ro"] if self.read_only else []), *self.super_flags)]
        return *flags, *(_name_and_value(word) for word in self.words)


def parse(options: Sequence[str]) -> MountOptions:
    """Sort options; a later one takes an earlier one back, and those that only programs read are left out."""
    flags: dict[str, None] = {}
    words: list[str] = []
    for option in _each(options):
        for taken_back in _TAKEN_BACK.get(option, ()):
            flags.pop(taken_back, None)
        if option in _MOUNT_FLAGS or option in _SUPER_FLAGS:
            flags[option] = None
        elif (
            option not in _TAKEN_BACK and option not in _FOR_PEOPLE and not option.startswith(("x-", "X-", "comment="))
        ):
            words.append(option)
    return MountOptions(
        mount_flags=tuple(name for name in flags if name in _MOUNT_FLAGS),
        super_flags=tuple(name for name in flags if name in _SUPER_FLAGS),
        words=tuple(words),
    )


def context_option(label: str) -> str:
    """The option that mounts with an SELinux label, quoted, for a label may hold commas."""
    return f'context="{label}"'


def _each(options: Sequence[str]) -> Iterable[str]:
    """Yield single options: a mount option of a persistent volume may hold several, with commas between them."""
    for option in options:
        yield from split_options(option)


def _name_and_value(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    return (name, value.strip('"')) if equals else (name, None)
