"""What every `Host` tells of single mounts by their ids, and how it undoes a remount."""

from __future__ import annotations

from mooring.host.interface import Host
from mooring.host.mount_facts import shown_by


class HostMountWatchConformance:
    def test_a_mount_is_found_by_its_id_as_long_as_it_is_there(self, host: Host, place: str) -> None:
        path = f"{place}/m"
        host.make_directory(path, 0o755)
        assert host.mount_id_at(path) is None
        host.mount_tmpfs(path)
        mounted = host.mount_at(path)
        assert mounted is not None
        assert host.mount_id_at(path) == mounted.id
        assert host.mount_by_id(mounted.id) == mounted
        assert host.shown_by(mounted.id) == shown_by(mounted)
        host.unmount(path)
        assert host.mount_id_at(path) is None
        assert host.mount_by_id(mounted.id) is None
        assert host.shown_by(mounted.id) is None

    def test_no_mount_is_at_a_path_that_does_not_exist(self, host: Host, place: str) -> None:
        assert host.mount_id_at(f"{place}/nothing") is None

    def test_of_several_mounts_at_a_path_the_topmost_is_told(self, host: Host, place: str) -> None:
        path = f"{place}/m"
        host.make_directory(path, 0o755)
        host.mount_tmpfs(path)
        lower = host.mount_id_at(path)
        host.mount_tmpfs(path)
        upper = host.mount_at(path)
        assert upper is not None
        assert upper.id == host.mount_id_at(path) != lower
        assert upper.parent_id == lower

    def test_a_read_only_bind_becomes_writable_and_keeps_its_other_flags(self, host: Host, place: str) -> None:
        source, target = f"{place}/source", f"{place}/target"
        for path in (source, target):
            host.make_directory(path, 0o755)
        host.bind(source, target, read_only=True, flags=("noexec",))
        before = host.mount_at(target)
        host.make_writable(target)
        after = host.mount_at(target)
        assert before is not None
        assert after is not None
        assert before.options[0] == "ro"
        assert after.options[0] == "rw"
        assert "noexec" in after.options
        host.create_file(f"{target}/written", 0o644)

    def test_each_mount_counts_against_the_room_for_them(self, host: Host, place: str) -> None:
        path = f"{place}/m"
        host.make_directory(path, 0o755)
        before = host.mount_room()
        host.mount_tmpfs(path)
        after = host.mount_room()
        assert (after.used, after.limit) == (before.used + 1, before.limit)
        assert after.used < after.limit
