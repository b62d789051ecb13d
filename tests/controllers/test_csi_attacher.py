"""VolumeAttachments are carried out with the controller part of their drivers (csi.md 17.7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from msgspec import structs
from tests.controllers.store_bench import NODE, SOON, StoreBench
from tests.controllers.store_bench import NODE_ID as ID

from mooring.controllers.attachdetach.attachable import InformedObjects
from mooring.controllers.attachdetach.csi_attacher import CSIAttachController
from mooring.controllers.attachdetach.orders import ApiAttachmentOrders
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.csi.attachments import HANDLE, NODE_ID, attachment_for, finalizer
from mooring.engine.pending import Backoff
from mooring.kube.api import NO_PRECONDITIONS, NotFound, Preconditions
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CSI_NODE, PERSISTENT_VOLUME, VOLUME_ATTACHMENT, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, SecretReference
from mooring.kube.objects.pod import Secret
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeError,
)
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ControllerAbility, ScriptedCSIDriver
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.spec import VolumeSpec

DRIVER = "scripted.csi.test"
PUBLISHES = (ControllerAbility.PUBLISH_UNPUBLISH_VOLUME,)
EXHAUSTED = Answer(code=StatusCode.RESOURCE_EXHAUSTED, words="full", happens=False)
NAME = "csi-attachment"


def volume(*, modes: tuple[str, ...] = ("ReadWriteOnce",), **source: object) -> PersistentVolume:
    made = CSIPersistentVolumeSource(
        driver=DRIVER, volume_handle="vol-1", fs_type="ext4", volume_attributes={"kind": "fast"}
    )
    spec = PersistentVolumeSpec(
        access_modes=modes, volume_mode="Filesystem", mount_options=("noatime",), csi=structs.replace(made, **source)
    )
    return PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=spec)


def order(driver: str = DRIVER, **source: object) -> VolumeAttachment:
    """An attachment as anybody may write it."""
    origin = structs.replace(VolumeAttachmentSource(persistent_volume_name="pv-1"), **source)
    spec = VolumeAttachmentSpec(attacher=driver, node_name=NODE, source=origin)
    return VolumeAttachment(metadata=ObjectMeta(name=NAME), spec=spec)


class Bench(StoreBench):
    """The attacher at work."""

    def __init__(self, store: LocalStore, driver: ScriptedCSIDriver, backoff: Backoff) -> None:
        super().__init__(store, driver)
        self.controller = CSIAttachController(
            store,
            self.factory,
            self.drivers,
            InformedObjects(self.factory),
            DriverSecrets(store, look_interval=0.01),
            now=lambda: "now",
            backoff=backoff,
            resync_interval=3600.0,
        )
        self.drivers.changed = self.controller.driver_changed

    async def found(self) -> VolumeAttachment | None:
        try:
            return await self.store.get(VOLUME_ATTACHMENT, "", NAME)
        except NotFound:
            return None

    async def attached(self, name: str = NAME) -> VolumeAttachment:
        """The attachment, once it is attached."""

        async def answer() -> VolumeAttachment | None:
            found = await self.store.get(VOLUME_ATTACHMENT, "", name)
            return found if found.status.attached else None

        return await self.until(answer)

    async def error(self) -> VolumeError:
        """Why attaching failed, once that was told."""

        async def answer() -> VolumeError | None:
            errors = (each.status.attach_error for each in self.seen if isinstance(each, VolumeAttachment))
            return next((each for each in errors if each is not None), None)

        return await self.until(answer)

    async def detach_error(self) -> VolumeError:
        async def answer() -> VolumeError | None:
            errors = (each.status.detach_error for each in self.seen if isinstance(each, VolumeAttachment))
            return next((each for each in errors if each is not None), None)

        return await self.until(answer)

    async def delete(self) -> None:
        await self.store.delete(VOLUME_ATTACHMENT, "", NAME)

    async def gone(self) -> None:
        async def answer() -> bool | None:
            return True if await self.found() is None else None

        await self.until(answer)


@asynccontextmanager
async def attacher(
    store: LocalStore, driver: ScriptedCSIDriver, *, registered: bool = True, backoff: Backoff = SOON
) -> AsyncIterator[Bench]:
    bench = Bench(store, driver, backoff)
    async with bench.at_work(bench.controller.run, registered=registered):
        yield bench


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    driver = ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"), controller=PUBLISHES)
    driver.publish_context = {"lun": "7"}
    return driver


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    async with LocalStore(tmp_path / "store.db") as store:
        yield store


@pytest.fixture
async def bench(store: LocalStore, driver: ScriptedCSIDriver) -> AsyncIterator[Bench]:
    """A node that knows the driver, a volume of it, and the attacher."""
    async with attacher(store, driver) as bench:
        await bench.put_node()
        yield bench


# -- attaching ---------------------------------------------------------------------------------------------------------
async def test_a_volume_is_attached_and_what_the_driver_says_is_kept_for_the_node(bench: Bench) -> None:
    await bench.put(volume(), order())
    found = await bench.attached()
    assert (found.status.attachment_metadata, found.status.attach_error) == ({"lun": "7"}, None)
    assert found.metadata.finalizers == (finalizer(DRIVER),)
    assert found.metadata.annotations == {HANDLE: "vol-1", NODE_ID: ID}
    (asked,) = bench.driver.requests(csi.ControllerPublishVolumeRequest)
    assert (asked.volume_id, asked.node_id, asked.readonly) == ("vol-1", ID, False)
    assert (dict(asked.volume_context), dict(asked.secrets)) == ({"kind": "fast"}, {})
    mount = asked.volume_capability.mount
    assert (mount.fs_type, list(mount.mount_flags)) == ("ext4", ["noatime"])


async def test_all_that_a_detach_needs_is_written_before_the_driver_is_asked(bench: Bench) -> None:
    answered = asyncio.Event()
    bench.driver.answer("ControllerPublishVolume", Answer(late=answered))
    await bench.put(volume(), order())
    await bench.until_called("ControllerPublishVolume")
    found = await bench.found()
    assert found is not None
    assert not found.status.attached
    assert found.metadata.finalizers == (finalizer(DRIVER),)
    assert found.metadata.annotations == {HANDLE: "vol-1", NODE_ID: ID}
    answered.set()
    await bench.attached()


async def test_marks_of_others_stay_on_an_attachment(bench: Bench) -> None:
    theirs = structs.replace(
        order(), metadata=ObjectMeta(name=NAME, finalizers=("example/theirs",), annotations={"a": "b"})
    )
    await bench.put(volume(), theirs)
    found = await bench.attached()
    assert found.metadata.finalizers == ("example/theirs", finalizer(DRIVER))
    assert found.metadata.annotations["a"] == "b"
    await bench.delete()

    async def left_to_others() -> VolumeAttachment | None:
        left = await bench.found()
        return left if left is not None and left.metadata.finalizers == ("example/theirs",) else None

    await bench.until(left_to_others)
    assert bench.driver.attached == set()


async def test_a_driver_without_the_ability_has_its_volumes_attached_without_a_call(bench: Bench) -> None:
    """Scenario 124."""
    bench.driver.controller = []
    await bench.put(volume(), order())
    assert (await bench.attached()).status.attachment_metadata == {}
    await bench.delete()
    await bench.gone()
    assert bench.driver.methods() == []


async def test_a_failure_is_noted_with_its_code_and_tried_again(bench: Bench) -> None:
    """Scenario 125."""
    bench.driver.answer("ControllerPublishVolume", EXHAUSTED, EXHAUSTED)
    await bench.put(volume(), order())
    assert await bench.error() == VolumeError(message="RESOURCE_EXHAUSTED: full", time="now", error_code=8)
    assert (await bench.attached()).status.attach_error is None
    assert len(bench.driver.requests(csi.ControllerPublishVolumeRequest)) == 3


@pytest.mark.parametrize("modes", [("ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOncePod", "ReadWriteOnce"), ()])
async def test_access_modes_that_csi_does_not_have_fail_before_any_call(bench: Bench, modes: tuple[str, ...]) -> None:
    """Scenario 123."""
    await bench.put(volume(modes=modes), order())
    error = await bench.error()
    assert error.error_code is None
    assert bench.driver.methods() == []


async def test_a_volume_that_is_read_only_is_attached_so_by_a_driver_that_can(bench: Bench) -> None:
    bench.driver.controller = [*PUBLISHES, ControllerAbility.PUBLISH_READONLY]
    await bench.put(volume(read_only=True), order())
    await bench.attached()
    assert bench.driver.requests(csi.ControllerPublishVolumeRequest)[0].readonly


async def test_a_volume_written_in_a_pod_is_attached_from_the_order_alone(bench: Bench) -> None:
    await bench.put(order(persistent_volume_name=None, inline_volume_spec=volume().spec))
    await bench.attached()
    assert bench.driver.attached == {("vol-1", ID)}


async def test_a_volume_of_a_type_that_has_moved_is_attached_by_the_driver_that_took_its_place(
    store: LocalStore, tmp_path: Path
) -> None:
    ebs = ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"), name="ebs.csi.aws.com", controller=PUBLISHES)
    moved = PersistentVolumeSpec(
        access_modes=("ReadWriteOnce",), aws_elastic_block_store={"volumeID": "aws://us-east-1a/vol-0ab"}
    )
    async with attacher(store, ebs) as bench:
        await bench.put_node()
        await bench.put(PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=moved), order(driver=ebs.name))
        assert (await bench.attached()).metadata.annotations[HANDLE] == "vol-0ab"
    assert ebs.attached == {("vol-0ab", ID)}


async def test_a_volume_is_attached_with_the_secret_that_it_names(bench: Bench) -> None:
    ref = SecretReference(namespace="vault", name="key")
    secret = Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"})
    await bench.put(volume(controller_publish_secret_ref=ref), order())
    assert (await bench.error()).message == "there is no Secret 'vault/key'"
    assert bench.driver.methods() == []
    await bench.put(secret)
    await bench.attached()
    assert dict(bench.driver.requests(csi.ControllerPublishVolumeRequest)[0].secrets) == {"password": "hunter2"}


async def test_a_secret_that_is_no_text_is_not_handed_out(bench: Bench) -> None:
    ref = SecretReference(namespace="vault", name="key")
    await bench.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"\xff"}))
    await bench.put(volume(controller_publish_secret_ref=ref), order())
    assert (await bench.error()).message == "a value of Secret 'vault/key' is not a text"
    assert bench.driver.methods() == []


# -- waiting -----------------------------------------------------------------------------------------------------------
PATIENT = Backoff(initial=3600.0, maximum=3600.0)
"""Pauses that no test lives to see the end of: what goes on was woken by an event."""


async def test_an_order_waits_for_its_driver_to_register(store: LocalStore, driver: ScriptedCSIDriver) -> None:
    async with attacher(store, driver, registered=False, backoff=PATIENT) as bench:
        await bench.put_node()
        await bench.put(volume(), order(), structs.replace(order(), metadata=ObjectMeta(name="another")))
        await bench.register()
        await bench.attached()


async def test_an_order_waits_for_its_volume(store: LocalStore, driver: ScriptedCSIDriver) -> None:
    async with attacher(store, driver, backoff=PATIENT) as bench:
        await bench.put_node()
        await bench.put(order())
        assert (await bench.error()).message == "there is no PersistentVolume 'pv-1' of a CSI driver"
        await bench.put(volume())
        await bench.attached()


async def test_an_order_waits_until_the_node_knows_the_driver(store: LocalStore, driver: ScriptedCSIDriver) -> None:
    async with attacher(store, driver, backoff=PATIENT) as bench:
        await bench.put(volume(), order())
        assert (await bench.error()).message == f"driver '{DRIVER}' has not registered on node '{NODE}'"
        await bench.put_node()
        await bench.attached()


class HeldUpStore(LocalStore):
    """A store whose writes of what became of an order are held up."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        if subresource == "status" and kind.name == VOLUME_ATTACHMENT.name:
            self.reached.set()
            await self.free.wait()
        return await super().patch(kind, namespace, name, merge, subresource=subresource)


