"""`LinuxHost` does with files what every host does, on each tier of kernel features; `tests/node` adds mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.host import features
from mooring.host.features import Tier
from mooring.host.interface import Host
from mooring.host.linux import LinuxHost
from mooring.testing.conformance.host import HostConformance
from mooring.testing.conformance.host_storage import HostStorageConformance
from mooring.testing.conformance.host_subpaths import HostSubpathsConformance
from mooring.testing.conformance.host_trees import HostTreesConformance


class TestLinuxHost(HostConformance, HostTreesConformance, HostStorageConformance, HostSubpathsConformance):
    @pytest.fixture(params=list(Tier), ids=lambda tier: tier.name.lower())
    def host(self, request: pytest.FixtureRequest) -> Iterator[Host]:
        host = LinuxHost(features=features.probe().limited_to(request.param))
        yield host
        host.close()

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        (tmp_path / "place").mkdir()
        return str(tmp_path / "place")

    @pytest.fixture
    def group(self) -> int:
        return 1234 if os.geteuid() == 0 else os.getegid()

    @pytest.fixture
    def owner(self) -> int:
        return 5678 if os.geteuid() == 0 else os.geteuid()
