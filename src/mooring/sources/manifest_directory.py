"""Directories and files of manifests as a source: what they say is kept in the store, at once after each change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from mooring.host.inotify import DirectoryEvent, DirectoryWatcher
from mooring.kube.api import ApiError
from mooring.kube.objects.kinds import ALL_KINDS, Kind
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.validation import validate_update
from mooring.sources.manifest_files import Key, ManifestFiles, Reading, Scan, scan
from mooring.world.findings import Finding

log = logging.getLogger(__name__)

ORIGIN = "file:"
"""Objects in the store that came from a manifest file carry this prefix and the file's path as their origin."""

_KINDS = {kind.name: kind for kind in ALL_KINDS}


class Store(Protocol):
    """What manifests are written to: many objects in one transaction."""

    def origins(self) -> Any: ...

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> Any: ...

    async def apply_all(
        self, *, put: Sequence[tuple[KubernetesObject, str]] = (), remove: Sequence[tuple[Kind[Any], str, str]] = ()
    ) -> Any: ...


class ManifestDirectory:
    """Feeds the store from paths. A file that cannot be used keeps its last good objects and is a finding."""

    def __init__(
        self, paths: Sequence[str], store: Store, files: ManifestFiles, *, rescan_interval: float = 20.0
    ) -> None:
        self._paths = list(paths)
        self._store = store
        self._files = files
        self._rescan_interval = rescan_interval
        self._changed = asyncio.Event()
        self.heard = asyncio.Event()  # set once everything has been read and stored for the first time
        self.findings: tuple[Finding, ...] = ()
        self._unsettled = files.known  # files whose objects are not all in the store yet
        self._settled: Reading | None = None  # what the store has all of

    async def run(self) -> None:
        """Read everything, then again after each change; the slow rescan serves file systems without events."""
        watcher = DirectoryWatcher(self._notice)
        try:
            while True:
                self._changed.clear()
                found = await asyncio.to_thread(scan, self._paths)
                if self._watch(watcher, found):
                    found = await asyncio.to_thread(scan, self._paths)  # what came before the watch stood
                await self._feed(found)
                self.heard.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._rescan_interval):
                        await self._changed.wait()
        finally:
            watcher.close()

    def _notice(self, events: list[DirectoryEvent]) -> None:
        self._changed.set()

    def _watch(self, watcher: DirectoryWatcher, found: Scan) -> bool:
        """Watch just the directories that exist now; True when one was added."""
        wanted = set(found.directories)
        for directory in watcher.directories - wanted:
            watcher.forget(directory)
        new = wanted - watcher.directories
        for directory in sorted(new):
            with contextlib.suppress(OSError):  # gone again, or no events there: the rescan finds it
                watcher.watch(directory)
        return bool(new)

    async def _feed(self, found: Scan) -> None:
        reading = await asyncio.to_thread(self._files.read, found.files)
        if reading is self._settled and not found.unreadable:
            return
        missing = [_unreadable(path, why) for path, why in found.unreadable]
        put, refused = await self._to_put(reading)
        self._unsettled = frozenset(finding.where for finding in refused)
        remove = [] if missing else self._to_remove(reading)
        if put or remove:
            try:
                await self._store.apply_all(put=put, remove=remove)
            except ApiError as error:
                self._unsettled |= reading.changed
                refused.append(Finding(kind="manifest", where="store", what=str(error), next_step=error.next_step))
        self._settled = reading if not missing and not refused else None
        findings = (*missing, *reading.findings, *refused)
        for finding in findings:
            if finding not in self.findings:
                log.warning("%s: %s", finding.where, finding.what)
        self.findings = findings

    async def _to_put(self, reading: Reading) -> tuple[list[tuple[KubernetesObject, str]], list[Finding]]:
        """Objects of changed files; changes that an API server would not allow are findings instead.

        What others changed or deleted stays so until the file changes, or nobody's word would last.
        """
        put: list[tuple[KubernetesObject, str]] = []
        refused: list[Finding] = []
        origins = self._store.origins()
        changed = reading.changed | self._unsettled
        for key, (obj, path) in reading.objects.items():
            if path not in changed and not _is_of_other_file(origins.get(key, ""), path):
                continue
            problem = await self._forbidden(key, obj)
            if problem is None:
                put.append((obj, f"{ORIGIN}{path}"))
            else:
                refused.append(Finding(kind="manifest", where=path, what=problem, next_step="The old one stays"))
        return put, refused

    async def _forbidden(self, key: Key, obj: KubernetesObject) -> str | None:
        try:
            current = await self._store.get(_KINDS[key[0]], key[1], key[2])
        except ApiError:
            return None
        problems = validate_update(current, obj)
        return f"{key[0]} {obj.key} cannot change: {problems[0].why}" if problems else None

    def _to_remove(self, reading: Reading) -> list[tuple[Kind[Any], str, str]]:
        """Objects from manifest files that no file says any more; broken files keep theirs."""
        remove = []
        for key, origin in self._store.origins().items():
            if not origin.startswith(ORIGIN) or key in reading.objects:
                continue
            if origin[len(ORIGIN) :] not in reading.broken:
                remove.append((_KINDS[key[0]], key[1], key[2]))
        return remove


def _is_of_other_file(origin: str, path: str) -> bool:
    return origin.startswith(ORIGIN) and origin[len(ORIGIN) :] != path


def _unreadable(path: str, why: str) -> Finding:
    return Finding(
        kind="manifest",
        where=path,
        what=f"cannot be read: {why}; what it said before stays",
        next_step="Bring it back, or restart mooring without it",
    )
