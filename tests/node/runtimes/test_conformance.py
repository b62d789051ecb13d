"""Podman and containerd do what every container runtime must."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.node.runtimes.engines import Engine
from tests.node.runtimes.images import BUSYBOX

from mooring.runtimes.choice import make_runtime
from mooring.runtimes.interface import Runtime
from mooring.testing.conformance.runtime import RuntimeConformance

pytestmark = pytest.mark.node


class TestRealRuntimes(RuntimeConformance):
    @pytest.fixture
    async def runtime(self, engine: Engine) -> AsyncIterator[Runtime]:
        made = make_runtime(engine.name, engine.options)
        yield made
        await made.close()

    @pytest.fixture
    def image(self) -> str:
        return BUSYBOX


async def test_a_runtime_tells_what_it_can_do(engine: Engine) -> None:
    runtime = make_runtime(engine.name, engine.options)
    found = await runtime.features()
    await runtime.close()
    assert found.images is (engine.name == "podman")
