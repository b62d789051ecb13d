"""Metrics of the attach/detach controller, under the names that kube-controller-manager gives them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.observe.metrics import BUCKETS

Pairs = Callable[[], Iterable[tuple[str, str]]]
"""Two labels for each thing that is counted."""

FORCED = "attach_detach_controller_attachdetach_controller_forced_detaches"
REASONS = ("timeout", "out-of-service")


class AttachMetrics(Collector):
    """Counts operations, and looks into both worlds when it is scraped."""

    def __init__(self, registry: CollectorRegistry, *, in_use: Pairs, totals: Pairs) -> None:
        self._in_use = in_use  # node and plugin of each volume of a scheduled pod
        self._totals = totals  # plugin and world of each entry
        self._forced: Tally[str] = Tally()
        self._durations = Histogram(
            "storage_operation_duration_seconds",
            "Duration of storage operations",
            ["volume_plugin", "operation_name", "status", "migrated"],
            buckets=BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def finished(self, plugin: str, operation: str, *, succeeded: bool, migrated: bool, seconds: float) -> None:
        status = "success" if succeeded else "fail-unknown"
        self._durations.labels(plugin, operation, status, "true" if migrated else "false").observe(seconds)

    def forced(self, reason: str) -> None:
        self._forced[reason] += 1

    def collect(self) -> Iterator[Metric]:
        yield _gauge(
            "storage_count_attachable_volumes_in_use",
            "Volumes of scheduled pods that are attached to nodes",
            ["node", "volume_plugin"],
            self._in_use(),
        )
        yield _gauge(
            "attachdetach_controller_total_volumes",
            "Pairs of volume and node",
            ["plugin_name", "state"],
            self._totals(),
        )
        # Its name does not end as the client library makes those of counters end.
        forced = Metric(FORCED, "Detaches although the node had not let go of the volume", "unknown")
        for reason in REASONS:
            forced.add_sample(FORCED, {"reason": reason}, self._forced[reason])
        yield forced


def _gauge(name: str, says: str, labels: list[str], pairs: Iterable[tuple[str, str]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=labels)
    for pair, count in sorted(Tally(pairs).items()):
        family.add_metric(list(pair), count)
    return family
