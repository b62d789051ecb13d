"""The manager's own methods: getters, groups, resizing, refreshing, stopping (core.md 1.3, V01 to V14)."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import MooringError, NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, PodSecurityContext
from mooring.kube.objects.volumes import HostPathVolumeSource, Volume
from mooring.settings import Settings
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, empty_dir, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    PLAIN,
    REFRESHING,
    Abilities,
    ScriptedPlugin,
    Step,
    not_yet,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Finished, ProblemArose, Started
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount

WEB = PodUid("uid-web")
DISK = VolumeName("test/scripted/disk")


def bench(abilities: Abilities = PLAIN) -> tuple[ScriptedPlugin, MemoryNode]:
    plugin = ScriptedPlugin(abilities)
    return plugin, MemoryNode(plugins=lambda context: [plugin.on(context)])


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("gid", "groups"),
    [
        ("777", [777]),
        ("1000", []),
        ("a", []),
        ("", []),
        ("+5", [5]),
        ("--5", []),
        ("٧٧٧", []),
        (str(2**63), []),
    ],
)
def test_extra_groups_are_those_of_mounted_volumes_that_the_pod_does_not_name(gid: str, groups: list[int]) -> None:
    """V06."""

    @in_virtual_time
    async def run() -> None:
        _, node = bench()
        node.put(persistent_volume("c", annotations={"pv.beta.kubernetes.io/gid": gid}))
        node.put(claim("c"))
        security = PodSecurityContext(supplemental_groups=(1000,))
        web = pod("web", claimed("data", "c"), scripted("other"), security=security)
        async with node.running() as manager:
            node.add_pod(web)
            assert manager.get_extra_supplemental_groups_for_pod(web) == []
            await manager.wait_for_attach_and_mount(web)
            assert manager.get_extra_supplemental_groups_for_pod(web) == groups

    run()


@in_virtual_time
async def test_groups_are_told_for_a_pod_without_a_security_context_too() -> None:
    _, node = bench()
    node.put(persistent_volume("c", annotations={"pv.beta.kubernetes.io/gid": "777"}))
    node.put(claim("c"))
    async with node.running() as manager:
        web = pod("web", claimed("data", "c"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert manager.get_extra_supplemental_groups_for_pod(web) == [777]


@in_virtual_time
async def test_one_claim_under_two_names_is_mounted_once_and_told_twice() -> None:
    """V14, I23."""
    plugin, node = bench()
    node.put(persistent_volume("c"))
    node.put(claim("c"))
    async with node.running() as manager:
        web = pod("web", claimed("a", "c"), claimed("b", "c", read_only=True))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        mounted = manager.get_mounted_volumes_for_pod(WEB)
        assert set(mounted) == {"a", "b"}
        assert mounted["a"] == mounted["b"]
        assert mounted["a"].inner_name == "pv-c"
        assert plugin.count(Step.SET_UP) == 1


@in_virtual_time
async def test_possibly_mounted_volumes_are_told_for_each_pod() -> None:
    """V13."""
    _, node = bench()
    async with node.running() as manager:
        for name in ("one", "two", "three"):
            node.add_pod(pod(name, scripted("a")))
        await manager.reconciler.until_idle()
        for name in ("one", "two", "three"):
            assert manager.has_possibly_mounted_volumes_for_pod(PodUid(f"uid-{name}"))
        assert not manager.has_possibly_mounted_volumes_for_pod(WEB)


@in_virtual_time
async def test_attachable_volumes_are_in_use_from_the_wish_until_they_are_gone() -> None:
    """V01, I7."""
    plugin, node = bench(ATTACHABLE)
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        assert manager.get_volumes_in_use() == [DISK]
        assert not manager.volume_is_attached(DISK)
        await manager.wait_for_attach_and_mount(web)
        assert manager.volume_is_attached(DISK)
        detaching = plugin.hang(Step.DETACH)
        node.remove_pod(WEB)
        await detaching.reached.wait()
        assert manager.get_volumes_in_use() == [DISK]
        detaching.release()
        await manager.wait_for_nothing_left(timeout=60)
        assert manager.get_volumes_in_use() == []


@in_virtual_time
async def test_a_volume_being_attached_for_a_pod_that_went_is_still_in_use() -> None:
    """core.md 8.3-4, #70319."""
    plugin, node = bench(ATTACHABLE)
    attaching = plugin.hang(Step.ATTACH)
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("disk")))
        await attaching.reached.wait()
        node.remove_pod(WEB)
        assert manager.get_volumes_in_use() == [DISK]
        attaching.release()
        await manager.wait_for_nothing_left(timeout=60)
        assert plugin.steps() == [Step.ATTACH, Step.DETACH]
        assert manager.reconciler.pending.is_empty()


@in_virtual_time
async def test_volumes_that_need_no_attachment_are_never_reported_in_use() -> None:
    _, node = bench(PLAIN)
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert manager.get_volumes_in_use() == []


@in_virtual_time
async def test_marks_of_use_reach_the_desired_state() -> None:
    _, node = bench(ATTACHABLE)
    node.add_pod(pod("web", scripted("disk")))
    node.manager.mark_volumes_as_reported_in_use([DISK])
    assert node.manager.desired.volumes[DISK].reported_in_use


HOST_PATH = Volume(name="cache", host_path=HostPathVolumeSource(path="/"))
RESIZES = [
    (empty_dir("cache", memory=True), False, NotYet, "deferring resize"),
    (empty_dir("cache"), True, Refused, "only memory-backed"),
    (
        Volume(name="cache", host_path=HostPathVolumeSource(path="/")),
        False,
        Refused,
        "does not support direct resizing",
    ),
    (empty_dir("other"), False, Refused, "not found in pod"),
]


