"""What operations work with: both worlds to read, plugins and the host to act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.errors import NotYet
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.manager.pod_locks import PodLocks
from mooring.plugins.interface import NodeFacts, Offer
from mooring.plugins.manager import VolumePluginManager
from mooring.world.actual import ActualStateOfWorld, ActualVolume
from mooring.world.desired import DesiredStateOfWorld, DesiredVolume
from mooring.world.names import VolumeName
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
    sub_path_locks: PodLocks = field(default_factory=PodLocks)

    def wish(self, name: VolumeName) -> tuple[DesiredVolume, VolumeSpec, Offer]:
        """A wanted volume, the spec of its first pod, and what its plugin offers."""
        volume = self.desired.volumes.get(name)
        if volume is None:
            # The wish went while the operation waited for its turn to run. Nothing was tried, so doubt stays as it is.
            raise NotYet(f"nothing to do for {name!r}", why="no pod wants the volume any more")
        spec = volume.mounts[min(volume.mounts)].spec
        return volume, spec, self.plugins.find_by_name(volume.plugin).offer(spec)

    def holding(self, name: VolumeName) -> tuple[ActualVolume, Offer]:
        """A volume that is or may be there, and what its plugin offers."""
        volume = self.actual.volumes[name]
        return volume, self.plugins.find_by_name(volume.plugin).offer(volume.spec)