async def test_what_comes_while_an_order_fails_for_it_is_not_missed(driver: ScriptedCSIDriver) -> None:
    store = HeldUpStore()
    async with store, attacher(store, driver, backoff=PATIENT) as bench:
        await bench.put(volume(), order())
        async with asyncio.timeout(20):
            await store.reached.wait()
        await bench.put_node()
        await asyncio.sleep(0.1)  # the news arrives meanwhile; later, it would wake the order in any case
        store.free.set()
        await bench.attached()


async def test_an_order_waits_for_its_secret(store: LocalStore, driver: ScriptedCSIDriver) -> None:
    async with attacher(store, driver, backoff=PATIENT) as bench:
        await bench.put_node()
        await bench.put(volume(controller_publish_secret_ref=SecretReference(namespace="vault", name="key")), order())
        assert (await bench.error()).message == "there is no Secret 'vault/key'"
        await bench.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"}))
        await bench.attached()


async def test_an_order_for_the_driver_of_somebody_else_is_left_alone(bench: Bench) -> None:
    await bench.put(volume(), order(driver="another"))
    await bench.put(structs.replace(order(), metadata=ObjectMeta(name="mine")))
    await bench.attached("mine")
    left = await bench.found()
    assert left is not None
    assert (left.metadata.finalizers, left.status.attached) == ((), False)


