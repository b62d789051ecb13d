"""How the rules for SELinux labels were kept, counted under the kubelet's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from mooring.world.changes import Labelled
from mooring.world.selinux import Rule, access_mode

_PREFIX = "volume_manager_selinux"
_SAYS = {
    Rule.CONTAINERS: "containers' SELinux options that make no label",
    Rule.POD: "containers of one pod that want a volume with different SELinux labels",
    Rule.VOLUME: "pods that want a volume with different SELinux labels",
}


class LabelMetrics:
    """Counts attempts, not pods: each time that a pod is worked out. They are gauges, as the kubelet's are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._breaches = {
            (rule, is_strict): Gauge(
                f"{_PREFIX}_{rule.value}_{'errors' if is_strict else 'warnings'}_total",
                f"{'Pods refused for' if is_strict else 'Allowed'}: {_SAYS[rule]}",
                ["volume_plugin", "access_mode"] if rule is Rule.VOLUME else ["access_mode"],
                registry=registry,
            )
            for rule in Rule
            for is_strict in (True, False)
        }
        self._admitted = Gauge(
            f"{_PREFIX}_volumes_admitted_total",
            "Volumes that a first pod wanted with an SELinux label",
            ["volume_plugin", "access_mode"],
            registry=registry,
        )

    def count(self, change: Labelled) -> None:
        mode, driver = access_mode(change.spec), change.spec.csi_driver
        plugin = f"{change.plugin}/{driver}" if driver else change.plugin
        for breach in change.decision.breaches:
            labels = (plugin, mode) if breach.rule is Rule.VOLUME else (mode,)
            self._breaches[breach.rule, change.decision.is_strict].labels(*labels).inc()
        if change.decision.admitted:
            self._admitted.labels(plugin, mode).inc()
