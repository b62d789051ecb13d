"""What registration asks of CSI, with what drivers say of the node written down (csi.md 3)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import StatusCode
from tests.csi.csi_bench import ATTACHMENT, UID, CSIBench

from mooring.csi.drivers import Drivers
from mooring.csi.handler import CSIHandler
from mooring.csi.node_info import NODE_ID_ANNOTATION, NodeInfoManager
from mooring.errors import Refused
from mooring.kube.api import NotFound
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CSI_NODE, NODE
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

NAME = "scripted.csi.test"


class Bench:
    """A handler over a store with a Node, and a driver that runs."""

    def __init__(self, store: LocalStore, driver: ScriptedCSIDriver) -> None:
        self.store, self.driver = store, driver
        self.drivers = Drivers()
        self.told: list[str] = []
        self.drivers.changed = self.told.append
        self.handler = CSIHandler(self.drivers, NodeInfoManager(store, "node-1"))

    async def register(self, version: str = "1.0.0", *, endpoint: str = "") -> None:
        await self.handler.register(NAME, endpoint or self.driver.socket, [version])

    async def noted(self) -> list[str]:
        """The drivers on the CSINode."""
        try:
            found = await self.store.get(CSI_NODE, "", "node-1")
        except NotFound:
            return []
        return [each.name for each in found.spec.drivers]

    async def ids(self) -> str | None:
        return (await self.store.get(NODE, "", "node-1")).metadata.annotations.get(NODE_ID_ANNOTATION)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    driver = ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"))
    async with LocalStore() as store, driver.serving():
        await store.create(Node(metadata=ObjectMeta(name="node-1")))
        bench = Bench(store, driver)
        yield bench
        await bench.drivers.close()


async def test_a_driver_that_registers_is_noted_and_those_who_wait_are_told_when_it_is(bench: Bench) -> None:
    await bench.register()
    assert (await bench.noted(), await bench.ids()) == ([NAME], '{"scripted.csi.test":"memory-node"}')
    assert bench.told == [NAME, NAME]  # it serves at once; volumes that ask for its labels can be served now


@pytest.mark.parametrize("versions", [[], ["0.3.0"]])
async def test_a_driver_of_another_generation_is_refused(bench: Bench, versions: list[str]) -> None:
    """Scenarios 17 and 18."""
    with pytest.raises(Refused, match=r"needs a version 1\.x of CSI"):
        await bench.handler.validate(NAME, bench.driver.socket, versions)
    with pytest.raises(Refused, match=r"needs a version 1\.x of CSI"):
        await bench.handler.register(NAME, bench.driver.socket, versions)
    assert (bench.drivers.names(), await bench.noted()) == ([], [])


async def test_a_driver_that_cannot_tell_of_the_node_leaves_no_note_of_an_earlier_time(bench: Bench) -> None:
    """Scenario 22; csi.md 3.2, 3."""
    await bench.register()
    bench.driver.answer("NodeGetInfo", Answer(code=StatusCode.INTERNAL, words="no"))
    with pytest.raises(Refused, match="INTERNAL: no"):
        await bench.register("1.0.1", endpoint=f"unix://{bench.driver.socket}")
    assert (bench.drivers.names(), await bench.noted(), await bench.ids()) == ([], [], None)


async def test_a_second_driver_of_a_name_takes_nothing_from_the_first(bench: Bench) -> None:
    """Scenario 21."""
    await bench.register("1.2.3")
    with pytest.raises(Refused, match="already registered"):
        await bench.register("1.2.3", endpoint="/elsewhere.sock")
    assert (bench.drivers.names(), await bench.noted()) == ([NAME], [NAME])


async def test_a_driver_that_cannot_be_noted_is_let_go_again(bench: Bench) -> None:
    bench.driver.info = csi.NodeGetInfoResponse(node_id="")
    with pytest.raises(Refused, match="told no ID of this node"):
        await bench.register()
    assert (bench.drivers.names(), await bench.noted()) == ([], [])
    bench.driver.info = csi.NodeGetInfoResponse(node_id="again")
    await bench.register()
    assert await bench.noted() == [NAME]


async def test_a_driver_that_goes_is_forgotten_on_the_node(bench: Bench) -> None:
    await bench.register()
    await bench.handler.deregister(NAME, "/an/earlier.sock")
    assert await bench.noted() == [NAME]
    await bench.handler.deregister(NAME, bench.driver.socket)
    assert (bench.drivers.names(), await bench.noted(), await bench.ids()) == ([], [], None)


async def test_a_driver_goes_even_if_its_note_cannot_be_removed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.register()
    broken = {"metadata": {"annotations": {NODE_ID_ANNOTATION: "not json"}}}
    await bench.store.patch(NODE, "", "node-1", broken)
    with caplog.at_level(logging.WARNING):
        await bench.handler.deregister(NAME, bench.driver.socket)
    assert bench.drivers.names() == []
    assert "cannot forget what driver scripted.csi.test said of the node" in caplog.text


async def test_a_volume_is_unpublished_when_a_driver_that_went_has_registered_again(tmp_path: Path) -> None:
    """Scenario 23."""
    bench = CSIBench(str(tmp_path / "csi.sock"))
    bench.describe(attach_required=False)
    handler = CSIHandler(bench.drivers)
    async with bench.running():
        await bench.mount()
        await handler.deregister(NAME, bench.driver.socket)
        bench.node.remove_pod(UID)
        await bench.fails_with("waits for driver 'scripted.csi.test' to register")
        assert "NodeUnpublishVolume" not in bench.driver.methods()
        await handler.register(NAME, bench.driver.socket, ["1.0.0"])
        await bench.node.manager.wait_for_nothing_left(timeout=20)
    assert bench.driver.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert bench.attachment(ATTACHMENT) is None
    await bench.drivers.close()
