"""Making the directory of a pod, and removing what is left of one that nobody knows any more."""

from __future__ import annotations

from mooring.errors import NotYet
from mooring.host.interface import Risk
from mooring.manager import orphans, sub_paths
from mooring.manager.operations.context import OperationContext
from mooring.world.names import PodUid
from mooring.world.operations import MakePodDirectory, RemovePodDirectory
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result


async def make_pod_directories(context: OperationContext, pod: PodUid) -> None:
    """Make what every volume of a pod lies in, closed to others as a kubelet's are, unless somebody just did."""
    if pod in context.pods_made:
        return

    def make() -> None:
        context.host.make_directories(context.paths.pod_volumes_dir(pod), 0o750)
        context.host.make_directories(context.paths.pod_plugins_dir(pod), 0o750)

    await context.host.run(make, risk=Risk.CHEAP, what=f"make the directories of pod {pod}")
    context.pods_made.add(pod)


async def make(context: OperationContext, operation: MakePodDirectory) -> Outcome:
    await make_pod_directories(context, operation.pod)
    return Outcome(result=Result.DONE)


async def remove(context: OperationContext, operation: RemovePodDirectory) -> Outcome:
    if context.desired.names_for_pod(operation.pod) or context.desired.problems(operation.pod):
        # The pod came back while the operation waited for its turn to run.
        raise NotYet("nothing to remove", why="the pod wants volumes again")
    await _unmount_sub_paths(context, operation.pod)
    what = f"remove the directory of pod {operation.pod}"
    await context.host.do(what, orphans.remove_pod_directory, context.paths, operation.pod)
    return Outcome(result=Result.DONE)


async def _unmount_sub_paths(context: OperationContext, pod: PodUid) -> None:
    host, paths = context.host, context.paths
    async with context.sub_path_locks.of(pod):
        if host.look(paths.pod_subpaths_dir(pod)) is not None:
            await host.run(
                lambda: sub_paths.unmount_leftovers(host, paths, pod),
                risk=Risk.HANGING,
                what=f"unmount the sub-paths of pod {pod}",
            )
