"""What every `Host` does with files, as tests to be inherited; `host_trees.py` and `host_mounts.py` have more.

A subclass in a test module provides the fixtures `host`, `place` (an existing empty directory), `group` and `owner`
(ids that the process may give files to; under root, not its own).
"""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import FileKind, Host, NewFile, Risk
from mooring.host.ownership_calls import Ownership


def mode_of(host: Host, path: str) -> int:
    facts = host.look(path)
    assert facts is not None, f"nothing at {path}"
    return facts.mode


def kind_of(host: Host, path: str) -> FileKind | None:
    facts = host.look(path)
    return None if facts is None else facts.kind


def write(host: Host, directory: str, path: str, data: bytes = b"x", mode: int = 0o644) -> str:
    host.write_files(directory, [NewFile(path=path, data=data, mode=mode)])
    return f"{directory}/{path}"


class LookingConformance:
    def test_nothing_is_seen_where_nothing_is(self, host: Host, place: str) -> None:
        assert host.look(f"{place}/missing") is None
        assert host.look_through(f"{place}/missing/deeper") is None
        assert host.read_link(f"{place}/missing") is None

    def test_nothing_is_seen_below_a_file(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        assert host.look(f"{file}/below") is None
        assert host.read_link(f"{file}/below") is None

    def test_a_file_is_seen_with_size_mode_and_kind(self, host: Host, place: str) -> None:
        facts = host.look(write(host, place, "file", b"12345", 0o640))
        assert facts is not None
        assert (facts.kind, facts.size, facts.mode) == (FileKind.FILE, 5, 0o640)

    def test_a_link_is_seen_itself_or_through(self, host: Host, place: str) -> None:
        write(host, place, "file", b"12345")
        host.make_link("file", f"{place}/link")
        through = host.look_through(f"{place}/link")
        assert kind_of(host, f"{place}/link") is FileKind.LINK
        assert through is not None
        assert through == host.look(f"{place}/file")

    def test_a_dangling_link_leads_to_nothing(self, host: Host, place: str) -> None:
        host.make_link("nowhere", f"{place}/link")
        assert host.look_through(f"{place}/link") is None
        assert host.read_link(f"{place}/link") == "nowhere"

    def test_links_that_lead_to_each_other_are_refused(self, host: Host, place: str) -> None:
        host.make_link("b", f"{place}/a")
        host.make_link("a", f"{place}/b")
        with pytest.raises(OSError, match="symbolic links") as caught:
            host.read_file(f"{place}/a")
        assert caught.value.errno == errno.ELOOP

    def test_links_in_the_middle_of_a_path_are_followed(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/real/deep", 0o755)
        write(host, f"{place}/real/deep", "file", b"here")
        host.make_link("real", f"{place}/relative")
        host.make_link(f"{place}/real/deep", f"{place}/absolute")
        host.make_link("../real/deep/file", f"{place}/real/upward")
        assert host.read_file(f"{place}/relative/deep/file") == b"here"
        assert host.read_file(f"{place}/absolute/file") == b"here"
        assert host.read_file(f"{place}/real/upward") == b"here"

    def test_names_are_sorted(self, host: Host, place: str) -> None:
        for name in ("b", "..data", "a"):
            host.make_directory(f"{place}/{name}", 0o755)
        assert host.names_in(place) == ["..data", "a", "b"]

    def test_names_in_nothing_and_in_a_file_are_errors(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        with pytest.raises(FileNotFoundError):
            host.names_in(f"{place}/missing")
        with pytest.raises(NotADirectoryError):
            host.names_in(file)

    def test_links_are_told_from_everything_else(self, host: Host, place: str) -> None:
        write(host, place, "file")
        host.make_directory(f"{place}/directory", 0o755)
        host.make_link("directory", f"{place}/link")
        assert host.links_in(place) == {"file": False, "directory": False, "link": True}
        with pytest.raises(NotADirectoryError):
            host.links_in(f"{place}/file")

    def test_a_directory_holds_files_only_if_it_holds_nothing_else(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/of", 0o755)
        write(host, f"{place}/of", "a", b"one")
        write(host, f"{place}/of", "b", b"")
        assert host.holds_files(f"{place}/of", {"a": b"one", "b": b""})
        for others in (
            {"a": b"one"},
            {"a": b"one", "b": b"", "c": b""},
            {"a": b"on", "b": b""},
            {"a": b"ones", "b": b""},
        ):
            assert not host.holds_files(f"{place}/of", others)

    def test_links_and_directories_are_no_files_that_a_directory_holds(self, host: Host, place: str) -> None:
        assert not host.holds_files(f"{place}/missing", {})
        assert not host.holds_files(write(host, place, "file", b"one"), {})
        host.make_directory(f"{place}/of", 0o755)
        host.make_link("../file", f"{place}/of/a")
        assert not host.holds_files(f"{place}/of", {"a": b"one"})
        host.remove_file(f"{place}/of/a")
        host.make_directory(f"{place}/of/a", 0o755)
        assert not host.holds_files(f"{place}/of", {"a": b""})

    def test_reading_nothing_and_a_directory_are_errors(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.read_file(f"{place}/missing")
        with pytest.raises(IsADirectoryError):
            host.read_file(place)

    def test_large_and_empty_files_are_read_whole(self, host: Host, place: str) -> None:
        large = bytes(range(256)) * 1024
        assert host.read_file(write(host, place, "large", large)) == large
        assert host.read_file(write(host, place, "empty", b"")) == b""

    def test_reading_the_link_text_of_a_file_is_an_error(self, host: Host, place: str) -> None:
        with pytest.raises(OSError, match="Invalid argument") as caught:
            host.read_link(write(host, place, "file"))
        assert caught.value.errno == errno.EINVAL

    async def test_every_risk_gives_the_result_and_the_error_of_the_call(self, host: Host, place: str) -> None:
        for risk in Risk:
            assert await host.run(lambda: host.names_in(place), risk=risk, what="look") == []
            with pytest.raises(FileNotFoundError):
                await host.run(lambda: host.read_file(f"{place}/missing"), risk=risk, what="read")


class MakingConformance:
    def test_directories_get_their_mode_less_the_umask(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/a/b", 0o777)
        host.make_directory(f"{place}/c", 0o1770)
        assert [mode_of(host, f"{place}/{name}") for name in ("a", "a/b", "c")] == [0o755, 0o755, 0o1750]

    def test_existing_directories_stay_as_they_are(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/a", 0o700)
        host.make_directories(f"{place}/a/b", 0o750)
        host.make_directories(f"{place}/a/b", 0o777)
        assert mode_of(host, f"{place}/a") == 0o700
        assert mode_of(host, f"{place}/a/b") == 0o750

    def test_directories_are_made_behind_a_link(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/real", 0o755)
        host.make_link("real", f"{place}/link")
        host.make_directories(f"{place}/link/below", 0o755)
        host.make_directories(f"{place}/link", 0o755)
        assert kind_of(host, f"{place}/real/below") is FileKind.DIRECTORY

    def test_a_file_in_the_way_of_directories_is_an_error(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        with pytest.raises(FileExistsError):
            host.make_directories(file, 0o755)
        with pytest.raises(NotADirectoryError):
            host.make_directories(f"{file}/below", 0o755)

    def test_one_directory_is_made_once_and_only_in_an_existing_one(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/a", 0o755)
        with pytest.raises(FileExistsError):
            host.make_directory(f"{place}/a", 0o755)
        with pytest.raises(FileNotFoundError):
            host.make_directory(f"{place}/missing/a", 0o755)

    def test_written_files_have_exact_modes_and_their_directories_0755(self, host: Host, place: str) -> None:
        files = [
            NewFile(path="plain", data=b"1", mode=0o666),
            NewFile(path="deep/er/secret", data=b"2", mode=0o400),
            NewFile(path="deep/other", data=b"3", mode=0o777),
        ]
        host.write_files(place, files)
        assert [host.read_file(f"{place}/{file.path}") for file in files] == [b"1", b"2", b"3"]
        assert [mode_of(host, f"{place}/{file.path}") for file in files] == [0o666, 0o400, 0o777]
        assert mode_of(host, f"{place}/deep/er") == 0o755

    def test_written_files_and_links_belong_to_the_given_user(self, host: Host, place: str, owner: int) -> None:
        host.write_files(place, [NewFile(path="file", data=b"", mode=0o600, uid=owner)])
        host.make_link("file", f"{place}/link", owner)
        facts = [host.look(f"{place}/{name}") for name in ("file", "link")]
        assert [found.uid for found in facts if found is not None] == [owner, owner]

    def test_an_existing_file_is_never_overwritten(self, host: Host, place: str) -> None:
        write(host, place, "b", b"old")
        with pytest.raises(FileExistsError, match="b"):
            host.write_files(place, [NewFile(path=name, data=b"new", mode=0o644) for name in "abc"])
        assert host.read_file(f"{place}/a") == b"new"
        assert host.read_file(f"{place}/b") == b"old"
        assert host.look(f"{place}/c") is None

    def test_files_are_not_written_into_nothing(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            write(host, f"{place}/missing", "file")

    def test_files_are_not_written_below_a_file(self, host: Host, place: str) -> None:
        write(host, place, "file")
        with pytest.raises(NotADirectoryError):
            write(host, place, "file/below")

    @pytest.mark.parametrize("path", ["../file", "a/../../file", "a//file", "./file"])
    def test_files_are_not_written_outside_of_their_directory(self, host: Host, place: str, path: str) -> None:
        host.make_directory(f"{place}/v", 0o755)
        with pytest.raises(ValueError, match="cannot be part of a path"):
            write(host, f"{place}/v", path)
        assert host.names_in(place) == ["v"]

    def test_an_empty_file_is_created_once_with_its_exact_mode(self, host: Host, place: str) -> None:
        host.create_file(f"{place}/ready", 0o666)
        assert mode_of(host, f"{place}/ready") == 0o666
        assert host.read_file(f"{place}/ready") == b""
        with pytest.raises(FileExistsError):
            host.create_file(f"{place}/ready", 0o644)

    def test_a_link_replaces_nothing(self, host: Host, place: str) -> None:
        host.make_link("a", f"{place}/link")
        with pytest.raises(FileExistsError):
            host.make_link("b", f"{place}/link")
        assert host.read_link(f"{place}/link") == "a"

    def test_sticky_and_setgid_bits_are_set_by_changing_the_mode(self, host: Host, place: str) -> None:
        host.make_directory(f"{place}/a", 0o755)
        host.change_mode(f"{place}/a", 0o3777)
        assert mode_of(host, f"{place}/a") == 0o3777

    def test_changing_a_mode_goes_through_links(self, host: Host, place: str) -> None:
        write(host, place, "file")
        host.make_link("file", f"{place}/link")
        host.change_mode(f"{place}/link", 0o600)
        assert mode_of(host, f"{place}/file") == 0o600
        with pytest.raises(FileNotFoundError):
            host.change_mode(f"{place}/missing", 0o600)

    def test_a_setgid_directory_hands_its_group_down(self, host: Host, place: str, group: int) -> None:
        host.make_directory(f"{place}/top", 0o755)
        host.set_ownership(f"{place}/top", Ownership(gid=group, file_mask=0, directory_mask=0o2000))
        host.make_directory(f"{place}/top/below", 0o755)
        file = host.look(write(host, f"{place}/top/below", "file"))
        assert mode_of(host, f"{place}/top/below") == 0o2755
        assert file is not None
        assert (file.gid, file.mode) == (group, 0o644)


class RenamingConformance:
    def test_a_file_and_a_link_replace_each_other(self, host: Host, place: str) -> None:
        write(host, place, "file", b"new")
        host.make_link("x", f"{place}/link")
        host.make_link("y", f"{place}/other")
        host.rename(f"{place}/other", f"{place}/link")
        assert host.read_link(f"{place}/link") == "y"
        host.rename(f"{place}/file", f"{place}/link")
        assert host.read_file(f"{place}/link") == b"new"
        assert host.names_in(place) == ["link"]

    def test_a_directory_takes_its_content_along(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/a/b", 0o755)
        write(host, f"{place}/a/b", "file", b"kept")
        host.make_directory(f"{place}/empty", 0o755)
        host.rename(f"{place}/a", f"{place}/empty")
        assert host.read_file(f"{place}/empty/b/file") == b"kept"

    def test_a_directory_with_content_is_not_replaced(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/a", 0o755)
        host.make_directories(f"{place}/b/c", 0o755)
        with pytest.raises(OSError, match="not empty") as caught:
            host.rename(f"{place}/a", f"{place}/b")
        assert caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST)

    def test_a_file_and_a_directory_do_not_replace_each_other(self, host: Host, place: str) -> None:
        file = write(host, place, "file")
        host.make_directory(f"{place}/directory", 0o755)
        with pytest.raises(IsADirectoryError):
            host.rename(file, f"{place}/directory")
        with pytest.raises(NotADirectoryError):
            host.rename(f"{place}/directory", file)

    def test_a_directory_does_not_move_into_itself(self, host: Host, place: str) -> None:
        host.make_directories(f"{place}/a/b", 0o755)
        with pytest.raises(OSError, match="Invalid argument"):
            host.rename(f"{place}/a", f"{place}/a/b/c")

    def test_what_is_missing_is_not_renamed(self, host: Host, place: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.rename(f"{place}/missing", f"{place}/new")

    def test_renaming_onto_itself_changes_nothing(self, host: Host, place: str) -> None:
        file = write(host, place, "file", b"same")
        host.rename(file, file)
        assert host.read_file(file) == b"same"


class HostConformance(LookingConformance, MakingConformance, RenamingConformance):
    """All that a `Host` does with single files, links and directories."""
