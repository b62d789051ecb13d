"""Block maps are made and taken back in order, repeated without harm, and completed after a kill or a reboot."""

from __future__ import annotations

import pytest

from mooring.errors import MooringError
from mooring.host import block_maps
from mooring.host.interface import FileKind
from mooring.testing.conformance.host_devices import MEBIBYTE
from mooring.testing.memory_host import MemoryHost

GLOBAL, POD = "/plugins/global", "/pods/uid/devices"


class Killed(Exception):
    pass


class KillAt:
    """Kills at the n-th mutating call, counted from 0."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, method: str, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed(f"{method} {path}")


def host_with_disk() -> MemoryHost:
    host = MemoryHost()
    host.make_device("/disk", MEBIBYTE)
    return host


def map_disk(host: MemoryHost, device: str = "/disk") -> block_maps.BlockMap:
    return block_maps.map_device(host, device, GLOBAL, POD, "data", "uid")


def unmap_disk(host: MemoryHost) -> None:
    block_maps.unmap_device(host, GLOBAL, POD, "data", "uid")


def calls(host: MemoryHost) -> list[str]:
    seen: list[str] = []
    host.before_call = lambda method, path: seen.append(f"{method} {path}")
    return seen


def assert_unmapped(host: MemoryHost) -> None:
    assert (host.names_in(GLOBAL), host.names_in(POD)) == ([], [])
    assert [mount.path for mount in host.mounts()] == ["/"]
    assert not any("<-" in line for line in host.snapshot().devices)


def test_a_map_is_made_in_order() -> None:
    host = host_with_disk()
    seen = calls(host)
    map_disk(host)
    assert seen == [
        f"make_directories {GLOBAL}",
        f"create_file {GLOBAL}/uid",
        f"bind {GLOBAL}/uid",
        f"make_directories {POD}",
        f"make_link {POD}/data",
        f"attach_loop {GLOBAL}/uid",
    ]


def test_a_map_is_taken_back_in_order() -> None:
    host = host_with_disk()
    map_disk(host)
    seen = calls(host)
    unmap_disk(host)
    assert seen == [
        "detach_loop /dev/loop0",
        f"remove_file {POD}/data",
        f"unmount {GLOBAL}/uid",
        f"remove_file {GLOBAL}/uid",
    ]
    assert_unmapped(host)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("hook", ["before_call", "after_call"])
def test_a_map_that_was_killed_is_completed_by_another_attempt(hook: str, number: int) -> None:
    host = host_with_disk()
    setattr(host, hook, KillAt(number))
    with pytest.raises(Killed):
        map_disk(host)
    setattr(host, hook, None)
    made, undisturbed = map_disk(host), host_with_disk()
    assert made == map_disk(undisturbed)
    assert host.snapshot() == undisturbed.snapshot()


@pytest.mark.parametrize("number", range(6))
def test_a_map_that_was_killed_is_taken_back_completely(number: int) -> None:
    host = host_with_disk()
    host.make_directories(GLOBAL, 0o750)
    host.make_directories(POD, 0o750)
    host.after_call = KillAt(number)
    with pytest.raises(Killed):
        map_disk(host)
    host.after_call = None
    unmap_disk(host)
    assert_unmapped(host)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("hook", ["before_call", "after_call"])
def test_an_unmap_that_was_killed_is_completed_by_another_attempt(hook: str, number: int) -> None:
    host = host_with_disk()
    map_disk(host)
    setattr(host, hook, KillAt(number))
    with pytest.raises(Killed):
        unmap_disk(host)
    setattr(host, hook, None)
    unmap_disk(host)
    assert_unmapped(host)


def test_after_a_reboot_a_device_is_mapped_again_under_its_new_name() -> None:
    host = host_with_disk()
    map_disk(host)
    host.reboot()
    host.rename("/disk", "/renamed")
    made = map_disk(host, "/renamed")
    assert host.read_link(f"{POD}/data") == "/renamed"
    assert host.device(made.global_file) == host.device("/renamed")
    assert host.loop_of(made.global_file) == made.loop


def test_after_a_reboot_what_is_left_is_removed() -> None:
    host = host_with_disk()
    map_disk(host)
    host.reboot()
    assert block_maps.references(host, GLOBAL) == []
    unmap_disk(host)
    assert_unmapped(host)


def test_another_device_in_the_place_of_a_mapped_one_is_refused() -> None:
    host = host_with_disk()
    host.make_device("/other", MEBIBYTE)
    map_disk(host)
    with pytest.raises(MooringError, match="already shows another device"):
        map_disk(host, "/other")
    assert host.read_link(f"{POD}/data") == "/disk"


def test_a_read_only_device_is_kept_open_read_only() -> None:
    host = MemoryHost()
    host.make_device("/disk", MEBIBYTE, read_only=True)
    facts = host.device(map_disk(host).loop)
    assert facts is not None
    assert facts.read_only


def test_a_plain_file_in_the_place_of_a_bind_is_removed() -> None:
    host = MemoryHost()
    for path in (GLOBAL, POD):
        host.make_directories(path, 0o750)
    host.create_file(f"{GLOBAL}/uid", 0o750)
    unmap_disk(host)
    assert_unmapped(host)


def test_stacked_binds_are_all_unmounted() -> None:
    host = host_with_disk()
    map_disk(host)
    for _ in range(2):
        host.bind("/disk", f"{GLOBAL}/uid")
    unmap_disk(host)
    assert_unmapped(host)


def test_what_is_no_link_stays_in_the_pod_directory() -> None:
    host = host_with_disk()
    map_disk(host)
    host.remove_file(f"{POD}/data")
    host.create_file(f"{POD}/data", 0o644)
    unmap_disk(host)
    assert host.names_in(POD) == ["data"]


def test_nothing_mapped_is_nothing_to_unmap() -> None:
    host = MemoryHost()
    unmap_disk(host)
    assert block_maps.references(host, GLOBAL) == []


def test_a_busy_loop_device_keeps_a_map_in_place() -> None:
    host = host_with_disk()
    host.claim_device(map_disk(host).loop)
    with pytest.raises(OSError, match="busy"):
        unmap_disk(host)
    assert host.read_link(f"{POD}/data") == "/disk"
    assert block_maps.references(host, GLOBAL) == [f"{GLOBAL}/uid"]


def test_only_devices_are_references() -> None:
    host = host_with_disk()
    map_disk(host)
    host.create_file(f"{GLOBAL}/file", 0o644)
    host.make_special_file(f"{GLOBAL}/tape", FileKind.CHARACTER_DEVICE)
    assert block_maps.references(host, GLOBAL) == [f"{GLOBAL}/tape", f"{GLOBAL}/uid"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("", GLOBAL, POD, "data", "uid"), "the device path is empty"),
        (("disk", GLOBAL, POD, "data", "uid"), "the device path 'disk' is not absolute"),
        (("/disk", "", POD, "data", "uid"), "the global map path is empty"),
        (("/disk", "global", POD, "data", "uid"), "the global map path 'global' is not absolute"),
        (("/disk", GLOBAL, "pod", "data", "uid"), "the pod map path 'pod' is not absolute"),
        (("/disk", GLOBAL, POD, "../data", "uid"), "the link name '../data' is no file name"),
        (("/disk", GLOBAL, POD, "data", ""), "the pod UID '' is no file name"),
        (("/missing", GLOBAL, POD, "data", "uid"), "there is no block device at that path"),
    ],
)
def test_wrong_arguments_change_nothing(arguments: tuple[str, str, str, str, str], why: str) -> None:
    host = host_with_disk()
    before = host.snapshot()
    with pytest.raises(MooringError, match=why):
        block_maps.map_device(host, *arguments)
    assert host.snapshot() == before
