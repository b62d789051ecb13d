"""All pods of a node in a cluster: those that are bound to it, and those of its own manifests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.kube.objects.pod import Pod
from mooring.sources.cluster_pods import ClusterPods
from mooring.sources.static_pods import StaticPods


class NodePods:
    """Both sources as one. It is heard when both are, and `containers_known` has returned: until then some pod or

    container may not be known, and nothing may be taken away.
    """

    def __init__(
        self, cluster: ClusterPods, static: StaticPods, *, containers_known: Callable[[], Awaitable[object]]
    ) -> None:
        self._cluster = cluster
        self._static = static
        self._containers_known = containers_known
        self.known = cluster.known
        self.heard = asyncio.Event()

    async def run(self) -> None:
        """Tell of pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.run(), name="pods of the cluster")
            await self._static.tell()
            await self._containers_known()
            await self._cluster.heard.wait()
            self.heard.set()

    async def until_told(self, pod: Pod) -> None:
        """At once: nobody puts pods into a node's store but its manifests."""
