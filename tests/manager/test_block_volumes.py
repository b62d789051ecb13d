"""Raw block volumes and staged disks under a whole manager: wanted, mapped, found again, and taken away."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import Refused
from mooring.host.interface import NewFile
from mooring.kube.objects.pod import Pod, PodSecurityContext
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import HostPathVolumeSource
from mooring.manager.orphans import remove_pod_directory
from mooring.manager.waits import NotMounted
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, local_volume, pod
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Reconstructed
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

DISK = "/dev/disk"
DATA = VolumeName("kubernetes.io/local-volume/pv-c")
STAGE = f"{ROOT}/plugins/kubernetes.io/local-volume/mounts/pv-c"
MAPS = f"{ROOT}/plugins/kubernetes.io~local-volume/volumeDevices/pv-c"
ONE, TWO = PodUid("uid-one"), PodUid("uid-two")
RAW_POD = pod("one", claimed("data", "c"), devices=["data"])


def link(uid: PodUid) -> str:
    return f"{ROOT}/pods/{uid}/volumeDevices/kubernetes.io~local-volume/pv-c"


def node_with(volume: PersistentVolume) -> MemoryNode:
    """A node with an empty disk, and a claim `c` bound to a volume."""
    node = MemoryNode()
    node.host.make_directories("/dev", 0o755)
    node.host.make_device(DISK, 2**26)
    node.put(volume)
    node.put(claim("c"))
    return node


def raw_node(*, access_modes: tuple[str, ...] = ("ReadWriteOnce",)) -> MemoryNode:
    return node_with(local_volume("c", DISK, mode="Block", access_modes=access_modes))


def loops(node: MemoryNode) -> list[str]:
    return [line for line in node.host.snapshot("/dev").devices if "<-" in line]


def mounted(node: MemoryNode) -> list[str]:
    return [mount.path for mount in node.host.mounts() if mount.path != "/"]


def assert_nothing_left(node: MemoryNode) -> None:
    assert node.manager.actual.is_empty()
    assert (mounted(node), loops(node)) == ([], [])
    assert node.host.names_in(f"{ROOT}/pods") == []
    assert (node.host.look(STAGE), node.host.look(MAPS)) == (None, None)


async def mount(node: MemoryNode, *pods: Pod) -> None:
    """Mount the volumes of some pods with a manager that is then killed, and start another one."""
    async with node.running() as manager:
        for each in pods:
            node.add_pod(each)
            await manager.wait_for_attach_and_mount(each)
    node.new_manager()


# -- wanting -------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_raw_device_is_mapped_for_the_pod_and_taken_back_when_it_goes() -> None:
    node = raw_node()
    async with node.running() as manager:
        uid = node.add_pod(RAW_POD)
        await manager.wait_for_attach_and_mount(RAW_POD)
        assert manager.get_mounted_volumes_for_pod(uid)["data"].path == link(ONE)
        assert node.host.read_link(link(ONE)) == DISK
        node.remove_pod(uid)
        await manager.wait_for_nothing_left(timeout=10)
        assert_nothing_left(node)


@in_virtual_time
async def test_two_pods_share_a_disk_and_the_last_one_lets_it_go() -> None:
    node = node_with(local_volume("c", DISK))
    one, two = pod("one", claimed("data", "c")), pod("two", claimed("data", "c"))
    async with node.running() as manager:
        for each in (one, two):
            node.add_pod(each)
            await manager.wait_for_attach_and_mount(each)
        node.remove_pod(ONE)
        await manager.wait_for_unmount(one)
        assert STAGE in mounted(node)
        node.remove_pod(TWO)
        await manager.wait_for_nothing_left(timeout=10)
        assert_nothing_left(node)


@in_virtual_time
async def test_a_device_for_one_pod_alone_waits_until_the_other_pod_has_gone() -> None:
    node = raw_node(access_modes=("ReadWriteOncePod",))
    two = pod("two", claimed("data", "c"), devices=["data"])
    async with node.running() as manager:
        node.add_pod(RAW_POD)
        await manager.wait_for_attach_and_mount(RAW_POD)
        node.add_pod(two)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(two, timeout=5)
        assert node.host.look(link(TWO)) is None
        node.remove_pod(ONE)
        await manager.wait_for_attach_and_mount(two)
        assert node.host.read_link(link(TWO)) == DISK


@in_virtual_time
async def test_a_type_without_raw_devices_is_refused_with_that_reason() -> None:
    spec = local_volume("c", DISK, mode="Block").spec
    host_path = PersistentVolumeSpec(
        volume_mode="Block",
        claim_ref=spec.claim_ref,
        access_modes=spec.access_modes,
        host_path=HostPathVolumeSource(path=DISK),
    )
    node = node_with(PersistentVolume(metadata=local_volume("c", DISK).metadata, spec=host_path))
    async with node.running() as manager:
        node.add_pod(RAW_POD)
        await asyncio.sleep(1)
        name = manager.desired.names_for_pod(ONE)["data"]
        assert manager.actual.volumes[name].failures[ONE].why == "its type has no raw block volumes"


@in_virtual_time
async def test_the_group_of_the_pod_owns_a_new_disk() -> None:
    node = node_with(local_volume("c", DISK))
    web = pod("one", claimed("data", "c"), security=PodSecurityContext(fs_group=1234))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        facts = node.host.look(STAGE)
        assert facts is not None
        assert (facts.gid, facts.mode) == (1234, 0o2775)


# -- after a restart -----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_mapped_device_is_found_again_as_doubt() -> None:
    node = raw_node()
    await mount(node, RAW_POD)
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        volume = manager.actual.volumes[DATA]
        assert (volume.stage, volume.mounts[ONE].presence) == (Presence.UNCERTAIN, Presence.UNCERTAIN)
        assert volume.mounts[ONE].path == link(ONE)
    assert Reconstructed(pod=ONE, plugin=volume.plugin, inner_name="pv-c", volume=DATA) in told


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
def test_a_restart_changes_nothing_on_the_machine(mode: str) -> None:
    @in_virtual_time
    async def restart() -> None:
        node = node_with(local_volume("c", DISK, mode=mode))
        web = RAW_POD if mode == "Block" else pod("one", claimed("data", "c"))
        await mount(node, web)
        before = node.host.snapshot()
        async with node.running() as manager:
            node.add_pod(web)
            await manager.wait_for_attach_and_mount(web)
            assert node.host.snapshot() == before

    restart()


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
def test_what_nobody_wants_after_a_restart_is_taken_away(mode: str) -> None:
    @in_virtual_time
    async def restart() -> None:
        node = node_with(local_volume("c", DISK, mode=mode))
        devices = ["data"] if mode == "Block" else []
        pods = [pod(name, claimed("data", "c"), devices=devices) for name in ("one", "two")]
        await mount(node, *pods)
        async with node.running() as manager:
            await manager.wait_for_nothing_left(timeout=10)
            assert_nothing_left(node)

    restart()


@in_virtual_time
async def test_a_stage_that_no_pod_directory_shows_is_taken_away() -> None:
    node = MemoryNode()
    node.host.make_directories("/dev", 0o755)
    node.host.make_device(DISK, 2**26)
    node.host.make_file_system(DISK, "ext4")
    node.host.make_directories(f"{ROOT}/pods", 0o750)
    node.host.make_directories(STAGE, 0o750)
    node.host.mount_device(DISK, STAGE, "ext4")
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=10)
        assert_nothing_left(node)


@in_virtual_time
async def test_a_map_whose_pod_has_no_link_yet_is_taken_away() -> None:
    node = raw_node()
    await mount(node, RAW_POD)
    node.host.remove_file(link(ONE))
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=10)
        assert_nothing_left(node)


@in_virtual_time
async def test_a_volume_set_up_again_knows_its_claim_again() -> None:
    node = raw_node()
    await mount(node, RAW_POD)
    async with node.running() as manager:
        node.add_pod(RAW_POD)
        await manager.wait_for_attach_and_mount(RAW_POD)
        assert manager.actual.volumes[DATA].spec.claim == "default/c"
        assert not manager.actual.volumes[DATA].stage_reconstructed


@in_virtual_time
async def test_a_claim_counts_as_held_while_only_the_name_of_its_volume_is_known() -> None:
    node = raw_node()
    await mount(node, RAW_POD)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert manager.holds_claim(claim("c"))
        assert not manager.holds_claim(claim("other"))


@in_virtual_time
async def test_after_a_reboot_the_device_is_mapped_again() -> None:
    node = raw_node()
    await mount(node, RAW_POD)
    node.host.reboot()
    async with node.running() as manager:
        node.add_pod(RAW_POD)
        await manager.wait_for_attach_and_mount(RAW_POD)
        assert (mounted(node), len(loops(node))) == ([f"{MAPS}/{ONE}"], 1)


@in_virtual_time
async def test_a_link_of_an_unknown_type_is_a_finding() -> None:
    node = MemoryNode()
    path = f"{ROOT}/pods/{ONE}/volumeDevices/example.com~disks/raw"
    node.host.make_directories(path.rpartition("/")[0], 0o750)
    node.host.make_link(DISK, path)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert [(left.path, left.found.plugin) for left in manager.recovery.leftovers] == [(path, "example.com/disks")]


# -- directories of pods that are gone -----------------------------------------------------------------------------
def test_links_to_devices_go_with_the_directory_and_devices_stay() -> None:
    node = raw_node()
    node.host.make_directories(link(ONE).rpartition("/")[0], 0o750)
    node.host.make_link(DISK, link(ONE))
    remove_pod_directory(node.host, node.paths, ONE)
    assert node.host.look(f"{ROOT}/pods/{ONE}") is None
    assert node.host.look(DISK) is not None


def test_a_file_where_a_device_was_expected_is_kept() -> None:
    node = raw_node()
    directory = link(ONE).rpartition("/")[0]
    node.host.make_directories(directory, 0o750)
    node.host.write_files(directory, [NewFile(path="pv-c", data=b"written by mistake", mode=0o644)])
    with pytest.raises(Refused, match="still holds 'pv-c'"):
        remove_pod_directory(node.host, node.paths, ONE)
    assert node.host.read_file(link(ONE)) == b"written by mistake"
