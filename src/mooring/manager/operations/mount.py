"""Setting a volume up for a pod, and taking it down again."""

from __future__ import annotations

import errno

from msgspec.structs import replace

from mooring.errors import Doubtful, NotYet, Refused
from mooring.host.interface import Host, Risk
from mooring.manager import sub_paths
from mooring.manager.mount_verdicts import Owner, described
from mooring.manager.node_affinity import matches_node
from mooring.manager.operations.context import OperationContext
from mooring.manager.operations.expand import Grown, grow_before_use
from mooring.manager.operations.pod_directory import make_pod_directories
from mooring.plugins.interface import NodeFacts, Offer, Setup
from mooring.world.actual import ActualMount
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.names import PodUid
from mooring.world.operations import Mount, Unmount
from mooring.world.outcomes import Outcome
from mooring.world.planner import wants
from mooring.world.pod_facts import FsGroupMode, fs_group, fs_group_mode, fs_group_policy, fs_user
from mooring.world.presence import Presence, Result
from mooring.world.spec import VolumeSpec


async def mount(context: OperationContext, operation: Mount) -> Outcome:
    """Make a volume usable for one pod, or look at its content again."""
    volume, wish = _wanted(context, operation)
    before = context.actual.mount(operation.pod, operation.volume)
    try:
        offer = context.plugins.find_by_name(volume.plugin).offer(wish.spec)
        check_spec(wish.spec, offer, context.node())
        if fs_group(wish.pod) is not None and not operation.refresh:
            fs_group_mode(wish.pod)
        if context.actual.directories.get(operation.pod) is not Presence.PRESENT:
            await make_pod_directories(context, operation.pod)
            _, wish = _wanted(context, operation)  # an older pod beside newer objects would show what never was
    except Refused as error:
        if before is None:
            raise
        # The plugin was not asked, so this says nothing of what an earlier try may have left.
        raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error
    if not operation.refresh and offer.leaves_traces_elsewhere:
        await context.note(operation, offer, wish.spec, offer.mounter.path(operation.pod, wish.spec), wish.pod.key)
        _, wish = _wanted(context, operation)
    request = _request(context, operation, wish, before, label=volume.label or "")
    if not operation.refresh:
        what = f"cannot mount volume {wish.spec.name!r}"
        context.expected.refuse_cover(offer.mounter.path(operation.pod, wish.spec), what)
        context.expected.refuse_lost_stage(request.stage_path, what)
    again = await _set_up(context, operation, volume, wish, offer, request)
    grown = Grown()
    if not operation.refresh:
        grown = await grow_before_use(context, operation.volume, operation.pod, wish, offer)
    return Outcome(
        result=Result.DONE,
        path=offer.mounter.path(operation.pod, wish.spec),
        revision=wish.revision,
        spec=wish.spec,
        look_again_after=again,
        size=grown.size,
        stays_small=grown.stays_small,
    )


async def _set_up(
    context: OperationContext,
    operation: Mount,
    volume: DesiredVolume,
    wish: DesiredMount,
    offer: Offer,
    request: Setup,
) -> float | None:
    """Let the plugin set the volume up, and follow the walk over its files where that may take long."""
    if request.fs_group is None or not volume.is_shared:
        return await offer.mounter.set_up(request)
    shown = offer.mounter.path(operation.pod, wish.spec).removeprefix(f"{context.paths.pods_dir}/")
    with context.walks.following(operation, wish, volume.plugin, shown) as walk:
        return await offer.mounter.set_up(replace(request, walk=walk))


def _wanted(context: OperationContext, operation: Mount) -> tuple[DesiredVolume, DesiredMount]:
    volume = context.desired.volumes.get(operation.volume)
    wish = volume.mounts.get(operation.pod) if volume is not None else None
    if volume is None or wish is None:
        # The wish went while the operation waited for its turn to run. Nothing was tried, so doubt stays as it is.
        raise NotYet("nothing to mount", why="the pod does not want the volume any more")
    return volume, wish


