"""Prometheus metrics under the kubelet's names."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.observe.durations import Durations
from mooring.observe.label_metrics import LabelMetrics
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Labelled,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.operations import MakePodDirectory, Mount, RemovePodDirectory, kind_of
from mooring.world.presence import Presence

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Engine(Protocol):
    """What the reconciler counts by itself."""

    resync_found_work: int


class Metrics:
    """Counts what the manager tells, and looks into both worlds when it is scraped."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        engine: Engine,
        *,
        surprises: Callable[[], int],
    ) -> None:
        self.registry = CollectorRegistry()
        self._durations = self._histogram(
            "storage_operation_duration_seconds",
            "Duration of storage operations",
            ["volume_plugin", "operation_name", "status", "migrated"],
        )
        self._totals = self._histogram(
            "volume_operation_total_seconds",
            "From the first wish for a volume to its mount",
            ["plugin_name", "operation_name"],
        )
        self._reconstructions = self._counter("reconstruct_volume_operations", "Volume directories found at start")
        self._not_understood = self._counter("reconstruct_volume_operations_errors", "Of these, not understood")
        self._force_cleaned = self._counter(
            "force_cleaned_failed_volume_operations", "Removals tried of what was not understood"
        )
        self._not_cleaned = self._counter("force_cleaned_failed_volume_operation_errors", "Of these, left alone")
        self._orphans = self._gauge("kubelet_orphan_pod_cleaned_volumes", "Orphaned pod directories examined")
        self._orphan_errors = self._gauge("kubelet_orphan_pod_cleaned_volumes_errors", "Of these, not removed")
        self._refreshes = self._counter("mooring_volume_refreshes", "Content volumes looked at again")
        self._labels = LabelMetrics(self.registry)
        self.registry.register(_Worlds(desired, actual, engine, surprises))

    def _histogram(self, name: str, says: str, labels: Sequence[str]) -> Durations:
        made = Durations(name, says, labels, BUCKETS)
        self.registry.register(made)
        return made

    def _counter(self, name: str, says: str) -> Counter:
        return Counter(name, says, registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(name, says, registry=self.registry)

    def listen(self, change: Change) -> None:
        match change:
            case Finished():
                self._finished(change)
            case Started() | ProblemArose() | Noticed():
                pass
            case Reconstructed():
                self._reconstructions.inc()
                if change.volume is None:
                    self._not_understood.inc()
            case ForceCleaned():
                self._force_cleaned.inc()
                if change.why:
                    self._not_cleaned.inc()
            case Owned():
                status = "success" if change.complete else "fail-unknown"
                labels = (change.plugin, "volume_apply_access_control", status, "false")
                self._durations.add(labels, change.progress.seconds)
            case Labelled():
                self._labels.count(change)
            case _:
                assert_never(change)

    def _finished(self, change: Finished) -> None:
        operation, succeeded = change.operation, change.outcome.succeeded
        if isinstance(operation, MakePodDirectory):
            return
        if isinstance(operation, RemovePodDirectory):
            self._orphans.inc()
            if not succeeded:
                self._orphan_errors.inc()
            return
        plugin = f"{change.plugin}:{change.driver}" if change.driver else change.plugin or "N/A"
        status = "success" if succeeded else "fail-unknown"
        labels = (plugin, kind_of(operation), status, "true" if change.migrated else "false")
        self._durations.add(labels, change.seconds)
        if change.refreshed:
            self._refreshes.inc()
        elif isinstance(operation, Mount) and succeeded and change.requested_at is not None:
            self._totals.add((plugin, "overall_volume_mount"), change.at - change.requested_at)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Worlds(Collector):
    """Figures that are looked up at scrape time."""

    def __init__(
        self, desired: DesiredStateOfWorld, actual: ActualStateOfWorld, engine: Engine, surprises: Callable[[], int]
    ) -> None:
        self._desired, self._actual, self._engine, self._surprises = desired, actual, engine, surprises

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        volumes = GaugeMetricFamily(
            "volume_manager_total_volumes", "Pairs of volume and pod", labels=["plugin_name", "state"]
        )
        for plugin, count in sorted(self._wanted().items()):
            volumes.add_metric([plugin, "desired_state_of_world"], count)
        for plugin, count in sorted(self._mounted().items()):
            volumes.add_metric([plugin, "actual_state_of_world"], count)
        yield volumes
        found = self._engine.resync_found_work
        yield CounterMetricFamily(
            "mooring_resync_found_work", "Operations that only the full resync found", value=found
        )
        yield CounterMetricFamily("mooring_operation_surprises", "Operations that met a bug", value=self._surprises())

    def _wanted(self) -> Tally[str]:
        tally: Tally[str] = Tally()
        for volume in self._desired.volumes.values():
            tally[volume.plugin or "N/A"] += len(volume.mounts)
        return tally

    def _mounted(self) -> Tally[str]:
        tally: Tally[str] = Tally()
        for volume in self._actual.volumes.values():
            present = sum(mount.presence is Presence.PRESENT for mount in volume.mounts.values())
            if present:
                tally[volume.plugin or "N/A"] += present
        return tally
