"""Counting what a directory holds, on the real file system."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.host.linux import LinuxHost


def test_a_tree_is_counted_with_hard_links_once_and_links_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "below").mkdir(parents=True)
    (root / "one").write_bytes(b"x" * 10000)
    os.link(root / "one", root / "below" / "same")
    (root / "away").symlink_to("/")
    found = LinuxHost().tree_usage(str(root), 1000)
    assert found.complete
    assert found.inodes == 4  # the tree, below, one, away
    blocks = sum(os.lstat(path).st_blocks for path in (root, root / "below", root / "one", root / "away"))
    assert found.used == 512 * blocks


def test_a_walk_stops_at_its_budget_and_says_so(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    found = LinuxHost().tree_usage(str(tmp_path), 10)
    assert not found.complete
    assert found.inodes <= 11


def test_a_file_system_tells_what_statvfs_tells(tmp_path: Path) -> None:
    host = LinuxHost()
    while True:
        told, found, then = os.statvfs(tmp_path), host.file_system_usage(str(tmp_path)), os.statvfs(tmp_path)
        if told == then:  # nobody else wrote to the disk meanwhile
            break
    assert (found.capacity, found.inodes) == (told.f_blocks * told.f_frsize, told.f_files)
    assert found.used + told.f_bfree * told.f_frsize == found.capacity
