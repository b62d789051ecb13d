"""Sub-paths on a machine in memory: shown, kept, shown anew and cleaned (S5 to S8)."""

from __future__ import annotations

import errno

import pytest

from mooring.errors import Refused
from mooring.host.interface import FileFacts, FileKind, NewFile
from mooring.host.paths import Paths
from mooring.manager import sub_paths
from mooring.manager.container_mounts import ContainerDevice, ContainerView, SubPath
from mooring.manager.orphans import remove_pod_directory
from mooring.testing.memory_host import MemoryHost
from mooring.world.names import PodUid

UID = PodUid("uid-web")
PATHS = Paths("/var/lib/mooring")
VOLUME = "/volume"
TARGET = PATHS.pod_subpath(UID, "data", "main", 0)


@pytest.fixture
def host() -> MemoryHost:
    machine = MemoryHost()
    machine.make_directories(f"{VOLUME}/dir", 0o755)
    machine.write_files(VOLUME, [NewFile(path="file", data=b"inside", mode=0o644)])
    machine.make_directories(PATHS.pod_dir(UID), 0o750)
    return machine


def sub_path(relative: str, index: int = 0, container: str = "main", volume: str = "data") -> SubPath:
    return SubPath(root=VOLUME, relative=relative, target=PATHS.pod_subpath(UID, volume, container, index))


def mount_ids(host: MemoryHost) -> list[int]:
    return [mount.id for mount in host.mounts()]


class TestShowing:
    def test_a_directory_and_a_file_get_targets_of_their_kind(self, host: MemoryHost) -> None:
        """S5."""
        for index, (name, kind, mode) in enumerate(
            (("dir", FileKind.DIRECTORY, 0o750), ("file", FileKind.FILE, 0o640))
        ):
            found = sub_path(name, index)
            sub_paths.show(host, found)
            assert host.look(found.target) == host.look(f"{VOLUME}/{name}")
            host.unmount(found.target)
            facts = host.look(found.target)
            assert facts is not None
            assert (facts.kind, facts.mode) == (kind, mode)

    @pytest.mark.parametrize("kind", [FileKind.SOCKET, FileKind.FIFO, FileKind.CHARACTER_DEVICE])
    def test_other_kinds_are_shown_on_a_file(self, host: MemoryHost, kind: FileKind) -> None:
        host.make_special_file(f"{VOLUME}/special", kind)
        sub_paths.show(host, sub_path("special"))
        facts = host.look(TARGET)
        assert facts is not None
        assert facts.kind is kind

    def test_a_missing_directory_gets_the_mode_of_the_volume(self, host: MemoryHost) -> None:
        host.change_mode(VOLUME, 0o3775)
        sub_paths.show(host, sub_path("new/deeper"))
        facts = host.look(f"{VOLUME}/new/deeper")
        assert facts is not None
        assert facts.mode == 0o3775

    @pytest.mark.parametrize("link", ["/", "..", "../etc", "loop"])
    def test_a_link_that_leaves_the_volume_leaves_no_target(self, host: MemoryHost, link: str) -> None:
        """S5."""
        host.make_link(link, f"{VOLUME}/loop")
        before = host.snapshot()
        with pytest.raises(OSError, match=r"cross-device|symbolic links"):
            sub_paths.show(host, sub_path("loop/x"))
        assert host.snapshot() == before

    def test_a_failed_bind_leaves_no_target(self, host: MemoryHost) -> None:
        def refuse(method: str, path: str) -> None:
            if method == "bind_beneath":
                raise OSError(errno.EPERM, "Operation not permitted", path)

        before = host.snapshot()
        host.before_call = refuse
        with pytest.raises(PermissionError):
            sub_paths.show(host, sub_path("file"))
        assert host.snapshot() == before

    def test_a_failed_bind_leaves_its_neighbours(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("dir"))

        def refuse(method: str, path: str) -> None:
            if method == "bind_beneath":
                raise OSError(errno.EPERM, "Operation not permitted", path)

        before = host.snapshot()
        host.before_call = refuse
        with pytest.raises(PermissionError):
            sub_paths.show(host, sub_path("file", 1))
        assert host.snapshot() == before


class TestShowingAgain:
    def test_what_shows_the_same_file_is_reused(self, host: MemoryHost) -> None:
        """S6."""
        sub_paths.show(host, sub_path("dir"))
        before = mount_ids(host)
        sub_paths.show(host, sub_path("dir"))
        assert mount_ids(host) == before

    def test_what_shows_another_file_is_mounted_anew_though_it_is_busy(self, host: MemoryHost) -> None:
        """S6."""
        sub_paths.show(host, sub_path("dir"))
        host.hold(TARGET)
        host.rename(f"{VOLUME}/dir", f"{VOLUME}/old")
        host.make_directory(f"{VOLUME}/dir", 0o755)
        sub_paths.show(host, sub_path("dir"))
        assert host.look(TARGET) == host.look(f"{VOLUME}/dir")
        assert [mount.path for mount in host.mounts()] == ["/", TARGET]

    def test_a_directory_that_became_a_file_gets_another_target(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("dir"))
        host.remove_directory(f"{VOLUME}/dir")
        host.create_file(f"{VOLUME}/dir", 0o600)
        sub_paths.show(host, sub_path("dir"))
        assert host.look(TARGET) == host.look(f"{VOLUME}/dir")

    def test_a_target_left_by_a_reboot_is_used_again(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("file"))
        host.reboot()
        sub_paths.show(host, sub_path("file"))
        assert host.read_file(TARGET) == b"inside"

    def test_a_mount_that_no_longer_answers_is_mounted_anew(self) -> None:
        """S7."""
        host = _Stale()
        host.make_directories(f"{VOLUME}/dir", 0o755)
        sub_paths.show(host, sub_path("dir"))
        host.stale = True
        sub_paths.show(host, sub_path("dir"))
        assert not host.stale
        assert host.look(TARGET) == host.look(f"{VOLUME}/dir")

    def test_a_lazy_unmount_that_fails_is_an_error(self) -> None:
        """S6, S7."""
        host = _Stale()
        host.make_directories(f"{VOLUME}/dir", 0o755)
        sub_paths.show(host, sub_path("dir"))
        host.stale, host.refuses = True, True
        with pytest.raises(PermissionError):
            sub_paths.show(host, sub_path("dir"))


