"""A directory of manifests and the store that it feeds, on a real event loop: inotify works only there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CONFIG_MAP, Kind
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.store_apply import Applied
from mooring.sources.manifest_directory import ManifestDirectory
from mooring.sources.manifest_files import ManifestFiles


class CountingStore(LocalStore):
    """A store that counts the transactions it is given."""

    transactions = 0

    async def apply_all(
        self, *, put: Sequence[tuple[KubernetesObject, str]] = (), remove: Sequence[tuple[Kind[Any], str, str]] = ()
    ) -> Applied:
        self.transactions += 1
        return await super().apply_all(put=put, remove=remove)


class Feeding:
    """A running `ManifestDirectory`, its directory and its store."""

    def __init__(self, place: Path, store: CountingStore, source: ManifestDirectory) -> None:
        self.place, self.store, self.source = place, store, source

    def names(self) -> list[str]:
        """What the manifests gave, as `kind/namespace/name`, sorted."""
        return sorted("/".join(part for part in key if part) for key in self.store.origins())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; the files' news reach the store through threads and the kernel."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 10
        while not condition():
            assert loop.time() < deadline, f"it did not come to pass; findings: {self.source.findings}"
            await asyncio.sleep(0.002)  # the kernel, a thread and the loop all have their part in it

    async def until_names(self, *names: str) -> None:
        await self.until(lambda: self.names() == sorted(names))

    async def until_found(self, text: str) -> None:
        """Return when a finding says this."""
        await self.until(lambda: any(text in f"{found.where} {found.what}" for found in self.source.findings))

    async def data(self, name: str) -> dict[str, str]:
        return dict((await self.store.get(CONFIG_MAP, "default", name)).data)

    async def read_again(self) -> None:
        """Return when the source has looked at its files once more."""
        before = self.source.findings
        marker = self.place / "marker.yaml"
        marker.write_text("kind: [")
        await self.until_found("marker.yaml")
        marker.unlink()
        await self.until(lambda: self.source.findings == before)


@asynccontextmanager
async def feeding(place: Path, *paths: Path, store: CountingStore | None = None) -> AsyncIterator[Feeding]:
    """Run a source over paths (the place itself when none are given) until the end of the block."""
    store = store if store is not None else CountingStore()
    source = ManifestDirectory([str(path) for path in paths or (place,)], store, ManifestFiles("node"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        async with asyncio.timeout(10):
            await source.heard.wait()
        try:
            yield Feeding(place, store, source)
        finally:
            running.cancel()


def config_map(name: str, value: str = "1", *, immutable: bool = False) -> str:
    """The manifest of a ConfigMap."""
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: '{value}'\n"
    return text + "immutable: true\n" if immutable else text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory for manifests."""
    made = tmp_path / "manifests"
    made.mkdir()
    return made
