"""`LinuxHost` works with devices as every host does, on each tier, and with the real programs."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl

import pytest

from mooring.errors import MooringError
from mooring.host import features, loop_devices, signatures
from mooring.host.features import Tier
from mooring.host.file_systems import MountErrorKind, MountProblem, format_and_mount, grow_to_device
from mooring.host.interface import Check, Content, FileKind, Host, Signature
from mooring.host.linux import LinuxHost
from mooring.host.programs import find_program
from mooring.testing.conformance.host_block_volumes import HostBlockVolumesConformance
from mooring.testing.conformance.host_devices import HostDevicesConformance, disk, ext4_disk, mounted
from mooring.testing.conformance.host_mounts import mount_at

pytestmark = pytest.mark.node

LOOP_SET_CAPACITY = 0x4C07
GIBIBYTE = 1 << 30


def needs(*programs: str) -> None:
    for program in programs:
        if find_program(program) is None:
            pytest.skip(f"needs the program {program}")


def has_capability(bit: int) -> bool:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> bit & 1)


def loops_below(root: str) -> list[str]:
    """The loop devices on files of a directory, and those on these devices, the latter first."""
    found: list[str] = []
    for name, backing in loop_devices.attached():
        if backing.startswith(f"{root}/") or backing in found:
            found.append(f"/dev/{name}")
    return found[::-1]


@pytest.fixture(params=list(Tier), ids=lambda tier: tier.name.lower())
def host(request: pytest.FixtureRequest, node_root: str) -> Iterator[LinuxHost]:
    """A host whose loop devices are detached afterwards: unlike mounts, they do not vanish with a namespace."""
    needs("mkfs.ext4", "fsck.ext4", "fsck")
    host = LinuxHost(features=features.probe().limited_to(request.param))
    yield host
    for _ in range(2):  # a loop device keeps its mount busy, and a mount its loop device
        for mount in reversed(host.mounts()):
            if mount.path.startswith(f"{node_root}/"):
                with suppress(OSError):
                    host.unmount(mount.path)
        for device in loops_below(node_root):
            with suppress(OSError):
                host.detach_loop(device)
    host.close()
    assert loops_below(node_root) == []


class TestLinuxHost(HostDevicesConformance, HostBlockVolumesConformance):
    @pytest.fixture
    def place(self, node_root: str) -> str:
        return node_root


def large_disk(host: Host, root: str, size: int = GIBIBYTE // 2) -> str:
    """A new loop device on a file that takes no room: xfs and btrfs do not fit on small ones."""
    with open(f"{root}/large", "xb") as file:
        file.truncate(size)
    return host.attach_loop(f"{root}/large")


@pytest.mark.parametrize("fs_type", ["ext2", "ext3", "ext4", "xfs", "btrfs"])
def test_each_type_is_made_mounted_kept_and_checked(host: Host, node_root: str, fs_type: str) -> None:
    needs(f"mkfs.{fs_type}")
    device, path = large_disk(host, node_root), f"{node_root}/m"
    host.make_directory(path, 0o755)
    assert format_and_mount(host, device, path, fs_type).formatted
    assert mount_at(host, path).fs_type == fs_type
    host.create_file(f"{path}/kept", 0o600)
    host.unmount(path)
    again = format_and_mount(host, device, path, fs_type)
    assert again.found == Signature(content=Content.FILE_SYSTEM, type=fs_type)
    assert again.check is not None
    assert again.check.check is Check.CLEAN
    assert host.look(f"{path}/kept") is not None


def test_format_options_reach_the_program(host: Host, node_root: str) -> None:
    device = disk(host, node_root)
    host.make_file_system(device, "ext4", ["-L", "label of mine"])
    label = subprocess.run(["blkid", "-p", "-s", "LABEL", "-o", "value", device], capture_output=True, check=True)
    assert label.stdout == b"label of mine\n"


def test_a_failing_mkfs_says_what_it_said(host: Host, node_root: str) -> None:
    host.make_directory(f"{node_root}/m", 0o755)
    with pytest.raises(MountProblem, match=r"mkfs\.ext4 failed .* exit status 1, .*invalid block size") as caught:
        format_and_mount(host, disk(host, node_root), f"{node_root}/m", "ext4", (), ["-b", "17"])
    assert caught.value.kind is MountErrorKind.FORMAT_FAILED


def test_a_type_without_a_program_says_which_is_missing(host: Host, node_root: str) -> None:
    host.make_directory(f"{node_root}/m", 0o755)
    with pytest.raises(MountProblem, match="not installed") as caught:
        format_and_mount(host, disk(host, node_root), f"{node_root}/m", "nosuchtype")
    assert caught.value.kind is MountErrorKind.FORMAT_FAILED


def test_errors_that_fsck_cannot_correct_keep_a_disk_from_being_mounted(host: Host, node_root: str) -> None:
    device = ext4_disk(host, node_root)
    needs("debugfs")
    for request in ("clri <2>", "set_super_value state 0"):  # no root directory, and not known to be clean
        subprocess.run(["debugfs", "-w", "-R", request, device], check=True, capture_output=True)
    host.make_directory(f"{node_root}/m", 0o755)
    with pytest.raises(MountProblem, match="fsck could not correct") as caught:
        format_and_mount(host, device, f"{node_root}/m", "ext4")
    assert caught.value.kind is MountErrorKind.HAS_FILE_SYSTEM_ERRORS
    assert host.mount_at(f"{node_root}/m") is None


def test_errors_that_fsck_corrects_are_reported(host: Host, node_root: str) -> None:
    device = ext4_disk(host, node_root)
    needs("debugfs")
    for request in ("set_super_value free_blocks_count 1", "set_super_value state 0"):
        subprocess.run(["debugfs", "-w", "-R", request, device], check=True, capture_output=True)
    host.make_directory(f"{node_root}/m", 0o755)
    report = format_and_mount(host, device, f"{node_root}/m", "ext4").check
    assert report is not None
    assert report.check is Check.CORRECTED


def test_a_disk_with_partitions_is_never_formatted(host: Host, node_root: str) -> None:
    device = disk(host, node_root)
    host.make_directory(f"{node_root}/m", 0o755)
    entry = struct.pack("<8B2I", 0, 0, 2, 0, 0x83, 0, 2, 0, 2048, 4096)
    with open(device, "r+b") as blocks:
        blocks.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
    partitions = Signature(content=Content.PARTITIONS, type="dos")
    assert host.signature(device) == partitions
    with pytest.raises(MountProblem, match=r"holds partitions \(dos\)") as caught:
        format_and_mount(host, device, f"{node_root}/m", "ext4")
    assert caught.value.kind is MountErrorKind.FILE_SYSTEM_MISMATCH
    assert host.signature(device) == partitions


def test_several_file_systems_on_one_disk_are_unknown_data(host: Host, node_root: str) -> None:
    needs("mkfs.xfs")
    device = large_disk(host, node_root)
    host.make_file_system(device, "ext4")
    with open(device, "r+b") as blocks:
        blocks.write(b"XFSB")
    assert host.signature(device).content is not Content.NOTHING
    with pytest.raises(FileExistsError):
        host.make_file_system(device, "xfs")


def test_swap_is_unknown_data(host: Host, node_root: str) -> None:
    needs("mkswap")
    device = disk(host, node_root)
    subprocess.run(["mkswap", "-q", device], check=True, capture_output=True)
    assert host.signature(device) == Signature(content=Content.UNKNOWN, type="swap")


def test_the_program_and_the_library_find_the_same(host: Host, node_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("blkid")
    blank, formatted = disk(host, node_root, "blank"), ext4_disk(host, node_root, "formatted")
    by_library = [host.signature(device) for device in (blank, formatted)]
    monkeypatch.setattr(signatures, "_library", lambda: None)
    assert [host.signature(device) for device in (blank, formatted)] == by_library


def test_a_wrong_option_is_refused_in_the_words_of_the_kernel(node_root: str, host: LinuxHost) -> None:
    device = ext4_disk(host, node_root)
    said = "ext4: Unknown parameter 'bogus'" if host.features.detached_mounts else "Invalid argument"
    with pytest.raises(OSError, match=said):
        mounted(host, device, f"{node_root}/m", ["bogus"])


def test_all_tiers_mount_with_equal_options(node_root: str, host: Host) -> None:
    device = ext4_disk(host, node_root)
    options = ["noexec", "nodev", "noatime", "nodiratime", "sync", "lazytime", "errors=remount-ro", "nosymfollow"]
    subprocess.run(["mkdir", f"{node_root}/theirs"], check=True)
    subprocess.run(["mount", "-t", "ext4", "-o", ",".join(options), device, f"{node_root}/theirs"], check=True)
    theirs = mount_at(host, f"{node_root}/theirs").options
    host.unmount(f"{node_root}/theirs")
    assert mount_at(host, mounted(host, device, f"{node_root}/m", options)).options == theirs


def test_a_file_system_grows_to_its_device(host: Host, node_root: str) -> None:
    needs("resize2fs")
    device = disk(host, node_root)
    subprocess.run(["mkfs.ext4", "-q", "-F", device, "4M"], check=True, capture_output=True)
    path = mounted(host, device, f"{node_root}/m")
    before = os.statvfs(path).f_blocks
    if has_capability(24):
        assert grow_to_device(host, device, path)
        assert os.statvfs(path).f_blocks > before
    else:
        with pytest.raises(MooringError, match="CAP_SYS_RESOURCE"):
            grow_to_device(host, device, path)


@pytest.mark.parametrize(("fs_type", "program"), [("xfs", "xfs_growfs"), ("btrfs", "btrfs")])
def test_a_large_file_system_grows_to_its_device(host: Host, node_root: str, fs_type: str, program: str) -> None:
    needs(f"mkfs.{fs_type}", program)
    device, path = large_disk(host, node_root), f"{node_root}/m"
    host.make_directory(path, 0o755)
    format_and_mount(host, device, path, fs_type)
    before = os.statvfs(path).f_blocks
    os.truncate(f"{node_root}/large", GIBIBYTE)
    with open(device, "rb") as loop:
        ioctl(loop, LOOP_SET_CAPACITY)
    assert grow_to_device(host, device, path)
    assert os.statvfs(path).f_blocks > before
    assert grow_to_device(host, device, path)


def test_a_device_that_is_claimed_is_not_formatted(host: Host, node_root: str) -> None:
    device = disk(host, node_root)
    claim = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        assert host.is_device_open(device)
        with pytest.raises(OSError, match="busy"):
            host.make_file_system(device, "ext4")
    finally:
        os.close(claim)
    assert host.signature(device).content is Content.NOTHING


def test_a_loop_device_is_attached_the_old_way_where_the_new_one_is_unknown(
    host: Host, node_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_devices, "_CONFIGURE", 0x4CFF)
    device = disk(host, node_root)
    assert host.loop_of(f"{node_root}/disk") == device
    host.detach_loop(device)
    read_only = host.device(host.attach_loop(f"{node_root}/disk", read_only=True))
    assert read_only is not None
    assert read_only.read_only


def test_a_loop_device_that_somebody_looks_at_is_detached_when_they_are_done(
    host: Host, node_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_devices, "_PATIENCE", 0.0)
    device = disk(host, node_root)
    with open(device, "rb"), pytest.raises(OSError, match="as soon as nobody has it open") as caught:
        host.detach_loop(device)
    assert caught.value.errno == errno.EBUSY
    assert host.loop_of(f"{node_root}/disk") is None


def test_a_disk_of_the_machine_is_no_loop_device(host: Host, node_root: str) -> None:
    os.mknod(f"{node_root}/ram", 0o600 | stat.S_IFBLK, os.makedev(1, 0))
    with pytest.raises(OSError, match="no loop device"):
        host.detach_loop(f"{node_root}/ram")


def test_a_character_device_has_facts_and_is_never_opened(host: Host) -> None:
    facts = host.device("/dev/null")
    assert facts is not None
    assert (facts.kind, facts.major, facts.minor, facts.size) == (FileKind.CHARACTER_DEVICE, 1, 3, 0)
    assert not host.is_device_open("/dev/null")
