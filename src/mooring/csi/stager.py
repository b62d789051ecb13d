"""Staging CSI volumes: once for the node, by drivers that do it."""

from __future__ import annotations

from mooring.csi import vol_data
from mooring.csi.client import CallFailed, Kind
from mooring.csi.drivers import Capabilities, Driver
from mooring.csi.names import Identity, persistent_source
from mooring.csi.stage import stage_request
from mooring.csi.surroundings import Surroundings, remove_unit
from mooring.csi.vol_data import VolumeData
from mooring.errors import Doubtful, Refused
from mooring.host.interface import Risk
from mooring.plugins.interface import NO_WISHES, StageWishes
from mooring.rpc import csi
from mooring.world.spec import VolumeSpec


async def asked_capabilities(driver: Driver, what: str) -> Capabilities:
    try:
        return await driver.capabilities()
    except CallFailed as error:
        raise error.as_outcome(what) from error


class CSIStager:
    """Lets drivers stage. For one that does not, there is nothing to do, and nothing is left of it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._host = around.host
        self._begun: set[str] = set()  # stages of which nothing was there before this process asked for them

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        what = f"cannot stage volume {spec.name!r}"
        source = persistent_source(spec)
        driver = self._around.driver_to_set_up(spec, what)
        abilities = await asked_capabilities(driver, what)
        if not abilities.stages:
            return ""
        ref = source.node_stage_secret_ref
        secrets = self._around.secrets(ref.namespace, ref.name) if ref is not None else {}
        identity = Identity(driver=source.driver, handle=source.volume_handle)
        path = self._around.places.stage(identity)
        request = stage_request(
            spec,
            abilities,
            path,
            secrets=secrets,
            publish_context=self._around.publish_context(spec, what),
            wishes=wishes,
        )
        await self._host.run(
            lambda: self._prepare(identity, path, wishes.label), risk=Risk.BULKY, what=f"prepare {path}"
        )
        await self._ask(driver, request, self._around.places.stage_unit(identity), what)
        return path

    def _prepare(self, identity: Identity, path: str, label: str) -> None:
        unit = self._around.places.stage_unit(identity)
        if not vol_data.is_there(self._host, unit):
            self._begun.add(path)
        data = VolumeData(driver_name=identity.driver, volume_handle=identity.handle, se_linux_mount_context=label)
        vol_data.write(self._host, unit, data)
        self._host.make_directories(path, 0o750)

    async def _ask(self, driver: Driver, request: csi.NodeStageVolumeRequest, unit: str, what: str) -> None:
        path = request.staging_target_path
        try:
            await driver.client.stage(request)
        except CallFailed as error:
            outcome = error.as_outcome(what)
            if error.kind is not Kind.FINAL:
                raise outcome from error
            if path not in self._begun:
                # It was there before: its data file is what a later unstage needs.
                raise Doubtful(what, why=error.why) from error
            await self._host.run(lambda: remove_unit(self._host, unit, path), risk=Risk.BULKY, what=f"remove {unit}")
            self._begun.discard(path)
            raise Refused(what, why=error.why) from error

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        """Undo, from the data file: where there is none, no driver was ever asked."""
        what = f"cannot unstage volume {spec.name!r}"
        source = persistent_source(spec)
        places = self._around.places
        identity = Identity(driver=source.driver, handle=source.volume_handle)
        path, unit = places.stage(identity), places.stage_unit(identity)
        self._begun.discard(path)
        data = vol_data.read(self._host, unit)
        if data is not None:
            driver = self._around.drivers.require(data.driver_name, what)
            abilities = await asked_capabilities(driver, what)
            if abilities.stages:
                try:
                    await driver.client.unstage(data.volume_handle, path)
                except CallFailed as error:
                    raise error.as_outcome(what) from error
        await self._host.run(lambda: remove_unit(self._host, unit, path), risk=Risk.BULKY, what=f"remove {unit}")
