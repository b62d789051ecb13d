"""What every `Host` does with whole trees, as tests to be inherited beside those of `host.py`."""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import Host
from mooring.host.ownership_calls import Ownership, OwnershipWalk
from mooring.testing.conformance.host import mode_of, write


class OwnershipConformance:
    def test_masks_are_added_and_the_group_is_set_on_all_entries(self, host: Host, place: str, group: int) -> None:
        host.make_directories(f"{place}/v/sub", 0o700)
        write(host, f"{place}/v", "sub/secret", mode=0o400)
        write(host, f"{place}/v", "run", mode=0o755)
        report = host.set_ownership(f"{place}/v", Ownership(gid=group, file_mask=0o660, directory_mask=0o2770))
        found = {path: host.look(f"{place}/{path}") for path in ("v", "v/sub", "v/sub/secret", "v/run")}
        assert {path: facts.mode for path, facts in found.items() if facts} == {
            "v": 0o2770,
            "v/sub": 0o2770,
            "v/sub/secret": 0o660,
            "v/run": 0o775,
        }
        assert {facts.gid for facts in found.values() if facts} == {group}
        assert (report.visited, report.changed, report.failed) == (4, 4, 0)

    def test_links_get_the_group_and_their_targets_stay(self, host: Host, place: str, group: int) -> None:
        outside = write(host, place, "outside", mode=0o600)
        host.make_directory(f"{place}/v", 0o700)
        host.make_link(outside, f"{place}/v/link")
        before = host.look(outside)
        host.set_ownership(f"{place}/v", Ownership(gid=group, file_mask=0o660, directory_mask=0o2770))
        link = host.look(f"{place}/v/link")
        assert host.look(outside) == before
        assert link is not None
        assert link.gid == group

    def test_what_is_already_right_is_left_alone(self, host: Host, place: str, group: int) -> None:
        ownership = Ownership(gid=group, file_mask=0o440, directory_mask=0o2550)
        host.make_directories(f"{place}/v", 0o755)
        write(host, f"{place}/v", "file")
        host.make_link("file", f"{place}/v/link")
        host.set_ownership(f"{place}/v", ownership)
        report = host.set_ownership(f"{place}/v", ownership)
        assert (report.visited, report.changed) == (3, 0)

    def test_setuid_and_setgid_bits_of_files_survive(self, host: Host, place: str, group: int) -> None:
        file = write(host, place, "tool", mode=0o755)
        host.change_mode(file, 0o6755)
        host.set_ownership(place, Ownership(gid=group, file_mask=0o060, directory_mask=0o2070))
        assert mode_of(host, file) == 0o6775

    def test_a_single_file_can_be_given_to_a_group(self, host: Host, place: str, group: int) -> None:
        file = write(host, place, "file", mode=0o600)
        report = host.set_ownership(file, Ownership(gid=group, file_mask=0o060, directory_mask=0))
        assert mode_of(host, file) == 0o660
        assert report.visited == 1

    def test_ownership_of_nothing_is_an_error(self, host: Host, place: str, group: int) -> None:
        with pytest.raises(FileNotFoundError):
            host.set_ownership(f"{place}/missing", Ownership(gid=group, file_mask=0, directory_mask=0))

    async def test_a_tree_of_any_size_is_owned_and_tells_how_far_it_is(
        self, host: Host, place: str, group: int
    ) -> None:
        host.make_directories(f"{place}/v/sub", 0o700)
        write(host, f"{place}/v", "sub/file", mode=0o600)
        walk = OwnershipWalk(clock=lambda: 0.0)
        report = await host.own_tree(f"{place}/v", Ownership(gid=group, file_mask=0o060, directory_mask=0o70), walk)
        assert (report.visited, report.changed, report.failed) == (3, 3, 0)
        assert (walk.visited, walk.changed, walk.failed, walk.gid) == (3, 3, 0, group)
        assert mode_of(host, f"{place}/v/sub/file") == 0o660

    async def test_a_walk_that_is_stopped_leaves_the_root_as_it_was(self, host: Host, place: str, group: int) -> None:
        host.make_directories(f"{place}/v/sub", 0o700)
        walk = OwnershipWalk(clock=lambda: 0.0)
        walk.stop()
        with pytest.raises(OSError, match=r".") as caught:
            await host.own_tree(f"{place}/v", Ownership(gid=group, file_mask=0, directory_mask=0o70), walk)
        assert caught.value.errno == errno.ECANCELED
        assert mode_of(host, f"{place}/v") == 0o700


