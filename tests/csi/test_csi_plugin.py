"""CSI volumes on a whole node in memory, served by a driver on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from grpc import StatusCode
from msgspec import structs

from mooring.csi.drivers import Drivers
from mooring.csi.plugin import DRIVER_KIND, CSIPlugin
from mooring.kube.objects.meta import ObjectMeta, ObjectReference, SecretReference
from mooring.kube.objects.pod import Pod, PodSecurityContext, Secret, SELinuxOptions
from mooring.kube.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
)
from mooring.kube.objects.volumes import CSIVolumeSource, Volume
from mooring.plugins.interface import ObjectRef
from mooring.settings import Settings
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import NAMESPACE, claim, claimed, pod
from mooring.testing.scripted_csi_driver import ALL_ABILITIES, Ability, Answer, ScriptedCSIDriver
from mooring.world.names import PodUid

NAME = "scripted.csi.test"
UNIT = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/pv-data"
INLINE_UNIT = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/scratch"
STAGES = f"{ROOT}/plugins/kubernetes.io/csi/{NAME}"
WEB = pod("web", claimed("data", "data"))
INLINE = pod("web", Volume(name="scratch", csi=CSIVolumeSource(driver=NAME, volume_attributes={"size": "1"})))
REFUSES = Answer(code=StatusCode.INVALID_ARGUMENT, words="no", happens=False)
RAW = pod("web", claimed("data", "data"), devices=["data"])
DEVICES = f"{ROOT}/plugins/kubernetes.io/csi/volumeDevices"
_WAY_IN = ["NodeStageVolume", "NodePublishVolume"]
SILENT = Answer(code=StatusCode.DEADLINE_EXCEEDED)


def volume(*, fs_type: str = "ext4", secret: str = "", mode: str = "Filesystem") -> PersistentVolume:
    ref = SecretReference(namespace="vault", name=secret) if secret else None
    source = CSIPersistentVolumeSource(driver=NAME, volume_handle="vol-1", fs_type=fs_type, node_stage_secret_ref=ref)
    return PersistentVolume(
        metadata=ObjectMeta(name="pv-data"),
        spec=PersistentVolumeSpec(
            access_modes=("ReadWriteOnce",),
            volume_mode=mode,
            claim_ref=ObjectReference(namespace=NAMESPACE, name="data", uid="uid-data"),
            csi=source,
        ),
    )


class Bench:
    """A node, a driver beside it, and the CSIDriver object that tells of it."""

    def __init__(self, socket: str) -> None:
        self.drivers = Drivers()
        self.drivers.changed = self._changed
        self.object: CSIDriver | None = None
        self.describe(CSIDriverSpec(attach_required=False))
        self.node = MemoryNode(
            plugins=lambda context: [CSIPlugin(context, self.drivers, self)],
            settings=Settings(root=ROOT, node_name="memory-node", backoff_initial=0.01, backoff_maximum=0.02),
        )
        self.driver = ScriptedCSIDriver(self.node.host, socket)
        self.node.put(claim("data"))
        self.node.put(volume())

    def describe(self, spec: CSIDriverSpec) -> None:
        self.object = CSIDriver(metadata=ObjectMeta(name=NAME), spec=spec)

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.object

    def volume_attachment(self, name: str) -> VolumeAttachment | None:
        return self.node.objects.volume_attachment(name)

    def volume_attachments(self) -> list[VolumeAttachment]:
        return self.node.objects.volume_attachments()

    def _changed(self, name: str) -> None:
        manager = self.node.manager
        manager.object_changed(ObjectRef(DRIVER_KIND, "", name))
        for held in list(manager.actual.volumes.values()):
            if held.spec.csi_driver == name:
                manager.reconciler.resume(held.name)

    @asynccontextmanager
    async def running(self, *, registered: bool = True) -> AsyncIterator[None]:
        async with self.driver.serving(), self.node.running():
            if registered and self.drivers.get(NAME) is None:
                await self.register()
            yield

    async def register(self) -> None:
        await self.drivers.register(NAME, self.driver.socket, ["1.0.0"])

    async def mount(self, wanted: Pod = WEB) -> PodUid:
        uid = self.node.add_pod(wanted)
        await self.node.manager.wait_for_attach_and_mount(wanted, timeout=20, fail_fast=False)
        return uid

    async def unmount(self, uid: PodUid) -> None:
        self.node.remove_pod(uid)
        await self.node.manager.wait_for_nothing_left(timeout=20)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Until something is so after an answer of the driver or an outcome on the node."""
        told = asyncio.Event()
        self.node.manager.subscribe(lambda _: told.set())
        async with asyncio.timeout(20):
            while not is_so():
                told.clear()
                await told.wait()

    def failure(self) -> str:
        held = self.node.manager.actual.volumes.values()
        return "; ".join(failure.why for each in held for failure in each.failures.values())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(str(tmp_path / "csi.sock"))
    yield bench
    await bench.drivers.close()


