"""Group commit: writes that wait together become one transaction, and are published in the order of commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mooring.kube.api import InternalError
from mooring.kube.store_draft import Change
from mooring.kube.store_file import StoreFile, StoreWriter
from mooring.kube.store_log import StoreLog
from mooring.kube.store_writes import StoreWrites

T = TypeVar("T")


@dataclass(slots=True)
class _Waiting:
    """A write that waits for its turn, or for the disk."""

    operation: Callable[[StoreWrites], Any]
    future: asyncio.Future[Any]
    result: Any = None


class Commits:
    """Runs writes on the draft, makes them durable, then publishes them.

    Writes that arrive while a batch is on its way to the disk form the next batch, so each write is decided on what
    is committed plus the earlier writes of its own batch. Without a file a write is done when the call returns.
    """

    def __init__(self, writes: StoreWrites, log: StoreLog, file: StoreFile | None) -> None:
        self._writes = writes
        self._log = log
        self._file = file
        self._writer: StoreWriter | None = None
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def write(self, operation: Callable[[StoreWrites], T]) -> T:
        """Run one write as a whole: it raises and changes nothing, or returns when its change is durable and seen."""
        if self._file is None:
            result = self._run(operation)
            self._log.publish(self._writes.draft.take_changes(), self._writes.draft.resource_version)
            return result
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Waiting(operation, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            loop.call_soon(self._start_batch)
        return await future

    async def close(self) -> None:
        """Wait for the writes under way, then close the file."""
        await self._idle.wait()
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
        if self._file is not None:
            self._file.close()

    def _run(self, operation: Callable[[StoreWrites], T]) -> T:
        savepoint = self._writes.draft.savepoint()
        try:
            result = operation(self._writes)
            self._writes.collect_garbage()
        except BaseException:
            self._writes.draft.roll_back(savepoint)
            raise
        return result

    def _start_batch(self) -> None:
        batch, self._waiting = self._waiting, []
        done = [waiting for waiting in batch if not waiting.future.cancelled() and self._decide(waiting)]
        changes = self._writes.draft.take_changes()
        if not changes:
            self._finish(done, changes, None)
            return
        if self._writer is None and self._file is not None:
            self._writer = StoreWriter(self._file, asyncio.get_running_loop())
        if self._writer is not None:
            version = self._writes.draft.resource_version
            self._writer.submit(changes, version, lambda failure: self._finish(done, changes, failure))

    def _decide(self, waiting: _Waiting) -> bool:
        try:
            waiting.result = self._run(waiting.operation)
        except Exception as error:  # whatever it is, it belongs to the caller that waits
            waiting.future.set_exception(error)
            return False
        return True

    def _finish(self, batch: list[_Waiting], changes: list[Change], failure: Exception | None) -> None:
        if failure is None:
            self._log.publish(changes, self._writes.draft.resource_version)
        else:
            self._writes.draft.take_back(changes)
        for waiting in batch:
            if waiting.future.cancelled():
                continue
            if failure is None:
                waiting.future.set_result(waiting.result)
            else:
                waiting.future.set_exception(_not_written(failure))
        if self._waiting:
            self._start_batch()
        else:
            self._busy = False
            self._idle.set()


def _not_written(failure: Exception) -> InternalError:
    return InternalError(
        "cannot write to the store",
        why=str(failure),
        next_step="Check the file system of the store for errors and free space; nothing was changed",
    )
