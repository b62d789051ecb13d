from __future__ import annotations

from pathlib import Path

import pytest
from tests.loop_driver.memory_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(str(tmp_path / "csi.sock"))