class RemovingConformance:
    def test_a_file_and_a_link_are_removed_but_not_what_the_link_names(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        host.make_link("file", f"{place}/link")
        host.remove_file(f"{place}/link")
        assert host.names_in(place) == ["file"]
        host.remove_file(file)
        assert host.names_in(place) == []
        with pytest.raises(FileNotFoundError):
            host.remove_file(file)

    def test_files_and_directories_are_removed_by_their_own_calls(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        host.make_directory(f"{place}/a", 0o755)
        with pytest.raises(IsADirectoryError):
            host.remove_file(f"{place}/a")
        with pytest.raises(NotADirectoryError):
            host.remove_directory(file)
        host.remove_directory(f"{place}/a")
        with pytest.raises(FileNotFoundError):
            host.remove_directory(f"{place}/a")

    def test_a_directory_with_content_is_not_removed(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/a/b", 0o755)
        with pytest.raises(OSError, match="not empty") as caught:
            host.remove_directory(f"{place}/a")
        assert caught.value.errno == errno.ENOTEMPTY

    def test_a_tree_goes_with_all_in_it_and_nothing_behind_its_links(self, host: Host, place: str) -> None:
        write(host, place, "outside", b"kept")
        host.make_directories(f"{place}/elsewhere", 0o755)
        write(host, f"{place}/elsewhere", "file")
        host.make_directories(f"{place}/v", 0o755)
        for path in ("a", "b/c/d", "b/e"):
            write(host, f"{place}/v", path)
        host.make_link("../outside", f"{place}/v/b/link")
        host.make_link("../elsewhere", f"{place}/v/directory-link")
        host.remove_tree(f"{place}/v")
        assert host.names_in(place) == ["elsewhere", "outside"]
        assert host.names_in(f"{place}/elsewhere") == ["file"]

    def test_directories_without_permissions_are_no_obstacle(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/v/closed", 0o700)
        write(host, f"{place}/v", "closed/inner/file")
        host.change_mode(f"{place}/v/closed/inner", 0o000)
        host.change_mode(f"{place}/v/closed", 0o000)
        host.change_mode(f"{place}/v", 0o500)
        host.remove_tree(f"{place}/v")
        assert host.look(f"{place}/v") is None

    def test_only_a_directory_is_a_tree(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        host.make_directory(f"{place}/real", 0o755)
        host.make_link("real", f"{place}/link")
        for path in (file, f"{place}/link"):
            with pytest.raises(NotADirectoryError):
                host.remove_tree(path)
        with pytest.raises(FileNotFoundError):
            host.remove_tree(f"{place}/missing")
        assert host.names_in(place) == ["file", "link", "real"]

    def test_a_very_deep_tree_is_removed(self, host: Host, place: str) -> None:
        deep = "d" + "/d" * 299
        for _ in range(10):  # a path has at most 4096 bytes, so deeper trees are put together from pieces
            host.make_directories(f"{place}/piece/{deep}", 0o755)
            if host.look(f"{place}/v") is not None:
                host.rename(f"{place}/v", f"{place}/piece/{deep}/v")
            host.rename(f"{place}/piece", f"{place}/v")
        host.remove_tree(f"{place}/v")
        assert host.names_in(place) == []


class HostTreesConformance(OwnershipConformance, RemovingConformance):
    """All that a `Host` does with trees."""