async def test_a_volume_is_staged_published_unpublished_and_unstaged_and_leaves_nothing(bench: Bench) -> None:
    async with bench.running():
        uid = await bench.mount()
        assert bench.node.host.mount_at(f"{UNIT}/mount") is not None
        data = json.loads(bench.node.host.read_file(f"{UNIT}/vol_data.json"))
        assert (data["driverName"], data["volumeHandle"], data["specVolID"]) == (NAME, "vol-1", "pv-data")
        await bench.unmount(uid)
    expected = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert bench.driver.methods() == expected
    assert bench.node.host.names_in(STAGES) == []


async def test_a_driver_that_does_not_stage_is_asked_to_publish_alone(bench: Bench) -> None:
    bench.driver.abilities = []
    async with bench.running():
        await bench.unmount(await bench.mount())
    assert bench.driver.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert bench.driver.requests(csi.NodePublishVolumeRequest)[0].staging_target_path == ""
    assert bench.node.host.look(STAGES) is None


@pytest.mark.parametrize(
    ("mounts_labels", "flags"), [(True, ['context="system_u:object_r:container_file_t:s0:c1,c2"']), (False, [])]
)
async def test_a_label_is_an_option_of_the_mount_for_drivers_that_take_it(
    bench: Bench, mounts_labels: bool, flags: list[str]
) -> None:
    bench.describe(CSIDriverSpec(attach_required=False, se_linux_mount=mounts_labels))
    bench.node.facts = replace(bench.node.facts, selinux=True)
    alone = volume()
    bench.node.put(structs.replace(alone, spec=structs.replace(alone.spec, access_modes=("ReadWriteOncePod",))))
    context = PodSecurityContext(se_linux_options=SELinuxOptions(level="s0:c1,c2"))
    async with bench.running():
        await bench.mount(structs.replace(WEB, spec=structs.replace(WEB.spec, security_context=context)))
        data = json.loads(bench.node.host.read_file(f"{UNIT}/vol_data.json"))
    (stage,), (publish,) = (
        bench.driver.requests(csi.NodeStageVolumeRequest),
        bench.driver.requests(csi.NodePublishVolumeRequest),
    )
    assert list(stage.volume_capability.mount.mount_flags) == flags
    assert list(publish.volume_capability.mount.mount_flags) == flags
    assert ("seLinuxMountContext" in data) is mounts_labels


