"""What metrics tell of the attach/detach controller: pairs to be counted when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.controllers.attachdetach import pod_volumes
from mooring.controllers.attachdetach.actual import ActualStateOfWorld
from mooring.controllers.attachdetach.caches import ClusterCaches
from mooring.controllers.attachdetach.desired import DesiredStateOfWorld
from mooring.controllers.attachdetach.pod_volumes import Resolved, plugin_label
from mooring.world.pod_life import may_run_containers


def volumes_in_use(caches: ClusterCaches) -> Iterator[tuple[str, str]]:
    """Node and plugin of each volume that a scheduled pod needs attached."""
    for pod in caches.pods.indexer.list():
        if pod.spec.node_name and may_run_containers(pod):
            for found in pod_volumes.resolve_all(pod, caches).values():
                if isinstance(found, Resolved):
                    yield pod.spec.node_name, plugin_label(found.name, found.spec)


def totals(desired: DesiredStateOfWorld, actual: ActualStateOfWorld) -> Iterator[tuple[str, str]]:
    """Plugin and world of each pair of volume and node; what is known by its name alone does not count."""
    for wanted in desired.volumes():
        yield plugin_label(wanted.name, wanted.spec), "desired_state_of_world"
    for held in actual.volumes():
        if held.spec is not None:
            for _ in held.nodes:
                yield plugin_label(held.name, held.spec), "actual_state_of_world"
