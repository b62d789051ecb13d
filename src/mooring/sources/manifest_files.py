"""Which manifest files there are, and what each of them last said that could be used."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.kube.codec import ManifestFile, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.objects.meta import KubernetesObject
from mooring.world.findings import Finding

SUFFIXES = (".yaml", ".yml", ".json")
Key = tuple[str, str, str]
"""(kind, namespace, name)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the paths hold now. `unreadable` are paths that could not be listed: nothing is concluded from them."""

    files: Sequence[str]
    directories: Sequence[str]
    unreadable: Sequence[tuple[str, str]] = ()


def scan(paths: Sequence[str]) -> Scan:
    """All manifest files in and below the paths, sorted; hidden names are left out."""
    found = _Found()
    for path in paths:
        if os.path.isdir(path):
            _scan_directory(path, found)
            continue
        if not os.path.exists(path):
            found.unreadable.append((path, "there is no such file or directory"))
        else:
            found.add_file(path, is_link=os.path.islink(path))
        found.directories.add(os.path.dirname(path) or "/")
    return Scan(files=sorted(found.files), directories=sorted(found.directories), unreadable=found.unreadable)


@dataclass(slots=True)
class _Found:
    files: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def add_file(self, path: str, *, is_link: bool) -> None:
        self.files.add(path)
        if is_link:  # its own directory does not tell when what it leads to changes
            self.directories.add(os.path.dirname(os.path.realpath(path)))


def _scan_directory(top: str, found: _Found) -> None:
    """Add what a directory holds; linked directories are followed, each directory is looked into once."""
    seen: set[str] = set()
    ahead = [top]
    while ahead:
        directory = ahead.pop()
        real = os.path.realpath(directory)
        if real in seen:
            continue
        try:
            with os.scandir(directory) as entries:
                shown = sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)
        except OSError as error:
            found.unreadable.append((error.filename, error.strerror or str(error)))
            continue
        seen.add(real)
        found.directories.add(directory)
        for entry in reversed(shown):  # the first is looked into first
            if _leads_to_directory(entry):
                ahead.append(entry.path)
            elif entry.name.endswith(SUFFIXES):
                found.add_file(entry.path, is_link=entry.is_symlink())


def _leads_to_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere: what is wrong is told when it is read
        return False


@dataclass(slots=True)
class _Known:
    stamp: tuple[int, int, int] = (0, 0, 0)
    objects: dict[Key, KubernetesObject] | None = None  # of the last version without problems
    findings: tuple[Finding, ...] = ()
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one look at the files found. `broken` files keep whatever they last gave."""

    objects: dict[Key, tuple[KubernetesObject, str]] = field(default_factory=dict)  # with the file they come from
    changed: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


class ManifestFiles:
    """Remembers every file's last good content, and reads again only what changed on disk."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._known: dict[str, _Known] = {}
        self._last: tuple[list[object], Reading] | None = None  # which state of all files was read as what

    @property
    def known(self) -> frozenset[str]:
        """All files that were there when they were read last."""
        return frozenset(self._known)

    def read(self, files: Iterable[str]) -> Reading:
        """Read what changed. May take long for many files: meant for a thread, one call at a time.

        As long as nothing changes the same reading is returned.
        """
        present = list(files)
        for gone in self._known.keys() - set(present):
            del self._known[gone]
        changed = frozenset(path for path in present if self._refresh(path))
        if changed:
            self._last = None
            return self._reading(present, changed)
        state: list[object] = [
            (path, known.objects, known.findings, known.broken)
            for path, known in ((path, self._known[path]) for path in present)
        ]
        if self._last is None or self._last[0] != state:
            self._last = state, self._reading(present, changed)
        return self._last[1]

    def _reading(self, present: Sequence[str], changed: frozenset[str]) -> Reading:
        objects: dict[Key, tuple[KubernetesObject, str]] = {}
        findings: list[Finding] = []
        for path in present:
            known = self._known[path]
            findings.extend(known.findings)
            for key, obj in (known.objects or {}).items():
                if key in objects:
                    findings.append(_twice(key, path, f"{objects[key][1]} as well; that one"))
                else:
                    objects[key] = (obj, path)
        broken = frozenset(path for path in present if self._known[path].broken)
        return Reading(objects=objects, changed=changed, broken=broken, findings=tuple(findings))

    def _refresh(self, path: str) -> bool:
        """Read one file if it is not what it was; True when its good content changed."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = _Known()
        try:
            facts = os.stat(path)
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if stamp == known.stamp:
                return False
            with open(path, "rb") as stream:
                if _is_being_written(stream.fileno()):
                    known.broken = True  # the end of the writing is an event, and then it is read
                    return False
                text = stream.read()
        except OSError as error:
            known.broken = True
            known.stamp = (0, 0, 0)
            why = f"cannot be read: {error.strerror or error}"
            known.findings = (Finding(kind="manifest", where=path, what=why, next_step="Its last version stays"),)
            return False
        known.stamp = stamp
        return self._take(known, read_manifests(text, origin=path))

    def _take(self, known: _Known, file: ManifestFile) -> bool:
        known.broken = not file.usable
        known.findings = tuple(
            Finding(kind=kind, where=note.place, what=f"{note.what}: {note.why}", next_step=note.next_step)
            for kind, notes in (("manifest", file.problems), ("warning", file.warnings))
            for note in notes
        )
        if known.broken:
            return False
        known.objects = {}
        for manifest in file.objects:
            obj = apply_defaults(manifest.object, node_name=self._node_name)
            key = key_of(obj)
            if known.objects.setdefault(key, obj) is not obj:
                place = f"{manifest.origin}:{manifest.line}"
                known.findings += (_twice(key, place, f"{manifest.origin} more than once; the first"),)
        return True


def _is_being_written(descriptor: int) -> bool:
    """Whether somebody has the file open for writing: half of it would be read as if it were all.

    fcntl(2): a read lease is refused then. Where leases do not work at all, nobody can tell.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # a writer who comes now sends this, not a deadly SIGIO
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def key_of(obj: KubernetesObject) -> Key:
    return (obj.kind, obj.metadata.namespace, obj.metadata.name)


def _twice(key: Key, where: str, elsewhere: str) -> Finding:
    kind, namespace, name = key
    return Finding(
        kind="manifest",
        where=where,
        what=f"{kind} {namespace + '/' if namespace else ''}{name} is written in {elsewhere} counts",
        next_step="Remove one of the two",
    )
