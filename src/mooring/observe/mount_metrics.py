"""What somebody else did to mounts, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class MountMetrics(Collector):
    """Looks up, when it is scraped, how often each kind of change was noticed."""

    label_names = ("kind",)

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        changes = CounterMetricFamily(
            "mooring_foreign_mount_changes", "Mounts of volumes that somebody else changed", labels=self.label_names
        )
        for kind, count in self._counts().items():
            changes.add_metric([kind], count)
        yield changes
