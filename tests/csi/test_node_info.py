"""What drivers say about the node, on the CSINode and on the Node (csi.md 4)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping

import pytest

from mooring.csi.client import DriverClient
from mooring.csi.drivers import Driver
from mooring.csi.node_info import MIGRATED_ANNOTATION, NODE_ID_ANNOTATION, NodeInfoManager, driver_entry
from mooring.errors import Refused
from mooring.kube.api import Conflict, NotFound
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CSI_NODE, NODE, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.node import Node
from mooring.kube.objects.storage import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from mooring.stubs import csi_pb2 as csi

NAME = "node-1"
DRIVER = "disk.example"
MIGRATED = ",".join(
    f"kubernetes.io/{each}"
    for each in ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
)
ZONE = "topology.example/zone"


class Bench:
    """A store with a Node, and a manager that writes there."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.manager = NodeInfoManager(store, NAME)

    async def install(
        self,
        name: str = DRIVER,
        *,
        node_id: str = "id-1",
        limit: int = 0,
        topology: Mapping[str, str] | None = None,
    ) -> None:
        await self.manager.install(registered(name, node_id=node_id, limit=limit, topology=topology))

    async def node(self) -> Node:
        return await self.store.get(NODE, "", NAME)

    async def csi_node(self) -> CSINode:
        return await self.store.get(CSI_NODE, "", NAME)

    async def entries(self) -> dict[str, CSINodeDriver]:
        return {each.name: each for each in (await self.csi_node()).spec.drivers}

    async def ids(self) -> str | None:
        return (await self.node()).metadata.annotations.get(NODE_ID_ANNOTATION)


def registered(
    name: str = DRIVER, *, node_id: str = "id-1", limit: int = 0, topology: Mapping[str, str] | None = None
) -> Driver:
    driver = Driver(name, "/nowhere.sock", (1, 0), DriverClient("/nowhere.sock"))
    driver.node_info = csi.NodeGetInfoResponse(
        node_id=node_id,
        max_volumes_per_node=limit,
        accessible_topology=csi.Topology(segments=topology) if topology else None,
    )
    return driver


@pytest.fixture
async def bare() -> AsyncIterator[Bench]:
    """A store in which nobody has written a Node."""
    async with LocalStore() as store:
        yield Bench(store)


@pytest.fixture
async def bench(bare: Bench) -> Bench:
    await bare.store.create(Node(metadata=ObjectMeta(name=NAME)))
    return bare


async def test_the_first_driver_makes_the_csi_node_and_is_noted_on_the_node(bench: Bench) -> None:
    """Scenario 24."""
    await bench.install()
    found, node = await bench.csi_node(), await bench.node()
    (owner,) = found.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Node", NAME, node.metadata.uid)
    assert found.metadata.annotations == {MIGRATED_ANNOTATION: MIGRATED}
    assert found.spec.drivers == (CSINodeDriver(name=DRIVER, node_id="id-1"),)
    assert await bench.ids() == '{"disk.example":"id-1"}'
    assert node.metadata.labels == {}


async def test_a_machine_without_a_node_object_has_a_csi_node_all_the_same(bare: Bench) -> None:
    await bare.install(topology={ZONE: "a"})
    assert (await bare.csi_node()).metadata.owner_references == ()
    assert (await bare.entries())[DRIVER].topology_keys == (ZONE,)
    assert bare.manager.topology == {ZONE: "a"}
    await bare.manager.uninstall(DRIVER)
    assert await bare.entries() == {}


async def test_a_driver_that_tells_no_id_is_not_noted_anywhere(bench: Bench) -> None:
    """Scenario 25."""
    with pytest.raises(Refused, match="told no ID of this node"):
        await bench.install(node_id="")
    assert await bench.ids() is None
    with pytest.raises(NotFound):
        await bench.csi_node()


