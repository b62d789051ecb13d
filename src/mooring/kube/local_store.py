"""The API protocol on one machine: objects in memory, on SQLite for restarts, without any server."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from mooring.kube.api import (
    LIST_ALL,
    NO_PRECONDITIONS,
    WATCH_ALL,
    ConnectionRefused,
    Invalid,
    ListOptions,
    ObjectList,
    Preconditions,
    WatchOptions,
    not_found,
)
from mooring.kube.garbage import FullKey
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.selectors import select
from mooring.kube.store_apply import Applied, apply_all
from mooring.kube.store_commits import Commits
from mooring.kube.store_draft import Draft
from mooring.kube.store_file import StoreFile
from mooring.kube.store_log import StoreLog
from mooring.kube.store_watch import StoreWatch
from mooring.kube.store_writes import StoreWrites

HISTORY_LIMIT = 1_000
BOOKMARK_INTERVAL = 60.0
_FIRST_RESOURCE_VERSION = 1  # "0" has a meaning of its own in requests


def utc_now() -> str:
    """The present time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def random_uid() -> str:
    return str(uuid.uuid4())


class _Continue(msgspec.Struct, frozen=True):
    """What a continue token says: the snapshot, and the last key that was given out."""

    version: int
    namespace: str
    name: str


class LocalStore:
    """An `Api` on one machine.

    With a `path` every write is on the disk before it is acknowledged and before any reader or watcher sees it.
    Without one everything lives in memory, and a write is done when its coroutine first runs. Reads never wait.
    Changes of a kind stay in its window for watchers until `history_limit` later ones have come.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        clock: Callable[[], str] = utc_now,
        new_uid: Callable[[], str] = random_uid,
        history_limit: int = HISTORY_LIMIT,
        bookmark_interval: float = BOOKMARK_INTERVAL,
    ) -> None:
        file = None if path is None else StoreFile(Path(path))
        objects, version = ({}, _FIRST_RESOURCE_VERSION) if file is None else file.load()
        self._draft = Draft(objects, version)
        self._log = StoreLog(objects.items(), resource_version=version, history_limit=history_limit)
        self._commits = Commits(StoreWrites(self._draft, clock=clock, new_uid=new_uid), self._log, file)
        self._bookmark_interval = bookmark_interval
        self._closed = False

    async def __aenter__(self) -> LocalStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Refuse new writes, finish those under way, end all watches and release the file."""
        self._closed = True
        await self._commits.close()
        self._log.close()

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the newest change that readers can see."""
        return str(self._log.resource_version)

    def origins(self) -> Mapping[FullKey, str]:
        """Where each applied object came from, at any time; objects created through the API are not listed."""
        return self._draft.origins

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        namespace = namespace if kind.namespaced else ""
        obj = self._log.of(kind).objects.get((namespace, name))
        if obj is None:
            raise not_found(kind, namespace, name)
        return obj

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        what = f"cannot list {kind}"
        selection = select(kind, options)
        log = self._log.of(kind)
        after = _decode_token(options, what)
        if after is not None:
            version = after.version
            items = [item for item in log.items_at(version) if item[0] > (after.namespace, after.name)]
        else:
            if options.resource_version:
                self._log.check_version(options.resource_version, what)
            version = self._log.resource_version
            items = log.items()
        chosen = items if selection.everything else [item for item in items if selection.matches(item[1])]
        token = ""
        if 0 < options.limit < len(chosen):
            chosen = chosen[: options.limit]
            token = _encode_token(_Continue(version, *chosen[-1][0]))
        return ObjectList(items=tuple(obj for _, obj in chosen), resource_version=str(version), continue_token=token)

    def watch(self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL) -> StoreWatch[ObjectT]:
        self._check_open()
        return StoreWatch(self._log.of(kind), options, bookmark_interval=self._bookmark_interval)

    async def create(self, obj: ObjectT) -> ObjectT:
        self._check_open()
        return await self._commits.write(lambda writes: writes.create(obj))

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        self._check_open()
        return await self._commits.write(lambda writes: writes.patch(kind, namespace, name, merge, subresource))

    async def patch_strategically(
        self, kind: Kind[ObjectT], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        self._check_open()
        return await self._commits.write(
            lambda writes: writes.patch(kind, namespace, name, patch, subresource, strategic=True)
        )

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> ObjectT:
        self._check_open()
        return await self._commits.write(lambda writes: writes.delete(kind, namespace, name, preconditions))

    async def apply_all(
        self,
        *,
        put: Sequence[tuple[KubernetesObject, str]] = (),
        remove: Sequence[tuple[Kind[Any], str, str]] = (),
    ) -> Applied:
        """Write all objects of `put` (each with its origin) and remove all of `remove`, in one transaction.

        A new object is created; of an existing one, everything its manifest says is set, and what the manifest's
        last version said but this one does not is removed. What others wrote stays: status (unless `put` brings
        one), finalizers, owner references and deletionTimestamp (unless given). An object put with another uid
        replaces the old one: delete and create. Objects that would not change keep their resourceVersion.
        """
        self._check_open()
        keys = [(kind.name, namespace if kind.namespaced else "", name) for kind, namespace, name in remove]
        return await self._commits.write(lambda writes: apply_all(writes, put, keys))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionRefused("cannot use the store", why="it was closed")


def _encode_token(token: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _decode_token(options: ListOptions, what: str) -> _Continue | None:
    if not options.continue_token:
        return None
    if options.resource_version:
        raise Invalid(what, why="a resourceVersion cannot be given together with a continue token")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(options.continue_token), type=_Continue)
    except (ValueError, msgspec.DecodeError) as error:
        raise Invalid(what, why="the continue token is not one of this store") from error
