"""Metrics of calls to CSI drivers, and of the sockets they register with, under the kubelet's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.observe.metrics import BUCKETS
from mooring.registration.interface import PluginCount

_CODES = {"OK": "OK", "CANCELLED": "Canceled", "unknown-non-grpc": "unknown-non-grpc"}
"""How codes are called whose names do not follow the rule."""


class CSIMetrics(Collector):
    """Counts each call, and looks up the sockets when it is scraped."""

    def __init__(self, registry: CollectorRegistry, counts: Callable[[], list[PluginCount]]) -> None:
        self._counts = counts
        self._calls = Histogram(
            "csi_operations_seconds",
            "Duration of calls to CSI drivers",
            ["driver_name", "method_name", "grpc_status_code", "migrated"],
            buckets=BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def observe(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._calls.labels(driver, method, _CODES.get(code) or _camel(code), "false").observe(seconds)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        sockets = GaugeMetricFamily(
            "plugin_manager_total_plugins", "Sockets of plugins", labels=["socket_path", "state"]
        )
        for each in self._counts():
            sockets.add_metric([each.socket_path, each.state.value], 1)
        yield sockets


def _camel(code: str) -> str:
    """DEADLINE_EXCEEDED as Kubernetes' metrics spell it: DeadlineExceeded."""
    return "".join(part.capitalize() for part in code.split("_"))