async def test_a_driver_that_says_the_same_again_changes_nothing(bench: Bench) -> None:
    """Scenario 26; limits are compared as they are written (18, 11)."""
    await bench.install(limit=2**38, topology={ZONE: "a"})
    before = bench.store.resource_version
    await bench.install(limit=2**38, topology={ZONE: "a"})
    assert bench.store.resource_version == before


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        ({"node_id": "id-2"}, CSINodeDriver(name=DRIVER, node_id="id-2")),  # scenario 27
        ({"topology": {ZONE: "a"}}, CSINodeDriver(name=DRIVER, node_id="id-1", topology_keys=(ZONE,))),
        ({"limit": 20}, CSINodeDriver(name=DRIVER, node_id="id-1", allocatable=VolumeNodeResources(count=20))),  # 33
    ],
)
async def test_a_driver_that_says_something_else_replaces_what_it_said(
    bench: Bench, change: dict[str, object], entry: CSINodeDriver
) -> None:
    await bench.install()
    await bench.install("other.example", node_id="other")
    await bench.install(**change)  # type: ignore[arg-type]
    other = CSINodeDriver(name="other.example", node_id="other")
    assert await bench.entries() == {DRIVER: entry, "other.example": other}  # scenario 28


async def test_where_the_node_is_becomes_labels_and_more_of_it_more_labels(bench: Bench) -> None:
    """Scenario 30."""
    await bench.install(topology={ZONE: "a"})
    await bench.install(topology={ZONE: "a", "topology.example/rack": "7"})
    assert (await bench.node()).metadata.labels == {ZONE: "a", "topology.example/rack": "7"}
    assert (await bench.entries())[DRIVER].topology_keys == ("topology.example/rack", ZONE)