async def test_a_label_that_a_kubelet_wrote_down_is_found_and_another_pod_gets_the_volume_with_its_own(
    bench: Bench,
) -> None:
    bench.describe(CSIDriverSpec(attach_required=False, se_linux_mount=True))
    bench.node.facts = replace(bench.node.facts, selinux=True)
    alone = volume()
    bench.node.put(structs.replace(alone, spec=structs.replace(alone.spec, access_modes=("ReadWriteOncePod",))))
    first, second = (
        pod(name, claimed("data", "data"), security=PodSecurityContext(se_linux_options=SELinuxOptions(level=level)))
        for name, level in (("web", "s0:c1"), ("next", "s0:c2"))
    )
    async with bench.running():
        await bench.mount(first)
    bench.node.host.remove_tree(bench.node.paths.intents_dir)
    bench.node.new_manager()
    async with bench.running():
        bench.node.add_pod(second)
        await bench.until(lambda: bench.driver.methods()[-1] == "NodeUnpublishVolume")
        await bench.mount(second)
        (held,) = bench.node.manager.actual.volumes.values()
        assert held.label == "system_u:object_r:container_file_t:s0:c2"
    again = [*_WAY_IN, "NodeUnpublishVolume", "NodeUnstageVolume", *_WAY_IN]
    assert bench.driver.methods() == again
    stages = bench.driver.requests(csi.NodeStageVolumeRequest)
    assert [stage.volume_capability.mount.mount_flags[0][-4:-1] for stage in stages] == [":c1", ":c2"]


async def test_a_volume_waits_for_its_driver_and_goes_on_when_it_registers(bench: Bench) -> None:
    async with bench.running(registered=False):
        bench.node.add_pod(WEB)
        await bench.until(lambda: f"waits for driver '{NAME}' to register" in bench.failure())
        assert bench.driver.calls == []
        await bench.register()
        await bench.mount()


async def test_a_driver_whose_volumes_must_be_attached_is_waited_for(bench: Bench) -> None:
    bench.object = None
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.until(lambda: "there is no VolumeAttachment" in bench.failure())
        assert bench.driver.methods() == []


async def test_a_stage_without_an_answer_is_asked_for_again_and_unstaged_once(bench: Bench) -> None:
    bench.driver.answer("NodeStageVolume", SILENT, SILENT, SILENT)
    async with bench.running():
        await bench.unmount(await bench.mount())
    asked = bench.driver.requests(csi.NodeStageVolumeRequest)
    assert len(asked) == 4
    assert all(each == asked[0] for each in asked)
    assert len(bench.driver.requests(csi.NodeUnstageVolumeRequest)) == 1


async def test_a_stage_that_never_answers_is_unstaged_when_the_pod_goes(bench: Bench) -> None:
    bench.driver.always("NodeStageVolume", SILENT)
    async with bench.running():
        uid = bench.node.add_pod(WEB)
        await bench.until(lambda: bool(bench.failure()))
        await bench.unmount(uid)
    assert bench.driver.methods() == ["NodeStageVolume", "NodeUnstageVolume"]


async def test_a_stage_that_is_always_refused_leaves_nothing_and_is_never_unstaged(bench: Bench) -> None:
    bench.driver.always("NodeStageVolume", REFUSES)
    async with bench.running():
        uid = bench.node.add_pod(WEB)
        await bench.until(lambda: bool(bench.failure()))
        await bench.unmount(uid)
    assert bench.driver.methods() == ["NodeStageVolume"]
    assert bench.node.host.names_in(STAGES) == []


async def test_a_missing_stage_secret_is_waited_for_before_the_driver_is_asked(bench: Bench) -> None:
    bench.node.put(volume(secret="key"))
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.until(lambda: 'secret "key" not found' in bench.failure())
        assert bench.driver.methods() == []
        bench.node.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"}))
        await bench.mount()
    assert dict(bench.driver.requests(csi.NodeStageVolumeRequest)[0].secrets) == {"password": "hunter2"}


async def test_a_driver_that_dies_while_it_publishes_is_asked_to_unpublish_when_it_is_back(bench: Bench) -> None:
    bench.driver.answer("NodePublishVolume", Answer(dies=True))
    async with bench.node.running():
        async with bench.driver.serving():
            await bench.register()
            uid = bench.node.add_pod(WEB)
            await bench.until(lambda: bool(bench.failure()))
        assert bench.node.host.look(f"{UNIT}/vol_data.json") is not None
        async with bench.driver.serving():
            await bench.unmount(uid)
    assert "NodeUnpublishVolume" in bench.driver.methods()


