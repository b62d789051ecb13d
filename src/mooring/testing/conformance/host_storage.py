"""What every `Host` does for storage beyond files: attributes, huge pages, quotas, programs; tests to be inherited."""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import Host
from mooring.testing.conformance.host import write

TWO_MEBIBYTES = 2 * 2**20


class HostStorageConformance:
    """For a host whose machine has huge pages of 2 MiB, and whose place lies on a file system without quotas."""

    def test_an_attribute_is_written_from_its_beginning(self, host: Host, place: str) -> None:
        file = write(host, place, "scan", b"- - - old")
        host.write_into(file, b"0 0 7")
        assert host.read_file(file) == b"0 0 7 old"

    def test_an_attribute_that_is_missing_is_not_made(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.write_into(f"{place}/missing", b"1")
        assert host.look(f"{place}/missing") is None

    def test_a_directory_is_no_attribute(self, host: Host, place: str) -> None:
        with pytest.raises(IsADirectoryError):
            host.write_into(place, b"1")

    def test_a_file_system_without_quotas_says_so(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/d", 0o755)
        with pytest.raises(OSError, match="keeps no project quotas") as caught:
            host.assign_project(f"{place}/d", 1048577, 1 << 20)
        assert caught.value.errno == errno.EOPNOTSUPP
        with pytest.raises(OSError, match="keeps no project quotas"):
            host.project_usage(f"{place}/d", 1048577)


class HostHugePagesConformance:
    """For a host that may mount."""

    def test_huge_pages_are_mounted_with_their_size_and_mode(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/pages", 0o755)
        host.mount_huge_pages(f"{place}/pages", page_size=TWO_MEBIBYTES, mode=0o1777)
        mounted = host.mount_at(f"{place}/pages")
        assert mounted is not None
        assert (mounted.fs_type, mounted.source) == ("hugetlbfs", "nodev")
        assert {"pagesize=2M", "mode=1777"} <= set(mounted.options)
        facts = host.look(f"{place}/pages")
        assert facts is not None
        assert facts.mode == 0o1777

    def test_pages_of_a_size_that_the_machine_does_not_have_are_not_mounted(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/pages", 0o755)
        with pytest.raises(OSError, match="Invalid argument") as caught:
            host.mount_huge_pages(f"{place}/pages", page_size=3 * TWO_MEBIBYTES)
        assert caught.value.errno == errno.EINVAL
        assert host.mount_at(f"{place}/pages") is None

    def test_a_forced_unmount_takes_a_mount_away(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/m", 0o755)
        host.mount_tmpfs(f"{place}/m")
        host.unmount(f"{place}/m", force=True)
        assert host.mount_at(f"{place}/m") is None
