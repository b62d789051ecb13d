"""What every `Host` does with devices, as tests to be inherited; `host_block_volumes.py` has what is built on them.

Disks are loop devices on files of `place`, so that a machine needs none to spare. File systems are ext4.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from mooring.host.interface import Check, Content, FileKind, Host, Signature
from mooring.testing.conformance.host import kind_of, write
from mooring.testing.conformance.host_mounts import mount_at

MEBIBYTE = 1 << 20
DISK = 8 * MEBIBYTE
EXT4 = Signature(content=Content.FILE_SYSTEM, type="ext4")
NOTHING = Signature(content=Content.NOTHING)


def disk_file(host: Host, place: str, name: str = "disk") -> str:
    return write(host, place, name, bytes(DISK), 0o600)


def disk(host: Host, place: str, name: str = "disk", *, read_only: bool = False) -> str:
    """A new loop device that holds nothing."""
    return host.attach_loop(disk_file(host, place, name), read_only=read_only)


def ext4_disk(host: Host, place: str, name: str = "disk") -> str:
    device = disk(host, place, name)
    host.make_file_system(device, "ext4")
    return device


def mounted(host: Host, device: str, path: str, options: Sequence[str] = ()) -> str:
    host.make_directories(path, 0o755)
    host.mount_device(device, path, "ext4", options)
    return path


class DeviceConformance:
    def test_a_disk_is_seen_with_its_size_and_access(self, host: Host, place: str) -> None:
        facts = host.device(disk(host, place))
        assert facts is not None
        assert (facts.kind, facts.size, facts.read_only) == (FileKind.BLOCK_DEVICE, DISK, False)

    def test_a_device_is_seen_through_links(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.make_link(device, f"{place}/link")
        assert host.device(f"{place}/link") == host.device(device) is not None

    def test_two_devices_have_two_numbers(self, host: Host, place: str) -> None:
        one, other = host.device(disk(host, place, "one")), host.device(disk(host, place, "other"))
        assert one is not None
        assert other is not None
        assert (one.major, one.minor) != (other.major, other.minor)

    def test_what_is_no_device_has_no_facts_and_is_not_open(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        for path in (file, place, f"{place}/missing", f"{file}/below"):
            assert host.device(path) is None
            assert not host.is_device_open(path)

    def test_a_disk_is_open_while_it_is_mounted(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        assert not host.is_device_open(device)
        path = mounted(host, device, f"{place}/m")
        assert host.is_device_open(device)
        host.unmount(path)
        assert not host.is_device_open(device)

    def test_a_device_is_bound_onto_a_file(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.create_file(f"{place}/bound", 0o750)
        host.bind(device, f"{place}/bound")
        assert kind_of(host, f"{place}/bound") is FileKind.BLOCK_DEVICE
        assert host.device(f"{place}/bound") == host.device(device)
        host.unmount(f"{place}/bound")
        assert kind_of(host, f"{place}/bound") is FileKind.FILE


class SignatureConformance:
    def test_an_empty_disk_holds_nothing(self, host: Host, place: str) -> None:
        assert host.signature(disk(host, place)) == NOTHING

    def test_a_formatted_disk_holds_its_file_system(self, host: Host, place: str) -> None:
        assert host.signature(ext4_disk(host, place)) == EXT4

    def test_a_disk_without_a_medium_is_an_error_and_not_empty(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.detach_loop(device)
        with pytest.raises(OSError, match="No medium") as caught:
            host.signature(device)
        assert caught.value.errno == errno.ENOMEDIUM

    def test_only_block_devices_have_a_signature(self, host: Host, place: str) -> None:
        with pytest.raises(OSError, match="Block device required") as caught:
            host.signature(write(host, place, "file"))
        assert caught.value.errno == errno.ENOTBLK
        with pytest.raises(FileNotFoundError):
            host.signature(f"{place}/missing")


class MakingFileSystemsConformance:
    def test_what_a_disk_holds_is_never_overwritten(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        write(host, mounted(host, device, f"{place}/m"), "file", b"precious")
        host.unmount(f"{place}/m")
        with pytest.raises(FileExistsError, match="it holds a file system"):
            host.make_file_system(device, "ext4", ["-F"])
        assert host.read_file(f"{mounted(host, device, f'{place}/m')}/file") == b"precious"

    def test_only_block_devices_are_formatted(self, host: Host, place: str) -> None:
        file = disk_file(host, place)
        with pytest.raises(OSError, match="Block device required"):
            host.make_file_system(file, "ext4")
        assert not any(host.read_file(file))

    def test_a_type_is_a_name_and_never_a_path(self, host: Host, place: str) -> None:
        device = disk(host, place)
        for name in ("/../../bin/true", "", "-n"):
            with pytest.raises(OSError, match="no type of file system"):
                host.make_file_system(device, name)
        assert host.signature(device) == NOTHING

    def test_a_clean_file_system_is_found_clean(self, host: Host, place: str) -> None:
        assert host.check_file_system(ext4_disk(host, place)).check is Check.CLEAN

    def test_types_that_do_not_grow_are_refused(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        path = mounted(host, device, f"{place}/m")
        with pytest.raises(OSError, match="cannot be grown") as caught:
            host.grow_file_system(device, path, "ntfs")
        assert caught.value.errno == errno.EOPNOTSUPP


class MountingDevicesConformance:
    def test_a_mount_shows_the_device_and_the_type(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        facts, numbers = mount_at(host, mounted(host, device, f"{place}/m")), host.device(device)
        assert numbers is not None
        assert (facts.fs_type, facts.source, facts.root) == ("ext4", device, "/")
        assert facts.device == os.makedev(numbers.major, numbers.minor)
        assert facts.options[:2] == ("rw", "relatime")

    def test_what_was_written_is_there_at_the_next_mount(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        write(host, mounted(host, device, f"{place}/one"), "file", b"kept")
        host.unmount(f"{place}/one")
        assert host.read_file(f"{mounted(host, device, f'{place}/other')}/file") == b"kept"

    def test_a_device_mounted_twice_shows_the_same_files(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        write(host, mounted(host, device, f"{place}/one"), "file", b"both")
        assert host.read_file(f"{mounted(host, device, f'{place}/other')}/file") == b"both"
        host.unmount(f"{place}/one")
        assert host.is_device_open(device)

    def test_a_device_is_not_mounted_writable_and_read_only_at_once(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        mounted(host, device, f"{place}/one")
        with pytest.raises(OSError, match="busy") as caught:
            mounted(host, device, f"{place}/other", ["ro"])
        assert caught.value.errno == errno.EBUSY

    def test_flags_become_flags_of_the_mount(self, host: Host, place: str) -> None:
        options = ["defaults", "noexec", "nosuid,nodev", "noatime", "_netdev", "x-systemd.automount", "discard"]
        facts = mount_at(host, mounted(host, ext4_disk(host, place), f"{place}/m", options))
        assert facts.options[:5] == ("rw", "nosuid", "nodev", "noexec", "noatime")
        assert "discard" in facts.options
        assert not {"_netdev", "relatime", "ro"} & set(facts.options)

    def test_a_read_only_mount_takes_no_file(self, host: Host, place: str) -> None:
        path = mounted(host, ext4_disk(host, place), f"{place}/m", ["ro"])
        assert mount_at(host, path).options[0] == "ro"
        assert "rw" not in mount_at(host, path).options
        with pytest.raises(OSError, match="Read-only"):
            host.create_file(f"{path}/file", 0o644)

    def test_a_read_only_disk_is_mounted_read_only_or_not_at_all(self, host: Host, place: str) -> None:
        host.detach_loop(ext4_disk(host, place))
        device = host.attach_loop(f"{place}/disk", read_only=True)
        facts = host.device(device)
        assert facts is not None
        assert facts.read_only
        with pytest.raises(PermissionError):
            mounted(host, device, f"{place}/m")
        mounted(host, device, f"{place}/m", ["ro"])

    def test_another_type_an_unknown_type_and_a_wrong_option_are_refused(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        host.make_directory(f"{place}/m", 0o755)
        for fs_type, options, number in (
            ("xfs", [], errno.EINVAL),
            ("nosuchtype", [], errno.ENODEV),
            ("ext4", ["bogus"], errno.EINVAL),
            ("ext4", ["bogus=1"], errno.EINVAL),
        ):
            with pytest.raises(OSError, match=f"{place}/m") as caught:
                host.mount_device(device, f"{place}/m", fs_type, options)
            assert caught.value.errno == number
        assert host.mount_at(f"{place}/m") is None
        assert not host.is_device_open(device)

    def test_an_empty_disk_is_not_mounted(self, host: Host, place: str) -> None:
        with pytest.raises(OSError, match="Invalid argument"):
            mounted(host, disk(host, place), f"{place}/m")

    def test_a_mount_needs_a_block_device_and_a_directory(self, host: Host, place: str) -> None:
        device, file = ext4_disk(host, place), write(host, place, "file")
        host.make_directory(f"{place}/m", 0o755)
        with pytest.raises(OSError, match="Block device required"):
            host.mount_device(file, f"{place}/m", "ext4")
        with pytest.raises(FileNotFoundError):
            host.mount_device(device, f"{place}/missing", "ext4")
        host.make_link("m", f"{place}/link")
        for path in (file, f"{place}/link"):
            with pytest.raises(NotADirectoryError):
                host.mount_device(device, path, "ext4")
        assert not host.is_device_open(device)


class LoopConformance:
    def test_a_loop_device_is_found_by_its_file(self, host: Host, place: str) -> None:
        file = disk_file(host, place)
        assert host.loop_of(file) is None
        device = host.attach_loop(file)
        host.make_link("disk", f"{place}/link")
        assert host.loop_of(file) == host.loop_of(f"{place}/link") == device
        host.detach_loop(device)
        assert host.loop_of(file) is None

    def test_a_loop_device_is_found_when_its_file_was_deleted(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.remove_file(f"{place}/disk")
        assert host.loop_of(f"{place}/disk") == device
        host.detach_loop(device)
        assert host.loop_of(f"{place}/disk") is None

    def test_what_a_file_holds_stays_when_it_is_attached_again(self, host: Host, place: str) -> None:
        host.detach_loop(ext4_disk(host, place))
        assert host.signature(host.attach_loop(f"{place}/disk")) == EXT4

    def test_a_mounted_loop_device_stays_attached(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        path = mounted(host, device, f"{place}/m")
        with pytest.raises(OSError, match="busy") as caught:
            host.detach_loop(device)
        assert caught.value.errno == errno.EBUSY
        host.unmount(path)
        assert host.loop_of(f"{place}/disk") == device

    def test_a_loop_device_is_detached_once(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.detach_loop(device)
        with pytest.raises(OSError, match="No such device") as caught:
            host.detach_loop(device)
        assert caught.value.errno == errno.ENXIO

    def test_only_loop_devices_are_detached(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.detach_loop(f"{place}/missing")
        with pytest.raises(OSError, match="Block device required"):
            host.detach_loop(write(host, place, "file"))

    def test_only_files_are_attached(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.attach_loop(f"{place}/missing")
        with pytest.raises(IsADirectoryError):
            host.attach_loop(place)

    def test_a_loop_device_on_a_device_shows_what_that_holds(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        over = host.attach_loop(device)
        assert over != device
        assert host.signature(over) == EXT4
        host.detach_loop(over)

    def test_a_loop_device_keeps_the_mount_of_its_file_busy(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.create_file(f"{place}/bound", 0o750)
        host.bind(device, f"{place}/bound")
        over = host.attach_loop(f"{place}/bound")
        assert host.loop_of(f"{place}/bound") == over
        assert host.loop_of(device) is None
        with pytest.raises(OSError, match="busy"):
            host.unmount(f"{place}/bound")
        host.detach_loop(over)
        host.unmount(f"{place}/bound")


class HostDevicesConformance(
    DeviceConformance,
    SignatureConformance,
    MakingFileSystemsConformance,
    MountingDevicesConformance,
    LoopConformance,
):
    """All that a `Host` does with devices, call by call."""
