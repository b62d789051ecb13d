"""Raw block volumes of CSI drivers: staged once for the node, published and mapped for each pod."""

from __future__ import annotations

from collections.abc import Callable

from mooring.csi import vol_data
from mooring.csi.client import CallFailed, Kind
from mooring.csi.names import Identity, attachment_name, persistent_source
from mooring.csi.publish import publish_request
from mooring.csi.stage import stage_request
from mooring.csi.stager import asked_capabilities
from mooring.csi.surroundings import Surroundings, remove_directory
from mooring.csi.vol_data import VolumeData
from mooring.errors import Doubtful, Refused
from mooring.host import block_maps
from mooring.host.interface import FileKind, Risk
from mooring.plugins.interface import NO_WISHES, Setup, StageWishes
from mooring.plugins.local_block import remove_map_directory
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class CSIBlockStager:
    """Lets drivers stage raw devices. The data file of the volume is there from the first step to the last."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._host = around.host
        self._begun: set[str] = set()  # volumes of which nothing was there before this process began with them

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        what = f"cannot stage volume {spec.name!r}"
        source = persistent_source(spec)
        driver = self._around.driver_to_set_up(spec, what)
        abilities = await asked_capabilities(driver, what)
        path = self._around.places.block_stage(spec.name)
        ref = source.node_stage_secret_ref if abilities.stages else None
        secrets = self._around.secrets(ref.namespace, ref.name) if ref is not None else {}
        publish_context = self._around.publish_context(spec, what)
        await self._run(lambda: self._prepare(spec, path if abilities.stages else ""), f"prepare {path}")
        if not abilities.stages:
            return ""
        try:
            await driver.client.stage(
                stage_request(spec, abilities, path, secrets=secrets, publish_context=publish_context)
            )
        except CallFailed as error:
            if error.kind is not Kind.FINAL:
                raise error.as_outcome(what) from error
            if spec.name not in self._begun:  # its data file is what a later unstage needs
                raise Doubtful(what, why=error.why) from error
            await self._run(lambda: self._remove(spec.name), f"remove {path}")
            raise Refused(what, why=error.why) from error
        return path

    def _prepare(self, spec: VolumeSpec, path: str) -> None:
        source, node = persistent_source(spec), self._around.node().name
        identity = Identity(driver=source.driver, handle=source.volume_handle)
        directory = self._around.places.block_data(spec.name)
        if not vol_data.is_there(self._host, directory):
            self._begun.add(spec.name)
        data = VolumeData(
            driver_name=identity.driver,
            volume_handle=identity.handle,
            spec_vol_id=spec.name,
            node_name=node,
            attachment_id=attachment_name(identity, node),
        )
        vol_data.write(self._host, directory, data)
        if path:
            self._host.make_directories(path, 0o750)

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        """Undo, from the data file. Where the directory of the stage is gone, the driver has been asked before."""
        what, places = f"cannot unstage volume {spec.name!r}", self._around.places
        self._begun.discard(spec.name)
        path = places.block_stage(spec.name)
        data = vol_data.read(self._host, places.block_data(spec.name))
        if data is not None and self._host.look(path) is not None:
            driver = self._around.drivers.require(data.driver_name, what)
            if (await asked_capabilities(driver, what)).stages:
                try:
                    await driver.client.unstage(data.volume_handle, path)
                except CallFailed as error:
                    raise error.as_outcome(what) from error
        await self._run(lambda: self._remove(spec.name), f"remove {path}")

    def _remove(self, name: str) -> None:
        """Remove the volume's directories, the data file last: until then it is known what they are."""
        places = self._around.places
        remove_map_directory(self._host, places.block_maps(name))
        remove_directory(self._host, places.block_publish_unit(name))
        remove_directory(self._host, places.block_stage(name))
        vol_data.remove(self._host, places.block_data(name))
        remove_directory(self._host, places.block_data(name))
        remove_directory(self._host, places.block_unit(name))
        self._begun.discard(name)

    async def _run(self, call: Callable[[], None], what: str) -> None:
        await self._host.run(call, risk=Risk.HANGING, what=what)


class CSIBlockMapper:
    """Lets drivers publish raw devices, and maps what they publish for the pod."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._host = around.host

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._around.places.pod_device(uid, spec.name)

    async def set_up(self, request: Setup) -> None:
        spec, uid, places = request.spec, request.uid, self._around.places
        what = f"cannot publish volume {spec.name!r}"
        driver = self._around.driver_to_set_up(spec, what)
        abilities = await asked_capabilities(driver, what)
        ref = persistent_source(spec).node_publish_secret_ref
        target = places.block_publish(uid, spec.name)
        asked = publish_request(
            spec,
            request.pod,
            abilities,
            target,
            places.block_stage(spec.name),
            secrets=self._around.secrets(ref.namespace, ref.name) if ref is not None else {},
            publish_context=self._around.publish_context(spec, what),
            tokens={},
            driver=self._around.object(driver.name),
        )
        unit = places.block_publish_unit(spec.name)
        await self._host.run(lambda: self._host.make_directories(unit, 0o750), risk=Risk.BULKY, what=f"make {unit}")
        try:
            await driver.client.publish(asked)
        except CallFailed as error:
            if error.kind is Kind.FINAL and self._host.look(target) is not None:
                raise Doubtful(what, why=error.why) from error  # something is there, of this try or an earlier one
            raise error.as_outcome(what) from error
        await self._map(uid, spec, target)

    async def _map(self, uid: PodUid, spec: VolumeSpec, target: str) -> None:
        places = self._around.places
        maps, links = places.block_maps(spec.name), places.pod_devices(uid)
        try:
            await self._host.run(
                lambda: block_maps.map_device(self._host, target, maps, links, spec.name, uid),
                risk=Risk.HANGING,
                what=f"map {target}",
            )
        except Refused as error:  # it is published all the same
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        """Unmap, then let the driver unpublish even what is gone: a publication without an answer may still run."""
        what, places = f"cannot unpublish volume {spec.name!r}", self._around.places
        maps, links, target = (
            places.block_maps(spec.name),
            places.pod_devices(uid),
            places.block_publish(uid, spec.name),
        )
        source = persistent_source(spec)
        driver = self._around.drivers.require(source.driver, what)
        await self._host.run(
            lambda: block_maps.unmap_device(self._host, maps, links, spec.name, uid),
            risk=Risk.HANGING,
            what=f"unmap {target}",
        )
        try:
            await driver.client.unpublish(source.volume_handle, target)
        except CallFailed as error:
            raise error.as_outcome(what) from error
        await self._host.run(lambda: self._remove(target), risk=Risk.HANGING, what=f"remove {target}")

    def _remove(self, target: str) -> None:
        """Remove the empty file that a driver may leave."""
        facts = self._host.look(target)
        if facts is None:
            return
        if self._host.mount_at(target) is not None or facts.kind is not FileKind.FILE or facts.size:
            why = "its driver has let go of it, and yet it is still there"
            raise Doubtful(f"cannot remove {target!r}", why=why, next_step=f"Look with `findmnt {target}`")
        self._host.remove_file(target)
