"""Letting drivers grow what they have published (csi.md 12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import StatusCode
from msgspec import structs
from tests.csi.csi_bench import NAME, UID, CSIBench, volume

from mooring.errors import Doubtful, Infeasible, InUse, NotYet, Refused, Unsupported
from mooring.kube.objects.meta import ObjectMeta, SecretReference
from mooring.kube.objects.pod import Secret
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaimStatus
from mooring.plugins.interface import Expander, Growing
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_node import ROOT
from mooring.testing.sample_objects import claim, claimed, pod
from mooring.testing.scripted_csi_driver import ALL_ABILITIES, Ability, Answer
from mooring.world.spec import VolumeSpec

SIZE = 2 * 10**9
EXPANDS = (*ALL_ABILITIES, Ability.EXPAND_VOLUME)
TARGET = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/pv-data/mount"
STAGES = f"{ROOT}/plugins/kubernetes.io/csi/{NAME}"
DEVICES = f"{ROOT}/plugins/kubernetes.io/csi/volumeDevices"
RAW = pod("web", claimed("data", "data"), devices=["data"])
SECRET = SecretReference(namespace="vault", name="key")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[CSIBench]:
    bench = CSIBench(str(tmp_path / "csi.sock"))
    bench.driver.abilities = list(EXPANDS)
    bench.describe(attach_required=False)
    yield bench
    await bench.drivers.close()


def expander(bench: CSIBench, spec: VolumeSpec) -> Expander:
    found = bench.node.manager.plugins.find_by_spec(spec).offer(spec).expander
    assert found is not None
    return found


async def grow(bench: CSIBench, persistent: PersistentVolume | None = None) -> csi.NodeExpandVolumeRequest:
    """What the driver is asked when the volume is to grow."""
    spec = VolumeSpec(persistent_volume=persistent if persistent is not None else volume())
    request = Growing(spec=spec, uid=UID, path=TARGET, stage_path="", device_path="", size=SIZE, before=SIZE // 2)
    await expander(bench, spec).expand(request)
    return bench.driver.requests(csi.NodeExpandVolumeRequest)[-1]


async def test_a_driver_is_told_where_a_volume_is_and_how_large_it_should_be(bench: CSIBench) -> None:
    """Scenario 99."""
    mounted = structs.replace(volume(), spec=structs.replace(volume().spec, mount_options=("noatime",)))
    async with bench.running():
        asked = await grow(bench, mounted)
    assert (asked.volume_id, asked.volume_path) == ("vol-1", TARGET)
    assert asked.staging_target_path.startswith(f"{STAGES}/")
    assert asked.staging_target_path.endswith("/globalmount")
    assert (asked.capacity_range.required_bytes, asked.capacity_range.limit_bytes) == (SIZE, 0)
    mount = asked.volume_capability.mount
    assert (mount.fs_type, list(mount.mount_flags), mount.volume_mount_group) == ("ext4", ["noatime"], "")
    assert asked.volume_capability.access_mode.mode == csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
    assert dict(asked.secrets) == {}


async def test_a_driver_that_does_not_stage_is_told_of_no_stage(bench: CSIBench) -> None:
    bench.driver.abilities = [Ability.EXPAND_VOLUME]
    async with bench.running():
        assert (await grow(bench)).staging_target_path == ""


async def test_the_access_mode_is_the_one_that_the_driver_knows(bench: CSIBench) -> None:
    """Scenario 84."""
    bench.driver.abilities.append(Ability.SINGLE_NODE_MULTI_WRITER)
    async with bench.running():
        asked = await grow(bench, volume(modes=("ReadWriteOncePod",)))
    assert asked.volume_capability.access_mode.mode == csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER


async def test_a_driver_is_handed_the_secret_that_the_volume_names(bench: CSIBench) -> None:
    """Scenario 105."""
    bench.node.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"}))
    async with bench.running():
        asked = await grow(bench, volume(node_expand_secret_ref=SECRET))
    assert dict(asked.secrets) == {"password": "hunter2"}


async def test_a_secret_that_is_missing_is_waited_for(bench: CSIBench) -> None:
    async with bench.running():
        with pytest.raises(NotYet, match='secret "key" not found'):
            await grow(bench, volume(node_expand_secret_ref=SECRET))
    assert "NodeExpandVolume" not in bench.driver.methods()


async def test_a_driver_without_the_ability_is_not_asked(bench: CSIBench) -> None:
    """Scenario 100."""
    bench.driver.abilities = list(ALL_ABILITIES)
    async with bench.running():
        with pytest.raises(Unsupported, match="does not support EXPAND_VOLUME"):
            await grow(bench)
    assert bench.driver.methods() == []


async def test_a_driver_that_has_not_registered_is_waited_for(bench: CSIBench) -> None:
    async with bench.running(registered=False):
        with pytest.raises(NotYet, match=f"waits for driver '{NAME}' to register"):
            await grow(bench)


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (StatusCode.FAILED_PRECONDITION, InUse),  # scenario 101
        (StatusCode.OUT_OF_RANGE, Infeasible),  # scenario 102
        (StatusCode.INVALID_ARGUMENT, Infeasible),
        (StatusCode.NOT_FOUND, Infeasible),
        (StatusCode.INTERNAL, Refused),
        (StatusCode.UNIMPLEMENTED, Refused),
        (StatusCode.DEADLINE_EXCEEDED, Doubtful),
        (StatusCode.UNAVAILABLE, Doubtful),
        (StatusCode.ABORTED, Doubtful),
        (StatusCode.RESOURCE_EXHAUSTED, Doubtful),
    ],
)
async def test_each_answer_has_its_meaning(bench: CSIBench, code: StatusCode, meaning: type[Exception]) -> None:
    bench.driver.answer("NodeExpandVolume", Answer(code=code, words="no", happens=False))
    async with bench.running():
        with pytest.raises(meaning, match=f"{code.name}: no") as caught:
            await grow(bench)
    assert type(caught.value) is meaning


@pytest.mark.parametrize("code", [StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION, StatusCode.UNAVAILABLE])
async def test_a_driver_that_does_not_say_what_it_can_do_has_said_nothing_of_the_volume(
    bench: CSIBench, code: StatusCode
) -> None:
    bench.driver.always("NodeGetCapabilities", Answer(code=code))
    async with bench.running():
        with pytest.raises(NotYet):
            await grow(bench)


def pending(size: str) -> PersistentVolumeClaimStatus:
    return PersistentVolumeClaimStatus(
        phase="Bound",
        capacity={"storage": "1G"},
        allocated_resources={"storage": size},
        allocated_resource_statuses={"storage": "NodeResizePending"},
    )


async def test_a_volume_that_a_pod_uses_is_grown_by_its_driver(bench: CSIBench) -> None:
    bench.node.put(volume(size="1G"))
    settled = PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "1G"})
    bench.node.put(structs.replace(claim("data"), status=settled))
    async with bench.running():
        await bench.mount()
        assert "NodeExpandVolume" not in bench.driver.methods()
        bench.node.put(volume(size="2G"))
        bench.node.put(structs.replace(claim("data"), status=pending("2G")))
        await bench.until(lambda: "NodeExpandVolume" in bench.driver.methods())
        await bench.unmount()
    (asked,) = bench.driver.requests(csi.NodeExpandVolumeRequest)
    assert (asked.volume_path, asked.capacity_range.required_bytes) == (TARGET, SIZE)
    assert bench.driver.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]


# -- raw devices -------------------------------------------------------------------------------------------------------
@pytest.fixture
def raw(bench: CSIBench) -> CSIBench:
    bench.node.put(volume(mode="Block"))
    bench.node.host.make_directories("/dev", 0o755)
    bench.node.host.make_device("/dev/vol-1", 2**20)
    return bench


async def test_a_raw_device_is_grown_where_its_driver_has_published_it(raw: CSIBench) -> None:
    """Scenario 106."""
    async with raw.running():
        await raw.mount(RAW)
        asked = await grow(raw, volume(mode="Block"))
    assert asked.volume_path == f"{DEVICES}/publish/pv-data/uid-web"
    assert asked.staging_target_path == f"{DEVICES}/staging/pv-data"
    assert asked.volume_capability.HasField("block")


async def test_a_link_that_a_driver_has_published_is_followed(raw: CSIBench) -> None:
    async with raw.running():
        raw.node.host.make_directories(f"{DEVICES}/publish/pv-data", 0o750)
        raw.node.host.make_link("/dev/vol-1", f"{DEVICES}/publish/pv-data/uid-web")
        assert (await grow(raw, volume(mode="Block"))).volume_path == "/dev/vol-1"


async def test_a_raw_device_that_is_not_published_cannot_grow_yet(raw: CSIBench) -> None:
    async with raw.running():
        with pytest.raises(NotYet, match="its driver has published nothing"):
            await grow(raw, volume(mode="Block"))
