"""Publishing CSI volumes for pods, and taking them away again."""

from __future__ import annotations

from mooring.csi import vol_data
from mooring.csi.client import CallFailed, Kind
from mooring.csi.drivers import Capabilities, Driver
from mooring.csi.names import Identity, attachment_name, identity_of, inline_source, persistent_source
from mooring.csi.publish import gives_to_group, publish_request
from mooring.csi.stager import asked_capabilities
from mooring.csi.surroundings import Surroundings, remove_unit
from mooring.csi.vol_data import VolumeData
from mooring.errors import Doubtful, Refused
from mooring.host.interface import Risk
from mooring.plugins.fs_group import give_to_group, refuse_idmapped
from mooring.plugins.interface import Setup
from mooring.rpc import csi
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

REPUBLISH_AFTER = 60.0
"""Seconds between two publications for a driver whose CSIDriver object asks for them: a kubelet's pod sync."""

DEFAULT_POLICY = "ReadWriteOnceWithFSType"


class CSIMounter:
    """Lets drivers publish. The data file is there before a driver is asked, and goes when nothing is left."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._host = around.host

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._around.places.target(uid, spec.name)

    def check(self, request: Setup) -> None:
        self._around.check_mode(request.spec, f"cannot publish volume {request.spec.name!r}")
        refuse_idmapped(request)

    async def set_up(self, request: Setup) -> float | None:
        known = self._around.object(request.spec.csi_driver)
        republish = known is not None and known.spec.requires_republish
        if request.refresh and not republish:
            return None
        try:
            await self._set_up(request)
        except Refused as error:
            unit = self._around.places.pod_unit(request.uid, request.spec.name)
            if not vol_data.is_there(self._host, unit):
                raise
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error  # of an earlier try
        return REPUBLISH_AFTER if republish else None

    async def _set_up(self, request: Setup) -> None:
        spec, what = request.spec, f"cannot publish volume {request.spec.name!r}"
        driver = self._around.driver_to_set_up(spec, what)
        refuse_idmapped(request)
        abilities = await asked_capabilities(driver, what)
        asked = await self._request(request, abilities, what)
        await self._host.run(lambda: self._prepare(request), risk=Risk.BULKY, what=f"prepare {asked.target_path}")
        await self._ask(driver, asked, request, what)
        known = self._around.object(driver.name)
        policy = known.spec.fs_group_policy if known is not None else DEFAULT_POLICY
        if not abilities.mount_group and not request.refresh and gives_to_group(spec, policy):
            try:
                await give_to_group(self._host, asked.target_path, request)
            except Refused as error:  # it is published all the same
                raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error

    async def _request(self, request: Setup, abilities: Capabilities, what: str) -> csi.NodePublishVolumeRequest:
        spec, places = request.spec, self._around.places
        known = self._around.object(spec.csi_driver)
        tokens = await self._around.tokens(request.pod, known)  # first: all else is looked up at one moment
        inline = inline_source(spec)
        if inline is not None:
            ref = inline.node_publish_secret_ref
            secrets = self._around.secrets(request.pod.metadata.namespace, ref.name) if ref is not None else {}
        else:
            own = persistent_source(spec).node_publish_secret_ref
            secrets = self._around.secrets(own.namespace, own.name) if own is not None else {}
        staged = inline is None and abilities.stages
        return publish_request(
            spec,
            request.pod,
            abilities,
            places.target(request.uid, spec.name),
            places.stage(identity_of(spec, request.uid)) if staged else "",
            secrets=secrets,
            publish_context=self._around.publish_context(spec, what),
            tokens=tokens,
            driver=known,
            mount_group=request.fs_group,
            label=request.label,
        )

    def _prepare(self, request: Setup) -> None:
        """Make what holds the target, which the driver makes itself, and write down what is about to be there."""
        spec, node = request.spec, self._around.node().name
        identity = identity_of(spec, request.uid)
        data = VolumeData(
            driver_name=identity.driver,
            volume_handle=identity.handle,
            spec_vol_id=spec.name,
            node_name=node,
            attachment_id=attachment_name(identity, node),
            se_linux_mount_context=request.label,
            volume_lifecycle_mode=vol_data.PERSISTENT if inline_source(spec) is None else vol_data.EPHEMERAL,
        )
        unit = self._around.places.pod_unit(request.uid, spec.name)
        if vol_data.read(self._host, unit) != data:
            vol_data.write(self._host, unit, data)

    async def _ask(self, driver: Driver, asked: csi.NodePublishVolumeRequest, request: Setup, what: str) -> None:
        try:
            await driver.client.publish(asked)
        except CallFailed as error:
            if error.kind is Kind.FINAL and not request.refresh and not request.reconstructed:
                await self._remove(request.uid, request.spec)
            raise error.as_outcome(what) from error

    async def _remove(self, uid: PodUid, spec: VolumeSpec) -> None:
        unit, target = self._around.places.pod_unit(uid, spec.name), self.path(uid, spec)
        await self._host.run(lambda: remove_unit(self._host, unit, target), risk=Risk.BULKY, what=f"remove {unit}")

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        """Undo, from the data file; without one nothing was asked for, unless something is mounted all the same."""
        what, target = f"cannot unpublish volume {spec.name!r}", self.path(uid, spec)
        identity = self._published(uid, spec, target)
        if identity is not None:
            driver = self._around.drivers.require(identity.driver, what)
            try:
                await driver.client.unpublish(identity.handle, target)
            except CallFailed as error:
                raise error.as_outcome(what) from error
        await self._remove(uid, spec)

    def _published(self, uid: PodUid, spec: VolumeSpec, target: str) -> Identity | None:
        data = vol_data.read(self._host, self._around.places.pod_unit(uid, spec.name))
        if data is not None:
            return data.identity
        return identity_of(spec, uid) if self._host.mount_at(target) is not None else None
