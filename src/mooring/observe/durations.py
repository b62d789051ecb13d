"""Histograms that cost next to nothing to add to: buckets are summed up when somebody looks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class Durations(Collector):
    """How long things took, by the values of some labels. Each volume adds to several of them."""

    def __init__(self, name: str, says: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name, self._says, self.label_names = name, says, tuple(labels)
        self._bounds = bounds
        self._within: dict[Labels, list[int]] = {}  # how many were within each bound and not the one before
        self._sums: dict[Labels, float] = {}

    def add(self, labels: Labels, seconds: float) -> None:
        within = self._within.get(labels)
        if within is None:
            within = self._within[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        within[bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._says, labels=self.label_names)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, within in sorted(self._within.items()):
            buckets = list(zip(bounds, accumulate(within), strict=True))
            family.add_metric(labels, buckets, sum_value=self._sums[labels])
        yield family
