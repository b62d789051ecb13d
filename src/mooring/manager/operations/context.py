"""What operations work with: both worlds to read, plugins and the host to act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.errors import NotYet, Refused
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.manager.claims import Claims, ClaimStatus
from mooring.manager.expected_mounts import ExpectedMounts
from mooring.manager.intents import Intent, Intents
from mooring.manager.ownership_walks import OwnershipWalks
from mooring.manager.pod_locks import PodLocks
from mooring.plugins.interface import NodeFacts, Offer
from mooring.plugins.manager import VolumePluginManager
from mooring.world.actual import ActualStateOfWorld, ActualVolume
from mooring.world.changes import Listener
from mooring.world.desired import DesiredStateOfWorld, DesiredVolume
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount, Stage, VolumeOperation, kind_of, pod_of
from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationContext:
    """Handed to every operation. Operations read the worlds and never write them."""

    desired: DesiredStateOfWorld
    actual: ActualStateOfWorld
    plugins: VolumePluginManager
    host: Host
    paths: Paths
    node: Callable[[], NodeFacts]
    intents: Intents
    walks: OwnershipWalks
    expected: ExpectedMounts
    claims: Claims
    claim_status: ClaimStatus
    tell: Listener
    told_device: Callable[[VolumeName], str] = lambda name: ""  # by whoever attaches to this node, if others do
    growth_failures: set[VolumeName] = field(default_factory=set)  # volumes whose growth was refused before
    pods_made: set[PodUid] = field(default_factory=set)  # their directories, by operations under way
    sub_path_locks: PodLocks = field(default_factory=PodLocks)

    async def note(
        self, operation: VolumeOperation, offer: Offer, spec: VolumeSpec, path: str, owner: str = ""
    ) -> None:
        """Write down what is about to be done, if nothing else would tell of it after a crash."""
        if not offer.leaves_traces_elsewhere:
            return
        held = self.actual.volumes.get(operation.volume)
        volume = self.desired.volumes[operation.volume]
        there = held.label if held is not None else None
        label = volume.label if isinstance(operation, Stage | Mount) else there
        intent = Intent(
            volume=operation.volume,
            plugin=volume.plugin,
            spec=spec,
            pod=pod_of(operation),
            operation=kind_of(operation),
            path=path,
            device_path=held.device_path if held is not None else "",
            owner=owner,
            label=label or "",
        )
        try:
            await self.intents.note(intent)
        except OSError as error:  # nothing was begun, so what is known stays as it is
            what = f"cannot write down that volume {spec.name!r} is about to be worked on"
            where = f" at {error.filename}" if error.filename else ""
            next_step = "Make room or the disk writable; it is tried again by itself"
            raise NotYet(what, why=f"{error.strerror or error}{where}", next_step=next_step) from error

    def wish(self, name: VolumeName) -> tuple[DesiredVolume, VolumeSpec, Offer]:
        """A wanted volume, the spec of its first pod, and what its plugin offers."""
        volume = self.desired.volumes.get(name)
        if volume is None:
            # The wish went while the operation waited for its turn to run. Nothing was tried, so doubt stays as it is.
            raise NotYet(f"nothing to do for {name!r}", why="no pod wants the volume any more")
        spec = volume.mounts[min(volume.mounts)].spec
        try:
            return volume, spec, self.plugins.find_by_name(volume.plugin).offer(spec)
        except Refused as error:
            if name not in self.actual.volumes:
                raise
            # Nobody was asked, so this says nothing of what an earlier try may have left.
            raise NotYet(error.what, why=error.why, next_step="It goes on when its plugin is back") from error

    def holding(self, name: VolumeName) -> tuple[ActualVolume, Offer]:
        """A volume that is or may be there, and what its plugin offers."""
        volume = self.actual.volumes[name]
        return volume, self.plugins.find_by_name(volume.plugin).offer(volume.spec)