async def test_a_volume_that_is_being_deleted_is_not_attached(bench: Bench) -> None:
    held = structs.replace(volume(), metadata=ObjectMeta(name="pv-1", finalizers=("example/held",)))
    await bench.put(held)
    await bench.store.delete(PERSISTENT_VOLUME, "", "pv-1")
    await bench.put(order())
    assert (await bench.error()).message == "PersistentVolume 'pv-1' is being deleted"
    assert bench.driver.methods() == []


# -- detaching ---------------------------------------------------------------------------------------------------------
async def test_an_order_that_is_taken_back_is_gone_when_the_driver_has_detached(bench: Bench) -> None:
    await bench.put(volume(), order())
    await bench.attached()
    await bench.delete()
    await bench.gone()
    (asked,) = bench.driver.requests(csi.ControllerUnpublishVolumeRequest)
    assert (asked.volume_id, asked.node_id) == ("vol-1", ID)
    assert bench.driver.attached == set()


async def test_a_volume_is_detached_although_its_objects_are_gone(bench: Bench) -> None:
    await bench.put(volume(controller_publish_secret_ref=SecretReference(namespace="v", name="k")))
    await bench.put(Secret(metadata=ObjectMeta(name="k", namespace="v"), data={"a": b"b"}), order())
    await bench.attached()
    await bench.store.delete(PERSISTENT_VOLUME, "", "pv-1")
    await bench.store.delete(CSI_NODE, "", NODE)
    await bench.delete()
    await bench.gone()
    (asked,) = bench.driver.requests(csi.ControllerUnpublishVolumeRequest)
    assert (asked.volume_id, asked.node_id, dict(asked.secrets)) == ("vol-1", ID, {})


