"""Figures of the walks that give volumes to their pods' groups, looked up when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class _Totals(Protocol):
    visited: int
    changed: int
    failed: int


class _Walks(Protocol):
    """What is to be known of walks."""

    def under_way(self) -> int: ...

    def totals(self) -> _Totals: ...


class OwnershipMetrics(Collector):
    """Counts files while they are walked, not only when a walk has ended."""

    def __init__(self, walks: _Walks) -> None:
        self._walks = walks

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        totals = self._walks.totals()
        files = CounterMetricFamily(
            "mooring_ownership_files", "Entries of volumes that ownership walks came upon", labels=["result"]
        )
        files.add_metric(["changed"], totals.changed)
        files.add_metric(["right"], max(0, totals.visited - totals.changed - totals.failed))
        files.add_metric(["failed"], totals.failed)
        yield files
        yield GaugeMetricFamily(
            "mooring_ownership_walks_in_progress", "Ownership walks under way", value=self._walks.under_way()
        )