async def test_not_found_on_unpublish_is_tried_again_until_the_driver_agrees(bench: Bench) -> None:
    bench.driver.answer("NodeUnpublishVolume", *[Answer(code=StatusCode.NOT_FOUND, happens=False)] * 2)
    async with bench.running():
        await bench.unmount(await bench.mount())
    assert len(bench.driver.requests(csi.NodeUnpublishVolumeRequest)) == 3


async def test_a_refused_publish_leaves_nothing_in_the_pods_directory(bench: Bench) -> None:
    bench.driver.always("NodePublishVolume", REFUSES)
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.until(lambda: "INVALID_ARGUMENT" in bench.failure())
        assert list(bench.node.manager.actual.mounts_of_pod(PodUid("uid-web"))) == []


async def test_an_inline_volume_is_published_alone_with_the_pod_told(bench: Bench) -> None:
    bench.describe(CSIDriverSpec(volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True))
    async with bench.running():
        uid = await bench.mount(INLINE)
        data = json.loads(bench.node.host.read_file(f"{INLINE_UNIT}/vol_data.json"))
        assert data["volumeLifecycleMode"] == "Ephemeral"
        await bench.unmount(uid)
    assert bench.driver.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    told = bench.driver.requests(csi.NodePublishVolumeRequest)[0].volume_context
    assert (told["size"], told["csi.storage.k8s.io/ephemeral"]) == ("1", "true")


async def test_an_inline_volume_of_a_driver_that_does_not_allow_it_is_never_published(bench: Bench) -> None:
    async with bench.running():
        bench.node.add_pod(INLINE)
        await bench.until(lambda: "does not serve volumes of mode 'Ephemeral'" in bench.failure())
        assert bench.driver.methods() == []


@pytest.mark.parametrize("pod_spec", [WEB, INLINE])
async def test_a_new_process_takes_away_what_an_earlier_one_published(bench: Bench, pod_spec: Pod) -> None:
    bench.describe(CSIDriverSpec(attach_required=False, volume_lifecycle_modes=("Persistent", "Ephemeral")))
    async with bench.running():
        await bench.mount(pod_spec)
    bench.node.new_manager()
    async with bench.running():
        await bench.node.manager.wait_for_nothing_left(timeout=20)
    assert "NodeUnpublishVolume" in bench.driver.methods()
    assert bench.node.host.names_in(f"{ROOT}/pods") == []


async def test_a_republish_that_is_refused_keeps_what_the_pod_has(bench: Bench) -> None:
    bench.describe(CSIDriverSpec(attach_required=False, requires_republish=True))
    async with bench.running():
        await bench.mount()
        bench.driver.answer("NodePublishVolume", REFUSES)
        bench.node.manager.object_changed(ObjectRef(DRIVER_KIND, "", NAME))
        await bench.until(lambda: len(bench.driver.requests(csi.NodePublishVolumeRequest)) >= 3)
        assert bench.node.host.mount_at(f"{UNIT}/mount") is not None
        assert bench.node.host.look(f"{UNIT}/vol_data.json") is not None


@pytest.mark.parametrize(("abilities", "gid"), [(ALL_ABILITIES, 4000), ((Ability.VOLUME_MOUNT_GROUP,), 0)])
async def test_the_node_owns_the_files_unless_the_driver_takes_the_group(
    bench: Bench, abilities: tuple[Ability.Type.ValueType, ...], gid: int
) -> None:
    bench.driver.abilities = list(abilities)
    async with bench.running():
        await bench.mount(pod("web", claimed("data", "data"), security=PodSecurityContext(fs_group=4000)))
        facts = bench.node.host.look(f"{UNIT}/mount")
    assert facts is not None
    assert facts.gid == gid
    group = bench.driver.requests(csi.NodePublishVolumeRequest)[0].volume_capability.mount.volume_mount_group
    assert group == ("" if gid else "4000")


