"""The conformance suite of container runtimes on the one in memory; tests/node holds the real ones to it."""

from __future__ import annotations

import pytest

from mooring.runtimes.interface import Runtime
from mooring.testing.conformance.runtime import RuntimeConformance
from mooring.testing.scripted_runtime import ScriptedRuntime


class TestScriptedRuntime(RuntimeConformance):
    @pytest.fixture
    def runtime(self) -> Runtime:
        return ScriptedRuntime()

    @pytest.fixture
    def image(self) -> str:
        return "image"