@pytest.mark.parametrize("code", [StatusCode.NOT_FOUND, StatusCode.UNAVAILABLE])
async def test_a_detach_that_fails_is_noted_and_tried_until_the_driver_agrees(bench: Bench, code: StatusCode) -> None:
    """Also of NOT_FOUND nothing is concluded."""
    bench.driver.answer("ControllerUnpublishVolume", *[Answer(code=code, words="no", happens=False)] * 2)
    await bench.put(volume(), order())
    await bench.attached()
    await bench.delete()
    error = await bench.detach_error()
    assert (error.message, error.error_code) == (f"{code.name}: no", code.value[0])
    await bench.gone()
    assert len(bench.driver.requests(csi.ControllerUnpublishVolumeRequest)) == 3


async def test_a_volume_that_may_be_attached_is_detached_although_nobody_ever_said_so(bench: Bench) -> None:
    bench.driver.always("ControllerPublishVolume", Answer(code=StatusCode.DEADLINE_EXCEEDED))
    await bench.put(volume(), order())
    assert (await bench.error()).error_code == 4
    assert bench.driver.attached == {("vol-1", ID)}
    await bench.delete()
    await bench.gone()
    assert bench.driver.attached == set()


async def test_an_order_that_another_attacher_had_begun_is_detached_by_its_volume(bench: Bench) -> None:
    begun = structs.replace(order(), metadata=ObjectMeta(name=NAME, finalizers=(finalizer(DRIVER),)))
    bench.driver.always("ControllerPublishVolume", Answer(late=asyncio.Event()))
    await bench.put(volume())
    await bench.store.create(begun)
    await bench.store.delete(VOLUME_ATTACHMENT, "", NAME)
    await bench.gone()
    assert bench.driver.requests(csi.ControllerUnpublishVolumeRequest)[-1].volume_id == "vol-1"


async def test_an_order_without_our_mark_is_gone_at_once(bench: Bench) -> None:
    await bench.drivers.deregister(DRIVER)
    await bench.put(volume(), order())
    await bench.delete()
    await bench.gone()
    assert bench.driver.methods() == []


# -- restarts ----------------------------------------------------------------------------------------------------------
async def test_a_new_process_goes_on_with_what_an_earlier_one_had_begun(
    store: LocalStore, driver: ScriptedCSIDriver
) -> None:
    driver.answer("ControllerPublishVolume", Answer(dies=True))
    async with attacher(store, driver) as bench:
        await bench.put_node()
        await bench.put(volume(), order())
        await bench.error()
    assert driver.attached == {("vol-1", ID)}
    async with attacher(store, driver) as bench:
        await bench.attached()
        await bench.delete()
        await bench.gone()
    assert driver.attached == set()


async def test_a_new_process_detaches_what_was_taken_back_meanwhile(
    store: LocalStore, driver: ScriptedCSIDriver
) -> None:
    async with attacher(store, driver) as bench:
        await bench.put_node()
        await bench.put(volume(), order())
        await bench.attached()
    await store.delete(VOLUME_ATTACHMENT, "", NAME)
    await store.delete(CSI_NODE, "", NODE)
    async with attacher(store, driver) as bench:
        await bench.gone()
    assert driver.attached == set()


