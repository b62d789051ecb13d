"""The last view of the cluster: every object that this node was told of, on disk, for a start without a server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Collection

from mooring.errors import MooringError
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.offline_file import Damaged, ObjectKey, OfflineFile
from mooring.kube.seal import Seal, load_or_make
from mooring.settings import Settings

log = logging.getLogger(__name__)

_GATHER = 0.5  # seconds in which changes are gathered into one write
_LONGEST_PAUSE = 60.0
_CLOSE_PATIENCE = 5.0

_Failures = (OSError, sqlite3.Error, MooringError)
Job = tuple[Callable[[], None], Callable[[Exception | None], None]]


def chosen(settings: Settings) -> OfflineView | None:
    """The view that the settings ask for, below the root directory, with its key beside it; None when it is off.

    Raises `Refused` when the key cannot be used.
    """
    if settings.offline == "off":
        return None
    place = os.path.join(settings.root, "offline")
    seal = load_or_make(os.path.join(place, "key")) if settings.offline_secrets == "encrypted" else None
    return OfflineView(os.path.join(place, "view.db"), seal=seal)


class OfflineView:
    """Objects as they were last seen. `note` and `forget` only remember; a thread writes, the last word of each object.

    What waits to be written is bounded by what the node knows: one entry for each object. `load` comes first, then
    `run` for as long as the node lives, then `close`. Without a seal no secret is ever written.
    """

    def __init__(self, path: str, *, seal: Seal | None) -> None:
        self._file = OfflineFile(path, seal)
        self._pending: dict[ObjectKey, KubernetesObject | None] = {}
        self._in_flight: dict[ObjectKey, KubernetesObject | None] = {}
        self._stored: set[ObjectKey] = set()
        self._versions: dict[ObjectKey, tuple[str, str]] = {}  # of what is stored or will be
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._thread: _WriterThread | None = None

    def load(self) -> list[KubernetesObject]:
        """What earlier processes noted, by kind and name. A file that cannot be read counts as empty."""
        try:
            found = self._file.read()
        except Damaged:
            return []  # it is set aside, and was logged
        except _Failures as error:
            log.error("cannot read the last view %s, and begin without one: %s", self._file.path, error)
            return []
        self._stored = set(found)
        self._versions = {key: _version(obj) for key, obj in found.items()}
        return list(found.values())

    # -- what is told to it --------------------------------------------------------------------------------------
    def note(self, obj: KubernetesObject) -> None:
        """An object is there, and looks like this."""
        key = _key(obj)
        version = _version(obj)
        if not self._file.keeps(key[0]) or (version[1] and self._versions.get(key) == version):
            return
        self._versions[key] = version
        self._pending[key] = obj
        self._changed.set()

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone, or of no concern to this node any more."""
        key = (kind, namespace, name)
        self._versions.pop(key, None)
        if key in self._stored or key in self._in_flight:
            self._pending[key] = None
            self._changed.set()
        else:
            self._pending.pop(key, None)

    def keep_only(self, kind: str, needed: Collection[tuple[str, str]]) -> None:
        """Forget all objects of a kind but these, by namespace and name.

        For kinds that are followed object by object: nobody tells of the end of one that nobody asks for any more.
        """
        for key in sorted({*self._stored, *self._in_flight, *self._pending}):
            if key[0] == kind and key[1:] not in needed:
                self.forget(*key)

    def handler(self) -> Handler[KubernetesObject]:
        """An event handler that keeps the view of an informer's kind."""
        return Handler(
            on_add=lambda obj, _: self.note(obj),
            on_update=lambda _, new: self.note(new),
            on_delete=lambda obj: self.forget(*_key(obj.object if isinstance(obj, Tombstone) else obj)),
        )

    # -- writing -------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Write changes, gathered, until cancelled. A disk that fails is tried again, less and less often."""
        failures = 0
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER)
            self._changed.clear()
            try:
                await self.flush()
            except _Failures as error:
                if not failures:
                    log.error("cannot keep the last view %s, and go on trying: %s", self._file.path, error)
                failures += 1
                self._changed.set()
                await asyncio.sleep(min(_GATHER * 2**failures, _LONGEST_PAUSE))
            else:
                failures = 0

    async def flush(self) -> None:
        """Return when everything noted so far is on the disk."""
        async with self._writing:
            batch, self._pending = self._pending, {}
            if not batch:
                return
            self._in_flight = batch
            try:
                await self._in_thread(lambda: self._file.write(batch))
            except BaseException as error:
                self._take_back(batch, error)
                raise
            finally:
                self._in_flight = {}
            self._stored.difference_update(key for key, obj in batch.items() if obj is None)
            self._stored.update(key for key, obj in batch.items() if obj is not None)

    def _take_back(self, batch: dict[ObjectKey, KubernetesObject | None], error: BaseException) -> None:
        """Put a batch that may not have been written back behind what came since."""
        if isinstance(error, Damaged):  # the next file begins empty: it gets what is told from now on
            self._stored.clear()
            self._versions = {key: _version(obj) for key, obj in (batch | self._pending).items() if obj is not None}
        elif isinstance(error, asyncio.CancelledError):
            self._stored.update(batch)  # the thread goes on with it
        merged = batch | self._pending
        self._pending = {key: obj for key, obj in merged.items() if obj is not None or key in self._stored}

    async def close(self) -> None:
        """Write what is left, and close the file. A disk that hangs is not waited for."""
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE):
                await self.flush()
                await self._in_thread(self._file.close)
        except (*_Failures, TimeoutError) as error:
            log.error("the last view %s may lack the latest changes: %s", self._file.path, error or "the disk hangs")
        finally:
            if self._thread is not None:
                self._thread.stop()
                self._thread = None

    async def _in_thread(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = _WriterThread()
        await self._thread.do(work)


class _WriterThread:
    """One thread that works off what it is given, in order. A daemon: a disk that hangs keeps no process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="offline view", daemon=True).start()

    async def do(self, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            if not done.done():  # nobody waits any more when it was cancelled
                done.set_exception(error) if error is not None else done.set_result(None)

        self._jobs.put((work, lambda error: _call_soon(loop, settle, error)))
        await done

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, settle = job
            failure: Exception | None = None
            try:
                work()
            except Exception as error:  # handed to who waits; the thread must live on
                failure = error
            settle(failure)


def _call_soon(
    loop: asyncio.AbstractEventLoop, settle: Callable[[Exception | None], None], error: Exception | None
) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop: nobody is left to tell
        loop.call_soon_threadsafe(settle, error)


def _key(obj: KubernetesObject) -> ObjectKey:
    return kind_of(obj).name, obj.metadata.namespace, obj.metadata.name


def _version(obj: KubernetesObject) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.resource_version
