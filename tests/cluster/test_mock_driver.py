"""mooring and the mock driver of Kubernetes' own end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode
from tests.cluster.csi_manifests import NAME, Manifest, claim, driver, pod, secret_manifests, volume, written
from tests.cluster.mock_driver import MakeMockDriver, MockCall, MockDriver, Rule, mock_driver
from tests.node.daemon.conftest import Daemon

from mooring.csi.client import CallFailed, DriverClient, Kind
from mooring.csi.drivers import Capabilities, capabilities_of
from mooring.stubs import csi_pb2 as csi

pytestmark = pytest.mark.cluster

__all__ = ["mock_driver"]


@asynccontextmanager
async def client_of(driver: MockDriver) -> AsyncIterator[DriverClient]:
    client = DriverClient(str(driver.socket))
    try:
        yield client
    finally:
        await client.retire()


def stage_request(place: Path, volume: str = "1") -> csi.NodeStageVolumeRequest:
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    capability = csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(), access_mode=mode)
    return csi.NodeStageVolumeRequest(
        volume_id=volume, staging_target_path=str(place / "staging"), volume_capability=capability
    )


# -- the driver itself ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), Capabilities(stages=True, stats=True)),
        (("--no-stage",), Capabilities(stats=True)),
        (("--mount-group",), Capabilities(stages=True, stats=True, mount_group=True)),
    ],
)
async def test_capabilities_are_understood_with_an_unknown_one_among_them(
    mock_driver: MakeMockDriver, flags: tuple[str, ...], expected: Capabilities
) -> None:
    async with client_of(mock_driver(*flags)) as client:
        told = await client.get_capabilities()
    assert told.capabilities[0].rpc.type == csi.NodeServiceCapability.RPC.UNKNOWN
    assert capabilities_of(told) == expected


async def test_the_node_is_told_with_its_limit_and_topology(mock_driver: MakeMockDriver) -> None:
    async with client_of(mock_driver("--attach-limit", "3", "--topology")) as client:
        told = await client.get_info()
    assert (told.node_id, told.max_volumes_per_node) == ("mock.csi.test", 3)
    assert dict(told.accessible_topology.segments) == {"io.kubernetes.storage.mock/node": "some-mock-node"}


@pytest.mark.parametrize(("when", "kept"), [("before", False), ("after", True)])
async def test_a_rule_answers_before_or_after_the_effect(
    mock_driver: MakeMockDriver, place: Path, when: str, kept: bool
) -> None:
    driver = mock_driver("--no-attach")
    driver.answer(Rule(method="NodePublishVolume", code="ABORTED", when=when, times=1))
    staged = stage_request(place)
    request = csi.NodePublishVolumeRequest(
        volume_id="1", target_path=str(place / "target"), volume_capability=staged.volume_capability
    )
    async with client_of(driver) as client:
        with pytest.raises(CallFailed, match="as the rule says") as failed:
            await client.publish(request)
        assert (place / "target").exists() is kept
        await client.publish(request)  # the rule is used up
    assert (failed.value.code, failed.value.kind) == (StatusCode.ABORTED, Kind.UNCERTAIN)
    assert [(call.method, call.code) for call in driver.calls()] == [
        ("NodePublishVolume", StatusCode.ABORTED),
        ("NodePublishVolume", StatusCode.OK),
    ]
    assert driver.calls()[0].request["target_path"] == str(place / "target")


async def test_a_driver_that_ends_between_effect_and_answer_leaves_doubt(
    mock_driver: MakeMockDriver, place: Path
) -> None:
    driver = mock_driver("--no-attach")
    driver.answer(Rule(method="NodeStageVolume", when="after", exit=True))
    async with client_of(driver) as client:
        with pytest.raises(CallFailed) as failed:
            await client.stage(stage_request(place))
    assert driver.ended() == 3
    assert failed.value.kind is Kind.UNCERTAIN
    assert driver.methods() == ["NodeStageVolume"]


async def test_a_volume_that_the_driver_does_not_know_is_refused(mock_driver: MakeMockDriver, place: Path) -> None:
    async with client_of(mock_driver("--no-attach")) as client:
        with pytest.raises(CallFailed) as failed:
            await client.stage(stage_request(place, volume="17"))
    assert (failed.value.code, failed.value.kind) == (StatusCode.NOT_FOUND, Kind.FINAL)


async def test_a_stage_without_the_context_of_an_attachment_is_refused(
    mock_driver: MakeMockDriver, place: Path
) -> None:
    async with client_of(mock_driver()) as client:
        with pytest.raises(CallFailed, match="'device' key required"):
            await client.stage(stage_request(place))


# -- pods with its volumes -----------------------------------------------------------------------------------------
POD = (driver(), volume(), claim(), pod())
WHOLE_LIFE = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]


class Node:
    """A daemon that knows the socket of a driver, and one pod with volume 1 of it."""

    def __init__(self, daemon: Daemon, driver: MockDriver) -> None:
        self.daemon, self.driver = daemon, driver

    def write(self, *manifests: Manifest) -> None:
        self.daemon.write("all.yaml", written(manifests or POD, "1"))

    def up(self, *manifests: Manifest) -> None:
        self.write(*manifests)
        self.daemon.up()

    def mounted(self) -> None:
        self.daemon.done("wait", "one", "--timeout", "30s")

    def down(self) -> None:
        """Take everything down, and see that nothing is left of it."""
        self.daemon.done("down", "--timeout", "30s")
        pods = Path(self.daemon.root, "pods")
        assert not pods.exists() or list(pods.iterdir()) == []
        assert not list(Path(self.daemon.root, "plugins").glob("kubernetes.io/csi/*/*/globalmount"))

    def cause(self) -> str:
        return str(self.daemon.json("explain", "one")["cause"])

    def failed(self, method: str) -> bool:
        return any(call.method == method and call.code is not StatusCode.OK for call in self.driver.calls())

    def done(self, method: str) -> list[MockCall]:
        """The calls of a method that succeeded."""
        return [call for call in self.driver.calls() if call.method == method and call.code is StatusCode.OK]


@pytest.fixture
def start_node(daemon: Daemon, mock_driver: MakeMockDriver, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Node]:
    def start(*flags: str) -> Node:
        driver = mock_driver(*flags, name=NAME)
        monkeypatch.setenv("MOORING_CSI_SOCKETS", str(driver.socket))
        return Node(daemon, driver)

    return start


StartNode = Callable[..., Node]


def test_a_pod_lives_and_goes_with_one_call_of_each_kind(start_node: StartNode) -> None:
    node = start_node("--no-attach")
    node.up()
    node.mounted()
    node.down()
    assert [call.method for call in node.driver.calls() if call.method.endswith("Volume")] == WHOLE_LIFE


def test_secrets_reach_the_driver_as_they_are(start_node: StartNode) -> None:
    node = start_node("--no-attach")
    node.up(*secret_manifests())
    node.mounted()
    node.down()
    [staged], [published] = node.done("NodeStageVolume"), node.done("NodePublishVolume")
    assert staged.request["secrets"] == {"stage-key": "stage-value"}
    assert published.request["secrets"] == {"publish-key": "publish-value"}
    log = node.daemon.log()
    assert "stage-value" not in log
    assert "publish-value" not in log


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL", "ABORTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"])
@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
def test_a_set_up_that_fails_once_is_repeated(start_node: StartNode, method: str, code: str, when: str) -> None:
    node = start_node("--no-attach")
    node.driver.answer(Rule(method=method, code=code, when=when, times=1))
    node.up()
    node.mounted()
    assert node.failed(method)
    node.down()
    assert node.driver.methods() == WHOLE_LIFE


@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
@pytest.mark.parametrize("code", ["NOT_FOUND", "INTERNAL", "ABORTED"])
def test_a_teardown_that_fails_once_is_repeated(start_node: StartNode, method: str, code: str) -> None:
    node = start_node("--no-attach")
    node.up()
    node.mounted()
    node.driver.answer(Rule(method=method, code=code, times=1))
    node.down()
    assert node.failed(method)
    assert node.driver.methods() == WHOLE_LIFE


def test_what_a_driver_says_is_the_cause_that_is_told(start_node: StartNode) -> None:
    node = start_node("--no-attach")
    node.driver.answer(Rule(method="NodeStageVolume", code="FAILED_PRECONDITION", message="the disk is on fire"))
    node.up()
    node.daemon.until(lambda: "the disk is on fire" in node.cause())
    node.driver.answer()
    node.mounted()
    node.down()


def test_a_stage_in_doubt_is_undone_when_its_pod_goes(start_node: StartNode) -> None:
    node = start_node("--no-attach")
    node.driver.answer(Rule(method="NodeStageVolume", code="ABORTED", when="after"))
    node.up()
    node.daemon.until(lambda: node.failed("NodeStageVolume"))
    node.down()
    assert node.driver.methods() == ["NodeStageVolume", "NodeUnstageVolume"]


def test_a_publish_in_doubt_is_undone_when_its_pod_goes(start_node: StartNode) -> None:
    node = start_node("--no-attach")
    node.driver.answer(Rule(method="NodePublishVolume", code="DEADLINE_EXCEEDED", when="after"))
    node.up()
    node.daemon.until(lambda: node.failed("NodePublishVolume"))
    node.down()
    assert node.driver.methods() == WHOLE_LIFE


@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_that_ends_in_a_set_up_and_comes_back_goes_on(start_node: StartNode, method: str, when: str) -> None:
    node = start_node("--no-attach")
    node.driver.answer(Rule(method=method, when=when, exit=True))
    node.up()
    assert node.driver.ended() == 3
    node.driver.answer()
    node.driver.start()
    node.mounted()
    node.down()
    assert node.driver.methods() == WHOLE_LIFE


@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_that_ends_in_a_teardown_and_comes_back_goes_on(start_node: StartNode, method: str, when: str) -> None:
    node = start_node("--no-attach")
    node.up()
    node.mounted()
    node.driver.answer(Rule(method=method, when=when, exit=True))
    node.daemon.write("all.yaml", "")
    assert node.driver.ended() == 3
    node.driver.answer()
    node.driver.start()
    node.down()
    assert node.done("NodeUnstageVolume")


def test_a_driver_that_does_not_stage_is_asked_to_publish_only(start_node: StartNode) -> None:
    node = start_node("--no-attach", "--no-stage")
    node.up()
    node.mounted()
    node.down()
    assert node.driver.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert "staging_target_path" not in node.done("NodePublishVolume")[0].request


def test_a_pod_waits_for_a_driver_that_is_not_there_yet(
    daemon: Daemon, start_node: StartNode, mock_driver: MakeMockDriver
) -> None:
    node = start_node("--no-attach")
    process = node.driver.process
    assert process is not None
    process.kill()
    process.wait()
    node.driver.socket.unlink()
    node.up()
    daemon.until(lambda: NAME in node.cause())
    node.driver.start()
    node.mounted()
    [row] = daemon.json("get", "drivers")
    assert (row["name"], row["state"]) == (NAME, "registered")
    node.down()
