"""Volumes that must be attached: awaited from others, or ordered by the node itself (csi.md 6, 7 and 19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import StatusCode
from msgspec import structs
from tests.csi.csi_bench import ATTACHMENT, NAME, NODE, UID, WEB, CSIBench, attached, volume

from mooring.csi.attachments import (
    HANDLE,
    Verdict,
    attachment_for,
    finalizer,
    is_limit_exceeded,
    name_of,
    node_that_has_it,
    verdict,
)
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import (
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeError,
)
from mooring.stubs import csi_pb2 as csi
from mooring.testing.scripted_csi_driver import Answer, ControllerAbility
from mooring.world import planner
from mooring.world.changes import Noticed
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

PUBLISHES = ControllerAbility.PUBLISH_UNPUBLISH_VOLUME
SPEC = VolumeSpec(persistent_volume=volume())
OPEN = VolumeAttachmentStatus()
LIMIT = VolumeError(message="RESOURCE_EXHAUSTED: full", error_code=8)


def failed(message: str = "no such disk", code: int | None = None) -> VolumeAttachmentStatus:
    return VolumeAttachmentStatus(attach_error=VolumeError(message=message, error_code=code))


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return str(tmp_path / "csi.sock")


@pytest.fixture
async def bench(socket: str) -> AsyncIterator[CSIBench]:
    """A node that awaits attachments of others."""
    bench = CSIBench(socket)
    yield bench
    await bench.drivers.close()


@pytest.fixture
async def told(socket: str) -> AsyncIterator[CSIBench]:
    """The same, and in the status of its Node others write what they have attached."""
    bench = CSIBench(socket, attached_by_others=True)
    yield bench
    await bench.drivers.close()


@pytest.fixture
async def asking(socket: str) -> AsyncIterator[CSIBench]:
    """The same, and a driver of which no object tells is asked whether it attaches."""
    bench = CSIBench(socket, asks_drivers=True)
    yield bench
    await bench.drivers.close()


@pytest.fixture
async def ordering(socket: str) -> AsyncIterator[CSIBench]:
    """A node that orders attachments itself."""
    bench = CSIBench(socket, orders=True)
    bench.describe()
    yield bench
    await bench.drivers.close()


# -- what attachments say ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "leaving", "expected"),
    [
        (OPEN, False, Verdict.OPEN),
        (attached(), False, Verdict.ATTACHED),
        (failed(), False, Verdict.FAILED),
        (VolumeAttachmentStatus(attached=True, attach_error=VolumeError(message="before")), False, Verdict.ATTACHED),
        (attached(), True, Verdict.LEAVING),
        (failed(), True, Verdict.LEAVING),
    ],
)
def test_an_attachment_says_one_thing(status: VolumeAttachmentStatus, leaving: bool, expected: Verdict) -> None:
    meta = ObjectMeta(name="a", deletion_timestamp="now" if leaving else None)
    assert verdict(VolumeAttachment(metadata=meta, status=status)) is expected


def test_an_attachment_that_is_not_there_says_so() -> None:
    assert verdict(None) is Verdict.MISSING


@pytest.mark.parametrize(("error", "exceeded"), [(None, False), (VolumeError(error_code=9), False), (LIMIT, True)])
def test_a_node_that_is_full_is_told_by_the_code(error: VolumeError | None, exceeded: bool) -> None:
    found = VolumeAttachment(status=VolumeAttachmentStatus(attach_error=error))
    assert is_limit_exceeded(found) is exceeded


def test_an_order_names_the_volume_the_node_and_all_that_a_detach_needs() -> None:
    made = attachment_for(SPEC, NODE)
    assert made.metadata.name == name_of(SPEC, NODE) == ATTACHMENT
    assert made.metadata.annotations == {HANDLE: "vol-1"}
    assert made.metadata.finalizers == ("external-attacher/scripted-csi-test",) == (finalizer(NAME),)
    expected = VolumeAttachmentSpec(
        attacher=NAME, node_name=NODE, source=VolumeAttachmentSource(persistent_volume_name="pv-data")
    )
    assert made.spec == expected


def test_an_order_for_a_volume_without_an_object_of_its_own_holds_all_of_it() -> None:
    source = attachment_for(VolumeSpec(persistent_volume=volume(), written_in_pod=True), NODE).spec.source
    assert (source.persistent_volume_name, source.inline_volume_spec) == (None, volume().spec)


def known(node: str, *, is_attached: bool = True, driver: str = NAME, handle: str = "vol-1") -> VolumeAttachment:
    return VolumeAttachment(
        metadata=ObjectMeta(name=f"on-{node}", annotations={HANDLE: handle}),
        spec=VolumeAttachmentSpec(attacher=driver, node_name=node),
        status=VolumeAttachmentStatus(attached=is_attached),
    )


@pytest.mark.parametrize(
    ("modes", "found", "other"),
    [
        (("ReadWriteOnce",), known("b"), "b"),
        (("ReadWriteOncePod",), known("b"), "b"),
        (("ReadWriteOnce",), known(NODE), None),
        (("ReadWriteOnce",), known("b", is_attached=False), None),
        (("ReadWriteOnce",), known("b", driver="another"), None),
        (("ReadWriteOnce",), known("b", handle="another"), None),
        (("ReadWriteOnce", "ReadOnlyMany"), known("b"), None),
        (("ReadWriteMany",), known("b"), None),
        ((), known("b"), None),
    ],
)
def test_only_a_volume_that_one_node_can_have_is_kept_from_a_second(
    modes: tuple[str, ...], found: VolumeAttachment, other: str | None
) -> None:
    """attachdetach.md 5.2."""
    assert node_that_has_it(VolumeSpec(persistent_volume=volume(modes=modes)), NODE, [found]) == other


def test_an_attachment_of_somebody_else_is_known_by_the_name_of_its_volume() -> None:
    source = VolumeAttachmentSource(persistent_volume_name="pv-data")
    theirs = structs.replace(
        known("b", handle=""), spec=VolumeAttachmentSpec(attacher=NAME, node_name="b", source=source)
    )
    assert node_that_has_it(SPEC, NODE, [theirs]) == "b"


# -- awaiting ----------------------------------------------------------------------------------------------------------
async def test_a_volume_waits_until_others_have_attached_it_and_its_driver_is_told_what_they_said(
    bench: CSIBench,
) -> None:
    """Scenarios 46, 47 and 58."""
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with(f"there is no VolumeAttachment '{ATTACHMENT}' yet")
        bench.answer(OPEN)
        await bench.fails_with("is not attached yet")
        assert bench.driver.methods() == []
        bench.answer(attached({"lun": "7"}))
        await bench.mount()
        (held,) = bench.node.manager.actual.volumes.values()
        assert held.device_path == ATTACHMENT
        await bench.unmount()
    assert dict(bench.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}
    assert dict(bench.driver.requests(csi.NodePublishVolumeRequest)[0].publish_context) == {"lun": "7"}


async def test_whoever_awaits_an_attachment_neither_writes_nor_deletes_it(bench: CSIBench) -> None:
    """Scenario 55."""
    written = bench.answer(attached())
    async with bench.running():
        await bench.unmount(await bench.mount())
    assert bench.attachment() == written


async def test_an_attachment_that_failed_is_told_and_awaited_further(bench: CSIBench) -> None:
    """Scenario 48."""
    bench.answer(failed())
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("no such disk")
        bench.answer(attached())
        await bench.mount()


async def test_a_node_that_is_full_is_a_reason_of_its_own(bench: CSIBench) -> None:
    bench.answer(VolumeAttachmentStatus(attach_error=LIMIT))
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("attach limit exceeded: this node cannot have more volumes of 'scripted.csi.test'")


async def test_an_attachment_that_failed_without_words_is_told_in_ours(bench: CSIBench) -> None:
    bench.answer(failed(""))
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("it could not be attached")


async def test_an_attachment_that_is_being_deleted_is_none(bench: CSIBench) -> None:
    """Scenario 49."""
    bench.answer(attached(), leaving=True)
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("is being deleted")


async def test_a_driver_that_needs_no_attaching_has_no_attachment_read(bench: CSIBench) -> None:
    """Scenario 45."""
    bench.describe(attach_required=False)
    bench.answer(attached({"lun": "7"}))
    async with bench.running():
        await bench.mount()
    assert dict(bench.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {}
    assert dict(bench.driver.requests(csi.NodePublishVolumeRequest)[0].publish_context) == {}


async def test_a_driver_that_turns_out_to_need_no_attaching_serves_the_pod_that_waits(bench: CSIBench) -> None:
    """Scenario 53."""
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("there is no VolumeAttachment")
        bench.describe(attach_required=False)
        await bench.mount()


async def test_why_others_do_not_attach_a_volume_is_told_with_what_it_waits_for(told: CSIBench) -> None:
    async with told.running():
        manager, noticed = told.node.manager, list[str]()
        manager.subscribe(lambda change: noticed.append(change.message) if isinstance(change, Noticed) else None)
        told.node.add_pod(WEB)
        (name,) = manager.get_volumes_in_use()
        manager.status_heard()
        manager.attachments_told({})
        assert manager.awaited_attachments() == {}
        manager.mark_volumes_as_reported_in_use([name])
        assert manager.awaited_attachments() == {name: SPEC}
        for _ in range(2):
            manager.attachments_failed({name: "no such disk"})
        assert noticed == ["volume 'pv-data' is not attached: no such disk"]
        assert planner.plan(manager.desired.volumes[name], None, manager.gates).waits[0].detail == "no such disk"
        manager.attachments_told({name: ""})
        assert manager.awaited_attachments() == {}


async def test_a_driver_whose_object_comes_after_the_pod_needs_no_word_of_whoever_attaches(told: CSIBench) -> None:
    async with told.running():
        manager = told.node.manager
        told.node.add_pod(WEB)
        (name,) = manager.get_volumes_in_use()
        manager.mark_volumes_as_reported_in_use([name])
        manager.attachments_told({})
        told.describe(attach_required=False)
        await told.mount()
        assert manager.get_volumes_in_use() == []
        await told.unmount()


async def test_a_pod_keeps_what_it_has_when_its_driver_needs_no_attaching_any_more(bench: CSIBench) -> None:
    """Scenario 52, as far as the node has a part in it."""
    bench.answer(attached())
    async with bench.running():
        await bench.mount()
        bench.describe(attach_required=False, requires_republish=True)
        bench.detached()
        await bench.until(lambda: len(bench.driver.requests(csi.NodePublishVolumeRequest)) > 1)
        assert bench.node.manager.get_mounted_volumes_for_pod(UID).keys() == {"data"}
        await bench.unmount()


async def test_a_volume_whose_attachment_went_before_it_was_staged_waits_for_it(bench: CSIBench) -> None:
    bench.answer(attached())
    bench.driver.answer("NodeStageVolume", Answer(code=StatusCode.INTERNAL, happens=False))
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("INTERNAL")
        bench.detached()
        await bench.fails_with("does not say that it is attached")
        bench.answer(attached())
        await bench.mount()


# -- asking the driver -------------------------------------------------------------------------------------------------
async def test_a_driver_of_which_nothing_tells_and_that_cannot_attach_is_used_as_it_is(asking: CSIBench) -> None:
    async with asking.running():
        await asking.unmount(await asking.mount())
    assert [call.method for call in asking.driver.calls].count("GetPluginCapabilities") == 1
    assert dict(asking.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {}


async def test_a_driver_of_which_nothing_tells_and_that_can_attach_must_be_attached(asking: CSIBench) -> None:
    asking.driver.controller = [PUBLISHES]
    async with asking.running():
        asking.node.add_pod(WEB)
        await asking.fails_with("there is no VolumeAttachment")
        asking.answer(attached({"lun": "7"}))
        await asking.mount()
    assert dict(asking.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}


async def test_an_attachment_that_is_there_counts_more_than_what_a_driver_says(asking: CSIBench) -> None:
    asking.answer(OPEN)
    async with asking.running():
        asking.node.add_pod(WEB)
        await asking.fails_with("is not attached yet")
        asking.answer(attached({"lun": "7"}))
        await asking.mount()
    assert dict(asking.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}


async def test_a_driver_that_cannot_say_whether_it_attaches_is_asked_again(asking: CSIBench) -> None:
    asking.driver.answer("GetPluginCapabilities", *[Answer(code=StatusCode.UNAVAILABLE)] * 2)
    async with asking.running():
        asking.node.add_pod(WEB)
        await asking.fails_with("UNAVAILABLE")
        await asking.mount()


async def test_a_driver_that_must_be_asked_is_waited_for(asking: CSIBench) -> None:
    async with asking.running(registered=False):
        asking.node.add_pod(WEB)
        await asking.fails_with("waits for driver 'scripted.csi.test' to register")
        await asking.register()
        await asking.mount()


# -- ordering ----------------------------------------------------------------------------------------------------------
async def test_a_node_orders_an_attachment_and_takes_it_back_when_nothing_is_left(ordering: CSIBench) -> None:
    orders = ordering.orders
    assert orders is not None
    async with ordering.running():
        ordering.node.add_pod(WEB)
        await orders.ordered.wait()
        assert [each.metadata.name for each in orders.given] == [ATTACHMENT]
        assert ordering.driver.methods() == []
        ordering.answer(attached({"lun": "7"}))
        await ordering.mount()
        ordering.node.remove_pod(UID)
        await orders.taken_back.wait()
        assert ordering.driver.methods()[-1] == "NodeUnstageVolume"
        assert ordering.node.manager.actual.volumes
        ordering.detached()
        await ordering.node.manager.wait_for_nothing_left(timeout=20)
    assert dict(ordering.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}
    assert orders.cancelled == [ATTACHMENT]


async def test_an_order_that_failed_may_have_happened_and_is_taken_back_with_the_pod(ordering: CSIBench) -> None:
    """csi.md 17.7: an attachment that was never reported is detached all the same."""
    orders = ordering.orders
    assert orders is not None
    async with ordering.running():
        ordering.node.add_pod(WEB)
        await orders.ordered.wait()
        ordering.answer(failed())
        await ordering.fails_with("no such disk")
        (held,) = ordering.node.manager.actual.volumes.values()
        assert held.attachment is Presence.UNCERTAIN
        ordering.node.remove_pod(UID)
        await orders.taken_back.wait()
        ordering.detached()
        await ordering.node.manager.wait_for_nothing_left(timeout=20)


async def test_an_order_that_failed_goes_on_when_it_is_attached_after_all(ordering: CSIBench) -> None:
    ordering.answer(failed())
    async with ordering.running():
        ordering.node.add_pod(WEB)
        await ordering.fails_with("no such disk")
        ordering.answer(attached())
        await ordering.mount()


async def test_nothing_is_ordered_before_the_driver_has_registered(ordering: CSIBench) -> None:
    """It is the driver that answers; waiting for it is no matter of a timeout."""
    orders = ordering.orders
    assert orders is not None
    async with ordering.running(registered=False):
        ordering.node.add_pod(WEB)
        await ordering.fails_with("waits for driver 'scripted.csi.test' to register")
        assert orders.given == []
        await ordering.register()
        await orders.ordered.wait()
        ordering.answer(attached())
        await ordering.mount()


async def test_an_attachment_that_is_being_deleted_is_ordered_again_when_it_is_gone(ordering: CSIBench) -> None:
    orders = ordering.orders
    assert orders is not None
    ordering.answer(attached(), leaving=True)
    async with ordering.running():
        ordering.node.add_pod(WEB)
        await ordering.fails_with("is being deleted")
        ordering.detached()
        await ordering.until(lambda: ordering.attachment() is not None)
        ordering.answer(attached())
        await ordering.mount()


async def test_a_volume_that_another_node_has_is_waited_for(ordering: CSIBench) -> None:
    orders = ordering.orders
    assert orders is not None
    elsewhere = known("elsewhere")
    ordering.node.put(elsewhere)
    async with ordering.running():
        ordering.node.add_pod(WEB)
        await ordering.fails_with("already exclusively attached to one node ('elsewhere'), waiting on detach")
        assert orders.given == []
        ordering.detached(elsewhere.metadata.name)
        await orders.ordered.wait()
        ordering.answer(attached())
        await ordering.mount()


async def test_an_order_that_nobody_answers_is_in_doubt(socket: str) -> None:
    """Scenario 50."""
    bench = CSIBench(socket, orders=True, timeout=0.2)
    bench.describe()
    async with bench.running():
        bench.node.add_pod(WEB)
        await bench.fails_with("timed out waiting for CSI driver 'scripted.csi.test' to attach it")
        (held,) = bench.node.manager.actual.volumes.values()
        assert held.attachment is Presence.UNCERTAIN
    await bench.drivers.close()


async def test_a_detach_that_nobody_answers_or_that_fails_is_tried_again(socket: str) -> None:
    """Scenario 51."""
    bench = CSIBench(socket, orders=True, timeout=0.2)
    bench.describe()
    bench.answer(attached())
    async with bench.running():
        await bench.mount()
        bench.node.remove_pod(UID)
        await bench.fails_with("timed out waiting for CSI driver 'scripted.csi.test' to detach it")
        bench.answer(VolumeAttachmentStatus(attached=True, detach_error=VolumeError(message="still busy")))
        await bench.fails_with("still busy")
        bench.detached()
        await bench.node.manager.wait_for_nothing_left(timeout=20)
    await bench.drivers.close()


async def test_a_volume_is_detached_when_its_driver_is_back(ordering: CSIBench) -> None:
    orders = ordering.orders
    assert orders is not None
    ordering.answer(attached())
    ordering.driver.abilities = []  # nothing but the publication and the attachment is to be taken away
    async with ordering.running():
        await ordering.mount()
        ordering.driver.answer("NodeUnpublishVolume", Answer(code=StatusCode.INTERNAL))
        await _deregister_after_unpublish(ordering)
        await ordering.fails_with("waits for driver 'scripted.csi.test' to register")
        assert orders.cancelled == []
        await ordering.register()
        await orders.taken_back.wait()
        ordering.detached()
        await ordering.node.manager.wait_for_nothing_left(timeout=20)


async def _deregister_after_unpublish(bench: CSIBench) -> None:
    bench.node.remove_pod(UID)
    await bench.until(lambda: "NodeUnpublishVolume" in bench.driver.methods())
    await bench.drivers.deregister(NAME)


async def test_a_volume_that_needed_no_attaching_is_let_go_without_its_driver(ordering: CSIBench) -> None:
    """What was never attached has nobody to be asked about it."""
    orders = ordering.orders
    assert orders is not None
    ordering.describe(attach_required=False)
    async with ordering.running():
        await ordering.unmount(await ordering.mount())
    assert (orders.given, ordering.attachment()) == ([], None)


async def test_a_new_process_takes_back_the_order_of_an_earlier_one(ordering: CSIBench) -> None:
    orders = ordering.orders
    assert orders is not None
    ordering.answer(attached())
    async with ordering.running():
        await ordering.mount()
    ordering.node.new_manager()
    async with ordering.running():
        await orders.taken_back.wait()
        ordering.detached()
        await ordering.node.manager.wait_for_nothing_left(timeout=20)
    assert orders.cancelled == [ATTACHMENT]
