"""What every `Host` does with paths inside a volume, as tests to be inherited beside those of `host.py`.

`HostSubpathBindsConformance` makes mounts, and wants a fixture more: `make_special(path, kind)` puts a socket or a
fifo there.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from mooring.host.interface import FileKind, Host
from mooring.testing.conformance.host import kind_of, mode_of, write
from mooring.testing.conformance.host_mounts import mount_at, tmpfs

MakeSpecial = Callable[[str, FileKind], None]


def make_volume(host: Host, place: str) -> str:
    """A volume beside something secret, with links of every kind."""
    volume = f"{place}/volume"
    host.make_directories(f"{volume}/data/deep", 0o755)
    host.make_directories(f"{place}/outside", 0o755)
    write(host, volume, "data/file", b"inside")
    write(host, f"{place}/outside", "secret", b"outside")
    links = {
        "inner": "data/deep",
        "data/up": "../data/deep",
        "inner-file": "data/file",
        "absolute": f"{place}/outside",
        "absolute-inside": f"{volume}/data",
        "root": "/",
        "relative": "../outside",
        "data/relative": "../../outside",
        "parent": "..",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "dangling": "nowhere",
    }
    for name, text in links.items():
        host.make_link(text, f"{volume}/{name}")
    return volume


ESCAPES = (
    "..",
    "../outside",
    "data/../../outside",
    "/",
    "/etc",
    "absolute",
    "absolute/secret",
    "absolute-inside/deep",
    "root",
    "root/etc",
    "relative",
    "relative/secret",
    "data/relative/secret",
    "parent",
    "parent/outside/secret",
    "inner/../../../outside",
)
"""Paths that lead, or take a way, out of the volume."""


class HostSubpathsConformance:
    """Looking at and making directories inside a volume."""

    @pytest.fixture
    def volume(self, host: Host, place: str) -> str:
        return make_volume(host, place)

    @pytest.mark.parametrize("path", ["data/deep", "inner", "data/up", "data/../data/deep", "./data//deep/", "inner/."])
    def test_every_way_that_stays_inside_leads_to_the_same_directory(self, host: Host, volume: str, path: str) -> None:
        assert host.look_beneath(volume, path) == host.look(f"{volume}/data/deep")

    @pytest.mark.parametrize("path", ["inner-file", "data/file", "data/deep/../file", "./data/file/"])
    def test_every_way_that_stays_inside_leads_to_the_same_file(self, host: Host, volume: str, path: str) -> None:
        assert host.look_beneath(volume, path) == host.look(f"{volume}/data/file")

    def test_an_empty_path_is_the_volume_itself(self, host: Host, volume: str) -> None:
        assert host.look_beneath(volume, "") == host.look_beneath(volume, ".") == host.look(volume)

    def test_the_volume_may_be_reached_through_a_link(self, host: Host, place: str, volume: str) -> None:
        host.make_link("volume", f"{place}/link")
        assert host.look_beneath(f"{place}/link", "data") == host.look(f"{volume}/data")

    @pytest.mark.parametrize("path", ["missing", "data/missing/deeper", "dangling"])
    def test_what_is_missing_is_not_seen(self, host: Host, volume: str, path: str) -> None:
        assert host.look_beneath(volume, path) is None

    @pytest.mark.parametrize("path", ESCAPES)
    def test_nothing_outside_is_seen_or_made(self, host: Host, volume: str, path: str) -> None:
        with pytest.raises(OSError, match="cross-device") as seen:
            host.look_beneath(volume, path)
        with pytest.raises(OSError, match="cross-device") as made:
            host.make_subpath(volume, f"{path}/new", 0o755)
        assert (seen.value.errno, made.value.errno) == (errno.EXDEV, errno.EXDEV)

    def test_links_in_circles_are_refused(self, host: Host, volume: str) -> None:
        with pytest.raises(OSError, match="symbolic links") as seen:
            host.look_beneath(volume, "loop-a")
        with pytest.raises(OSError, match="symbolic links") as made:
            host.make_subpath(volume, "loop-a/new", 0o755)
        assert (seen.value.errno, made.value.errno) == (errno.ELOOP, errno.ELOOP)

    def test_a_path_through_a_file_is_no_directory(self, host: Host, volume: str) -> None:
        for path in ("data/file/below", "data/file/..", "inner-file/../deep"):
            with pytest.raises(NotADirectoryError):
                host.look_beneath(volume, path)
        for path in ("data/file", "data/file/below", "inner-file"):
            with pytest.raises(NotADirectoryError):
                host.make_subpath(volume, path, 0o755)

    def test_a_volume_that_is_a_file_has_no_paths_inside(self, host: Host, volume: str) -> None:
        with pytest.raises(NotADirectoryError):
            host.look_beneath(f"{volume}/data/file", "x")

    def test_a_name_with_a_zero_byte_is_refused(self, host: Host, volume: str) -> None:
        with pytest.raises(OSError, match="Invalid argument"):
            host.look_beneath(volume, "data\0/../..")
        with pytest.raises(OSError, match="Invalid argument"):
            host.make_subpath(volume, "data\0x", 0o755)

    @pytest.mark.parametrize("mode", [0o755, 0o777, 0o700, 0o2770, 0o1777, 0o4755, 0o7777])
    def test_new_directories_get_exactly_their_mode(self, host: Host, volume: str, mode: int) -> None:
        host.make_subpath(volume, "new/deeper/deepest", mode)
        made = ("new", "new/deeper", "new/deeper/deepest")
        assert [mode_of(host, f"{volume}/{path}") for path in made] == [mode] * 3

    def test_existing_directories_stay_as_they_are(self, host: Host, volume: str) -> None:
        host.make_subpath(volume, "data/deep", 0o2777)
        host.make_subpath(volume, "data/deep/new", 0o2777)
        assert [mode_of(host, f"{volume}/{path}") for path in ("data", "data/deep")] == [0o755, 0o755]

    def test_directories_are_made_behind_a_link_that_stays_inside(self, host: Host, volume: str) -> None:
        host.make_subpath(volume, "inner/new", 0o755)
        host.make_subpath(volume, "data/up/other", 0o755)
        assert host.names_in(f"{volume}/data/deep") == ["new", "other"]

    def test_a_link_that_leads_nowhere_is_not_followed(self, host: Host, volume: str) -> None:
        for path in ("dangling", "dangling/new"):
            with pytest.raises(NotADirectoryError):
                host.make_subpath(volume, path, 0o755)
        assert kind_of(host, f"{volume}/nowhere") is None

    def test_no_directory_is_made_by_way_of_one_that_does_not_exist(self, host: Host, volume: str) -> None:
        with pytest.raises(FileNotFoundError):
            host.make_subpath(volume, "data/missing/../new", 0o755)
        assert kind_of(host, f"{volume}/data/new") is None


class HostSubpathBindsConformance:
    """Binding paths inside a volume."""

    @pytest.fixture
    def volume(self, host: Host, place: str) -> str:
        return make_volume(host, place)

    @pytest.fixture
    def target(self, host: Host, place: str) -> str:
        host.make_directory(f"{place}/target", 0o750)
        return f"{place}/target"

    def test_a_directory_is_shown_with_its_files(self, host: Host, volume: str, target: str) -> None:
        host.bind_beneath(volume, "data", target)
        assert host.read_file(f"{target}/file") == b"inside"
        assert host.look(target) == host.look(f"{volume}/data")
        assert mount_at(host, target).root.endswith("/volume/data")

    def test_a_link_that_stays_inside_is_followed(self, host: Host, volume: str, target: str) -> None:
        host.bind_beneath(volume, "data/up", target)
        assert mount_at(host, target).root.endswith("/volume/data/deep")

    def test_a_file_is_shown_on_a_file(self, host: Host, place: str, volume: str) -> None:
        host.create_file(f"{place}/file", 0o640)
        host.bind_beneath(volume, "inner-file", f"{place}/file")
        assert host.read_file(f"{place}/file") == b"inside"

    @pytest.mark.parametrize("kind", [FileKind.SOCKET, FileKind.FIFO])
    def test_sockets_and_fifos_are_shown_on_a_file(
        self, host: Host, place: str, volume: str, make_special: MakeSpecial, kind: FileKind
    ) -> None:
        make_special(f"{volume}/special", kind)
        host.create_file(f"{place}/file", 0o640)
        host.bind_beneath(volume, "special", f"{place}/file")
        assert kind_of(host, f"{place}/file") is kind

    @pytest.mark.parametrize("kind", [FileKind.SOCKET, FileKind.FIFO])
    def test_a_socket_or_fifo_in_the_middle_is_an_error_that_does_not_block(
        self, host: Host, volume: str, target: str, make_special: MakeSpecial, kind: FileKind
    ) -> None:
        make_special(f"{volume}/special", kind)
        with pytest.raises(NotADirectoryError):
            host.bind_beneath(volume, "special/below", target)
        with pytest.raises(NotADirectoryError):
            host.make_subpath(volume, "special/below", 0o755)

    @pytest.mark.parametrize("path", ESCAPES)
    def test_nothing_outside_is_ever_shown(self, host: Host, volume: str, target: str, path: str) -> None:
        with pytest.raises(OSError, match="cross-device") as caught:
            host.bind_beneath(volume, path, target)
        assert caught.value.errno == errno.EXDEV
        assert host.mount_at(target) is None

    def test_what_is_missing_in_a_volume_is_not_bound(self, host: Host, volume: str, target: str) -> None:
        for path in ("missing", "dangling"):
            with pytest.raises(FileNotFoundError):
                host.bind_beneath(volume, path, target)
        assert host.mount_at(target) is None

    def test_a_read_only_bind_leaves_the_volume_writable(self, host: Host, volume: str, target: str) -> None:
        host.bind_beneath(volume, "data", target, read_only=True)
        with pytest.raises(OSError, match="Read-only"):
            host.create_file(f"{target}/new", 0o644)
        host.create_file(f"{volume}/data/new", 0o644)
        assert host.look(f"{target}/new") is not None

    def test_a_mount_inside_the_volume_may_be_bound_itself(self, host: Host, volume: str, target: str) -> None:
        write(host, tmpfs(host, f"{volume}/data/deep"), "above")
        host.bind_beneath(volume, "inner", target)
        assert host.names_in(target) == ["above"]

    def test_a_busy_mount_is_taken_away_lazily_with_what_lies_on_it(self, host: Host, place: str) -> None:
        tmpfs(host, f"{place}/m")
        tmpfs(host, f"{place}/m/inner")
        with pytest.raises(OSError, match="busy"):
            host.unmount(f"{place}/m")
        host.unmount(f"{place}/m", lazy=True)
        assert [mount.path for mount in host.mounts() if mount.path.startswith(f"{place}/m")] == []
