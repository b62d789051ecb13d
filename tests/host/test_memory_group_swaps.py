"""`MemoryHost` shows groups as idmapped mounts do."""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import Host
from mooring.testing.conformance.host_group_swaps import SWAP, HostGroupSwapsConformance, owned
from mooring.testing.memory_host import MemoryHost


class TestMemoryHost(HostGroupSwapsConformance):
    @pytest.fixture
    def host(self) -> MemoryHost:
        return MemoryHost()

    @pytest.fixture
    def place(self, host: Host) -> str:
        host.make_directories("/place", 0o755)
        return "/place"


def test_a_machine_may_lack_idmapped_mounts() -> None:
    host = MemoryHost()
    host.swaps_groups = False
    source, target = owned(host, "/place")
    with pytest.raises(OSError, match="Invalid argument") as caught:
        host.bind_swapped(source, target, SWAP)
    assert caught.value.errno == errno.EINVAL