# -- raw devices -------------------------------------------------------------------------------------------------------
@pytest.fixture
def raw(bench: Bench) -> Bench:
    bench.node.put(volume(mode="Block"))
    bench.node.host.make_directories("/dev", 0o755)
    bench.node.host.make_device("/dev/vol-1", 2**20)
    return bench


def left_on_node(bench: Bench) -> list[str]:
    """What is left of raw devices beside the two directories that all volumes share."""
    host = bench.node.host
    shared = [name for name in ("publish", "staging") if host.look(f"{DEVICES}/{name}") is not None]
    inside = [f"{name}/{each}" for name in shared for each in host.names_in(f"{DEVICES}/{name}")]
    return [*inside, *(name for name in host.names_in(DEVICES) if name not in shared)]


async def test_a_raw_device_is_staged_published_and_linked_and_leaves_nothing(raw: Bench) -> None:
    async with raw.running():
        uid = await raw.mount(RAW)
        link = raw.node.host.read_link(f"{ROOT}/pods/uid-web/volumeDevices/kubernetes.io~csi/pv-data")
        assert link == f"{DEVICES}/publish/pv-data/uid-web"
        await raw.unmount(uid)
    asked = raw.driver.requests(csi.NodePublishVolumeRequest)[0]
    assert asked.volume_capability.HasField("block")
    assert asked.staging_target_path == f"{DEVICES}/staging/pv-data"
    expected = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert raw.driver.methods() == expected
    assert left_on_node(raw) == []


async def test_a_raw_device_of_a_driver_that_does_not_stage_is_published_alone(raw: Bench) -> None:
    raw.driver.abilities = []
    async with raw.running():
        await raw.unmount(await raw.mount(RAW))
    assert raw.driver.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert left_on_node(raw) == []


async def test_a_refused_stage_of_a_raw_device_leaves_no_directories(raw: Bench) -> None:
    raw.driver.always("NodeStageVolume", REFUSES)
    async with raw.running():
        uid = raw.node.add_pod(RAW)
        await raw.until(lambda: bool(raw.failure()))
        await raw.unmount(uid)
    assert raw.driver.methods() == ["NodeStageVolume"]
    assert left_on_node(raw) == []


async def test_a_new_process_takes_away_a_raw_device_that_an_earlier_one_published(raw: Bench) -> None:
    async with raw.running():
        await raw.mount(RAW)
    raw.node.new_manager()
    async with raw.running():
        await raw.node.manager.wait_for_nothing_left(timeout=20)
    assert raw.driver.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert left_on_node(raw) == []


async def test_what_a_silent_driver_published_as_a_raw_device_is_unpublished(raw: Bench) -> None:
    raw.driver.always("NodePublishVolume", SILENT)
    async with raw.running():
        uid = raw.node.add_pod(RAW)
        await raw.until(lambda: "DEADLINE_EXCEEDED" in raw.failure())
        await raw.unmount(uid)
    assert "NodeUnpublishVolume" in raw.driver.methods()
    assert left_on_node(raw) == []


async def test_a_refused_republish_keeps_the_data_file_of_a_driver_that_mounts_nothing(bench: Bench) -> None:
    bench.describe(CSIDriverSpec(attach_required=False, requires_republish=True))
    bench.driver.answer("NodePublishVolume", Answer(happens=False))
    bench.driver.always("NodePublishVolume", REFUSES)
    async with bench.running():
        await bench.mount()
        bench.node.manager.object_changed(ObjectRef(DRIVER_KIND, "", NAME))
        await bench.until(lambda: "INVALID_ARGUMENT" in bench.failure())
        assert bench.node.host.look(f"{UNIT}/vol_data.json") is not None
