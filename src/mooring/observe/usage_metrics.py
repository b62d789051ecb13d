"""The kubelet's metrics of how full claims are."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.observe.usage import UsageMeter, VolumeUsage
from mooring.world.actual import ActualStateOfWorld

_FIGURES = {
    "capacity_bytes": ("capacity", "Capacity in bytes of the volume"),
    "available_bytes": ("available", "Number of available bytes in the volume"),
    "used_bytes": ("used", "Number of used bytes in the volume"),
    "inodes": ("inodes", "Maximum number of inodes in the volume"),
    "inodes_free": ("inodes_free", "Number of free inodes in the volume"),
    "inodes_used": ("inodes_used", "Number of used inodes in the volume"),
}


class ClaimUsage(Collector):
    """`kubelet_volume_stats_*`: one series per claim, whichever pod's mount of it was measured."""

    def __init__(self, meter: UsageMeter, actual: ActualStateOfWorld) -> None:
        self._meter = meter
        self._actual = actual

    def collect(self) -> Iterator[GaugeMetricFamily]:
        claims = self._by_claim()
        for name, (figure, says) in _FIGURES.items():
            family = GaugeMetricFamily(
                f"kubelet_volume_stats_{name}", says, labels=["namespace", "persistentvolumeclaim"]
            )
            for claim, usage in sorted(claims.items()):
                namespace, _, claim_name = claim.partition("/")
                family.add_metric([namespace, claim_name], getattr(usage, figure))
            yield family

    def _by_claim(self) -> dict[str, VolumeUsage]:
        found: dict[str, VolumeUsage] = {}
        for (_, name), usage in sorted(self._meter.known().items()):
            volume = self._actual.volumes.get(name)
            if volume is not None and volume.spec.claim:
                found[volume.spec.claim] = usage
        return found
