"""A whole instance, control socket's API included, over a machine in memory: nothing here needs root."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from mooring.daemon.control import InstanceControl
from mooring.daemon.instance import Instance, assemble
from mooring.host.interface import Risk
from mooring.observe.http import HttpApi
from mooring.observe.http_server import Handler, serving
from mooring.settings import Settings
from mooring.testing.memory_host import MemoryHost


class Observed:
    """A running instance, its API and somebody else's client of it, and the directory of its manifests."""

    def __init__(
        self, instance: Instance, host: MemoryHost, api: HttpApi, client: ClientSession, manifests: Path
    ) -> None:
        self.instance, self.host, self.api, self.client, self.manifests = instance, host, api, client, manifests

    async def get(self, path: str, **query: str) -> Any:
        async with self.client.get(path, params=query) as response:
            return await response.json()

    async def text(self, path: str) -> str:
        async with self.client.get(path) as response:
            return await response.text()

    async def post(self, path: str, body: str = "", **query: str) -> Any:
        async with self.client.post(path, data=body, params=query) as response:
            return await response.json()

    async def mounted(self, pod: str) -> None:
        """Return when all volumes of a pod are mounted."""
        assert (await self.post("/v1/wait", pod=pod, **{"for": "mounted", "timeout": "10"}))["done"]

    async def states(self) -> dict[str, str]:
        """The state of each volume, by `pod/volume`."""
        return {f"{row['pod']}/{row['volume']}": row["state"] for row in await self.get("/v1/volumes")}

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again: the API has no call that waits for any state."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 10
        while not await condition():
            assert loop.time() < deadline, await self.get("/v1/volumes")
            await asyncio.sleep(0.005)


class Pause:
    """Holds back batches of calls on the machine until it is lifted."""

    def __init__(self) -> None:
        self.lifted = asyncio.Event()

    async def __call__(self, call: Callable[[], Any], risk: Risk, what: str, /) -> Any:
        await self.lifted.wait()
        return call()


Observe = Callable[..., Any]


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    made = tmp_path / "manifests"
    made.mkdir()
    return made


@asynccontextmanager
async def asked(handler: Handler, path: Path) -> AsyncIterator[ClientSession]:
    """Somebody else's client of a handler that is served at a path."""
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.path.relpath(path))  # the whole path may be too long for a socket
    connector = UnixConnector(os.path.relpath(path))
    try:
        async with serving(handler, bound), ClientSession("http://mooring", connector=connector) as client:
            yield client
    finally:
        path.unlink()


@asynccontextmanager
async def observed(manifests: Path, *, host: MemoryHost | None = None, **settings: Any) -> AsyncIterator[Observed]:
    """Run an instance over the manifests until the end of the block. The same root may be run again."""
    host = host if host is not None else MemoryHost()
    root = manifests.with_name("root")
    root.mkdir(exist_ok=True)
    instance = assemble(Settings(root=str(root), node_name="here", **settings), host, [str(manifests)])
    api = HttpApi(instance.status, instance.metrics, instance.store, InstanceControl(instance, lambda: None))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(instance.run())
        async with asked(api.answer, manifests.with_name("socket")) as client:
            async with asyncio.timeout(10):
                await instance.pods.heard.wait()
            yield Observed(instance, host, api, client, manifests)
        await instance.manager.stop()
        running.cancel()
    instance.journal.close()
    await instance.store.close()


def pod(name: str, source: str, *, volume: str = "v") -> str:
    """The manifest of a pod with one volume."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: main, volumeMounts: [{{name: {volume}, mountPath: /v}}]}}]
  volumes: [{{name: {volume}, {source}}}]
---
"""


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: value}\n---\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: hunter2}\n---\n"
