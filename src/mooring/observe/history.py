"""What happened to each volume, bounded, and kept on disk so that a restart does not forget it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import assert_never

import msgspec

from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Labelled,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount, PodOperation, Unmount, kind_of, pod_of
from mooring.world.presence import Result


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that happened. Times are seconds since 1970."""

    at: float
    pod: str  # UID
    volume: str  # inner name; empty when the pod as a whole is meant
    what: str
    result: str = ""
    seconds: float = 0.0
    detail: str = ""
    name: str = ""  # unique volume name
    pod_name: str = ""  # namespace/name


class History:
    """Entries per pod and volume. Listens to the manager; answers `timeline` and when something was mounted."""

    def __init__(
        self, *, length: int, wall: Callable[[], float], clock: Callable[[], float], journal: Journal | None = None
    ) -> None:
        self._length = length
        self._wall = wall
        self._clock = clock
        self._journal = journal
        self._entries: dict[str, dict[str, list[Entry]]] = {}
        self._mounted: dict[tuple[str, str], Entry] = {}
        self._held: dict[str, int] = {}  # mounted volumes by pod
        self._idle: dict[str, None] = {}  # pods that have none, the longest so first
        if journal is not None:
            for entry in journal.read():
                self._keep(entry)
            journal.always = self._mounted.values

    def mounted_at(self, pod: str, name: str) -> float | None:
        """Since when a volume has been mounted for a pod."""
        entry = self._mounted.get((pod, name))
        return entry.at if entry is not None else None

    def of_pod(self, pod: str, volume: str | None = None) -> list[Entry]:
        """All that is remembered of a pod (or one volume of it), oldest first."""
        volumes = self._entries.get(pod, {})
        chosen = volumes.values() if volume is None else [volumes.get(volume, []), volumes.get("", [])]
        return sorted((entry for entries in chosen for entry in entries), key=lambda entry: entry.at)

    def pods_named(self, pod_name: str) -> list[str]:
        """UIDs of pods that once had this `namespace/name`, the latest last."""
        last = {
            uid: max(entry.at for entries in volumes.values() for entry in entries)
            for uid, volumes in self._entries.items()
            if any(entry.pod_name == pod_name for entries in volumes.values() for entry in entries)
        }
        return sorted(last, key=lambda uid: last[uid])

    def listen(self, change: Change) -> None:
        """Remember a change, if it is worth it."""
        entry = self._entry(change)
        if entry is not None:
            self._keep(entry)
            if self._journal is not None:
                self._journal.append(entry)

    def _entry(self, change: Change) -> Entry | None:
        match change:
            case Started() | ForceCleaned() | Labelled():
                return None
            case Finished():
                return self._finished(change)
            case Reconstructed():
                result = "found" if change.volume is not None else "not understood"
                return Entry(
                    at=self._wall(), pod=change.pod, volume=change.inner_name, what="reconstruct", result=result,
                    detail=change.why, name=change.volume or "",
                )  # fmt: skip
            case ProblemArose():
                return Entry(
                    at=self._wall(), pod=change.pod.metadata.uid, volume=change.volume, what="work out",
                    result="waiting", detail=change.why, pod_name=change.pod.key,
                )  # fmt: skip
            case Noticed():
                return Entry(
                    at=self._wall(), pod=change.pod.metadata.uid, volume=change.volume, what="notice",
                    result=change.reason, detail=change.message, pod_name=change.pod.key,
                )  # fmt: skip
            case Owned():
                return self._owned(change)
            case _:
                assert_never(change)

    def _owned(self, change: Owned) -> Entry:
        progress = change.progress
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        return Entry(
            at=self._wall(),
            pod=change.pod.metadata.uid,
            volume=change.volume,
            what="ownership",
            result=Result.DONE.value if change.complete else "stopped",
            seconds=round(progress.seconds, 6),
            detail=f"group {progress.group}: {progress.visited:,} entries, {progress.changed:,} changed{failed}",
            pod_name=change.pod.key,
        )

    def _finished(self, change: Finished) -> Entry | None:
        operation, outcome = change.operation, change.outcome
        if isinstance(operation, PodOperation) and outcome.succeeded:
            return None
        return Entry(
            at=self._wall() - (self._clock() - change.at),
            pod=pod_of(operation) or "",
            volume=change.inner_name,
            what="refresh" if change.refreshed else kind_of(operation),
            result=outcome.result.value,
            seconds=round(change.seconds, 6),
            detail=f"{outcome.what}: {outcome.why}" if not outcome.succeeded else "",
            name="" if isinstance(operation, PodOperation) else operation.volume,
            pod_name=change.pod.key if change.pod is not None else "",
        )

    def _keep(self, entry: Entry) -> None:
        volumes = self._entries.get(entry.pod)
        if volumes is None:
            volumes = self._entries[entry.pod] = {}
            self._idle[entry.pod] = None
        entries = volumes.get(entry.volume)
        if entries is None:
            entries = volumes[entry.volume] = []  # mostly very short: a deque takes 600 bytes even for one
        elif len(entries) == self._length:
            del entries[0]
        entries.append(entry)
        if entry.result == Result.DONE.value:
            if entry.what == _MOUNTED:
                self._note_mounted(entry)
            elif entry.what == _UNMOUNTED:
                self._note_unmounted(entry)
        if len(self._idle) > _MOST_IDLE_PODS:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._entries[oldest]

    def _note_mounted(self, entry: Entry) -> None:
        if (entry.pod, entry.name) not in self._mounted:
            self._mounted[entry.pod, entry.name] = entry
            self._held[entry.pod] = self._held.get(entry.pod, 0) + 1
            self._idle.pop(entry.pod, None)

    def _note_unmounted(self, entry: Entry) -> None:
        if self._mounted.pop((entry.pod, entry.name), None) is not None:
            self._held[entry.pod] -= 1
            if not self._held[entry.pod]:
                del self._held[entry.pod]
                self._idle[entry.pod] = None


