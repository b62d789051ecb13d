"""Which manifest files there are, and what each of them last said that could be used."""

from __future__ import annotations

import os
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
    files: set[str] = set()
    directories: set[str] = set()
    unreadable: list[tuple[str, str]] = []

    def note(error: OSError) -> None:
        unreadable.append((error.filename, error.strerror or str(error)))

    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                unreadable.append((path, "there is no such file or directory"))
            else:
                files.add(path)
            directories.add(os.path.dirname(path) or "/")
            continue
        for directory, names, found in os.walk(path, onerror=note, followlinks=True):
            names[:] = sorted(name for name in names if not name.startswith("."))
            directories.add(directory)
            files.update(f"{directory}/{name}" for name in found if _is_manifest(name))
    return Scan(files=sorted(files), directories=sorted(directories), unreadable=unreadable)


def _is_manifest(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


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

    def read(self, files: Iterable[str]) -> Reading:
        """Read what changed. May take long for many files: meant for a thread, one call at a time."""
        present = list(files)
        for gone in self._known.keys() - set(present):
            del self._known[gone]
        changed = frozenset(path for path in present if self._refresh(path))
        objects: dict[Key, tuple[KubernetesObject, str]] = {}
        findings: list[Finding] = []
        for path in present:
            known = self._known[path]
            findings.extend(known.findings)
            for key, obj in (known.objects or {}).items():
                if key in objects:
                    findings.append(_twice(key, path, objects[key][1]))
                else:
                    objects[key] = (obj, path)
        broken = frozenset(path for path in present if self._known[path].broken)
        return Reading(objects=objects, changed=changed, broken=broken, findings=tuple(findings))

    def _refresh(self, path: str) -> bool:
        """Read one file if it is not what it was; True when its good content changed."""
        known = self._known.setdefault(path, _Known())
        try:
            facts = os.stat(path)
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if stamp == known.stamp:
                return False
            with open(path, "rb") as stream:
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
        ready = (apply_defaults(manifest.object, node_name=self._node_name) for manifest in file.objects)
        known.objects = {key_of(obj): obj for obj in ready}
        return True


def key_of(obj: KubernetesObject) -> Key:
    return (obj.kind, obj.metadata.namespace, obj.metadata.name)


def _twice(key: Key, path: str, first: str) -> Finding:
    kind, namespace, name = key
    return Finding(
        kind="manifest",
        where=path,
        what=f"{kind} {namespace + '/' if namespace else ''}{name} is written in {first} as well; that one counts",
        next_step="Remove one of the two",
    )
