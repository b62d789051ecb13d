"""Claims that ask for more get it from the controller part of their driver (csi.md 17.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode
from msgspec import structs
from tests.controllers.store_bench import SOON, StoreBench

from mooring.controllers.driver_secrets import DriverSecrets
from mooring.controllers.expander import Expander
from mooring.engine.pending import Backoff
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME
from mooring.kube.objects.meta import ObjectMeta, ObjectReference, SecretReference
from mooring.kube.objects.pod import ResourceRequirements, Secret
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Ability, Answer, ControllerAbility, ScriptedCSIDriver

DRIVER = "scripted.csi.test"
GIBIBYTE = 2**30
PATIENT = Backoff(initial=3600.0, maximum=3600.0)
"""Pauses that no test lives to see the end of: what goes on was woken by an event."""


def refusal(code: StatusCode) -> Answer:
    return Answer(code=code, words="no", happens=False)


class Bench(StoreBench):
    """The expander at work on one claim, bound to a volume of 1Gi."""

    def __init__(self, store: LocalStore, driver: ScriptedCSIDriver, backoff: Backoff) -> None:
        super().__init__(store, driver)
        self.told: list[tuple[str, str]] = []
        self.controller = Expander(
            store,
            self.factory,
            self.drivers,
            DriverSecrets(store, look_interval=0.01),
            now=lambda: "now",
            tell=lambda claim, reason, message: self.told.append((reason, message)),
            backoff=backoff,
            resync_interval=3600.0,
        )
        self.drivers.changed = self.controller.driver_changed

    async def bind(self, *, modes: tuple[str, ...] = ("ReadWriteOnce",), **source: object) -> None:
        """A claim of 1Gi and its volume."""
        meta = ObjectMeta(name="data", namespace="shop", uid="uid-data")
        resources = ResourceRequirements(requests={"storage": "1Gi"})
        spec = PersistentVolumeClaimSpec(access_modes=modes, resources=resources, volume_name="pv")
        await self.put(PersistentVolumeClaim(metadata=meta, spec=spec))
        await self.write_status({"phase": "Bound", "capacity": {"storage": "1Gi"}})
        made = CSIPersistentVolumeSource(driver=DRIVER, volume_handle="vol-1", fs_type="ext4")
        await self.put(
            PersistentVolume(
                metadata=ObjectMeta(name="pv"),
                spec=PersistentVolumeSpec(
                    capacity={"storage": "1Gi"},
                    access_modes=modes,
                    volume_mode="Filesystem",
                    claim_ref=ObjectReference(namespace="shop", name="data", uid="uid-data"),
                    csi=structs.replace(made, **source),
                ),
            )
        )

    async def ask(self, size: str) -> None:
        await self.store.patch(CLAIM, "shop", "data", {"spec": {"resources": {"requests": {"storage": size}}}})

    async def write_status(self, status: dict[str, object]) -> None:
        await self.store.patch(CLAIM, "shop", "data", {"status": status}, subresource="status")

    async def claim(self) -> PersistentVolumeClaim:
        return await self.store.get(CLAIM, "shop", "data")

    async def size(self) -> str:
        """Of the volume."""
        return str((await self.store.get(PERSISTENT_VOLUME, "", "pv")).spec.capacity["storage"])

    async def had_before(self) -> str | None:
        """What the volume says that its claim had."""
        found = await self.store.get(PERSISTENT_VOLUME, "", "pv")
        return found.metadata.annotations.get("volume.alpha.kubernetes.io/pre-resize-capacity")

    async def reaches(self, state: str, allocated: str) -> PersistentVolumeClaim:
        """A version of the claim with this state and allocated size, once there is one."""

        async def answer() -> PersistentVolumeClaim | None:
            versions = (each for each in reversed(self.seen) if isinstance(each, PersistentVolumeClaim))
            return next((each for each in versions if _progress(each) == (state, allocated)), None)

        return await self.until(answer)

    def sizes(self) -> list[int]:
        """What the driver was asked for."""
        asked = self.driver.requests(csi.ControllerExpandVolumeRequest)
        return [each.capacity_range.required_bytes // GIBIBYTE for each in asked]


def _progress(claim: PersistentVolumeClaim) -> tuple[str, str]:
    status = claim.status
    return status.allocated_resource_statuses.get("storage", ""), str(status.allocated_resources.get("storage", ""))


def conditions(claim: PersistentVolumeClaim) -> list[str]:
    return [each.type for each in claim.status.conditions]


@asynccontextmanager
async def expander(
    store: LocalStore, driver: ScriptedCSIDriver, *, registered: bool = True, backoff: Backoff = SOON
) -> AsyncIterator[Bench]:
    bench = Bench(store, driver, backoff)
    async with bench.at_work(bench.controller.run, registered=registered):
        yield bench


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(
        MemoryHost(), str(tmp_path / "csi.sock"), controller=[ControllerAbility.EXPAND_VOLUME], abilities=[]
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    async with LocalStore(tmp_path / "store.db") as store:
        yield store


@pytest.fixture
async def bench(store: LocalStore, driver: ScriptedCSIDriver) -> AsyncIterator[Bench]:
    async with expander(store, driver) as bench:
        yield bench


async def test_a_volume_grows_and_then_it_is_the_turn_of_nodes(bench: Bench) -> None:
    await bench.bind()
    await bench.ask("2Gi")
    claim = await bench.reaches("NodeResizePending", "2Gi")
    assert (claim.status.capacity["storage"], conditions(claim)) == ("1Gi", ["FileSystemResizePending"])
    assert await bench.size() == "2Gi"
    (asked,) = bench.driver.requests(csi.ControllerExpandVolumeRequest)
    assert (asked.volume_id, asked.capacity_range.required_bytes) == ("vol-1", 2 * GIBIBYTE)
    assert (asked.volume_capability.mount.fs_type, dict(asked.secrets)) == ("ext4", {})
    assert bench.told == []


async def test_a_volume_tells_what_its_claim_had_until_nodes_have_grown_it(bench: Bench) -> None:
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert await bench.had_before() == "1Gi"
    await bench.write_status({"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": None})

    async def settled() -> bool | None:
        return True if await bench.had_before() is None else None

    await bench.until(settled)
    assert await bench.size() == "2Gi"


async def test_a_volume_that_no_node_has_to_grow_tells_nothing_of_before(bench: Bench) -> None:
    bench.driver.expands_on_node = False
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("", "2Gi")
    assert await bench.had_before() is None


async def test_a_size_is_written_down_before_the_driver_is_asked_for_it(bench: Bench) -> None:
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    claims = [each for each in bench.seen if isinstance(each, PersistentVolumeClaim)]
    states = list(dict.fromkeys(_progress(each)[0] for each in claims))
    assert states == ["", "ControllerResizeInProgress", "NodeResizePending"]
    begun = next(each for each in claims if _progress(each) == ("ControllerResizeInProgress", "2Gi"))
    assert conditions(begun) == ["Resizing"]


async def test_a_volume_that_needs_no_node_is_done_at_once(bench: Bench) -> None:
    bench.driver.expands_on_node = False
    await bench.bind()
    await bench.ask("2Gi")
    claim = await bench.reaches("", "2Gi")
    assert (claim.status.capacity["storage"], conditions(claim), await bench.size()) == ("2Gi", [], "2Gi")
    assert bench.told == [("VolumeResizeSuccessful", "ExpandVolume succeeded for volume shop/data")]


async def test_a_volume_that_its_driver_makes_larger_than_asked_has_that_size(bench: Bench) -> None:
    bench.driver.expands_on_node = False
    bench.driver.sizes["vol-1"] = 4 * GIBIBYTE
    await bench.bind()
    await bench.ask("2Gi")
    claim = await bench.reaches("", "2Gi")
    assert (claim.status.capacity["storage"], await bench.size()) == (str(4 * GIBIBYTE), str(4 * GIBIBYTE))


async def test_a_driver_that_grows_on_nodes_alone_is_not_asked_here(bench: Bench) -> None:
    bench.driver.controller, bench.driver.abilities = [], [Ability.EXPAND_VOLUME]
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert (bench.driver.methods(), await bench.size()) == ([], "2Gi")


async def test_a_driver_that_cannot_grow_volumes_is_told_and_the_request_can_be_taken_back(bench: Bench) -> None:
    bench.driver.controller = []
    await bench.bind()
    await bench.ask("2Gi")
    claim = await bench.reaches("ControllerResizeInfeasible", "2Gi")
    assert conditions(claim) == ["ControllerResizeError"]
    await bench.ask("1Gi")
    claim = await bench.reaches("", "1Gi")
    assert (conditions(claim), await bench.size(), bench.driver.methods()) == ([], "1Gi", [])
    assert bench.told[0][0] == "VolumeResizeFailed"


async def test_a_volume_grows_with_the_secret_that_it_names(bench: Bench) -> None:
    secret = Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"})
    await bench.put(secret)
    await bench.bind(controller_expand_secret_ref=SecretReference(namespace="vault", name="key"))
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert dict(bench.driver.requests(csi.ControllerExpandVolumeRequest)[0].secrets) == {"password": "hunter2"}


async def test_access_modes_that_csi_does_not_have_fail_before_any_call(bench: Bench) -> None:
    """Scenario 123."""
    await bench.bind(modes=("ReadOnlyMany", "ReadWriteOnce"))
    await bench.ask("2Gi")
    await bench.reaches("ControllerResizeInfeasible", "2Gi")
    assert bench.driver.methods() == []


@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.INTERNAL, StatusCode.FAILED_PRECONDITION])
async def test_a_failure_is_told_and_the_same_size_tried_again(bench: Bench, code: StatusCode) -> None:
    bench.driver.answer("ControllerExpandVolume", refusal(code))
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert bench.sizes() == [2, 2]
    assert [reason for reason, _ in bench.told] == ["VolumeResizeFailed"]
    assert f"{code.name}: no" in bench.told[0][1]


async def test_another_size_is_not_tried_while_the_first_may_still_happen(bench: Bench) -> None:
    """Scenario 103: the driver has not said no."""
    bench.driver.always("ControllerExpandVolume", refusal(StatusCode.DEADLINE_EXCEEDED))
    await bench.bind()
    await bench.ask("5Gi")
    await bench.reaches("ControllerResizeInProgress", "5Gi")
    await bench.ask("2Gi")
    await bench.until_called("ControllerExpandVolume", 4)
    assert set(bench.sizes()) == {5}


async def test_a_volume_grows_once_more_when_nodes_have_done_their_part(bench: Bench) -> None:
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    await bench.ask("3Gi")
    await bench.write_status({"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": None})
    await bench.reaches("NodeResizePending", "3Gi")
    assert (bench.sizes(), await bench.size()) == ([2, 3], "3Gi")


async def test_a_smaller_size_is_tried_after_the_driver_has_said_no(bench: Bench) -> None:
    """Scenario 103."""
    bench.driver.answer("ControllerExpandVolume", refusal(StatusCode.DEADLINE_EXCEEDED))
    bench.driver.answer("ControllerExpandVolume", *[refusal(StatusCode.INTERNAL)] * 2)
    await bench.bind()
    await bench.ask("5Gi")
    await bench.reaches("ControllerResizeInProgress", "5Gi")
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert bench.sizes()[-1] == 2
    assert await bench.size() == "2Gi"


@pytest.mark.parametrize("code", [StatusCode.OUT_OF_RANGE, StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND])
async def test_a_size_that_cannot_be_had_is_told_and_a_smaller_one_tried_at_once(
    store: LocalStore, driver: ScriptedCSIDriver, code: StatusCode
) -> None:
    driver.answer("ControllerExpandVolume", refusal(code))
    async with expander(store, driver, backoff=PATIENT) as bench:
        await bench.bind()
        await bench.ask("5Gi")
        claim = await bench.reaches("ControllerResizeInfeasible", "5Gi")
        assert conditions(claim) == ["ControllerResizeError"]
        assert claim.status.conditions[0].message == f"{code.name}: no"
        await bench.ask("2Gi")
        claim = await bench.reaches("NodeResizePending", "2Gi")
        assert conditions(claim) == ["FileSystemResizePending"]
    assert bench.sizes() == [5, 2]


async def test_a_driver_that_does_not_say_what_it_can_do_has_refused_no_size(bench: Bench) -> None:
    bench.driver.answer("GetPluginCapabilities", refusal(StatusCode.NOT_FOUND))
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    claims = [each for each in bench.seen if isinstance(each, PersistentVolumeClaim)]
    assert "ControllerResizeInfeasible" not in {_progress(each)[0] for each in claims}


async def test_a_node_that_could_not_is_let_try_a_smaller_size(bench: Bench) -> None:
    """operations.md scenario 54: without a call, for the volume has it already."""
    await bench.bind()
    await bench.ask("3Gi")
    await bench.reaches("NodeResizePending", "3Gi")
    await bench.write_status({"allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}})
    await bench.reaches("NodeResizeInfeasible", "3Gi")
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
    assert (bench.sizes(), await bench.size()) == ([3], "3Gi")


async def test_a_claim_whose_driver_has_not_registered_waits_for_it(
    store: LocalStore, driver: ScriptedCSIDriver
) -> None:
    async with expander(store, driver, registered=False, backoff=PATIENT) as bench:
        await bench.bind()
        await bench.ask("2Gi")
        await bench.register()
        await bench.reaches("NodeResizePending", "2Gi")


async def test_a_claim_whose_secret_is_missing_waits_for_it(store: LocalStore, driver: ScriptedCSIDriver) -> None:
    async with expander(store, driver, backoff=PATIENT) as bench:
        await bench.bind(controller_expand_secret_ref=SecretReference(namespace="vault", name="key"))
        await bench.ask("2Gi")
        await bench.reaches("ControllerResizeInProgress", "2Gi")
        await bench.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"}))
        await bench.reaches("NodeResizePending", "2Gi")


async def test_a_new_process_goes_on_with_the_size_that_an_earlier_one_had_begun(
    store: LocalStore, driver: ScriptedCSIDriver
) -> None:
    driver.answer("ControllerExpandVolume", Answer(dies=True))
    async with expander(store, driver) as bench:
        await bench.bind()
        await bench.ask("5Gi")
        await bench.until_called("ControllerExpandVolume")
    await bench.ask("2Gi")
    async with expander(store, driver) as bench:
        await bench.reaches("NodeResizePending", "5Gi")
        assert await bench.size() == "5Gi"


async def test_a_volume_that_cannot_be_moved_to_csi_does_not_stop_the_others(bench: Bench) -> None:
    """One claim that nobody can serve must not take the controller down."""
    await bench.bind()
    meta = ObjectMeta(name="other", namespace="shop", uid="uid-other")
    resources = ResourceRequirements(requests={"storage": "2Gi"})
    for number, source in enumerate(
        (
            PersistentVolumeSpec(azure_disk={"diskName": "d", "diskURI": "u", "kind": "Dedicated"}),
            PersistentVolumeSpec(local=LocalVolumeSource(path="/x")),
        )
    ):
        reference = ObjectReference(namespace="shop", name=f"other{number}", uid=f"uid-other{number}")
        spec = structs.replace(source, capacity={"storage": "1Gi"}, claim_ref=reference)
        await bench.put(PersistentVolume(metadata=ObjectMeta(name=f"pv{number}"), spec=spec))
        named = structs.replace(meta, name=reference.name, uid=reference.uid)
        asked = PersistentVolumeClaimSpec(resources=resources, volume_name=f"pv{number}")
        await bench.put(PersistentVolumeClaim(metadata=named, spec=asked))
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        await bench.store.patch(CLAIM, "shop", named.name, bound, subresource="status")
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")


async def test_a_claim_that_goes_is_forgotten(bench: Bench) -> None:
    bench.driver.always("ControllerExpandVolume", refusal(StatusCode.INTERNAL))
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("ControllerResizeInProgress", "2Gi")
    await bench.store.delete(CLAIM, "shop", "data")
    bench.driver.always("ControllerExpandVolume", Answer())
    await bench.store.delete(PERSISTENT_VOLUME, "", "pv")
    bench.seen.clear()
    await bench.bind()
    await bench.ask("2Gi")
    await bench.reaches("NodeResizePending", "2Gi")
