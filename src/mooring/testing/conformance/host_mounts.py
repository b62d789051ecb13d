"""What every `Host` does with mounts, as tests to be inherited beside those of `host.py`."""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import Host, MountFacts
from mooring.host.ownership_calls import Ownership
from mooring.testing.conformance.host import mode_of, write


def mount_at(host: Host, path: str) -> MountFacts:
    facts = host.mount_at(path)
    assert facts is not None, f"no mount at {path}"
    return facts


def tmpfs(host: Host, path: str, size: int | None = None) -> str:
    host.make_directories(path, 0o755)
    host.mount_tmpfs(path, size=size)
    return path


class TmpfsConformance:
    def test_a_tmpfs_has_the_options_it_was_asked_for(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/m", 0o755)
        host.mount_tmpfs(f"{place}/m", size=1 << 20, mode=0o750)
        facts = mount_at(host, f"{place}/m")
        assert (facts.path, facts.root, facts.fs_type, facts.source) == (f"{place}/m", "/", "tmpfs", "tmpfs")
        assert facts.options[:4] == ("rw", "relatime", "size=1024k", "mode=750")
        assert mode_of(host, f"{place}/m") == 0o750

    def test_a_tmpfs_has_mode_1777_and_no_size_unless_told(self, host: Host, place: str) -> None:
        facts = mount_at(host, tmpfs(host, f"{place}/m"))
        assert mode_of(host, facts.path) == 0o1777
        assert not any(option.startswith(("size=", "mode=")) for option in facts.options)

    def test_a_tmpfs_is_full_at_its_size_and_takes_more_when_resized(self, host: Host, place: str) -> None:
        path = tmpfs(host, f"{place}/m", size=8192)
        with pytest.raises(OSError, match="No space") as caught:
            write(host, path, "big", b"x" * 20000)
        assert caught.value.errno == errno.ENOSPC
        host.resize_tmpfs(path, 65536)
        write(host, path, "fits", b"x" * 20000)
        assert "size=64k" in mount_at(host, path).options

    def test_a_tmpfs_does_not_shrink_below_its_content(self, host: Host, place: str) -> None:
        path = tmpfs(host, f"{place}/m", size=65536)
        write(host, path, "file", b"x" * 20000)
        with pytest.raises(OSError, match="Invalid argument"):
            host.resize_tmpfs(path, 4096)

    def test_only_a_mounted_tmpfs_is_resized(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/plain", 0o755)
        with pytest.raises(OSError, match="Invalid argument"):
            host.resize_tmpfs(f"{place}/plain", 4096)

    def test_a_tmpfs_needs_a_directory(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        with pytest.raises(FileNotFoundError):
            host.mount_tmpfs(f"{place}/missing")
        with pytest.raises(NotADirectoryError):
            host.mount_tmpfs(file)

    def test_what_lies_under_a_mount_is_back_after_unmounting(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/m", 0o755)
        write(host, f"{place}/m", "under")
        host.mount_tmpfs(f"{place}/m")
        write(host, f"{place}/m", "above")
        assert host.names_in(f"{place}/m") == ["above"]
        host.unmount(f"{place}/m")
        assert host.names_in(f"{place}/m") == ["under"]
        assert host.mount_at(f"{place}/m") is None


class MountTableConformance:
    def test_only_the_root_of_a_mount_is_a_mount_point(self, host: Host, place: str) -> None:
        path = tmpfs(host, f"{place}/m")
        host.make_directory(f"{path}/below", 0o755)
        host.make_link("m", f"{place}/link")
        assert host.mount_at(f"{path}/below") is None
        assert host.mount_at(f"{place}/link") is None
        assert host.mount_at(f"{place}/missing") is None
        assert host.mount_at(write(host, path, "file") + "/below") is None
        assert mount_at(host, "/").path == "/"

    def test_the_topmost_mount_of_a_stack_is_the_one_seen(self, host: Host, place: str) -> None:
        lower = mount_at(host, tmpfs(host, f"{place}/m"))
        upper = mount_at(host, tmpfs(host, f"{place}/m"))
        assert upper.id != lower.id
        assert upper.parent_id == lower.id
        host.unmount(f"{place}/m")
        assert mount_at(host, f"{place}/m") == lower

    def test_mounts_are_listed_lower_ones_first(self, host: Host, place: str) -> None:
        first = mount_at(host, tmpfs(host, f"{place}/m"))
        second = mount_at(host, tmpfs(host, f"{place}/m"))
        inner = mount_at(host, tmpfs(host, f"{place}/m/inner"))
        listed = [mount for mount in host.mounts() if mount.path.startswith(f"{place}/m")]
        assert listed == [first, second, inner]

    def test_the_list_follows_each_change(self, host: Host, place: str) -> None:
        before = len(host.mounts())
        tmpfs(host, f"{place}/m")
        assert len(host.mounts()) == before + 1
        host.unmount(f"{place}/m")
        assert len(host.mounts()) == before

    def test_names_with_spaces_and_other_bytes_come_back_as_they_are(self, host: Host, place: str) -> None:
        for name in ("a space", "tab\there", "back\\slash", "line\nbreak", "\udcff not text"):
            path = tmpfs(host, f"{place}/{name}")
            assert mount_at(host, path).path == path
            assert path in {mount.path for mount in host.mounts()}

    def test_a_mount_is_found_through_links_above_it(self, host: Host, place: str) -> None:
        tmpfs(host, f"{place}/real/m")
        host.make_link("real", f"{place}/link")
        assert mount_at(host, f"{place}/link/m") == mount_at(host, f"{place}/real/m")


class BindConformance:
    def test_a_bind_shows_the_same_files(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/source/sub", 0o755)
        host.make_directory(f"{place}/target", 0o755)
        host.bind(f"{place}/source/sub", f"{place}/target")
        write(host, f"{place}/target", "file", b"both")
        assert host.read_file(f"{place}/source/sub/file") == b"both"
        facts = mount_at(host, f"{place}/target")
        assert facts.root.endswith("/source/sub")
        assert "rw" in facts.options

    def test_a_bind_shows_the_device_of_its_source(self, host: Host, place: str) -> None:
        source = tmpfs(host, f"{place}/source")
        host.make_directory(f"{place}/target", 0o755)
        host.bind(source, f"{place}/target")
        bound, origin = mount_at(host, f"{place}/target"), mount_at(host, source)
        assert (bound.device, bound.root, bound.source) == (origin.device, origin.root, origin.source)

    def test_a_read_only_bind_leaves_its_source_writable(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/source", 0o755)
        host.make_directory(f"{place}/target", 0o755)
        host.bind(f"{place}/source", f"{place}/target", read_only=True)
        write(host, f"{place}/source", "file")
        assert mount_at(host, f"{place}/target").options[0] == "ro"
        with pytest.raises(OSError, match="Read-only") as caught:
            host.remove_file(f"{place}/target/file")
        assert caught.value.errno == errno.EROFS

    def test_a_bind_has_the_flags_of_its_source_and_its_own(self, host: Host, place: str) -> None:
        for name in ("source", "first", "second"):
            host.make_directory(f"{place}/{name}", 0o755)
        host.bind(f"{place}/source", f"{place}/first", flags=["nosuid", "noatime"])
        host.bind(f"{place}/first", f"{place}/second", flags=["noexec", "nodiratime"], read_only=True)
        first, second = mount_at(host, f"{place}/first").options, mount_at(host, f"{place}/second").options
        assert {"rw", "nosuid", "noatime"} <= set(first)
        assert not {"noexec", "relatime"} & set(first)
        assert {"ro", "nosuid", "noatime", "noexec", "nodiratime"} <= set(second)

    def test_a_read_only_mount_stays_so_when_it_is_bound_with_flags(self, host: Host, place: str) -> None:
        for name in ("source", "first", "second"):
            host.make_directory(f"{place}/{name}", 0o755)
        host.bind(f"{place}/source", f"{place}/first", read_only=True)
        host.bind(f"{place}/first", f"{place}/second", flags=["noexec"])
        assert mount_at(host, f"{place}/second").options[0] == "ro"

    def test_a_file_is_bound_onto_a_file(self, host: Host, place: str) -> None:
        write(host, place, "source", b"seen")
        write(host, place, "target", b"hidden")
        host.bind(f"{place}/source", f"{place}/target")
        assert host.read_file(f"{place}/target") == b"seen"
        assert mount_at(host, f"{place}/target").root.endswith("/source")

    def test_a_file_and_a_directory_are_not_bound_onto_each_other(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        host.make_directory(f"{place}/directory", 0o755)
        for source, target in ((file, f"{place}/directory"), (f"{place}/directory", file)):
            with pytest.raises(OSError, match=r"Not a directory|Invalid argument"):
                host.bind(source, target)
            assert host.mount_at(target) is None

    def test_what_is_missing_is_not_bound(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/a", 0o755)
        for source, target in ((f"{place}/missing", f"{place}/a"), (f"{place}/a", f"{place}/missing")):
            with pytest.raises(FileNotFoundError):
                host.bind(source, target)

    def test_mounts_below_come_along_only_when_asked(self, host: Host, place: str) -> None:
        write(host, tmpfs(host, f"{place}/source/inner"), "file")
        for name in ("alone", "whole"):
            host.make_directory(f"{place}/{name}", 0o755)
        host.bind(f"{place}/source", f"{place}/alone")
        host.bind(f"{place}/source", f"{place}/whole", recursive=True)
        assert host.names_in(f"{place}/alone/inner") == []
        assert host.names_in(f"{place}/whole/inner") == ["file"]

    def test_a_recursive_read_only_bind_is_read_only_all_through(self, host: Host, place: str) -> None:
        tmpfs(host, f"{place}/source/inner")
        host.make_directory(f"{place}/target", 0o755)
        host.bind(f"{place}/source", f"{place}/target", read_only=True, recursive=True)
        for path in (f"{place}/target", f"{place}/target/inner"):
            with pytest.raises(OSError, match="Read-only"):
                host.create_file(f"{path}/file", 0o644)
        host.create_file(f"{place}/source/inner/file", 0o644)


class UnmountConformance:
    def test_what_is_no_mount_point_is_not_unmounted(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/plain", 0o755)
        with pytest.raises(OSError, match="Invalid argument") as caught:
            host.unmount(f"{place}/plain")
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(FileNotFoundError):
            host.unmount(f"{place}/missing")

    def test_a_mount_with_another_below_it_is_busy(self, host: Host, place: str) -> None:
        tmpfs(host, f"{place}/m")
        tmpfs(host, f"{place}/m/inner")
        with pytest.raises(OSError, match="busy") as caught:
            host.unmount(f"{place}/m")
        assert caught.value.errno == errno.EBUSY
        host.unmount(f"{place}/m/inner")
        host.unmount(f"{place}/m")


class MountedTreesConformance:
    def test_a_mount_point_is_neither_removed_nor_renamed(self, host: Host, place: str) -> None:
        path = tmpfs(host, f"{place}/m")
        host.make_directory(f"{place}/other", 0o755)
        with pytest.raises(OSError, match="busy") as removed:
            host.remove_directory(path)
        with pytest.raises(OSError, match="busy") as renamed:
            host.rename(path, f"{place}/new")
        with pytest.raises(OSError, match="busy") as replaced:
            host.rename(f"{place}/other", path)
        assert {caught.value.errno for caught in (removed, renamed, replaced)} == {errno.EBUSY}

    def test_nothing_is_renamed_across_mounts(self, host: Host, place: str) -> None:
        file = write(host, tmpfs(host, f"{place}/m"), "file")
        with pytest.raises(OSError, match="cross-device") as caught:
            host.rename(file, f"{place}/file")
        assert caught.value.errno == errno.EXDEV

    def test_removing_a_tree_stops_at_a_tmpfs_and_removes_all_else(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/v/a/b", 0o755)
        write(host, f"{place}/v", "a/file")
        write(host, f"{place}/v", "z/file")
        kept = write(host, tmpfs(host, f"{place}/v/a/m"), "file")
        with pytest.raises(OSError, match="it is a mount point") as caught:
            host.remove_tree(f"{place}/v")
        assert caught.value.errno == errno.EBUSY
        assert caught.value.filename == f"{place}/v/a/m"
        assert host.read_file(kept) == b"x"
        assert host.names_in(f"{place}/v") == ["a"]
        assert host.names_in(f"{place}/v/a") == ["m"]

    def test_removing_a_tree_stops_at_a_bind_of_the_same_file_system(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/source", 0o755)
        host.make_directories(f"{place}/v/m", 0o755)
        write(host, f"{place}/source", "precious", b"kept")
        host.bind(f"{place}/source", f"{place}/v/m")
        with pytest.raises(OSError, match="it is a mount point") as caught:
            host.remove_tree(f"{place}/v")
        assert caught.value.filename == f"{place}/v/m"
        assert host.read_file(f"{place}/source/precious") == b"kept"

    def test_removing_a_tree_stops_at_a_bound_file(self, host: Host, place: str) -> None:
        write(host, place, "source", b"kept")
        host.make_directory(f"{place}/v", 0o755)
        write(host, f"{place}/v", "target")
        host.bind(f"{place}/source", f"{place}/v/target")
        with pytest.raises(OSError, match="it is a mount point") as caught:
            host.remove_tree(f"{place}/v")
        assert caught.value.filename == f"{place}/v/target"
        assert host.read_file(f"{place}/source") == b"kept"

    def test_a_mounted_tree_is_not_removed_at_all(self, host: Host, place: str) -> None:
        path = tmpfs(host, f"{place}/m")
        write(host, path, "file")
        with pytest.raises(OSError, match="it is a mount point") as caught:
            host.remove_tree(path)
        assert caught.value.filename == path
        assert host.names_in(path) == ["file"]

    def test_ownership_is_set_on_a_mounted_root_but_not_in_mounts_below(
        self, host: Host, place: str, group: int
    ) -> None:
        path = tmpfs(host, f"{place}/m")
        write(host, path, "file", mode=0o600)
        write(host, tmpfs(host, f"{path}/tmpfs"), "file", mode=0o600)
        host.make_directory(f"{path}/bound", 0o755)
        write(host, place, "source/file", mode=0o600)
        host.bind(f"{place}/source", f"{path}/bound")
        write(host, path, "covered")
        host.bind(f"{place}/source/file", f"{path}/covered")
        report = host.set_ownership(path, Ownership(gid=group, file_mask=0o440, directory_mask=0o2550))
        assert mode_of(host, path) == 0o3777
        assert mode_of(host, f"{path}/file") == 0o640
        assert [mode_of(host, f"{path}/{name}") for name in ("tmpfs/file", "bound/file", "covered")] == [0o600] * 3
        assert report.visited == 2


class HostMountsConformance(
    TmpfsConformance, MountTableConformance, BindConformance, UnmountConformance, MountedTreesConformance
):
    """All that a `Host` does with mounts."""
