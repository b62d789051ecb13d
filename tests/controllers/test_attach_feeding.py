"""What the controller learns at its start and from events (attachdetach.md A30 to A40, A44, A45)."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.controllers.attach_bench import DRIVER, SOON, Cluster, cluster, node, pod, running, unique
from tests.controllers.test_attach_detach import LONG, attached

from mooring.csi.attachments import attachment_for
from mooring.kube.objects.kinds import CLAIM, CSI_DRIVER, NODE, PERSISTENT_VOLUME, POD
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.pod import Pod, PodSpec
from mooring.kube.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.kube.objects.volumes import EphemeralVolumeSource, Volume
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec


async def ordered(bench: Cluster, volume: str, to: str, *, done: bool) -> None:
    """A VolumeAttachment that an earlier controller has written."""
    found = await bench.store.get(PERSISTENT_VOLUME, "", volume)
    made = attachment_for(VolumeSpec(persistent_volume=found), to)
    await bench.store.create(structs.replace(made, metadata=ObjectMeta(name=made.metadata.name)))
    if done:
        bench.attacher.attached.add(to)
        await bench.attacher.look_again()
    bench.forget_trace()


# -- at the start ------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_what_a_status_lists_and_a_pod_wants_is_left_as_it_is() -> None:
    async with cluster(started=False) as bench:
        await bench.volume("v1")
        await bench.put(node("n1", attached=["v1"]), pod("web", "n1", "v1"))
        await ordered(bench, "v1", "n1", done=True)
        async with running(bench):
            await bench.passes(LONG)
            assert bench.trace == []
            held = bench.controller.actual.volume(unique("v1"))
            assert held is not None
            assert held.spec is not None
            assert held.device_path == "/dev/old"


@in_virtual_time
async def test_what_a_status_lists_and_nobody_wants_is_detached_though_nobody_knows_what_it_is() -> None:
    async with cluster(started=False) as bench:
        await bench.put(node("n1", attached=["v1"]))
        async with running(bench):
            assert bench.trace == ["tell n1:"]  # the order is not there, so that nothing is left to be cancelled
            assert bench.presence("v1", "n1") is Presence.ABSENT


@in_virtual_time
async def test_what_the_node_still_uses_is_not_detached_at_the_start() -> None:
    async with cluster(started=False) as bench:
        await bench.volume("v1")
        await bench.put(node("n1", attached=["v1"], in_use=["v1"]))
        await ordered(bench, "v1", "n1", done=True)
        async with running(bench):
            await bench.passes(LONG)
            assert bench.trace == []


@pytest.mark.parametrize("done", [True, False])
def test_an_order_that_nobody_wants_is_cancelled(done: bool) -> None:
    @in_virtual_time
    async def run() -> None:
        async with cluster(started=False) as bench:
            await bench.volume("v1")
            await bench.put(node("n1"))
            await ordered(bench, "v1", "n1", done=done)
            async with running(bench):
                await bench.passes()
                assert bench.trace == ["cancel n1"]
                assert bench.attacher.attached == set()

    run()


@in_virtual_time
async def test_an_order_that_a_pod_waits_for_is_carried_on() -> None:
    async with cluster(started=False) as bench:
        await bench.volume("v1")
        await bench.put(node("n1"), pod("web", "n1", "v1"))
        await ordered(bench, "v1", "n1", done=True)
        async with running(bench):
            assert bench.trace == ["order n1", "tell n1: v1"]
            assert bench.presence("v1", "n1") is Presence.PRESENT


@in_virtual_time
async def test_a_volume_in_doubt_at_the_start_is_not_attached_to_another_node_first() -> None:
    async with cluster(started=False) as bench:
        await bench.volume("v1")
        await bench.put(node("n1", in_use=["v1"]), node("n2"), pod("web", "n2", "v1"))
        await ordered(bench, "v1", "n1", done=True)
        async with running(bench):
            await bench.passes(LONG)
            assert bench.trace == []
            await bench.node_says("n1", in_use=[])
            await bench.passes()
            assert bench.trace == ["cancel n1", "order n2", "tell n2: v1"]


@pytest.mark.parametrize("refused", ["n1", "n2"])
def test_of_two_nodes_in_doubt_that_both_want_a_volume_the_one_that_has_it_goes_on(refused: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with cluster(started=False) as bench:
            await bench.volume("v1")
            await bench.put(node("n1"), node("n2"), pod("a", "n1", "v1"), pod("b", "n2", "v1"))
            await ordered(bench, "v1", "n1", done=False)
            await ordered(bench, "v1", "n2", done=False)
            bench.attacher.refuses[refused] = "another node has it"
            async with running(bench):
                await bench.passes(LONG)
                (has,) = bench.attacher.attached
                assert has != refused
                assert await bench.says_attached(has) == ["v1"]
                assert await bench.says_attached(refused) == []
                waiting = "a" if refused == "n1" else "b"
                assert any(name == waiting and "Multi-Attach" in message for name, message in bench.warnings())

    run()


@in_virtual_time
async def test_a_volume_of_a_type_that_has_moved_to_csi_is_known_by_its_csi_name() -> None:
    async with cluster(started=False) as bench:
        disk = PersistentVolume(
            metadata=ObjectMeta(name="ebs"),
            spec=PersistentVolumeSpec(
                access_modes=("ReadWriteOnce",), aws_elastic_block_store={"volumeID": "vol-0815", "fsType": "ext4"}
            ),
        )
        await bench.store.create(disk)
        await bench.put(node("n1", in_use=["none"]))
        spec = VolumeAttachmentSpec(
            attacher="ebs.csi.aws.com", node_name="n1", source=VolumeAttachmentSource(persistent_volume_name="ebs")
        )
        await bench.store.create(VolumeAttachment(metadata=ObjectMeta(name="csi-one"), spec=spec))
        bench.attacher.silent.add("n1")
        async with running(bench):
            names = [each.name for each in bench.controller.actual.volumes()]
            assert all(each == "kubernetes.io/csi/ebs.csi.aws.com^vol-0815" for each in names)


# -- events ------------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_pod_whose_end_nobody_saw_lets_go_of_its_volumes() -> None:
    async with cluster() as bench:
        await attached(bench)
        gone = await bench.store.get(POD, "shop", "web")
        bench.controller.desired.add_pod(
            structs.replace(gone, metadata=ObjectMeta(name="ghost", namespace="shop", uid="ghost")),
            unique("v1"),
            bench.controller.desired.wanted_on(unique("v1"))["n1"].spec,
            "n1",
        )
        await bench.pod_goes("web")
        await bench.passes()
        assert bench.trace == []
        await bench.passes(61)
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_volume_that_two_pods_share_stays_until_the_second_has_gone() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.put(pod("other", "n1", "v1"))
        await bench.pod_goes("web")
        await bench.passes()
        assert bench.trace == []
        await bench.pod_goes("other")
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_pod_made_anew_under_the_same_name_keeps_the_volume() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        first = await bench.store.get(POD, "shop", "web")
        await bench.pod_moves("web", "n1", "v1")
        await bench.passes(LONG)
        assert bench.trace == []
        wanted = bench.controller.desired.wanted_on(unique("v1"))["n1"]
        assert first.metadata.uid not in wanted.pods
        assert len(wanted.pods) == 1


@in_virtual_time
async def test_a_driver_that_needs_no_attaching_any_more_gets_its_volumes_detached() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.store.create(CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=CSIDriverSpec(attach_required=False)))
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]
        await bench.store.delete(CSI_DRIVER, "", DRIVER)
        await bench.passes()
        assert bench.trace[2:] == ["order n1", "tell n1: v1"]


@in_virtual_time
async def test_a_claim_that_is_bound_after_its_pod_came_is_attached_then() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"))
        await bench.volume("v1", bound=False)
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes(10)
        assert bench.trace == []
        await bench.bind("v1")
        await bench.passes()
        assert bench.trace == ["order n1", "tell n1: v1"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_lets_go_of_its_volumes(phase: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with cluster() as bench:
            await attached(bench)
            await bench.pod_says("web", phase)
            await bench.passes()
            assert bench.trace == ["tell n1:", "cancel n1"]

    run()


@in_virtual_time
async def test_a_pod_that_is_being_deleted_keeps_its_volumes_while_a_container_runs() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.pod_runs("web", containers=True)
        await bench.store.patch(POD, "shop", "web", {"metadata": {"finalizers": ["wait.test/here"]}})
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert bench.trace == []
        await bench.pod_runs("web", containers=False)
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_pod_that_stays_for_its_finalizer_lets_go_of_a_volume_once_its_node_has() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.node_says("n1", in_use=["v1"])
        await bench.store.patch(POD, "shop", "web", {"metadata": {"finalizers": ["wait.test/here"]}})
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert bench.trace == []
        await bench.node_says("n1", in_use=[])
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_pod_whose_volume_was_deleted_before_it_lets_go_of_it_all_the_same() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.forget_volume("v1")
        await bench.passes()
        assert bench.trace == []
        await bench.pod_goes("web")
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_node_that_attaches_by_itself_gets_nothing_and_nobody_gets_its_volume_meanwhile() -> None:
    async with cluster(started=False) as bench:
        alone = structs.replace(node("n1"), metadata=ObjectMeta(name="n1"))
        await bench.volume("v1")
        await bench.put(alone, pod("web", "n1", "v1"))
        await ordered(bench, "v1", "n1", done=True)
        async with running(bench):
            await bench.put(node("n2"), pod("other", "n2", "v1"))
            await bench.passes(LONG)
            assert bench.trace == []
            (order,) = (await bench.store.list(bench.controller.caches.attachments.kind)).items
            await bench.store.delete(bench.controller.caches.attachments.kind, "", order.metadata.name)
            await bench.passes()
            assert bench.trace == ["cancel n1", "order n2", "tell n2: v1"]


@in_virtual_time
async def test_a_node_that_comes_under_management_gets_what_its_pods_want() -> None:
    async with cluster() as bench:
        await bench.volume("v1")
        await bench.put(structs.replace(node("n1"), metadata=ObjectMeta(name="n1")), pod("web", "n1", "v1"))
        await bench.passes()
        assert bench.trace == []
        annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        await bench.store.patch(NODE, "", "n1", {"metadata": {"annotations": annotations}})
        await bench.passes()
        assert bench.trace == ["order n1", "tell n1: v1"]


# -- volumes that are not what they seem ---------------------------------------------------------------------------
@in_virtual_time
async def test_a_volume_that_belongs_to_another_claim_is_not_attached() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"))
        await bench.volume("v1")
        await bench.store.patch(PERSISTENT_VOLUME, "", "v1", {"spec": {"claimRef": {"uid": "another"}}})
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes(LONG)
        assert bench.trace == []


@in_virtual_time
async def test_the_claim_of_an_ephemeral_volume_must_belong_to_the_pod() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"))
        await bench.volume("web-scratch")
        scratch = Volume(name="scratch", ephemeral=EphemeralVolumeSource())
        meta = ObjectMeta(name="web", namespace="shop")
        web = await bench.store.create(Pod(metadata=meta, spec=PodSpec(node_name="n1", volumes=(scratch,))))
        await bench.passes(SOON)
        assert bench.trace == []
        owner = OwnerReference(api_version="v1", kind="Pod", name="web", uid=web.metadata.uid, controller=True)
        owned = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner.uid, "controller": True}
        await bench.store.patch(CLAIM, "shop", "web-scratch", {"metadata": {"ownerReferences": [owned]}})
        await bench.passes(SOON)
        assert bench.trace == ["order n1", "tell n1: web-scratch"]