class BusyStore(LocalStore):
    """A store in which somebody else lets go of an attachment just before its finalizers are written after a detach."""

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        if merge.get("metadata", {}).get("finalizers") == ["other/mark"]:
            left = {"metadata": {"finalizers": [finalizer(DRIVER)]}}
            await super().patch(kind, namespace, name, left)
        return await super().patch(kind, namespace, name, merge, subresource=subresource)


async def test_what_others_have_let_go_of_meanwhile_is_looked_at_again(driver: ScriptedCSIDriver) -> None:
    marked = structs.replace(order(), metadata=ObjectMeta(name=NAME, finalizers=("other/mark",)))
    async with BusyStore() as store, attacher(store, driver) as bench:
        await bench.put_node()
        await bench.put(volume(), marked)
        await bench.attached()
        await bench.delete()
        await bench.gone()
        assert driver.attached == set()


# -- orders ------------------------------------------------------------------------------------------------------------
ORDERED = attachment_for(VolumeSpec(persistent_volume=volume()), NODE)


@pytest.fixture
async def orders(bench: Bench) -> ApiAttachmentOrders:
    return ApiAttachmentOrders(bench.store, bench.factory)


async def test_an_order_is_given_once_and_its_answer_awaited(bench: Bench, orders: ApiAttachmentOrders) -> None:
    name = ORDERED.metadata.name
    await bench.put(volume())
    await orders.order(ORDERED)
    await orders.order(ORDERED)
    found = await orders.until(name, lambda each: each if each is not None and each.status.attached else None, 20)
    assert found.status.attachment_metadata == {"lun": "7"}
    await orders.cancel(name)
    assert await orders.until(name, lambda each: "gone" if each is None else None, 20) == "gone"
    await orders.cancel(name)
    assert await orders.until(name, lambda each: "gone" if each is None else None, 20) == "gone"
    assert bench.driver.attached == set()


async def test_what_was_there_before_an_own_order_is_no_answer_to_it(bench: Bench, orders: ApiAttachmentOrders) -> None:
    """The cache may still say that there is nothing when the order is given and taken back at once."""
    name = ORDERED.metadata.name
    await bench.put(volume())
    await orders.order(ORDERED)
    (found,) = await orders.until(name, lambda each: (each,), 20)
    assert found is not None


async def test_what_was_there_before_an_order_was_taken_back_is_no_answer(
    bench: Bench, orders: ApiAttachmentOrders
) -> None:
    name = ORDERED.metadata.name
    await bench.put(volume())
    await orders.order(ORDERED)
    await orders.until(name, lambda each: True if each is not None and each.status.attached else None, 20)
    bench.driver.always("ControllerUnpublishVolume", Answer(code=StatusCode.INTERNAL, happens=False))
    await orders.cancel(name)
    (found,) = await orders.until(name, lambda each: (each,), 20)
    assert found is not None
    assert found.metadata.deletion_timestamp is not None


async def test_an_order_that_nothing_holds_is_gone_when_it_is_taken_back(
    bench: Bench, orders: ApiAttachmentOrders
) -> None:
    await bench.drivers.deregister(DRIVER)
    await bench.put(order())
    await orders.until(NAME, lambda each: each, 20)
    await orders.cancel(NAME)
    assert await orders.until(NAME, lambda each: "gone" if each is None else None, 20) == "gone"


async def test_an_order_that_nobody_answers_is_waited_for_only_so_long(
    bench: Bench, orders: ApiAttachmentOrders
) -> None:
    with pytest.raises(TimeoutError):
        await orders.until("nothing", lambda each: each, 0.01)


class LateStore(LocalStore):
    """A store whose answer to a delete comes after all that follows from it."""

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> ObjectT:
        answer = await super().delete(kind, namespace, name, preconditions=preconditions, grace_period=grace_period)
        await self.patch(kind, namespace, name, {"metadata": {"finalizers": []}})
        await asyncio.sleep(1)
        return answer


@in_virtual_time
async def test_an_order_that_is_gone_before_its_delete_was_answered_is_gone() -> None:
    async with LateStore() as store, asyncio.TaskGroup() as tasks:
        factory = SharedInformerFactory(store)
        orders = ApiAttachmentOrders(store, factory)
        factory.start(tasks)
        await orders.order(ORDERED)
        await orders.cancel(ORDERED.metadata.name)
        assert await orders.until(ORDERED.metadata.name, lambda each: "gone" if each is None else None, 20) == "gone"
        factory.stop()
