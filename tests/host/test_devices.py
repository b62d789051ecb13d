"""What can be said of devices, signatures and loop devices without touching any."""

from __future__ import annotations

import pytest

from mooring.errors import MooringError
from mooring.host import devices, loop_devices, signatures
from mooring.host.interface import Content, DeviceFacts, FileKind, Signature
from mooring.host.linux import LinuxHost


def test_a_character_device_is_known_without_opening_it() -> None:
    assert devices.facts("/dev/null") == DeviceFacts(kind=FileKind.CHARACTER_DEVICE, major=1, minor=3)
    assert not devices.is_open("/dev/null")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"TYPE": "ext4", "USAGE": "filesystem"}, Signature(content=Content.FILE_SYSTEM, type="ext4")),
        ({"TYPE": "ext4"}, Signature(content=Content.FILE_SYSTEM, type="ext4")),
        ({"TYPE": "LVM2_member", "USAGE": "raid"}, Signature(content=Content.UNKNOWN, type="LVM2_member")),
        ({"TYPE": "crypto_LUKS", "USAGE": "crypto"}, Signature(content=Content.UNKNOWN, type="crypto_LUKS")),
        ({"PTTYPE": "gpt"}, Signature(content=Content.PARTITIONS, type="gpt")),
        ({"TYPE": "vfat", "USAGE": "filesystem", "PTTYPE": "dos"}, Signature(content=Content.PARTITIONS, type="dos")),
        ({}, Signature(content=Content.UNKNOWN)),
    ],
)
def test_what_was_found_is_never_nothing(values: dict[str, str], found: Signature) -> None:
    assert signatures.meaning(values) == found


def test_the_words_of_blkid_are_read() -> None:
    text = "DEVNAME=/dev/loop0\nTYPE=ext4\nLABEL=a=b\nUSAGE=filesystem\n"
    assert signatures.parse_export(text) == {
        "DEVNAME": "/dev/loop0", "TYPE": "ext4", "LABEL": "a=b", "USAGE": "filesystem"
    }  # fmt: skip
    with pytest.raises(MooringError, match="blkid printed 'words'"):
        signatures.parse_export("TYPE=ext4\nwords")


@pytest.mark.parametrize("text", ["/a/b\n", "/a/b (deleted)\n", "  /a/b \n", "/a/b"])
def test_the_path_of_a_backing_file_is_cleaned(text: str) -> None:
    assert loop_devices.cleaned(text) == "/a/b"


def test_a_file_that_nobody_attached_has_no_loop_device() -> None:
    host = LinuxHost()
    assert host.loop_of("/nowhere/at/all") is None
    host.close()
