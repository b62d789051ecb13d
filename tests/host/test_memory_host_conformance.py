"""`MemoryHost` does what every host does."""

from __future__ import annotations

import pytest

from mooring.host.interface import Host
from mooring.testing.conformance.host import HostConformance
from mooring.testing.conformance.host_block_volumes import HostBlockVolumesConformance
from mooring.testing.conformance.host_devices import HostDevicesConformance
from mooring.testing.conformance.host_mounts import HostMountsConformance
from mooring.testing.conformance.host_storage import HostHugePagesConformance, HostStorageConformance
from mooring.testing.conformance.host_subpaths import (
    HostSubpathBindsConformance,
    HostSubpathsConformance,
    MakeSpecial,
)
from mooring.testing.conformance.host_trees import HostTreesConformance
from mooring.testing.memory_host import MemoryHost


class TestMemoryHost(
    HostConformance,
    HostTreesConformance,
    HostStorageConformance,
    HostHugePagesConformance,
    HostMountsConformance,
    HostDevicesConformance,
    HostBlockVolumesConformance,
    HostSubpathsConformance,
    HostSubpathBindsConformance,
):
    @pytest.fixture
    def host(self) -> MemoryHost:
        return MemoryHost()

    @pytest.fixture
    def place(self, host: Host) -> str:
        host.make_directories("/var/lib/place", 0o755)
        return "/var/lib/place"

    @pytest.fixture
    def make_special(self, host: MemoryHost) -> MakeSpecial:
        return host.make_special_file

    @pytest.fixture
    def group(self) -> int:
        return 1234

    @pytest.fixture
    def owner(self) -> int:
        return 5678
