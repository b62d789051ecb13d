"""Volumes of the loop driver on the real kernel: formatted, written to, grown, copied, and gone without a trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc import StatusCode
from tests.loop_driver.driver_calls import MEBIBYTE, block, inline, mount, refused
from tests.node.loop_driver.conftest import LoopDriver

from mooring.host import loop_devices, syscalls
from mooring.host.linux import LinuxHost
from mooring.host.programs import find_program, run_program
from mooring.stubs import csi_pb2 as csi

pytestmark = pytest.mark.node

SIZE, LARGER = 320 * MEBIBYTE, 480 * MEBIBYTE
TYPES = ["ext4", "xfs", "btrfs"]


@pytest.fixture(params=TYPES)
def fs_type(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    if find_program(f"mkfs.{chosen}") is None:
        pytest.skip(f"needs the program mkfs.{chosen}")
    return chosen


def size_of(path: str) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


def write_to(device: str, content: bytes) -> None:
    descriptor = os.open(device, os.O_WRONLY)
    try:
        assert os.write(descriptor, content) == len(content)
    finally:
        os.close(descriptor)


def may_grow_mounted(fs_type: str) -> bool:
    """Whether this process has what the kernel wants of those who grow a mounted file system."""
    with open("/proc/self/status", encoding="ascii") as file:
        effective = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff"))
    return fs_type != "ext4" or bool(effective >> 24 & 1)


def snapshot_source(snapshot: csi.Snapshot) -> csi.VolumeContentSource:
    return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=snapshot.snapshot_id))


async def test_a_file_system_is_made_filled_kept_and_gone(driver: LoopDriver, fs_type: str) -> None:
    one, two = f"{driver.pods}/one", f"{driver.pods}/two"
    async with driver.running() as calls:
        volume = (await calls.create(size=SIZE, parameters={"fsType": fs_type})).volume_id
        await calls.stage(volume)
        await calls.publish(volume, one, mount(flags=["noexec"]))
        await calls.publish(volume, two, readonly=True)
        Path(one, "file").write_text("kept")
        assert Path(two, "file").read_text() == "kept"
        with pytest.raises(OSError, match="Read-only"):
            Path(two, "other").touch()
        usage = (await calls.stats(volume, one)).usage[0]
        assert 0 < usage.used < usage.total <= SIZE
        mounted = LinuxHost().mount_at(one)
        assert mounted is not None
        assert mounted.fs_type == fs_type
        assert "noexec" in mounted.options
        for target in (one, two):
            await calls.unpublish(volume, target)
        await calls.unstage(volume)
        assert driver.loops() == driver.mounts() == os.listdir(driver.pods) == []
        await calls.stage(volume)  # what is there is not formatted again
        assert Path(driver.stage, "file").read_text() == "kept"
        await calls.unstage(volume)
        await calls.delete(volume)
    assert driver.loops() == driver.mounts() == driver.disks() == []


async def test_a_volume_in_use_grows_or_says_why_not_and_then_does_when_it_is_staged(
    driver: LoopDriver, fs_type: str
) -> None:
    async with driver.running() as calls:
        volume = (await calls.create(size=SIZE)).volume_id
        await calls.stage(volume, mount(fs_type))
        await calls.publish(volume, capability=mount(fs_type))
        Path(driver.stage, "file").write_text("kept")
        before = size_of(driver.stage)
        await calls.grow(volume, LARGER)
        if may_grow_mounted(fs_type):
            assert await calls.grow_on_node(volume, size=LARGER) == LARGER
            assert await calls.grow_on_node(volume, size=LARGER) == LARGER
            assert size_of(f"{driver.pods}/one") > before + 100 * MEBIBYTE
        else:
            words = await refused(calls.grow_on_node(volume, size=LARGER), StatusCode.FAILED_PRECONDITION)
            assert "CAP_SYS_RESOURCE" in words
            assert "before it is mounted the next time" in words
        await calls.unpublish(volume)
        await calls.unstage(volume)
        await calls.stage(volume, mount(fs_type))
        assert size_of(driver.stage) > before + 100 * MEBIBYTE
        assert Path(driver.stage, "file").read_text() == "kept"
        await calls.unstage(volume)
    assert driver.loops() == driver.mounts() == []


async def test_a_snapshot_of_a_mounted_volume_is_restored_larger_beside_it(driver: LoopDriver, fs_type: str) -> None:
    beside = f"{driver.root}/beside"
    os.mkdir(beside)
    async with driver.running() as calls:
        volume = (await calls.create(size=SIZE)).volume_id
        await calls.stage(volume, mount(fs_type))
        Path(driver.stage, "file").write_bytes(b"x" * MEBIBYTE)  # not synced: the snapshot does that
        snapshot = await calls.snapshot(volume)
        Path(driver.stage, "file").write_text("changed since")
        restored = await calls.create("restored", size=LARGER, volume_content_source=snapshot_source(snapshot))
        await calls.stage(restored.volume_id, mount(fs_type), beside)
        assert Path(beside, "file").read_bytes() == b"x" * MEBIBYTE
        assert Path(driver.stage, "file").read_text() == "changed since"
        assert size_of(beside) > size_of(driver.stage) + 100 * MEBIBYTE
        await calls.unstage(restored.volume_id, beside)
        await calls.unstage(volume)
    assert driver.loops() == driver.mounts() == []


async def test_a_raw_device_grows_and_its_copy_holds_the_same(driver: LoopDriver) -> None:
    one, two = f"{driver.pods}/one", f"{driver.pods}/two"
    async with driver.running() as calls:
        volume = (await calls.create(size=4 * MEBIBYTE)).volume_id
        await calls.stage(volume, block())
        await calls.publish(volume, one, block())
        await calls.publish(volume, two, block(), readonly=True)
        content = os.urandom(MEBIBYTE)
        write_to(one, content)
        assert Path(two).read_bytes()[:MEBIBYTE] == content
        with pytest.raises(PermissionError):
            write_to(two, b"!")
        source = csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=volume))
        copy = (await calls.create("copy", size=0, volume_content_source=source)).volume_id
        assert Path(driver.state, "disks", f"{copy}.img").read_bytes()[:MEBIBYTE] == content
        await calls.grow(volume, 8 * MEBIBYTE)
        assert await calls.grow_on_node(volume, one) == 8 * MEBIBYTE
        for target in (one, two):
            facts = LinuxHost().device(target)
            assert facts is not None
            assert facts.size == 8 * MEBIBYTE
        assert (await calls.stats(volume, one)).usage[0].total == 8 * MEBIBYTE
        for target in (one, two):
            await calls.unpublish(volume, target)
        await calls.unstage(volume)
    assert driver.loops() == driver.mounts() == os.listdir(driver.pods) == []


async def test_an_inline_volume_comes_and_goes_with_its_pod(driver: LoopDriver) -> None:
    async with driver.running() as calls:
        await calls.publish("csi-1", capability=mount("ext4"), stage="", context=inline("16Mi"))
        Path(driver.pods, "one", "file").write_text("for a while")
        await calls.unpublish("csi-1")
    assert driver.loops() == driver.mounts() == driver.disks() == os.listdir(driver.pods) == []


async def test_what_holds_data_that_is_no_file_system_is_never_formatted(driver: LoopDriver) -> None:
    async with driver.running() as calls:
        volume = (await calls.create(size=16 * MEBIBYTE)).volume_id
        disk = Path(driver.state, "disks", f"{volume}.img")
        run_program(["mkswap", str(disk)], deadline=60.0)
        before = disk.read_bytes()
        words = await refused(calls.stage(volume), StatusCode.FAILED_PRECONDITION)
        assert "swap" in words
        assert driver.loops() == []
        assert disk.read_bytes() == before


@pytest.fixture
def state_that_shares_blocks(driver: LoopDriver) -> Iterator[str]:
    """A btrfs below the state directory, where copies can share blocks."""
    if find_program("mkfs.btrfs") is None:
        pytest.skip("needs the program mkfs.btrfs")
    host, image = LinuxHost(), f"{driver.root}/below.img"
    with open(image, "xb") as file:
        file.truncate(SIZE)
    device = host.attach_loop(image)
    try:
        host.make_file_system(device, "btrfs")
        os.mkdir(driver.state)
        host.mount_device(device, driver.state, "btrfs")
        yield driver.state
        driver.clear()
        syscalls.umount2(driver.state, 0)
    finally:
        loop_devices.detach(device)


async def test_copies_share_blocks_where_the_file_system_can(driver: LoopDriver, state_that_shares_blocks: str) -> None:
    async with driver.running() as calls:
        volume = (await calls.create(size=64 * MEBIBYTE)).volume_id
        disk = Path(state_that_shares_blocks, "disks", f"{volume}.img")
        content = os.urandom(32 * MEBIBYTE)
        disk.write_bytes(content)
        os.sync()
        before = os.statvfs(state_that_shares_blocks).f_bfree
        snapshot = await calls.snapshot(volume)
        os.sync()
        found = os.statvfs(state_that_shares_blocks)
        assert (before - found.f_bfree) * found.f_frsize < 8 * MEBIBYTE
        copied = Path(state_that_shares_blocks, "disks", f"{snapshot.snapshot_id}.img").read_bytes()
        assert copied[: len(content)] == content
