"""Whatever lies below a root directory: no file with a byte in it ever goes, and nothing outside changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.doctor.conftest import examine
from tests.doctor.corpus import STAMP, fingerprints

NAMES = (
    *("pods", "plugins", "plugins_registry", "runs", "intents", "debts", "store", "containers", "etc-hosts"),
    *("volumes", "volumeDevices", "volume-subpaths", "kubernetes.io~empty-dir", "kubernetes.io~csi", "kubernetes.io"),
    *("kubernetes.io~secret", "kubernetes.io~configmap", "csi", "iscsi", "mounts", "mount", "globalmount", "ready"),
    *("vol_data.json", "0", "u1", "u1.json", "u1.lock", "x.record.new", "..data", "..data_tmp", STAMP, "a b", "ä\n"),
)
DEPTHS = (1, 2, 3, 4, 5, 5, 6, 6, 7)


def places(random: Random) -> Iterator[str]:
    """Relative paths, most of them such as a kubelet would have made."""
    tops = ("pods/u1/volumes", "pods/u1", "pods/u2/volume-subpaths", "pods/u3/volumeDevices", "plugins/kubernetes.io")
    for _ in range(60):
        top = random.choice(tops) if random.random() < 0.7 else random.choice(NAMES[:7])
        rest = [random.choice(NAMES) for _ in range(random.choice(DEPTHS))]
        yield "/".join([top, *rest])


def plant(random: Random, root: Path, outside: Path) -> None:
    """Put one thing of a random kind at each of many places."""
    for place in places(random):
        path = root / place
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            match random.randrange(7):
                case 0 | 1:
                    path.mkdir()
                case 2:
                    path.write_bytes(b"")
                case 3:
                    path.write_bytes(random.randbytes(random.randrange(1, 40)))
                case 4:
                    path.symlink_to(random.choice((str(outside), "..data/x", STAMP, "/nowhere", "../..")))
                case 5:
                    os.mkfifo(path)
                case _:
                    os.link(outside / "empty", path)


def tree(top: Path) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for above, below, files in os.walk(top):
        for name in [*below, *files]:
            facts = os.lstat(os.path.join(above, name))
            found[os.path.join(above, name)] = facts.st_mode, facts.st_ino, facts.st_size
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_repair_of_a_random_tree_removes_only_what_has_no_bytes(root: Path, seed: int) -> None:
    random, outside = Random(seed), root.parent / "outside"
    (root / "pods").mkdir()
    (outside / "deep" / "er").mkdir(parents=True)
    (outside / "empty").touch()
    (outside / "file").write_text("bytes")
    plant(random, root, outside)
    before, elsewhere = fingerprints(root), tree(outside)
    examine(root, "--repair")
    assert fingerprints(root) == before
    assert tree(outside) == elsewhere
    settled = tree(root)
    assert examine(root, "--repair").places("repaired") == set()
    assert tree(root) == settled
