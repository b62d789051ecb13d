"""Options of mount(8) are sorted as the kernel takes them."""

from __future__ import annotations

import pytest

from mooring.host import mount_options
from mooring.host.mount_options import MountOptions


def test_flags_words_and_what_only_programs_read_are_told_apart() -> None:
    given = [
        "defaults",
        "ro",
        "sync",
        "noatime",
        "discard",
        "data=ordered",
        "_netdev",
        "nofail",
        "x-a.b=c",
        "comment=d",
    ]
    assert mount_options.parse(given) == MountOptions(
        mount_flags=("ro", "noatime"), super_flags=("sync",), words=("discard", "data=ordered")
    )


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (["ro", "rw"], ()),
        (["rw", "ro"], ("ro",)),
        (["nosuid", "noexec", "suid"], ("noexec",)),
        (["ro", "defaults"], ("ro",)),
        (["noatime", "relatime"], ("relatime",)),
        (["relatime", "strictatime"], ("strictatime",)),
        (["noatime", "noatime"], ("noatime",)),
    ],
)
def test_a_later_option_takes_an_earlier_one_back(given: list[str], flags: tuple[str, ...]) -> None:
    assert mount_options.parse(given).mount_flags == flags


def test_one_text_may_hold_several_options_with_commas_in_quotes() -> None:
    words = mount_options.parse(['nodev,context="a:b:c1,c2",,acl']).words
    assert words == ('context="a:b:c1,c2"', "acl")


def test_mount_2_takes_flags_as_bits_and_words_as_text() -> None:
    options = mount_options.parse(["ro", "nosuid", "relatime", "dirsync", "acl", "commit=5"])
    assert options.for_mount() == (0x1 | 0x2 | 0x200000 | 0x80, "acl,commit=5")


def test_newer_calls_take_words_one_by_one_and_read_only_twice() -> None:
    options = mount_options.parse(["ro", "nodev", "strictatime", "lazytime", "acl", "commit=5", 'context="a,b"', "e="])
    assert options.for_fsmount() == 0x1 | 0x4 | 0x20
    assert options.for_fsconfig() == (
        ("ro", None),
        ("lazytime", None),
        ("acl", None),
        ("commit", "5"),
        ("context", "a,b"),
        ("e", ""),
    )
