"""The calls that a driver gets from the real kubelet and from mooring, for the same pods."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from tests.cluster.conftest import Programs, Strangers
from tests.cluster.csi_manifests import NAME, NODE
from tests.cluster.csi_scenarios import SCENARIOS, Scenario
from tests.cluster.mock_driver import write_rules
from tests.cluster.rpc_trace import TracedCall, canonical, differences, read_allowed, read_trace
from tests.node.daemon.conftest import Daemon

from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

pytestmark = pytest.mark.cluster

_ALLOWED = Path(__file__).parents[2] / "docs" / "differences.md"
_MIB = 1 << 20


class Bench:
    """A driver, and a recorder before it for each of those who call it; all in the mount namespace of the test."""

    def __init__(self, programs: Programs, strangers: Strangers, place: Path, data: Path) -> None:
        self._programs, self._strangers = programs, strangers
        self._place, self._data = place, data
        self._socket, self._rules = place / "driver.sock", place / "driver.rules"

    def serve(self, scenario: Scenario) -> str:
        """Start the driver; the handle of a volume that it has."""
        if scenario.driver == "mock":
            flags = ("--socket", str(self._socket), "--name", NAME, "--rules", str(self._rules), *scenario.flags)
            self._programs.serve(self._strangers("mock-driver"), *flags)
            return "1"
        state = ("--endpoint", self._socket, "--state", self._data / "driver", "--name", NAME, "--node-id", NODE)
        self._programs.serve(sys.executable, "-m", "mooring", "csi", "serve-loop", *state, *scenario.flags)
        return asyncio.run(_create_volume(self._socket, block=scenario.block))

    def _register(self, caller: str) -> Path:
        """A directory with a registrar for the socket of a recorder that is yet to start; see plugin-example."""
        socket, registry = self._place / f"{caller}.sock", self._place / "registry"
        self._programs.serve(self._strangers("plugin-example"), "--socket", socket, "--name", NAME)
        registry.mkdir()
        socket.rename(registry / "example-reg.sock")
        return registry

    def recorder(self, caller: str) -> tuple[Path, Path]:
        """A socket before the driver, and the file of calls that come that way."""
        socket, calls = self._place / f"{caller}.sock", self._place / f"{caller}.calls"
        calls.touch()
        module = "mooring.testing.recording_proxy"
        self._programs.serve(sys.executable, "-m", module, socket, self._socket, "--calls", calls)
        return socket, calls

    # -- the two callers -------------------------------------------------------------------------------------------
    def kubelet(self, scenario: Scenario, manifests: Path, *, restarts: bool = False) -> list[TracedCall]:
        """What the kubelet calls until all pods are ready, and until they are gone."""
        write_rules(self._rules, scenario.rules)
        socket, calls = self.recorder("kubelet")
        root = self._data / "kubelet"
        command = ["run", "--root", str(root), "--manifests", str(manifests), "--csi", f"{NAME}={socket}"]
        command += ["--node", NODE, "--timeout", "30s" if scenario.ready else "3s"]
        if restarts:
            self._run_kubelet(scenario, command)
        report = self._run_kubelet(scenario, [*command, "--teardown"])
        assert (report["teardown"].get("error"), report["teardown"]["mounts"]) == (None, [])
        return _trace(calls, root, {pod["uid"]: pod["name"] for pod in report["pods"]})

    def _run_kubelet(self, scenario: Scenario, arguments: list[str]) -> dict[str, Any]:
        command = [str(self._strangers("kubelet-peer")), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        report: dict[str, Any] = json.loads(ended.stdout)
        assert {pod["ready"] for pod in report["pods"]} == {scenario.ready}, json.dumps(report["pods"], indent=1)
        return report

    def mooring(self, scenario: Scenario, daemon: Daemon, *, restarts: bool = False) -> list[TracedCall]:
        """What mooring calls for them."""
        write_rules(self._rules, scenario.rules)
        registry = self._register("mooring")
        _, calls = self.recorder("mooring")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MOORING_PLUGIN_REGISTRY", str(registry))
            daemon.up(*(scenario.pods if scenario.ready else ()))
            if restarts:
                daemon.end(signal.SIGKILL)
                daemon.up(*scenario.pods)
        if not scenario.ready:
            daemon.until(lambda: any(json.loads(line)["code"] != "OK" for line in calls.read_text().splitlines()))
        uids = {row["uid"]: row["pod"].partition("/")[2] for row in daemon.json("get", "pods")}
        daemon.done("down", "--timeout", "30s")
        assert daemon.mounts() == {}
        return _trace(calls, Path(daemon.root), uids)


async def _create_volume(socket: Path, *, block: bool) -> str:
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    capability = csi.VolumeCapability(access_mode=mode, mount=csi.VolumeCapability.MountVolume())
    if block:
        capability = csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    size = csi.CapacityRange(required_bytes=64 * _MIB)
    request = csi.CreateVolumeRequest(name="traced", capacity_range=size, volume_capabilities=[capability])
    async with aio.insecure_channel(f"unix:{socket}") as channel:
        controller: services.ControllerAsyncStub = services.ControllerStub(channel)
        return (await controller.CreateVolume(request, timeout=60)).volume.volume_id


def _trace(calls: Path, root: Path, pods: dict[str, str]) -> list[TracedCall]:
    names = {str(root): "<root>", **{uid: f"<uid of {name}>" for uid, name in pods.items()}}
    return read_trace(calls.read_text().splitlines(), names)


def _loop_devices_below(place: Path) -> list[str]:
    backing = {each: each.read_text().strip() for each in Path("/sys/block").glob("loop*/loop/backing_file")}
    return [f"/dev/{each.parts[3]}" for each in sorted(backing) if backing[each].startswith(f"{place}/")]


@pytest.fixture
def bench(node_root: str, programs: Programs, strangers: Strangers, place: Path) -> Iterator[Bench]:
    data = Path(node_root).parent
    yield Bench(programs, strangers, place, data)
    for device in _loop_devices_below(data):  # of a test that failed; it goes with its last mount
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_mooring_calls_a_driver_as_the_kubelet_does(bench: Bench, daemon: Daemon, scenario: Scenario) -> None:
    daemon.write("all.yaml", scenario.written(bench.serve(scenario)))
    kubelet = bench.kubelet(scenario, daemon.manifests)
    mooring = bench.mooring(scenario, daemon)
    found = differences(kubelet, mooring, read_allowed(_ALLOWED.read_text()))
    assert found == [], "\n".join(found)
    assert len(canonical(kubelet)) > 1, "the driver was called for no volume"
    assert _loop_devices_below(Path(daemon.root).parent) == []


_RESTARTED = (
    "a file system",
    "a raw block device",
    "an inline volume",
    "two pods share a volume",
    "an attached volume",
)


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.name in _RESTARTED], ids=lambda scenario: scenario.name
)
def test_after_a_restart_mooring_calls_a_driver_as_the_kubelet_does(
    bench: Bench, daemon: Daemon, scenario: Scenario
) -> None:
    daemon.write("all.yaml", scenario.written(bench.serve(scenario)))
    kubelet = bench.kubelet(scenario, daemon.manifests, restarts=True)
    mooring = bench.mooring(scenario, daemon, restarts=True)
    found = differences(kubelet, mooring, read_allowed(_ALLOWED.read_text()))
    assert found == [], "\n".join(found)
