"""What volumes on block devices need of every `Host`, as tests to be inherited beside those of `host_devices.py`."""

from __future__ import annotations

import pytest

from mooring.host import block_maps
from mooring.host.file_systems import MountErrorKind, MountProblem, format_and_mount
from mooring.host.interface import Check, Host
from mooring.testing.conformance.host import mode_of, write
from mooring.testing.conformance.host_devices import EXT4, NOTHING, disk, ext4_disk, mounted


class FormatAndMountConformance:
    def test_an_empty_disk_is_formatted_once_and_then_checked(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.make_directory(f"{place}/m", 0o755)
        first = format_and_mount(host, device, f"{place}/m", "ext4")
        assert (first.found, first.formatted, first.check) == (NOTHING, True, None)
        write(host, f"{place}/m", "file", b"kept")
        host.unmount(f"{place}/m")
        second = format_and_mount(host, device, f"{place}/m")
        assert second.check is not None
        assert (second.found, second.formatted, second.check.check) == (EXT4, False, Check.CLEAN)
        assert host.read_file(f"{place}/m/file") == b"kept"

    def test_an_empty_disk_is_not_formatted_for_a_read_only_mount(self, host: Host, place: str) -> None:
        device = disk(host, place)
        host.make_directory(f"{place}/m", 0o755)
        with pytest.raises(MountProblem, match="it is not formatted") as caught:
            format_and_mount(host, device, f"{place}/m", "ext4", ["ro"])
        assert caught.value.kind is MountErrorKind.UNFORMATTED_READ_ONLY
        assert host.signature(device) == NOTHING

    def test_another_file_system_than_the_wanted_one_is_named(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        host.make_directory(f"{place}/m", 0o755)
        with pytest.raises(MountProblem, match=r"holds a file system \(ext4\)") as caught:
            format_and_mount(host, device, f"{place}/m", "xfs")
        assert caught.value.kind is MountErrorKind.FILE_SYSTEM_MISMATCH
        assert host.signature(device) == EXT4

    def test_a_mounted_disk_is_mounted_again_without_a_check(self, host: Host, place: str) -> None:
        device = ext4_disk(host, place)
        mounted(host, device, f"{place}/one")
        host.make_directory(f"{place}/other", 0o755)
        assert format_and_mount(host, device, f"{place}/other").check is None


class BlockMapConformance:
    def test_a_mapped_device_is_bound_linked_and_kept_open(self, host: Host, place: str) -> None:
        device = disk(host, place)
        made = block_maps.map_device(host, device, f"{place}/global", f"{place}/pod", "data", "uid")
        assert made.global_file == f"{place}/global/uid"
        assert host.device(made.global_file) == host.device(device)
        assert host.read_link(f"{place}/pod/data") == device
        assert host.loop_of(made.global_file) == made.loop != device
        assert [mode_of(host, f"{place}/{name}") for name in ("global", "pod")] == [0o750, 0o750]
        assert block_maps.references(host, f"{place}/global") == [made.global_file]
        block_maps.unmap_device(host, f"{place}/global", f"{place}/pod", "data", "uid")

    def test_mapping_twice_changes_nothing(self, host: Host, place: str) -> None:
        device = disk(host, place)
        first = block_maps.map_device(host, device, f"{place}/global", f"{place}/pod", "data", "uid")
        mounts = host.mounts()
        assert block_maps.map_device(host, device, f"{place}/global", f"{place}/pod", "data", "uid") == first
        assert host.mounts() == mounts
        block_maps.unmap_device(host, f"{place}/global", f"{place}/pod", "data", "uid")

    def test_unmapping_undoes_everything_and_may_be_repeated(self, host: Host, place: str) -> None:
        device = disk(host, place)
        before = [mount.path for mount in host.mounts()]
        made = block_maps.map_device(host, device, f"{place}/global", f"{place}/pod", "data", "uid")
        for _ in range(2):
            block_maps.unmap_device(host, f"{place}/global", f"{place}/pod", "data", "uid")
            assert (host.names_in(f"{place}/global"), host.names_in(f"{place}/pod")) == ([], [])
            assert host.loop_of(made.global_file) is None
            assert [mount.path for mount in host.mounts()] == before
        host.detach_loop(device)

    def test_two_pods_map_a_device_each_for_itself(self, host: Host, place: str) -> None:
        device = disk(host, place)
        one = block_maps.map_device(host, device, f"{place}/global", f"{place}/pod1", "data", "uid1")
        other = block_maps.map_device(host, device, f"{place}/global", f"{place}/pod2", "data", "uid2")
        assert one.loop != other.loop
        block_maps.unmap_device(host, f"{place}/global", f"{place}/pod1", "data", "uid1")
        assert block_maps.references(host, f"{place}/global") == [other.global_file]
        assert host.loop_of(other.global_file) == other.loop
        block_maps.unmap_device(host, f"{place}/global", f"{place}/pod2", "data", "uid2")


class HostBlockVolumesConformance(FormatAndMountConformance, BlockMapConformance):
    """Volumes on block devices: formatted and mounted, or mapped as they are."""