class _Stale(MemoryHost):
    """A machine on which a sub-path's server can be lost."""

    stale = False
    refuses = False

    def look(self, path: str) -> FileFacts | None:
        if self.stale and path == TARGET:
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return super().look(path)

    def unmount(self, path: str, *, lazy: bool = False, force: bool = False) -> None:
        if self.refuses:
            raise OSError(errno.EPERM, "Operation not permitted", path)
        super().unmount(path, lazy=lazy)
        self.stale = False


class TestCleaning:
    """S8."""

    def test_all_containers_and_numbers_go_and_other_volumes_stay(self, host: MemoryHost) -> None:
        for container, index, name in (("main", 0, "dir"), ("main", 3, "file"), ("side", 0, "dir")):
            sub_paths.show(host, sub_path(name, index, container))
        sub_paths.show(host, sub_path("dir", volume="other"))
        host.make_directories(f"{PATHS.pod_subpaths_dir(UID)}/data/main/9", 0o750)
        sub_paths.clean_volume(host, PATHS, UID, "data")
        assert host.names_in(PATHS.pod_subpaths_dir(UID)) == ["other"]
        assert [mount.path for mount in host.mounts()] == ["/", PATHS.pod_subpath(UID, "other", "main", 0)]
        sub_paths.clean_volume(host, PATHS, UID, "other")
        assert host.names_in(PATHS.pod_dir(UID)) == []
        assert host.names_in(VOLUME) == ["dir", "file"]

    def test_mounts_stacked_on_one_target_all_go(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("dir"))
        host.bind(f"{VOLUME}/dir", TARGET)
        sub_paths.clean_volume(host, PATHS, UID, "data")
        assert len(host.mounts()) == 1

    def test_a_file_where_a_container_should_be_is_an_error(self, host: MemoryHost) -> None:
        host.make_directories(f"{PATHS.pod_subpaths_dir(UID)}/data", 0o750)
        host.create_file(f"{PATHS.pod_subpaths_dir(UID)}/data/file", 0o644)
        with pytest.raises(NotADirectoryError):
            sub_paths.clean_volume(host, PATHS, UID, "data")

    def test_data_in_a_target_is_never_deleted(self, host: MemoryHost) -> None:
        place = f"{PATHS.pod_subpaths_dir(UID)}/data/main"
        host.make_directories(place, 0o750)
        host.write_files(place, [NewFile(path="0", data=b"precious", mode=0o644)])
        with pytest.raises(OSError, match="holds data"):
            sub_paths.clean_volume(host, PATHS, UID, "data")
        assert host.read_file(f"{place}/0") == b"precious"


class TestOrphans:
    def test_empty_file_targets_are_removed(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("file"))
        host.reboot()
        remove_pod_directory(host, PATHS, UID)
        assert host.look(PATHS.pod_dir(UID)) is None

    def test_a_mounted_file_target_keeps_everything(self, host: MemoryHost) -> None:
        sub_paths.show(host, sub_path("file"))
        before = host.snapshot()
        with pytest.raises(Refused, match="is still a mount point"):
            remove_pod_directory(host, PATHS, UID)
        assert host.snapshot() == before

    def test_a_file_with_data_or_in_another_place_is_kept(self, host: MemoryHost) -> None:
        place = PATHS.pod_subpaths_dir(UID)
        for path, data in (("data/main/0", b"precious"), ("data/main/1/deep", b""), ("data/file", b"")):
            host.make_directories(place, 0o750)
            host.write_files(place, [NewFile(path=path, data=data, mode=0o644)])
            with pytest.raises(Refused, match="still holds"):
                remove_pod_directory(host, PATHS, UID)
            assert host.read_file(f"{place}/{path}") == data
            host.remove_tree(place)


class TestDevices:
    LINK = "/pod/volumeDevices/data"

    def view(self) -> ContainerView:
        device = ContainerDevice(
            container="main", name="data", host_path=self.LINK, container_path="/dev/xvda", permissions="mrw"
        )
        return ContainerView(container="main", mounts=(), devices=(device,))

    def test_a_device_is_found_with_its_numbers(self, host: MemoryHost) -> None:
        host.make_directories("/pod/volumeDevices", 0o755)
        host.make_directories("/dev", 0o755)
        host.make_device("/dev/disk", 1 << 20)
        host.make_link("/dev/disk", self.LINK)
        facts = host.device("/dev/disk")
        assert facts is not None
        [view] = sub_paths.prepare(host, [self.view()])
        assert (view.devices[0].major, view.devices[0].minor) == (facts.major, facts.minor)

    def test_a_device_that_is_not_there_is_refused(self, host: MemoryHost) -> None:
        with pytest.raises(Refused, match="cannot show volume 'data' to container 'main': its block device is not"):
            sub_paths.prepare(host, [self.view()])
