"""Metrics of calls to drivers and of their sockets, under the kubelet's names (csi.md 15)."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc import StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mooring.csi.client import CallFailed
from mooring.csi.drivers import Drivers
from mooring.observe.csi_metrics import CSIMetrics
from mooring.registration.interface import PluginCount, WorldName
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

BUCKETS = ["0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "15.0", "25.0", "50.0", "120.0", "300.0", "600.0", "+Inf"]
Labels = dict[str, str]


class Measured:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.sockets: list[PluginCount] = []
        self.metrics = CSIMetrics(self._registry, lambda: self.sockets)

    def samples(self, name: str) -> list[tuple[Labels, float]]:
        families = text_string_to_metric_families(generate_latest(self._registry).decode())
        every = (sample for family in families for sample in family.samples if sample.name == name)
        return [(dict(sample.labels), sample.value) for sample in every]


def test_a_call_is_counted_with_driver_method_and_code() -> None:
    measured = Measured()
    measured.metrics.observe("d", "/csi.v1.Node/NodeStageVolume", "OK", 0.2)
    labels = {
        "driver_name": "d",
        "method_name": "/csi.v1.Node/NodeStageVolume",
        "grpc_status_code": "OK",
        "migrated": "false",
    }
    assert measured.samples("csi_operations_seconds_count") == [(labels, 1.0)]
    buckets = measured.samples("csi_operations_seconds_bucket")
    assert [each["le"] for each, _ in buckets] == BUCKETS
    assert [count for _, count in buckets] == [0.0] + [1.0] * (len(BUCKETS) - 1)


@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("OK", "OK"),
        ("CANCELLED", "Canceled"),
        ("DEADLINE_EXCEEDED", "DeadlineExceeded"),
        ("NOT_FOUND", "NotFound"),
        ("INTERNAL", "Internal"),
        ("unknown-non-grpc", "unknown-non-grpc"),
    ],
)
def test_codes_are_spelled_as_kubernetes_spells_them(code: str, label: str) -> None:
    measured = Measured()
    measured.metrics.observe("d", "m", code, 0.0)
    ((labels, _),) = measured.samples("csi_operations_seconds_count")
    assert labels["grpc_status_code"] == label


async def test_every_call_to_a_registered_driver_is_counted(tmp_path: Path) -> None:
    measured, drivers = Measured(), Drivers()
    drivers.observe = measured.metrics.observe
    driver = ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"))
    driver.answer("NodePublishVolume", Answer(code=StatusCode.UNAVAILABLE, happens=False))
    async with driver.serving():
        registered = await drivers.register("d", driver.socket, ["1.0.0"])
        with pytest.raises(CallFailed):
            await registered.client.publish(csi.NodePublishVolumeRequest(volume_id="v", target_path="/t"))
        await drivers.close()
    counted = measured.samples("csi_operations_seconds_count")
    assert {(each["method_name"], each["grpc_status_code"]): count for each, count in counted} == {
        ("/csi.v1.Node/NodeGetInfo", "OK"): 1.0,
        ("/csi.v1.Node/NodePublishVolume", "Unavailable"): 1.0,
    }


def test_each_socket_is_counted_once_for_each_world_it_is_in() -> None:
    """csi.md scenario 16."""
    measured = Measured()
    measured.sockets = [
        PluginCount(socket_path="/a.sock", state=WorldName.DESIRED),
        PluginCount(socket_path="/b.sock", state=WorldName.DESIRED),
        PluginCount(socket_path="/a.sock", state=WorldName.ACTUAL),
    ]
    counted = measured.samples("plugin_manager_total_plugins")
    assert [(each["socket_path"], each["state"], count) for each, count in counted] == [
        ("/a.sock", "desired_state_of_world", 1.0),
        ("/b.sock", "desired_state_of_world", 1.0),
        ("/a.sock", "actual_state_of_world", 1.0),
    ]
    measured.sockets = []
    assert measured.samples("plugin_manager_total_plugins") == []
