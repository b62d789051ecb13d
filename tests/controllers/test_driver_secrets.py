"""Secrets that volumes name for their drivers: read when they are needed, and looked for while they are missing."""

from __future__ import annotations

import asyncio

import pytest

from mooring.controllers.driver_secrets import DriverSecrets
from mooring.errors import NotYet
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import SECRET, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, SecretReference
from mooring.kube.objects.pod import Secret
from mooring.testing.virtual_time import in_virtual_time

KEY = SecretReference(namespace="vault", name="key")


class CountingStore(LocalStore):
    """A store that counts reads."""

    reads = 0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self.reads += kind.name == SECRET.name
        return await super().get(kind, namespace, name)


def secret() -> Secret:
    return Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"})


@in_virtual_time
async def test_a_secret_that_was_missing_is_told_of_when_it_comes() -> None:
    store = CountingStore()
    async with store, asyncio.TaskGroup() as tasks:
        secrets, told = DriverSecrets(store), list[float]()
        clock = asyncio.get_running_loop().time
        watching = tasks.create_task(secrets.watch(lambda: told.append(clock())))
        with pytest.raises(NotYet, match="there is no Secret 'vault/key'"):
            await secrets.of(KEY, "cannot attach")
        await asyncio.sleep(60)
        assert told == []
        await store.create(secret())
        begun = clock()
        await asyncio.sleep(60)
        (at,) = told
        assert at <= begun + 5
        assert await secrets.of(KEY, "cannot attach") == {"password": "hunter2"}
        watching.cancel()


@in_virtual_time
async def test_a_secret_that_nobody_asks_for_any_more_is_not_looked_for() -> None:
    store = CountingStore()
    async with store, asyncio.TaskGroup() as tasks:
        secrets = DriverSecrets(store)
        watching = tasks.create_task(secrets.watch(lambda: None))
        await asyncio.sleep(600)
        assert store.reads == 0
        with pytest.raises(NotYet):
            await secrets.of(KEY, "cannot attach")
        await asyncio.sleep(600)
        reads = store.reads
        await asyncio.sleep(3600)
        assert store.reads == reads
        watching.cancel()
