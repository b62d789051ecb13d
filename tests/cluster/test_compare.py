"""What the real kubelet and mooring make of the same manifests: `make compare` prints the report."""

from __future__ import annotations

import pytest
from bench.compare.comparison import compare
from bench.compare.machine import missing
from bench.compare.report import text_of
from tests.cluster.conftest import Strangers

pytestmark = pytest.mark.cluster


@pytest.mark.usefixtures("node_root")
def test_mooring_makes_of_manifests_what_the_kubelet_makes_of_them(strangers: Strangers) -> None:
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    result = compare(strangers("kubelet-peer"))
    assert result.passed, text_of(result)
