"""What a `MemoryHost` can do to its devices that no machine lets a test do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mooring.host.interface import Check, Content, FileKind, NewFile, Signature
from mooring.host.programs import ProgramFailed, ProgramMissing, ProgramResult
from mooring.testing.conformance.host_devices import EXT4, MEBIBYTE, NOTHING
from mooring.testing.memory_host import MemoryHost


@pytest.fixture
def host() -> MemoryHost:
    host = MemoryHost()
    host.make_directory("/m", 0o755)
    host.make_device("/disk", MEBIBYTE)
    return host


def test_disks_keep_what_they_hold_over_a_reboot_and_loop_devices_vanish(host: MemoryHost) -> None:
    host.make_file_system("/disk", "ext4")
    host.mount_device("/disk", "/m", "ext4")
    host.write_files("/m", [NewFile(path="file", data=b"kept", mode=0o644)])
    host.attach_loop("/disk")
    host.claim_device("/disk")
    host.reboot()
    assert host.loop_of("/disk") is None
    assert not host.is_device_open("/disk")
    assert (host.signature("/disk"), host.names_in("/m")) == (EXT4, [])
    host.mount_device("/disk", "/m", "ext4")
    assert host.read_file("/m/file") == b"kept"


def test_a_claimed_disk_is_open_and_neither_formatted_nor_mounted(host: MemoryHost) -> None:
    host.make_device("/formatted", MEBIBYTE, holds=EXT4)
    for disk in ("/disk", "/formatted"):
        host.claim_device(disk)
        assert host.is_device_open(disk)
    with pytest.raises(OSError, match="busy"):
        host.make_file_system("/disk", "ext4")
    with pytest.raises(OSError, match="busy"):
        host.mount_device("/formatted", "/m", "ext4")
    host.release_device("/disk")
    host.make_file_system("/disk", "ext4")


def test_a_file_system_is_full_at_the_size_of_its_disk_until_both_grow(host: MemoryHost) -> None:
    host.make_file_system("/disk", "ext4")
    host.mount_device("/disk", "/m", "ext4")
    host.resize_device("/disk", 4 * MEBIBYTE)
    file = NewFile(path="file", data=bytes(2 * MEBIBYTE), mode=0o644)
    with pytest.raises(OSError, match="No space"):
        host.write_files("/m", [file])
    host.remove_file("/m/file")
    host.grow_file_system("/disk", "/m", "ext4")
    host.write_files("/m", [file])


def test_a_scripted_failure_of_mkfs_leaves_the_disk_empty(host: MemoryHost) -> None:
    host.program_result = lambda arguments: ProgramResult(status=1, output="no luck")
    with pytest.raises(ProgramFailed, match=r"mkfs\.ext4 failed on '/disk': exit status 1, 'no luck'"):
        host.make_file_system("/disk", "ext4")
    assert host.signature("/disk") == NOTHING
    assert host.programs_run == [("mkfs.ext4", "-F", "-m0", "/disk")]


def test_programs_may_be_missing(host: MemoryHost) -> None:
    def missing(arguments: Sequence[str]) -> ProgramResult | None:
        raise ProgramMissing(arguments[0])

    host.program_result = missing
    assert host.check_file_system("/disk").check is Check.NO_PROGRAM
    with pytest.raises(ProgramMissing, match=r"mkfs\.xfs"):
        host.make_file_system("/disk", "xfs")


def test_a_read_only_disk_is_not_formatted(host: MemoryHost) -> None:
    host.make_device("/fixed", MEBIBYTE, read_only=True)
    with pytest.raises(ProgramFailed, match="Read-only"):
        host.make_file_system("/fixed", "ext4")
    assert host.signature("/fixed") == NOTHING


@pytest.mark.parametrize("content", [Content.PARTITIONS, Content.UNKNOWN])
def test_a_disk_may_hold_what_cannot_be_mounted(host: MemoryHost, content: Content) -> None:
    held = Signature(content=content, type="dos")
    host.make_device("/other", MEBIBYTE, holds=held)
    assert host.signature("/other") == held
    with pytest.raises(OSError, match="Invalid argument"):
        host.mount_device("/other", "/m", "ext4")


def test_only_a_loop_device_is_detached(host: MemoryHost) -> None:
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        host.detach_loop("/disk")


def test_a_special_file_is_a_device_without_a_medium(host: MemoryHost) -> None:
    host.make_special_file("/tape", FileKind.CHARACTER_DEVICE)
    facts = host.device("/tape")
    assert facts is not None
    assert (facts.kind, facts.size) == (FileKind.CHARACTER_DEVICE, 0)
    with pytest.raises(OSError, match="Block device required"):
        host.signature("/tape")
