"""SELinux labels on a whole node: conflicts of pods, handing a volume over, restarts (core.md 9.2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from mooring.kube.objects.pod import Container, ContainerSecurityContext, Pod, PodSecurityContext, SELinuxOptions
from mooring.manager.pods import PodStates
from mooring.manager.volume_manager import VolumeManager
from mooring.manager.waits import NotMounted
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import Abilities, ScriptedPlugin, Step, doubtful
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, ProblemArose
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

DISK = VolumeName("test/scripted/pv-data")
LABELS = Abilities(attaches=True, stages=True, takes_labels=True)
A, B = "system_u:object_r:container_file_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c3,c4"
RWX, RWOP = ("ReadWriteMany",), ("ReadWriteOncePod",)
ONE, TWO, THREE = PodUid("uid-one"), PodUid("uid-two"), PodUid("uid-three")


def machine(
    modes: tuple[str, ...] = RWX,
    *,
    selinux_mount: str = "on",
    abilities: Abilities = LABELS,
    selinux: bool = True,
    states: PodStates | None = None,
) -> tuple[MemoryNode, ScriptedPlugin]:
    """A node whose volume `data` has these access modes."""
    plugin = ScriptedPlugin(abilities)
    node = MemoryNode(
        plugins=lambda context: [plugin.on(context)],
        settings=Settings(root=ROOT, node_name="memory-node", selinux_mount=selinux_mount),
        states=states,
    )
    node.facts = replace(node.facts, selinux=selinux)
    node.put(claim("data"))
    node.put(persistent_volume("data", access_modes=modes))
    return node, plugin


def wanting(name: str, level: str, policy: str | None = None) -> Pod:
    """A pod that uses the volume, with a label of this level."""
    context = PodSecurityContext(se_linux_options=SELinuxOptions(level=level), se_linux_change_policy=policy)
    return pod(name, claimed("data", "data"), security=context)


FIRST, SECOND, THIRD = wanting("one", "s0:c1,c2"), wanting("two", "s0:c3,c4"), wanting("three", "s0:c3,c4")


async def mounted(node: MemoryNode, *wanted: Pod) -> None:
    for each in wanted:
        node.add_pod(each)
    for each in wanted:
        await node.manager.wait_for_attach_and_mount(each)


async def settle(manager: VolumeManager) -> None:
    await manager.reconciler.until_idle()
    await asyncio.sleep(0)


def labels(plugin: ScriptedPlugin) -> list[tuple[Step, str]]:
    return [(call.step, call.label) for call in plugin.calls if call.step in (Step.STAGE, Step.SET_UP)]


# -- one pod -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("modes", "setting", "policy", "label"),
    [
        (RWOP, "off", None, A),
        (RWX, "off", None, ""),
        (RWX, "on", None, A),
        (RWX, "on", "MountOption", A),
        (RWOP, "off", "Recursive", ""),
    ],
)
@in_virtual_time
async def test_a_volume_is_staged_and_set_up_with_the_label_of_its_pod(
    modes: tuple[str, ...], setting: str, policy: str | None, label: str
) -> None:
    """S01, S05, S06, S07, S16."""
    node, plugin = machine(modes, selinux_mount=setting)
    async with node.running() as manager:
        await mounted(node, wanting("one", "s0:c1,c2", policy))
        assert labels(plugin) == [(Step.STAGE, label), (Step.SET_UP, label)]
        assert manager.actual.volumes[DISK].label == manager.desired.volumes[DISK].label == label


@pytest.mark.parametrize(
    ("selinux", "abilities", "label"), [(False, LABELS, None), (True, Abilities(attaches=True, stages=True), "")]
)
@in_virtual_time
async def test_without_selinux_or_a_plugin_that_takes_labels_there_is_none(
    selinux: bool, abilities: Abilities, label: str | None
) -> None:
    """S04."""
    node, plugin = machine(RWOP, selinux=selinux, abilities=abilities)
    async with node.running() as manager:
        await mounted(node, FIRST)
        assert labels(plugin) == [(Step.STAGE, ""), (Step.SET_UP, "")]
        assert manager.actual.volumes[DISK].label == label


@in_virtual_time
async def test_a_pod_whose_containers_do_not_agree_is_told_so() -> None:
    """S13."""
    node, plugin = machine(RWOP)
    torn = pod("one", claimed("data", "data"))
    main = torn.spec.containers[0]
    others = [
        Container(
            name=level,
            volume_mounts=main.volume_mounts,
            security_context=ContainerSecurityContext(se_linux_options=SELinuxOptions(level=level)),
        )
        for level in ("s0:c1", "s0:c2")
    ]
    torn = replace_containers(torn, *others)
    async with node.running() as manager:
        node.add_pod(torn)
        with pytest.raises(NotMounted, match="several SELinux labels"):
            await manager.wait_for_attach_and_mount(torn)
        assert plugin.calls == []


def replace_containers(wanted: Pod, *containers: Container) -> Pod:
    return structs.replace(wanted, spec=structs.replace(wanted.spec, containers=containers))


# -- several pods ------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_pod_with_another_label_is_kept_out_and_told_so_until_the_others_have_left() -> None:
    """S08: nobody looks again by the clock, for no time passes."""
    node, plugin = machine()
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running() as manager:
        await mounted(node, FIRST, wanting("other", "s0:c1,c2"))
        node.add_pod(SECOND)
        with pytest.raises(NotMounted, match="conflicting SELinux labels") as failed:
            await manager.wait_for_attach_and_mount(SECOND)
        assert failed.value.unprocessed == ["data"]
        (problem,) = manager.desired.problems(TWO).values()
        assert problem.next_step.startswith("It goes on when no other pod wants the volume any more")
        assert [change.pod.metadata.name for change in told if isinstance(change, ProblemArose)] == ["two"]
        assert manager.desired.volumes[DISK].label == A
        plugin.calls.clear()
        at = asyncio.get_running_loop().time()
        node.remove_pod(PodUid("uid-other"))
        assert manager.desired.problems(TWO)
        node.remove_pod(ONE)
        assert not manager.desired.problems(TWO)
        await manager.wait_for_attach_and_mount(SECOND)
        assert labels(plugin) == [(Step.STAGE, B), (Step.SET_UP, B)]
        assert asyncio.get_running_loop().time() == at
        node.remove_pod(TWO)
        await manager.wait_for_nothing_left(timeout=10)
        assert manager.populator.is_empty()
        assert manager.desired.is_empty()


@in_virtual_time
async def test_of_several_pods_that_were_kept_out_those_that_agree_get_the_volume() -> None:
    node, _ = machine()
    last = wanting("four", "s0:c5")
    async with node.running() as manager:
        await mounted(node, FIRST)
        for each in (SECOND, THIRD, last):
            node.add_pod(each)
        node.remove_pod(ONE)
        for each in (SECOND, THIRD):
            await manager.wait_for_attach_and_mount(each)
        assert list(manager.desired.problems(PodUid("uid-four"))) == ["data"]


@in_virtual_time
async def test_a_pod_that_was_kept_out_and_leaves_is_forgotten() -> None:
    node, _ = machine()
    async with node.running() as manager:
        await mounted(node, FIRST)
        node.add_pod(SECOND)
        node.remove_pod(TWO)
        node.remove_pod(ONE)
        await manager.wait_for_nothing_left(timeout=10)
        assert manager.populator.is_empty()
        assert manager.desired.is_empty()


class States:
    """What somebody who runs containers would say of pods."""

    def __init__(self) -> None:
        self.terminating: set[PodUid] = set()
        self.removed: set[PodUid] = set()

    def containers_terminating(self, uid: PodUid) -> bool:
        return uid in self.terminating

    def runtime_removed(self, uid: PodUid) -> bool:
        return uid in self.removed


@in_virtual_time
async def test_a_pod_that_was_kept_out_and_ends_does_not_gain_the_volume() -> None:
    states = States()
    node, _ = machine(states=states)
    async with node.running() as manager:
        await mounted(node, FIRST)
        node.add_pod(SECOND)
        states.terminating.add(TWO)
        states.removed.add(ONE)
        manager.pod_state_changed(ONE)
        assert not manager.desired.volumes
        assert list(manager.desired.problems(TWO)) == ["data"]


@in_virtual_time
async def test_pods_share_a_volume_that_is_mounted_without_their_labels() -> None:
    """S09."""
    node, plugin = machine(selinux_mount="off")
    async with node.running():
        await mounted(node, FIRST, SECOND)
    assert [label for _, label in labels(plugin)] == ["", "", ""]


@pytest.mark.parametrize(
    ("policies", "label"), [(("Recursive", None), ""), ((None, "Recursive"), A), (("Recursive", "Recursive"), None)]
)
@in_virtual_time
async def test_pods_of_different_policies_are_in_conflict_though_they_ask_for_the_same(
    policies: tuple[str | None, str | None], label: str | None
) -> None:
    """S10, S11, S12."""
    node, _ = machine()
    one, two = (wanting(name, "s0:c1,c2", policy) for name, policy in zip(("one", "two"), policies, strict=True))
    async with node.running() as manager:
        await mounted(node, one)
        node.add_pod(two)
        assert bool(manager.desired.problems(TWO)) is (label is not None)
        assert manager.desired.volumes[DISK].label == (label or "")


# -- handing over ------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_volume_goes_to_a_pod_with_another_label_by_being_unmounted_and_unstaged() -> None:
    """S14, S15; it stays attached."""
    node, plugin = machine()
    async with node.running() as manager:
        await mounted(node, FIRST)
        plugin.calls.clear()
        hang = plugin.hang(Step.TEAR_DOWN)
        node.remove_pod(ONE)
        node.add_pod(SECOND)
        await hang.reached.wait()
        assert not manager.desired.problems(TWO)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(SECOND, timeout=1)
        hang.release()
        await manager.wait_for_attach_and_mount(SECOND)
        assert plugin.steps() == [Step.TEAR_DOWN, Step.UNSTAGE, Step.STAGE, Step.SET_UP]
        assert labels(plugin) == [(Step.STAGE, B), (Step.SET_UP, B)]
        assert manager.actual.volumes[DISK].label == B


@in_virtual_time
async def test_a_stage_that_may_have_the_label_of_a_pod_that_left_is_undone_first() -> None:
    node, plugin = machine()
    async with node.running() as manager:
        plugin.script(Step.STAGE, doubtful(happened=True))
        node.add_pod(FIRST)
        await settle(manager)
        assert manager.actual.volumes[DISK].stage is Presence.UNCERTAIN
        assert manager.actual.volumes[DISK].label == A
        plugin.calls.clear()
        node.remove_pod(ONE)
        node.add_pod(SECOND)
        await manager.wait_for_attach_and_mount(SECOND)
        assert plugin.steps() == [Step.UNSTAGE, Step.STAGE, Step.SET_UP]


@in_virtual_time
async def test_a_pod_that_comes_back_with_another_label_is_not_ready_before_it_is_mounted_with_that() -> None:
    """As one from a manifest does, whose UID is always the same."""
    node, plugin = machine()
    again = wanting("one", "s0:c3,c4")
    async with node.running() as manager:
        await mounted(node, FIRST)
        plugin.calls.clear()
        manager.containers_changed(ONE, "main")
        node.remove_pod(ONE)
        node.add_pod(again)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(again, timeout=1)
        assert manager.get_mounted_volumes_for_pod(ONE) == {}
        assert plugin.steps() == []
        manager.containers_changed(ONE, None)
        await manager.wait_for_attach_and_mount(again)
        assert plugin.steps() == [Step.TEAR_DOWN, Step.UNSTAGE, Step.STAGE, Step.SET_UP]


@in_virtual_time
async def test_a_pod_that_comes_back_and_is_kept_out_does_not_hold_on_to_what_it_had() -> None:
    """Else the pod that got the volume meanwhile would wait for ever."""
    node, _ = machine()
    async with node.running() as manager:
        await mounted(node, FIRST)
        node.add_pod(SECOND)
        node.remove_pod(ONE)
        node.add_pod(FIRST)
        assert list(manager.desired.problems(ONE)) == ["data"]
        await manager.wait_for_attach_and_mount(SECOND)
        assert not manager.actual.may_hold(ONE)


# -- restarts ----------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_the_label_outlives_a_restart_for_the_pod_that_has_the_volume() -> None:
    node, plugin = machine()
    async with node.running():
        await mounted(node, FIRST)
    plugin.calls.clear()
    node.new_manager()
    async with node.running() as manager:
        await mounted(node, FIRST)
        assert plugin.count(Step.TEAR_DOWN) == 0
        assert manager.actual.volumes[DISK].label == A


@in_virtual_time
async def test_a_volume_found_with_the_label_of_a_pod_that_left_is_taken_away_before_another_one_gets_it() -> None:
    node, plugin = machine()
    async with node.running():
        await mounted(node, FIRST)
    plugin.calls.clear()
    node.new_manager()
    node.add_pod(SECOND)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(SECOND)
    steps = [step for step in plugin.steps() if step is not Step.ATTACH]
    assert steps == [Step.TEAR_DOWN, Step.UNSTAGE, Step.STAGE, Step.SET_UP]


@in_virtual_time
async def test_a_volume_found_without_a_label_serves_any_pod() -> None:
    node, plugin = machine(selinux=False)
    async with node.running():
        await mounted(node, FIRST)
    plugin.calls.clear()
    node.facts = replace(node.facts, selinux=True)
    node.new_manager()
    async with node.running() as manager:
        await mounted(node, FIRST)
        assert plugin.count(Step.TEAR_DOWN) == 0
        assert manager.actual.volumes[DISK].label == A


@in_virtual_time
async def test_a_pod_that_has_the_volume_keeps_it_though_another_one_is_heard_of_first() -> None:
    node, plugin = machine()
    async with node.running():
        await mounted(node, FIRST)
        node.add_pod(SECOND)
    plugin.calls.clear()
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        await manager.wait_for_states_synced()
        node.add_pod(SECOND)
        assert list(manager.desired.problems(TWO)) == ["data"]
        await mounted(node, FIRST)
        manager.sources_heard()
        await settle(manager)
        assert list(manager.desired.problems(TWO)) == ["data"]
        assert plugin.count(Step.TEAR_DOWN) == plugin.count(Step.UNSTAGE) == 0
        node.remove_pod(ONE)
        await manager.wait_for_attach_and_mount(SECOND)


@in_virtual_time
async def test_what_was_found_counts_no_longer_once_every_source_was_heard() -> None:
    node, _ = machine()
    async with node.running():
        await mounted(node, FIRST)
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        await manager.wait_for_states_synced()
        node.add_pod(SECOND)
        assert manager.desired.problems(TWO)
        manager.sources_heard()
        await manager.wait_for_attach_and_mount(SECOND)
        assert manager.actual.volumes[DISK].label == B


@in_virtual_time
async def test_a_setting_that_is_turned_off_takes_nothing_from_running_pods() -> None:
    node, plugin = machine()
    async with node.running():
        await mounted(node, FIRST)
    plugin.calls.clear()
    node.settings = replace(node.settings, selinux_mount="off")
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        await manager.wait_for_states_synced()
        await mounted(node, FIRST)
        manager.sources_heard()
        await settle(manager)
        assert plugin.count(Step.TEAR_DOWN) == 0
        assert manager.desired.volumes[DISK].label == A


# -- containers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("setting", "relabel"), [("on", False), ("off", True)])
@in_virtual_time
async def test_what_is_mounted_with_a_label_is_not_labelled_file_by_file(setting: str, relabel: bool) -> None:
    node, _ = machine(selinux_mount=setting, abilities=replace(LABELS, relabels=True))
    async with node.running() as manager:
        await mounted(node, FIRST)
        (view,) = await manager.get_container_mounts(FIRST)
        assert [mount.selinux_relabel for mount in view.mounts] == [relabel]
