"""Raw block volumes of the local plugin: the pod gets a link to a device that cannot be swapped under it."""

from __future__ import annotations

from mooring.errors import Doubtful, Refused
from mooring.host import block_maps
from mooring.host.interface import FileKind, Host, Risk
from mooring.host.paths import Paths
from mooring.host.resolution import resolved
from mooring.plugins.interface import Setup
from mooring.plugins.local_places import NAME, LocalPlaces, checked_kind, usable_path
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class LocalMapper:
    """Maps the device of a volume for one pod, and undoes it."""

    def __init__(self, host: Host, paths: Paths, places: LocalPlaces) -> None:
        self._host = host
        self._paths = paths
        self._places = places

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_device(uid, NAME, spec.name)

    def check(self, request: Setup) -> None:
        checked_kind(self._host, request.spec)

    async def set_up(self, request: Setup) -> None:
        uid, spec = request.uid, request.spec
        await self._host.run(lambda: self._map(uid, spec), risk=Risk.HANGING, what=f"map the device of {spec.name}")

    def _map(self, uid: PodUid, spec: VolumeSpec) -> None:
        place, links = self._places.map(spec.name), self._paths.pod_device_dir(uid, NAME)
        try:
            checked_kind(self._host, spec)
            device = resolved(self._host, usable_path(spec))  # names such as /dev/disk/by-id/… may lead elsewhere later
            block_maps.map_device(self._host, device, place, links, spec.name, uid)
        except Refused as error:
            if self._host.look(f"{place}/{uid}") is None and self._host.look(f"{links}/{spec.name}") is None:
                raise
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error  # of an earlier try

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        links = self._paths.pod_device_dir(uid, NAME)
        await self._host.run(
            lambda: block_maps.unmap_device(self._host, self._places.map(spec.name), links, spec.name, uid),
            risk=Risk.HANGING,
            what=f"unmap {links}/{spec.name}",
        )


def remove_map_directory(host: Host, directory: str) -> None:
    """Remove a volume's map directory once no pod has a device in it; empty files that a reboot left go with it."""
    users = block_maps.references(host, directory)
    if users:
        raise Doubtful(
            f"cannot remove {directory!r}",
            why=f"the device is still referenced from other pods: {', '.join(users)}",
            next_step="Find out who has it; it is tried again by itself",
        )
    if host.look(directory) is None:
        return
    for name in host.names_in(directory):
        facts = host.look(f"{directory}/{name}")
        if facts is not None and facts.kind is FileKind.FILE and facts.size == 0:
            host.remove_file(f"{directory}/{name}")
    host.remove_directory(directory)