@pytest.mark.parametrize(("volume", "mounted", "kind", "words"), RESIZES)
def test_what_cannot_be_resized_is_refused_with_the_reason(
    volume: Volume, mounted: bool, kind: type[MooringError], words: str
) -> None:
    """V12."""

    @in_virtual_time
    async def run() -> None:
        node = MemoryNode()
        async with node.running() as manager:
            web = pod("web", volume)
            if mounted:
                node.add_pod(web)
                await manager.wait_for_attach_and_mount(web)
            with pytest.raises(kind, match=words):
                await manager.resize_ephemeral_volume(web, "cache", 2**20)

    run()


@in_virtual_time
async def test_a_mounted_memory_volume_is_resized_in_place() -> None:
    """V12."""
    node = MemoryNode()
    async with node.running() as manager:
        web = pod("web", empty_dir("cache", memory=True))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        path = manager.get_mounted_volumes_for_pod(WEB)["cache"].path
        before = node.host.mount_at(path)
        await manager.resize_ephemeral_volume(web, "cache", 2**20)
        after = node.host.mount_at(path)
        assert before is not None
        assert after is not None
        assert after.id == before.id
        assert after.options != before.options


@in_virtual_time
async def test_a_changed_object_refreshes_the_volumes_that_follow_it_at_once() -> None:
    plugin, node = bench(REFRESHING)
    async with node.running() as manager:
        web = pod("web", scripted("a", follows="settings"), scripted("b"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        plugin.calls.clear()
        node.put(ConfigMap(metadata=ObjectMeta(name="settings", namespace="default")))
        await manager.reconciler.until_idle()
        assert [(call.volume, call.refresh) for call in plugin.calls] == [("a", True)]
        assert now() == 0.0


@in_virtual_time
async def test_an_object_that_appears_ends_the_pause_of_the_volume_that_waits_for_it() -> None:
    plugin, node = bench(REFRESHING)
    plugin.always(Step.SET_UP, not_yet())
    async with node.running() as manager:
        web = pod("web", scripted("a", follows="settings"))
        node.add_pod(web)
        await asyncio.sleep(300)
        plugin.always(Step.SET_UP, None)
        node.put(ConfigMap(metadata=ObjectMeta(name="settings", namespace="default")))
        await manager.wait_for_attach_and_mount(web)
        assert now() == 300.0


@in_virtual_time
async def test_an_object_that_changes_while_a_volume_is_refreshed_refreshes_it_again() -> None:
    plugin, node = bench(REFRESHING)
    async with node.running() as manager:
        web = pod("web", scripted("a", follows="settings"))
        node.add_pod(web)
        hanging = plugin.hang(Step.SET_UP)
        await hanging.reached.wait()
        node.put(ConfigMap(metadata=ObjectMeta(name="settings", namespace="default")))
        hanging.release()
        await manager.reconciler.until_idle()
        assert plugin.count(Step.SET_UP) == 2


@in_virtual_time
async def test_content_is_looked_at_again_every_ten_minutes() -> None:
    plugin, node = bench(REFRESHING)
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        await asyncio.sleep(1201)
        assert plugin.count(Step.SET_UP) == 3


@in_virtual_time
async def test_stopping_lets_what_runs_end_and_starts_nothing_more() -> None:
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("a")))
        await hanging.reached.wait()
        asyncio.get_running_loop().call_later(3, hanging.release)
        await manager.stop()
        node.add_pod(pod("late", scripted("a")))
        await asyncio.sleep(60)
        assert plugin.mounted == {(WEB, "a")}


@in_virtual_time
async def test_stopping_takes_no_longer_than_what_runs() -> None:
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("a")))
        await hanging.reached.wait()
        asyncio.get_running_loop().call_later(3, hanging.release)
        await manager.stop()
        assert now() == 3.0


@in_virtual_time
async def test_stopping_gives_up_on_what_hangs_after_its_timeout() -> None:
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("a")))
        await hanging.reached.wait()
        await manager.stop()
        assert now() == Settings().stop_timeout


@in_virtual_time
async def test_a_stopped_manager_leaves_volumes_in_place() -> None:
    plugin, node = bench()
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        await manager.stop()
    assert plugin.steps() == [Step.SET_UP]


@in_virtual_time
async def test_listeners_are_told_of_the_beginning_and_the_end_of_each_operation() -> None:
    plugin, node = bench()
    plugin.script(Step.SET_UP, refused())
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running() as manager:
        web = pod("web", scripted("a"), claimed("b", "missing"))
        node.add_pod(web)
        await manager.reconciler.until_idle()
    kinds = [type(change) for change in told]
    assert kinds == [ProblemArose, Started, Finished]
    finished = told[-1]
    assert isinstance(finished, Finished)
    assert isinstance(finished.operation, Mount)
    assert (finished.pod, finished.inner_name, finished.plugin) == (web, "a", "test/scripted")


@in_virtual_time
async def test_nothing_left_cannot_be_said_while_a_directory_holds_data() -> None:
    _, node = bench()
    volumes = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "data")
    node.host.make_directories(volumes, 0o755)
    node.host.create_file(f"{volumes}/precious", 0o644)
    async with node.running() as manager:
        with pytest.raises(Refused, match="uid-web"):
            await manager.wait_for_nothing_left(timeout=60)
        assert now() == 0.0


@in_virtual_time
async def test_nothing_left_cannot_be_said_while_a_volume_stays() -> None:
    plugin, node = bench(ATTACHABLE)
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        plugin.always(Step.DETACH, refused())
        node.remove_pod(WEB)
        with pytest.raises(TimeoutError):
            await manager.wait_for_nothing_left(timeout=60)
