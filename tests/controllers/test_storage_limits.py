"""Which pods take more of the node's storage than they may, and what is done about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.controllers.limit_watcher import LimitWatcher
from mooring.controllers.storage_limits import Eviction, eviction, is_limited, is_measured
from mooring.host.interface import NewFile
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Container, Pod, PodSpec, ResourceRequirements, VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, Volume
from mooring.testing.memory_node import MemoryNode
from mooring.testing.virtual_time import run_virtual
from mooring.world.changes import Change, Noticed
from mooring.world.names import PodUid

MEBIBYTE = 2**20


def limited(name: str, limit: str | None, *, medium: str = "") -> Volume:
    return Volume(name=name, empty_dir=EmptyDirVolumeSource(size_limit=limit, medium=medium))


def pod(*volumes: Volume, storage: str = "", name: str = "web") -> Pod:
    mounts = tuple(VolumeMount(name=volume.name, mount_path=f"/{volume.name}") for volume in volumes)
    limits = {"ephemeral-storage": storage} if storage else {}
    container = Container(name="main", volume_mounts=mounts, resources=ResourceRequirements(limits=limits))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=PodSpec(volumes=volumes, containers=(container,)),
    )


# -- deciding --------------------------------------------------------------------------------------------------------


def test_a_volume_at_its_limit_keeps_it_and_one_above_does_not() -> None:
    subject = pod(limited("cache", "1Mi"))
    assert eviction(subject, {"cache": MEBIBYTE}) is None
    assert eviction(subject, {"cache": MEBIBYTE + 1}) == Eviction(
        message='Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ', volume="cache"
    )


def test_a_volume_in_memory_has_its_limit_too() -> None:
    found = eviction(pod(limited("cache", "1Mi", medium="Memory")), {"cache": 2 * MEBIBYTE})
    assert found is not None
    assert found.volume == "cache"


def test_all_that_is_on_the_disk_counts_towards_the_limit_of_the_containers() -> None:
    config = Volume(name="config", config_map=ConfigMapVolumeSource(name="c"))
    subject = pod(limited("a", None), limited("b", None), limited("m", None, medium="Memory"), config, storage="3Mi")
    used = {"a": MEBIBYTE, "b": MEBIBYTE, "m": 9 * MEBIBYTE, "config": MEBIBYTE}
    assert eviction(subject, used) is None
    assert eviction(subject, {**used, "config": MEBIBYTE + 1}) == Eviction(
        message="Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "
    )


@pytest.mark.parametrize("limit", [None, "0"])
def test_without_a_limit_nothing_is_too_much(limit: str | None) -> None:
    subject = pod(limited("cache", limit))
    assert not is_limited(subject)
    assert eviction(subject, {"cache": 2**50}) is None


def test_only_what_counts_is_measured() -> None:
    host_path = Volume(name="host", host_path=HostPathVolumeSource(path="/srv"))
    memory, disk = limited("m", None, medium="Memory"), limited("d", None)
    subject = pod(host_path, memory, disk, storage="1Gi")
    assert [is_measured(subject, volume) for volume in subject.spec.volumes] == [False, False, True]


# -- watching --------------------------------------------------------------------------------------------------------


class Watched:
    """A node in memory with its pods in a real store, and a watcher."""

    def __init__(self, directory: Path) -> None:
        self.node = MemoryNode()
        self.store = LocalStore(str(directory / "objects.db"))
        self.notices: list[Change] = []
        manager = self.node.manager
        manager.subscribe(self.notices.append)
        self.watcher = LimitWatcher(
            self.node.host, self.store, manager.desired, manager.actual, interval=10.0, tell=manager.tell
        )
        manager.subscribe(self.watcher.listen)

    async def add(self, subject: Pod) -> PodUid:
        created = await self.store.create(subject)
        uid = self.node.add_pod(created)
        await self.node.manager.wait_for_attach_and_mount(created)
        return uid

    def fill(self, uid: PodUid, volume: str, size: int) -> None:
        path = f"/var/lib/mooring/pods/{uid}/volumes/kubernetes.io~empty-dir/{volume}"
        self.node.host.write_files(path, [NewFile(path="file", data=b"x" * size, mode=0o644)])

    async def status(self, name: str = "web") -> tuple[str, str, str]:
        found = (await self.store.get(POD, "default", name)).status
        return found.phase, found.reason, found.message


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_pod_above_its_limit_fails_as_evicted_with_a_warning(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi")))
        watched.fill(uid, "cache", 2 * MEBIBYTE)
        assert await watched.watcher.look()
    message = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
    assert await watched.status() == ("Failed", "Evicted", message)
    (notice,) = [each for each in watched.notices if isinstance(each, Noticed)]
    assert (notice.reason, notice.message, notice.volume, notice.warning) == ("Evicted", message, "cache", True)


async def test_the_volumes_of_an_evicted_pod_go(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi")))
        watched.fill(uid, "cache", 2 * MEBIBYTE)
        await watched.watcher.look()
        watched.node.add_pod(await watched.store.get(POD, "default", "web"))  # as the informer tells of it
        await watched.node.manager.wait_for_uid_unmount(uid)
        assert not await watched.watcher.look()


async def test_a_pod_below_its_limit_stays(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi"), storage="4Mi"))
        watched.fill(uid, "cache", 4096)
        await watched.watcher.look()
    assert await watched.status() == ("Pending", "", "")


async def test_a_pod_that_took_the_name_of_an_evicted_one_is_left_alone(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi")))
        watched.fill(uid, "cache", 2 * MEBIBYTE)
        await watched.store.delete(POD, "default", "web")
        other = pod(limited("cache", "1Mi"))
        await watched.store.create(replace(other, metadata=replace(other.metadata, uid="uid-other")))
        await watched.watcher.look()
    assert await watched.status() == ("Pending", "", "")


async def test_a_pod_that_is_deleted_meanwhile_needs_no_eviction(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi")))
        watched.fill(uid, "cache", 2 * MEBIBYTE)
        await watched.store.delete(POD, "default", "web")
        await watched.watcher.look()
    assert not any(isinstance(each, Noticed) for each in watched.notices)


async def test_a_node_without_limits_does_nothing(watched: Watched) -> None:
    async with watched.node.running():
        await watched.add(pod(limited("cache", None)))
        assert watched.watcher.is_idle
        await watched.add(pod(limited("cache", "1Mi"), name="limited"))
        assert not watched.watcher.is_idle


async def test_a_volume_with_a_project_is_measured_by_its_quota(watched: Watched) -> None:
    async with watched.node.running():
        uid = await watched.add(pod(limited("cache", "1Mi")))
        path = f"/var/lib/mooring/pods/{uid}/volumes/kubernetes.io~empty-dir/cache"
        watched.node.host.keeps_projects = True
        watched.node.host.assign_project(path, 1048577, 0)
        watched.fill(uid, "cache", 2 * MEBIBYTE)
        await watched.watcher.look()
    assert (await watched.status())[0] == "Failed"


async def test_a_volume_that_cannot_be_measured_costs_nobody_anything(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched.node.running():
        await watched.add(pod(limited("cache", "1Mi")))
        path = "/var/lib/mooring/pods/uid-web/volumes/kubernetes.io~empty-dir/cache"
        watched.node.host.remove_tree(path)
        await watched.watcher.look()
    assert "cannot measure" in caplog.text


def test_the_watcher_looks_every_interval_and_sleeps_when_no_pod_is_left(tmp_path: Path) -> None:
    """On the clock of the loop: nothing is measured before the interval has passed."""

    async def history() -> list[float]:
        node = MemoryNode()
        manager = node.manager
        looks: list[float] = []

        class Noting(LimitWatcher):
            async def look(self) -> bool:
                looks.append(asyncio.get_running_loop().time())
                return await super().look()

        store = LocalStore(str(tmp_path / "objects.db"))
        watcher = Noting(node.host, store, manager.desired, manager.actual, interval=10.0, tell=manager.tell)
        manager.subscribe(watcher.listen)
        async with node.running(), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watcher.run())
            await asyncio.sleep(100)
            uid = node.add_pod(pod(limited("cache", "1Mi")))
            await asyncio.sleep(25)
            node.remove_pod(uid)
            await asyncio.sleep(1000)
            running.cancel()
        return looks

    assert run_virtual(history()) == [110.0, 120.0, 130.0]
