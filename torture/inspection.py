"""What is on a node: its mounts and trees, in a form in which two nodes that hold the same are equal."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from mooring.host.mount_table import parse_mountinfo

MARKER = "marker-of-a-user"
_STAMP = re.compile(r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+")
_ENTERED = frozenset({"tmpfs"})  # what else is mounted holds what users wrote


def mounts_below(root: Path) -> dict[str, str]:
    """What is mounted where below a directory; a path with two mounts on it names both."""
    found: dict[str, str] = {}
    for mount in parse_mountinfo(Path("/proc/self/mountinfo").read_text()):
        if mount.path.startswith(f"{root}/"):
            path = mount.path.removeprefix(f"{root}/")
            shown = f"{mount.fs_type} {mount.options[0]}"
            found[path] = f"{found[path]} + {shown}" if path in found else shown
    return found


def tree_below(root: Path) -> dict[str, str]:
    """Everything in the pods' and plugins' directories of a root, without what users wrote."""
    found: dict[str, str] = {}
    mounts = mounts_below(root)
    for top in ("pods", "plugins"):
        for path in _walk(root / top, root, mounts):
            name = str(path.relative_to(root))
            found[_STAMP.sub("..STAMP", name)] = _described(path, enter=mounts.get(name, "tmpfs").split()[0] == "tmpfs")
    return found


def _walk(directory: Path, root: Path, mounts: dict[str, str]) -> Iterator[Path]:
    if not directory.is_dir():
        return
    for entry in sorted(os.scandir(directory), key=lambda each: each.name):
        if entry.name == MARKER:
            continue
        path = Path(entry.path)
        yield path
        kind = mounts.get(str(path.relative_to(root)), "tmpfs").split()[0]
        if entry.is_dir(follow_symlinks=False) and kind in _ENTERED:
            yield from _walk(path, root, mounts)


def _described(path: Path, *, enter: bool) -> str:
    facts = path.lstat()
    if not enter:
        return "a volume"
    kind = stat.S_IFMT(facts.st_mode)
    text = f"{kind:o} {stat.S_IMODE(facts.st_mode):04o} {facts.st_uid}:{facts.st_gid}"
    if stat.S_ISLNK(facts.st_mode):
        target = os.readlink(path)
        return f"{text} -> {'a device' if target.startswith('/dev/') else _STAMP.sub('..STAMP', target)}"
    if stat.S_ISREG(facts.st_mode):
        return f"{text} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    return text


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """What differs between two nodes, in lines."""
    lines = [f"missing: {path} ({expected[path]})" for path in sorted(expected.keys() - found.keys())]
    lines += [f"left over: {path} ({found[path]})" for path in sorted(found.keys() - expected.keys())]
    lines += [
        f"different: {path}: {expected[path]} / {found[path]}"
        for path in sorted(expected.keys() & found.keys())
        if expected[path] != found[path]
    ]
    return lines
