"""The API conformance suite on the local store, in memory and on a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.kube.api import Api
from mooring.kube.local_store import LocalStore
from mooring.testing.conformance.api import ApiConformance


class TestLocalStoreInMemory(ApiConformance):
    @pytest.fixture
    async def api(self) -> AsyncIterator[Api]:
        async with LocalStore() as store:
            yield store


class TestLocalStoreOnFile(ApiConformance):
    @pytest.fixture
    async def api(self, tmp_path: Path) -> AsyncIterator[Api]:
        async with LocalStore(tmp_path / "store.db") as store:
            yield store
