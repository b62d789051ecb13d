"""A machine in memory tells of single mounts what Linux tells, and only of changes that others make."""

from __future__ import annotations

import pytest

from mooring.host.mount_events import MountNews
from mooring.testing.conformance.host_mount_watch import HostMountWatchConformance
from mooring.testing.memory_host import MemoryHost


class TestMemoryMountsById(HostMountWatchConformance):
    @pytest.fixture
    def host(self) -> MemoryHost:
        return MemoryHost()

    @pytest.fixture
    def place(self, host: MemoryHost) -> str:
        host.make_directory("/place", 0o755)
        return "/place"


def test_what_somebody_else_does_is_told_and_what_the_machine_s_owner_does_is_not() -> None:
    host = MemoryHost()
    announced: list[None] = []
    events = host.watch_mounts(lambda: announced.append(None))
    host.make_directory("/m", 0o755)
    host.mount_tmpfs("/m")
    host.unmount("/m")
    assert (announced, events.take()) == ([], MountNews())
    host.somebody.mounts_tmpfs("/m")
    identity = host.mount_id_at("/m")
    assert identity is not None
    assert events.take() == MountNews(attached=(identity,))
    host.somebody.unmounts("/m")
    assert events.take() == MountNews(detached=(identity,))
    assert len(announced) == 2


def test_changed_flags_are_a_reason_to_look_at_everything() -> None:
    host = MemoryHost()
    events = host.watch_mounts(lambda: None)
    host.make_directory("/m", 0o755)
    host.mount_tmpfs("/m")
    host.somebody.remounts_read_only("/m")
    assert events.take() == MountNews(everything=True)


def test_a_machine_that_names_no_mounts_says_only_that_something_changed() -> None:
    host = MemoryHost()
    host.names_mounts = False
    events = host.watch_mounts(lambda: None)
    assert events.take() == MountNews()
    host.make_directory("/m", 0o755)
    host.somebody.mounts_tmpfs("/m")
    assert events.take() == MountNews(everything=True)
