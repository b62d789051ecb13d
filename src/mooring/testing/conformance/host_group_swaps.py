"""What every `Host` with idmapped mounts does: groups change places in what is seen, nothing changes on the disk."""

from __future__ import annotations

import errno

import pytest

from mooring.host.interface import Host
from mooring.host.ownership_calls import GroupSwap, Ownership
from mooring.testing.conformance.host import write

SWAP = GroupSwap(on_disk=100, shown=2000)


def group_of(host: Host, path: str) -> int:
    facts = host.look(path)
    assert facts is not None
    return facts.gid


def owned(host: Host, place: str) -> tuple[str, str]:
    """A directory with files of three groups, and a place to bind it to."""
    source, target = f"{place}/source", f"{place}/target"
    host.make_directories(source, 0o775)
    host.make_directories(target, 0o755)
    for gid in (100, 2000, 7):
        write(host, source, f"of-{gid}")
        host.set_ownership(f"{source}/of-{gid}", Ownership(gid=gid, file_mask=0, directory_mask=0))
    return source, target


class HostGroupSwapsConformance:
    def test_two_groups_change_places_and_others_stay(self, host: Host, place: str) -> None:
        source, target = owned(host, place)
        host.bind_swapped(source, target, SWAP)
        assert [group_of(host, f"{target}/of-{gid}") for gid in (100, 2000, 7)] == [2000, 100, 7]
        assert [group_of(host, f"{source}/of-{gid}") for gid in (100, 2000, 7)] == [100, 2000, 7]

    def test_flags_hold_for_a_mount_that_swaps_groups(self, host: Host, place: str) -> None:
        source, target = owned(host, place)
        host.bind_swapped(source, target, SWAP, read_only=True, flags=("noexec",))
        mounted = host.mount_at(target)
        assert mounted is not None
        assert {"ro", "noexec"} <= set(mounted.options)

    def test_a_bind_of_such_a_mount_shows_the_same(self, host: Host, place: str) -> None:
        source, target = owned(host, place)
        host.bind_swapped(source, target, SWAP)
        host.make_directories(f"{place}/again", 0o755)
        host.bind(target, f"{place}/again")
        assert group_of(host, f"{place}/again/of-100") == 2000

    def test_such_a_mount_cannot_be_mapped_once_more(self, host: Host, place: str) -> None:
        source, target = owned(host, place)
        host.bind_swapped(source, target, SWAP)
        host.make_directories(f"{place}/again", 0o755)
        with pytest.raises(PermissionError) as caught:
            host.bind_swapped(target, f"{place}/again", GroupSwap(on_disk=7, shown=8))
        assert caught.value.errno == errno.EPERM
        assert host.mount_at(f"{place}/again") is None