async def test_a_place_that_the_node_is_not_in_is_told_and_changes_no_label(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario 29, with the recommendation of csi.md 18, 9: the driver registers all the same."""
    await bench.store.patch(NODE, "", NAME, {"metadata": {"labels": {ZONE: "a"}}})
    with caplog.at_level(logging.WARNING):
        await bench.install(topology={ZONE: "b"})
    assert f"says {ZONE}=b of this node, which has a already" in caplog.text
    assert (await bench.node()).metadata.labels == {ZONE: "a"}


async def test_of_two_drivers_that_disagree_the_first_is_believed(bare: Bench) -> None:
    await bare.install(topology={ZONE: "a"})
    await bare.install("other.example", topology={ZONE: "b"})
    assert bare.manager.topology == {ZONE: "a"}


@pytest.mark.parametrize(
    "drivers", [(), (CSINodeDriver(name="left.example", node_id="x"),)], ids=["empty", "with drivers"]
)
async def test_the_csi_node_of_an_earlier_node_is_made_anew(bench: Bench, drivers: tuple[CSINodeDriver, ...]) -> None:
    """Scenario 31."""
    owner = OwnerReference(api_version="v1", kind="Node", name=NAME, uid="of-another")
    meta = ObjectMeta(name=NAME, owner_references=(owner,))
    await bench.store.create(CSINode(metadata=meta, spec=CSINodeSpec(drivers=drivers)))
    await bench.install()
    assert set(await bench.entries()) == {DRIVER}
    assert (await bench.csi_node()).metadata.owner_references[0].uid == (await bench.node()).metadata.uid


async def test_a_csi_node_that_nobody_owns_is_used_and_told_which_types_have_moved(bench: Bench) -> None:
    """Scenario 37: other annotations stay."""
    await bench.store.create(CSINode(metadata=ObjectMeta(name=NAME, annotations={"mine": "x"})))
    await bench.install()
    found = await bench.csi_node()
    assert found.metadata.annotations == {"mine": "x", MIGRATED_ANNOTATION: MIGRATED}
    await bench.store.patch(CSI_NODE, "", NAME, {"metadata": {"annotations": {MIGRATED_ANNOTATION: "less"}}})
    await bench.install()
    assert (await bench.csi_node()).metadata.annotations[MIGRATED_ANNOTATION] == MIGRATED


@pytest.mark.parametrize(
    ("limit", "count"), [(5, 5), (0, None), (-1, None), (2**31 - 1, 2**31 - 1), (2**38, 2**31 - 1)]
)
def test_a_limit_that_makes_no_sense_is_none(limit: int, count: int | None) -> None:
    """Scenario 32."""
    entry = driver_entry(DRIVER, csi.NodeGetInfoResponse(node_id="id-1", max_volumes_per_node=limit))
    assert (entry.allocatable.count if entry.allocatable is not None else None) == count


def test_a_limit_below_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        driver_entry(DRIVER, csi.NodeGetInfoResponse(node_id="id-1", max_volumes_per_node=-1))
    assert "can have -1 volumes" in caplog.text


async def test_a_csi_node_that_belongs_to_nobody_is_adopted(bench: Bench) -> None:
    await bench.store.create(CSINode(metadata=ObjectMeta(name=NAME)))
    await bench.install()
    (owner,) = (await bench.csi_node()).metadata.owner_references
    assert owner.uid == (await bench.node()).metadata.uid


async def test_a_driver_that_goes_leaves_only_its_labels(bench: Bench) -> None:
    """Scenario 34."""
    await bench.install(topology={ZONE: "a"})
    await bench.install("other.example", node_id="other")
    await bench.manager.uninstall(DRIVER)
    assert (set(await bench.entries()), await bench.ids()) == ({"other.example"}, '{"other.example":"other"}')
    await bench.manager.uninstall("other.example")
    assert (await bench.entries(), await bench.ids()) == ({}, None)
    assert (await bench.node()).metadata.labels == {ZONE: "a"}


async def test_a_driver_that_was_never_noted_goes_without_a_trace(bench: Bench) -> None:
    """Scenario 35."""
    before = bench.store.resource_version
    await bench.manager.uninstall(DRIVER)
    assert bench.store.resource_version == before


async def test_an_annotation_that_makes_no_sense_is_left_as_it_is(bench: Bench) -> None:
    """Scenario 36."""
    await bench.store.patch(NODE, "", NAME, {"metadata": {"annotations": {NODE_ID_ANNOTATION: "not json"}}})
    with pytest.raises(Refused, match="makes no sense"):
        await bench.install()
    with pytest.raises(Refused, match="makes no sense"):
        await bench.manager.uninstall(DRIVER)
    assert await bench.ids() == "not json"


class ChangingStore(LocalStore):
    """A store in which somebody else is always a little faster, for some writes of the CSINode."""

    def __init__(self, conflicts: int) -> None:
        super().__init__()
        self.conflicts = conflicts

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, object], *, subresource: str = ""
    ) -> ObjectT:
        if kind.name == CSI_NODE.name and self.conflicts:
            self.conflicts -= 1
            raise Conflict("cannot patch", why="it changed")
        return await super().patch(kind, namespace, name, merge, subresource=subresource)


@pytest.mark.parametrize(("conflicts", "succeeds"), [(3, True), (4, False)])
async def test_a_csi_node_that_changes_meanwhile_is_read_again_four_times(conflicts: int, succeeds: bool) -> None:
    async with ChangingStore(conflicts) as store:
        bench = Bench(store)
        if succeeds:
            await bench.install()
            assert set(await bench.entries()) == {DRIVER}
        else:
            with pytest.raises(Refused, match="keeps changing"):
                await bench.install()


async def test_asking_again_changes_the_csi_node_alone(bench: Bench) -> None:
    """csi.md 4.5."""
    driver = registered(limit=10)
    await bench.manager.install(driver)
    node = await bench.node()
    driver.client = Answering(csi.NodeGetInfoResponse(node_id="id-1", max_volumes_per_node=20))
    await bench.manager.refresh(driver)
    assert (await bench.entries())[DRIVER].allocatable == VolumeNodeResources(count=20)
    assert (driver.node_info.max_volumes_per_node if driver.node_info else 0, await bench.node()) == (20, node)


class Answering(DriverClient):
    """A client whose driver says one thing of the node."""

    def __init__(self, told: csi.NodeGetInfoResponse) -> None:
        super().__init__("/nowhere.sock")
        self._told = told

    async def get_info(self) -> csi.NodeGetInfoResponse:
        return self._told
