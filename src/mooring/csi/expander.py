"""Letting CSI volumes grow on this node."""

from __future__ import annotations

from mooring.csi.client import CallFailed, Kind
from mooring.csi.drivers import Capabilities
from mooring.csi.names import Identity, identity_of, persistent_source
from mooring.csi.stage import capability
from mooring.csi.surroundings import Surroundings
from mooring.errors import Infeasible, InUse, NotYet, Unsupported
from mooring.host.interface import FileKind
from mooring.plugins.interface import Growing
from mooring.rpc import csi

_INFEASIBLE = frozenset(("INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND"))


class CSIExpander:
    """Asks drivers to let what they have published grow."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def expand(self, request: Growing) -> None:
        spec, what = request.spec, f"cannot grow volume {request.spec.name!r}"
        driver = self._around.drivers.require(spec.csi_driver, what)
        try:
            abilities = await driver.capabilities()
            if not abilities.expands:
                raise Unsupported(what, why=f"driver {driver.name!r} does not support EXPAND_VOLUME on nodes")
            await driver.client.expand(self._request(request, abilities))
        except CallFailed as error:
            raise _meaning(error, what) from error

    def _request(self, request: Growing, abilities: Capabilities) -> csi.NodeExpandVolumeRequest:
        spec = request.spec
        identity, source = identity_of(spec, request.uid), persistent_source(spec)
        ref = source.node_expand_secret_ref
        path = self._device(request) if spec.is_block else request.path
        return csi.NodeExpandVolumeRequest(
            volume_id=identity.handle,
            volume_path=path,
            capacity_range=csi.CapacityRange(required_bytes=request.size),
            staging_target_path=self._stage(request, identity, abilities),
            volume_capability=capability(spec, abilities, source.fs_type),
            secrets=self._around.secrets(ref.namespace, ref.name) if ref is not None else {},
        )

    def _stage(self, request: Growing, identity: Identity, abilities: Capabilities) -> str:
        places = self._around.places
        if request.spec.is_block:
            return places.block_stage(request.spec.name)
        return places.stage(identity) if abilities.stages else ""

    def _device(self, request: Growing) -> str:
        """Where the driver has published a raw device; what it made a link leads further."""
        published = self._around.places.block_publish(request.uid, request.spec.name)
        facts = self._around.host.look(published)
        if facts is None:
            what = f"cannot grow volume {request.spec.name!r}"
            raise NotYet(what, why=f"its driver has published nothing at {published}")
        link = self._around.host.read_link(published) if facts.kind is FileKind.LINK else None
        return link or published


def _meaning(error: CallFailed, what: str) -> Exception:
    """What a driver's answer means for a volume that was to grow; other questions that failed have no such meaning."""
    if error.kind is not Kind.FINAL:
        return error.as_outcome(what)
    if error.code.name == "FAILED_PRECONDITION":
        return InUse(what, why=error.why, next_step="It can grow while no pod uses it")
    if error.code.name in _INFEASIBLE:
        return Infeasible(what, why=error.why, next_step="Ask for a size that its driver can give")
    return error.as_outcome(what)
