"""The CSI attacher: VolumeAttachments of registered drivers are carried out with the controller part of the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.controllers.attachdetach.attachable import AttachableObjects
from mooring.controllers.attachdetach.requests import csi_spec, publish_request, source_of, unpublish_request
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.csi.attachments import HANDLE, NODE_ID, finalizer
from mooring.csi.client import CallFailed
from mooring.csi.drivers import Driver, Drivers
from mooring.engine.pending import Backoff, PendingOperations, Slot
from mooring.engine.reconciler import Reconciler
from mooring.errors import MooringError, NotYet
from mooring.kube.api import Api, ApiError, Forbidden, NotFound
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.kube.objects.storage import PersistentVolumeSpec, VolumeAttachment, VolumeAttachmentSpec


@dataclass(frozen=True, slots=True)
class Publish:
    """A volume is to be attached."""

    name: str  # of the VolumeAttachment


@dataclass(frozen=True, slots=True)
class Unpublish:
    """A volume is to be detached."""

    name: str


Order = Publish | Unpublish


class CSIAttachController:
    """A subject of the engine, fed by an informer and by drivers that register: one key for each VolumeAttachment.

    `api` and `factory` are of the store that VolumeAttachments are in, which need not be that of the other objects.
    The object is there before a driver is asked for the first time, and its finalizer keeps it until the driver has
    said that the volume is detached: whatever happens in between, a volume that may be attached is detached.
    """

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        drivers: Drivers,
        objects: AttachableObjects,
        secrets: DriverSecrets,
        *,
        now: Callable[[], str],
        backoff: Backoff,
        resync_interval: float,
    ) -> None:
        self._api, self._factory, self._drivers, self._now = api, factory, drivers, now
        self._attachments = factory.informer(VOLUME_ATTACHMENT)
        self._objects, self._secrets = objects, secrets
        self._reconciler: Reconciler[Order, MooringError | None] = Reconciler(
            self, PendingOperations(backoff), resync_interval=resync_interval
        )
        self._woken: set[str] = set()  # of what there was news since it was begun: it saw what was before
        self._written: dict[str, int] = {}  # the version of each object after our own write, until the cache has it

    async def run(self) -> None:
        """Carry out whatever is ordered, until cancelled."""
        await self._factory.wait_for_cache_sync()
        self._objects.listen(self._node_changed, self._volume_changed)
        self._attachments.add_event_handler(
            Handler(
                on_add=lambda each, is_initial: self._reconciler.touch(each.metadata.name),
                on_update=self._changed,
                on_delete=lambda each: self._gone(each.object if isinstance(each, Tombstone) else each),
            )
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._secrets.watch(self._secret_appeared), name="missing secrets")
            await self._reconciler.run()

    def _secret_appeared(self) -> None:
        self._resume_where(lambda spec: True)

    def _changed(self, old: VolumeAttachment, new: VolumeAttachment) -> None:
        if old.metadata.deletion_timestamp != new.metadata.deletion_timestamp or old.spec != new.spec:
            self._reconciler.resume(new.metadata.name)
        self._reconciler.touch(new.metadata.name)

    def _gone(self, attachment: VolumeAttachment) -> None:
        self._written.pop(attachment.metadata.name, None)
        self._woken.discard(attachment.metadata.name)
        self._reconciler.forget(attachment.metadata.name)

    def _node_changed(self, name: str) -> None:
        self._resume_where(lambda spec: spec.node_name == name)

    def _volume_changed(self, name: str) -> None:
        self._resume_where(lambda spec: spec.source.persistent_volume_name == name)

    def driver_changed(self, name: str) -> None:
        """A driver came or went: what waited for it is looked at again."""
        self._resume_where(lambda spec: spec.attacher == name)

    def _resume_where(self, concerns: Callable[[VolumeAttachmentSpec], bool]) -> None:
        for each in self._attachments.indexer.list():
            if concerns(each.spec):
                self._woken.add(each.metadata.name)
                self._reconciler.resume(each.metadata.name)

    # -- the subject -----------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return self._attachments.indexer.list_keys()

    def plan(self, key: str) -> Sequence[Order]:
        found = self._attachments.indexer.get_by_key(key)
        if found is None or self._drivers.get(found.spec.attacher) is None:
            return ()
        if int(found.metadata.resource_version) < self._written.get(key, 0):
            return ()  # the cache shows what was there before our own write; its next event brings the key back
        if found.metadata.deletion_timestamp is not None:
            return (Unpublish(key),) if finalizer(found.spec.attacher) in found.metadata.finalizers else ()
        return (Publish(key),) if not found.status.attached else ()

    def slot(self, operation: Order) -> Slot:
        return Slot(operation.name)

    def kind(self, operation: Order) -> str:
        return "controller_publish" if isinstance(operation, Publish) else "controller_unpublish"

    async def execute(self, operation: Order) -> MooringError | None:
        self._woken.discard(operation.name)
        found = self._attachments.indexer.get_by_key(operation.name)
        driver = self._drivers.get(found.spec.attacher) if found is not None else None
        if found is None or driver is None:
            return None
        try:
            await (self._publish if isinstance(operation, Publish) else self._unpublish)(found, driver)
        except NotFound:
            return None  # it has gone meanwhile
        except ApiError as error:
            return error  # it says nothing of the volume, so whoever ordered it need not know
        except MooringError as error:
            return await self._note(found, error, attaching=isinstance(operation, Publish))
        return None

    def apply(self, operation: Order, outcome: MooringError | None) -> bool:
        if outcome is not None and operation.name in self._woken:
            # What it failed for may have come while it failed. Its rest begins when this returns, and ends with that.
            asyncio.get_running_loop().call_soon(self._reconciler.resume, operation.name)
        return outcome is None

    # -- carrying out ----------------------------------------------------------------------------------------------
    async def _publish(self, attachment: VolumeAttachment, driver: Driver) -> None:
        what = f"cannot attach for {attachment.metadata.name!r}"
        attachment = await self._prepared(attachment, driver, what)
        context: dict[str, str] = {}
        abilities = await driver.controller_capabilities()
        if abilities.publishes:
            volume = await self._volume(attachment, what, leaving=False)
            secrets = await self._secrets.of(source_of(volume).controller_publish_secret_ref, what)
            node_id = await self._node_id(attachment, what)
            context = await driver.controller.publish(publish_request(volume, node_id, abilities, secrets))
        status = {"attached": True, "attachmentMetadata": context, "attachError": None}
        await self._patch(attachment, {"status": status}, subresource="status")

    async def _prepared(self, attachment: VolumeAttachment, driver: Driver, what: str) -> VolumeAttachment:
        """The object with all that a detach will need, written before anybody is asked to attach."""
        mark, known = finalizer(driver.name), attachment.metadata.annotations
        if mark in attachment.metadata.finalizers and HANDLE in known and NODE_ID in known:
            return attachment
        source = source_of(await self._volume(attachment, what))
        merge = {
            "metadata": {
                "resourceVersion": attachment.metadata.resource_version,
                "finalizers": [*(each for each in attachment.metadata.finalizers if each != mark), mark],
                "annotations": {
                    HANDLE: source.volume_handle,
                    NODE_ID: await self._node_id(attachment, what),
                },
            }
        }
        return await self._patch(attachment, merge)

    async def _unpublish(self, attachment: VolumeAttachment, driver: Driver) -> None:
        what = f"cannot detach for {attachment.metadata.name!r}"
        if (await driver.controller_capabilities()).publishes:
            handle = attachment.metadata.annotations.get(HANDLE)
            if handle is None:  # somebody else wrote the order, and had begun with it
                handle = source_of(await self._volume(attachment, what)).volume_handle
            node_id = await self._node_id(attachment, what)
            secrets = await self._detach_secrets(attachment)
            await driver.controller.unpublish(unpublish_request(handle, node_id, secrets))
        mark = finalizer(driver.name)
        left = [each for each in attachment.metadata.finalizers if each != mark]
        version = attachment.metadata.resource_version  # what others have let go of meanwhile must not come back
        await self._patch(attachment, {"metadata": {"resourceVersion": version, "finalizers": left}})

    async def _detach_secrets(self, attachment: VolumeAttachment) -> dict[str, str]:
        """Without its PersistentVolume or its Secret a volume is detached all the same, if the driver lets it.

        So it is where they may not be read: a node may no more, once its last pod with the volume has gone.
        """
        try:
            what = f"cannot detach for {attachment.metadata.name!r}"
            volume = await self._volume(attachment, what)
            return await self._secrets.of(source_of(volume).controller_publish_secret_ref, what)
        except (NotYet, Forbidden):
            return {}

    async def _volume(self, attachment: VolumeAttachment, what: str, *, leaving: bool = True) -> PersistentVolumeSpec:
        """The volume as its driver knows it; with `leaving`, also one that is being deleted."""
        source = attachment.spec.source
        if source.inline_volume_spec is not None:
            return source.inline_volume_spec
        found = await self._objects.volume(source.persistent_volume_name or "")
        spec = csi_spec(found) if found is not None else None
        if not leaving and found is not None and found.metadata.deletion_timestamp is not None:
            raise NotYet(what, why=f"PersistentVolume {found.metadata.name!r} is being deleted")
        if spec is None:
            raise NotYet(what, why=f"there is no PersistentVolume {source.persistent_volume_name!r} of a CSI driver")
        return spec

    async def _node_id(self, attachment: VolumeAttachment, what: str) -> str:
        """What the driver calls the node, from the CSINode, else as it was when the volume was to be attached."""
        node = await self._objects.csi_node(attachment.spec.node_name)
        entries = node.spec.drivers if node is not None else ()
        found = next((each.node_id for each in entries if each.name == attachment.spec.attacher), "")
        found = found or attachment.metadata.annotations.get(NODE_ID, "")
        if not found:
            why = f"driver {attachment.spec.attacher!r} has not registered on node {attachment.spec.node_name!r}"
            raise NotYet(what, why=why)
        return found

    async def _note(self, attachment: VolumeAttachment, error: MooringError, *, attaching: bool) -> MooringError:
        """Write down why it failed, where whoever ordered it looks."""
        told: dict[str, Any] = {"message": error.why, "time": self._now()}
        if isinstance(error, CallFailed):
            told["errorCode"] = error.code.value[0]
        status = {"attachError" if attaching else "detachError": told}
        try:
            await self._patch(attachment, {"status": status}, subresource="status")
        except MooringError:
            return error  # it goes on being tried, and is told then
        return error

    async def _patch(
        self, attachment: VolumeAttachment, merge: dict[str, Any], *, subresource: str = ""
    ) -> VolumeAttachment:
        name = attachment.metadata.name
        written = await self._api.patch(VOLUME_ATTACHMENT, "", name, merge, subresource=subresource)
        if written.metadata.deletion_timestamp is None or written.metadata.finalizers:  # else it has gone with this
            self._written[name] = int(written.metadata.resource_version)
        return written