_MOST_IDLE_PODS = 500  # pods without a mounted volume, most of them gone, that are remembered
_MOUNTED = kind_of(Mount(VolumeName(""), PodUid("")))
_UNMOUNTED = kind_of(Unmount(VolumeName(""), PodUid("")))


def _with_shared_texts(entry: Entry) -> Entry:
    """The same entry. What many entries say alike is in memory once, as it is when they are made here."""
    return Entry(
        at=entry.at,
        pod=intern(entry.pod),
        volume=intern(entry.volume),
        what=intern(entry.what),
        result=intern(entry.result),
        seconds=entry.seconds,
        detail=intern(entry.detail),
        name=intern(entry.name),
        pod_name=intern(entry.pod_name),
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


class Journal:
    """A file of entries, one JSON line each, appended without waiting for the disk and cut when it grows too large.

    The entries that `always` names stay, however old: since when something is mounted must not be forgotten.
    """

    def __init__(self, path: str, *, size: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self._path = path
        self._size = size
        self.always: Callable[[], Iterable[Entry]] = tuple
        self._soon = soon  # runs a call after the present turn of the event loop
        self._encoder = msgspec.json.Encoder()
        self._entries: list[Entry] = []  # that are still to be written
        self._descriptor = -1
        self._written = 0

    def read(self) -> Iterator[Entry]:
        """What earlier processes wrote; a torn line is passed over."""
        decoder = msgspec.json.Decoder(Entry)
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as stream:
            for line in stream:
                with contextlib.suppress(msgspec.MsgspecError):
                    yield _with_shared_texts(decoder.decode(line))

    def append(self, entry: Entry) -> None:
        if not self._entries:
            self._soon(self.flush)
        self._entries.append(entry)

    def flush(self) -> None:
        """Hand the collected entries to the kernel, in one write. A full disk costs history, nothing else."""
        entries, self._entries = self._entries, []
        if not entries:
            return
        text = self._encoder.encode_lines(entries)
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._open()
            os.write(self._descriptor, text)
            self._written += len(text)
            if self._written > self._size:
                self._cut()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._written = os.fstat(self._descriptor).st_size
        if self._written and os.pread(self._descriptor, 1, self._written - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # a writer was killed in the middle of a line, which would eat the next

    def _cut(self) -> None:
        """Keep the newer half, and of the older one what is always kept."""
        with open(self._path, "rb") as stream:
            stream.seek(-self._size // 2, os.SEEK_END)
            newer = stream.read().partition(b"\n")[2]
        lines = set(newer.splitlines())
        older = [line for line in map(self._encoder.encode, self.always()) if line not in lines]
        temporary = f"{self._path}.new"
        with open(temporary, "wb", opener=_private) as stream:
            stream.write(b"".join(line + b"\n" for line in older))
            stream.write(newer)
        os.rename(temporary, self._path)
        os.close(self._descriptor)
        self._open()

    def close(self) -> None:
        self.flush()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