def _request(
    context: OperationContext, operation: Mount, wish: DesiredMount, before: ActualMount | None, *, label: str
) -> Setup:
    held = context.actual.volumes.get(operation.volume)
    group = fs_group(wish.pod)
    asks = group is not None and not operation.refresh  # what is mounted keeps its ways
    return Setup(
        pod=wish.pod,
        uid=operation.pod,
        spec=wish.spec,
        fs_user=fs_user(wish.pod),
        fs_group=group,
        fs_group_policy=fs_group_policy(wish.pod) if asks else None,
        idmapped=asks and fs_group_mode(wish.pod) is FsGroupMode.IDMAPPED,
        size_limit=wish.size_limit,
        stage_path=held.stage_path if held is not None else "",
        device_path=held.device_path if held is not None else "",
        label=label,
        refresh=operation.refresh,
        reconstructed=before is not None and before.reconstructed,
    )


def check_spec(spec: VolumeSpec, offer: Offer, node: NodeFacts) -> None:
    """Refuse what this node or the volume's plugin cannot do, before anything is touched."""
    what = f"cannot mount volume {spec.name!r}"
    if spec.persistent_volume is not None and not matches_node(spec.persistent_volume, node.name, node.labels):
        raise Refused(
            what,
            why="no matching NodeSelectorTerms: the volume's node affinity does not admit this node",
            next_step=f"Label the node {node.name!r}, or use a volume made for it",
        )
    if spec.is_block and not offer.maps_devices:
        why = "its type has no raw block volumes"
        raise Refused(what, why=why, next_step="Use a PersistentVolume with volumeMode Filesystem")
    if spec.mount_options and not offer.takes_mount_options:
        raise Refused(what, why="mount options are not supported for this volume type")


async def unmount(context: OperationContext, operation: Unmount) -> Outcome:
    """Take a volume away from one pod."""
    volume = context.actual.volumes[operation.volume]
    held = volume.mounts.get(operation.pod)
    if held is None:
        return Outcome(result=Result.DONE)
    _refuse_wanted(context, operation)
    offer = context.plugins.find_by_name(volume.plugin).offer(held.spec)
    path, what = offer.mounter.path(operation.pod, held.spec), f"cannot unmount volume {held.spec.name!r}"
    context.expected.refuse_foreign(path, Owner(operation.volume, operation.pod), what)
    await _clean_sub_paths(context, operation.pod, held.spec)
    _refuse_wanted(context, operation)
    try:
        await offer.mounter.tear_down(operation.pod, held.spec)
    except OSError as error:
        if error.errno == errno.EBUSY:
            refuse_mounts_below(context.host, path, what)
        raise
    return Outcome(result=Result.DONE)


def refuse_mounts_below(host: Host, path: str, what: str) -> None:
    """Name what is mounted below a volume, such as by a container with Bidirectional propagation, and keeps it."""
    below = [mount for mount in host.mounts() if mount.path.startswith(f"{path}/")]
    if below:
        others = f" and {len(below) - 1} more" if len(below) > 1 else ""
        raise Doubtful(
            what,
            why=f"{described(below[-1])} is mounted below it at {below[-1].path}{others}",
            next_step=f"Unmount it with `umount {below[-1].path}`; it is tried again by itself",
        )


def _refuse_wanted(context: OperationContext, operation: Unmount) -> None:
    name = operation.volume
    if wants(context.desired.volumes.get(name), context.actual.volumes.get(name), operation.pod):
        # The wish came back while the operation waited for its turn to run.
        raise NotYet("nothing to unmount", why="the pod wants the volume again")
    if context.desired.is_in_doubt(operation.pod):
        raise NotYet("nothing to unmount yet", why="the pod is known again, and what it wants cannot be worked out")


async def _clean_sub_paths(context: OperationContext, pod: PodUid, spec: VolumeSpec) -> None:
    """Take away what containers saw of the volume's inside: no more of it is made once the volume is in doubt."""
    host, paths = context.host, context.paths
    async with context.sub_path_locks.of(pod):
        if host.look(f"{paths.pod_subpaths_dir(pod)}/{spec.name}") is None:
            return
        try:
            await host.run(
                lambda: sub_paths.clean_volume(host, paths, pod, spec.name),
                risk=Risk.HANGING,
                what=f"remove the sub-paths of volume {spec.name!r}",
            )
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            why = f"{error.strerror or error}{where}"
            # The volume itself was not touched, so what is known of it stays as it is.
            raise NotYet(f"error cleaning subPath mounts of volume {spec.name!r}", why=why) from error
