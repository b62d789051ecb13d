"""All controllers of `mooring controller` together, on a store in place of a cluster and with a driver at a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from tests.controllers.attach_bench import Cluster, WatchedStore, node, pod
from tests.controllers.test_attach_feeding import ordered

from mooring.controllers.attachdetach.controller import Timing
from mooring.daemon.commands import controller as command
from mooring.daemon.controller import CONTROLLERS, Options
from mooring.daemon.controller_process import ControllerProcess
from mooring.errors import InvalidInput
from mooring.kube.objects.kinds import CLAIM, NODE, POD
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from mooring.registration.registrar import Registrar
from mooring.settings import Settings
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import ControllerAbility, ScriptedCSIDriver
from mooring.testing.virtual_time import in_virtual_time

PATIENCE = 20.0


@asynccontextmanager
async def process(store: WatchedStore, settings: Settings, says: list[str]) -> AsyncIterator[ControllerProcess]:
    made = ControllerProcess(store, settings, Options(), say=says.append)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(made.run())
        yield made
        running.cancel()


async def until_told(store: WatchedStore, what: str) -> None:
    async with asyncio.timeout(PATIENCE), store.watch(NODE) as changes:
        if what in store.trace:
            return
        async for _ in changes:
            if what in store.trace:
                return


def driver(directory: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(
        MemoryHost(),
        str(directory / "csi.sock"),
        name="disk.csi.test",
        controller=(ControllerAbility.PUBLISH_UNPUBLISH_VOLUME,),
    )


async def test_a_claim_is_bound_and_its_volume_attached_by_the_driver_and_detached_again(tmp_path: Path) -> None:
    scripted, says = driver(tmp_path), list[str]()
    store, settings = WatchedStore(), Settings(plugin_registry=str(tmp_path / "registry"))
    (tmp_path / "registry").mkdir()
    registrar = Registrar(settings.plugin_registry, name=scripted.name, endpoint=scripted.socket)
    async with store, scripted.serving(), registrar.serving(), process(store, settings, says) as running:
        entry = CSINodeDriver(name="disk.csi.test", node_id="id-of-n1")
        await store.create(CSINode(metadata=ObjectMeta(name="n1"), spec=CSINodeSpec(drivers=(entry,))))
        await store.create(node("n1"))
        source = CSIPersistentVolumeSource(driver="disk.csi.test", volume_handle="v1")
        made = PersistentVolumeSpec(
            access_modes=("ReadWriteOnce",), csi=source, capacity={"storage": "1Gi"}, storage_class_name=""
        )
        await store.create(PersistentVolume(metadata=ObjectMeta(name="v1"), spec=made))
        claim = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), storage_class_name="")
        await store.create(PersistentVolumeClaim(metadata=ObjectMeta(name="v1", namespace="shop"), spec=claim))
        await store.create(pod("web", "n1", "v1"))
        await until_told(store, "tell n1: v1")
        assert "ControllerPublishVolume" in [call.method for call in scripted.calls]
        assert (await store.get(CLAIM, "shop", "v1")).status.phase == "Bound"
        text = generate_latest(running.registry).decode()
        assert 'leader_election_master_status{name="mooring-controller"} 1.0' in text
        assert 'storage_count_attachable_volumes_in_use{node="n1"' in text
        await store.delete(POD, "shop", "web")
        async with asyncio.timeout(PATIENCE):
            while "ControllerUnpublishVolume" not in [call.method for call in scripted.calls]:
                scripted.called.clear()
                await scripted.called.wait()
        assert store.trace[-2:] == ["tell n1:", "cancel n1"]
    assert len(says) == 1
    assert says[0].startswith("mooring controller leads kube-system/mooring-controller as ")


@in_virtual_time
async def test_of_two_processes_only_the_leader_acts_and_the_other_takes_over() -> None:
    store, says = WatchedStore(), list[str]()
    options = Options(controllers=frozenset({"attach-detach"}))
    async with store, asyncio.TaskGroup() as tasks:
        bench = Cluster(store, Timing())
        first, second = (ControllerProcess(store, Settings(), options, say=says.append) for _ in range(2))
        leading = tasks.create_task(first.run())
        await asyncio.sleep(1)
        waiting = tasks.create_task(second.run())
        await bench.volume("v1")
        await bench.put(node("n1"), pod("web", "n1", "v1"))
        await asyncio.sleep(60)
        assert store.trace == ["order n1"]
        assert [line.rpartition(" ")[2] for line in says] == [first.identity]
        leading.cancel()
        await asyncio.sleep(30)
        assert [line.rpartition(" ")[2] for line in says] == [first.identity, second.identity]
        await bench.volume("v2")
        await bench.put(pod("more", "n1", "v2"))
        await asyncio.sleep(1)
        assert store.trace[-1] == "order n1"
        waiting.cancel()


@pytest.mark.parametrize(
    ("settings", "taken_after"),
    [
        (Settings(), 360),
        (Settings(force_detach_after=60.0), 60),
        (Settings(force_detach="off"), None),
    ],
    ids=["usual", "soon", "never"],
)
def test_settings_say_when_a_volume_is_taken_from_a_node_that_is_not_ready(
    settings: Settings, taken_after: int | None
) -> None:
    @in_virtual_time
    async def run() -> None:
        store, options = WatchedStore(), Options(controllers=frozenset({"attach-detach"}), lease=None)
        async with store, asyncio.TaskGroup() as tasks:
            bench = Cluster(store, Timing())
            await bench.volume("v1")
            await bench.put(node("n1", attached=["v1"], in_use=["v1"], ready=False))
            await ordered(bench, "v1", "n1", done=True)
            running = tasks.create_task(ControllerProcess(store, settings, options, say=lambda line: None).run())
            await asyncio.sleep((taken_after or 3600) - 1)
            assert store.trace == []
            await asyncio.sleep(2)
            assert store.trace == (["tell n1:", "cancel n1"] if taken_after is not None else [])
            running.cancel()

    run()


def test_the_command_knows_all_controllers() -> None:
    assert command.NAMES == CONTROLLERS


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("*", set(CONTROLLERS)),
        ("binder, expander", {"binder", "expander"}),
        ("*,-binder", set(CONTROLLERS) - {"binder"}),
    ],
)
def test_controllers_are_chosen_by_name(text: str, chosen: set[str]) -> None:
    assert command.chosen_controllers(text) == chosen


@pytest.mark.parametrize("text", ["", "nothing", "binder,-binder"])
def test_a_list_that_leaves_nothing_to_run_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        command.chosen_controllers(text)
