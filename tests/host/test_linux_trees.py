"""Removing and owning real trees while names are odd, others interfere, and the umask is not ours."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import mooring
from mooring.host import descent, features
from mooring.host.features import Tier
from mooring.host.interface import Host, NewFile
from mooring.host.linux import LinuxHost
from mooring.host.ownership_calls import Ownership

TIERS = [features.probe().limited_to(tier) for tier in Tier]
IDS = [tier.name.lower() for tier in Tier]


def is_a_host(host: LinuxHost) -> Host:
    """Type-checked only: a `LinuxHost` is a `Host`."""
    return host


@pytest.mark.parametrize("kernel", TIERS, ids=IDS)
def test_names_that_are_not_text_are_removed(kernel: features.KernelFeatures, tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/v/\xff\xfe/\x80")
    with open(os.fsencode(tmp_path) + b"/v/\xff\xfe/\x81", "wb"):
        pass
    LinuxHost(features=kernel).remove_tree(f"{tmp_path}/v")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kernel", TIERS, ids=IDS)
def test_sockets_and_fifos_are_removed_and_owned_without_blocking(
    kernel: features.KernelFeatures, tmp_path: Path
) -> None:
    host = LinuxHost(features=kernel)
    (tmp_path / "v").mkdir()
    os.mkfifo(tmp_path / "v/fifo", 0o600)
    ownership = Ownership(gid=os.getegid(), file_mask=0o060, directory_mask=0)
    assert host.set_ownership(f"{tmp_path}/v", ownership).visited == 2
    assert stat.S_IMODE(os.lstat(tmp_path / "v/fifo").st_mode) == 0o660
    assert host.read_file(f"{tmp_path}/v/fifo") == b""
    host.remove_tree(f"{tmp_path}/v")
    assert os.listdir(tmp_path) == []


def test_two_that_remove_the_same_tree_do_not_disturb_each_other(tmp_path: Path) -> None:
    for path in (f"{tmp_path}/v/{upper}/{lower}" for upper in range(20) for lower in range(20)):
        os.makedirs(path)
        Path(path, "file").touch()
    host, start = LinuxHost(), threading.Barrier(2, timeout=10)
    failures: list[OSError] = []

    def remove() -> None:
        start.wait()
        try:
            host.remove_tree(f"{tmp_path}/v")
        except FileNotFoundError:
            pass  # the other was done before this one began
        except OSError as error:
            failures.append(error)

    removers = [threading.Thread(target=remove) for _ in range(2)]
    for remover in removers:
        remover.start()
    for remover in removers:
        remover.join()
    assert failures == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("fillings", "gone"), [(2, True), (100, False)])
def test_a_directory_that_is_filled_meanwhile_is_emptied_again_but_not_forever(
    fillings: int, gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = fillings
    rmdir = os.rmdir

    def someone_writes_then_rmdir(name: str, *, dir_fd: int | None = None) -> None:
        nonlocal left
        if left:
            left -= 1
            (tmp_path / "v/new").touch()
        rmdir(name, dir_fd=dir_fd)

    (tmp_path / "v").mkdir()
    monkeypatch.setattr(os, "rmdir", someone_writes_then_rmdir)
    if gone:
        LinuxHost().remove_tree(f"{tmp_path}/v")
    else:
        with pytest.raises(OSError, match="not empty"):
            LinuxHost().remove_tree(f"{tmp_path}/v")
    assert (tmp_path / "v").exists() is not gone


class MovesADirectoryAway:
    """A visitor in whose presence a directory is moved elsewhere while the walk is far below it."""

    def __init__(self, path: str, target: str) -> None:
        self.path, self.target = path, target
        self.left: list[str] = []

    def open_child(self, directory: int, name: str) -> int:
        return descent.open_on_same_mount(TIERS[0], directory, name)

    def enter(self, directory: int, path: str) -> list[str]:
        names = os.listdir(directory)
        if not names:
            os.rename(self.path, self.target)
        return names

    def leave(self, above: int, name: str, directory: int, path: str) -> bool:
        self.left.append(path)
        return True

    def failed(self, directory: int, name: str, path: str, error: OSError) -> None:
        raise error


def test_a_walk_does_not_climb_out_of_a_tree_with_a_directory_moved_elsewhere(tmp_path: Path) -> None:
    root = f"{tmp_path}/v"
    os.makedirs(f"{root}/a/b" + "/deep" * 100)
    os.mkdir(f"{tmp_path}/elsewhere")
    visitor = MovesADirectoryAway(f"{root}/a/b", f"{tmp_path}/elsewhere/b")
    with pytest.raises(OSError, match="moved while it was walked"):
        descent.walk(visitor, -1, "v", os.open(root, os.O_RDONLY), root)
    assert f"{root}/a/b/deep" in visitor.left
    assert f"{root}/a" not in visitor.left


def test_a_walk_leaves_no_descriptor_open(tmp_path: Path) -> None:
    host = LinuxHost()
    os.makedirs(f"{tmp_path}/v" + "/deep" * 100)
    before = os.listdir("/proc/self/fd")
    host.set_ownership(f"{tmp_path}/v", Ownership(gid=os.getegid(), file_mask=0, directory_mask=0))
    host.remove_tree(f"{tmp_path}/v")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_are_those_of_umask_022_whatever_the_process_has(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        host = LinuxHost()
        host.make_directories(f"{tmp_path}/a/b", 0o777)
        host.make_directory(f"{tmp_path}/c", 0o775)
        host.write_files(f"{tmp_path}/a", [NewFile(path="sub/file", data=b"", mode=0o666)])
        host.create_file(f"{tmp_path}/ready", 0o664)
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("a", "a/b", "c", "a/sub", "a/sub/file", "ready")
    ]
    assert modes == [0o755, 0o755, 0o755, 0o755, 0o666, 0o664]


def test_files_are_not_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "elsewhere").mkdir()
    os.symlink("../elsewhere", tmp_path / "v/link")
    with pytest.raises(NotADirectoryError):
        LinuxHost().write_files(f"{tmp_path}/v", [NewFile(path="link/file", data=b"", mode=0o644)])
    assert os.listdir(tmp_path / "elsewhere") == []


def test_nothing_in_the_package_removes_trees_in_another_way() -> None:
    package = Path(mooring.__file__).parent
    others = [path for path in package.rglob("*.py") if "rmtree" in path.read_text()]
    assert others == []
