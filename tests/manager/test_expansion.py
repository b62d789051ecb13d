"""Volumes that grow on the node: while they are mounted, and while pods use them (operations.md 2.12, 6 and 10.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import structs

from mooring.errors import Infeasible, InUse, NotYet, Refused, Unsupported
from mooring.kube.merge_patch import merge
from mooring.kube.objects.pod import Pod, ResourceRequirements
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus
from mooring.manager.claims import growth_for
from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.interface import ObjectRef
from mooring.plugins.manager import VolumePluginManager
from mooring.testing import sample_objects
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claimed, empty_dir, persistent_volume, pod
from mooring.testing.scripted_plugin import Abilities, Answer, ScriptedPlugin, Step, doubtful
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.actual import ActualVolume
from mooring.world.changes import Change, Noticed
from mooring.world.growth import IN_PROGRESS, INFEASIBLE, NO_GROWTH, NOT_REQUIRED, PENDING, STORAGE
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Expand
from mooring.world.presence import Presence, Result
from mooring.world.spec import VolumeSpec

WEB = pod("web", claimed("data", "data"))
UID = PodUid("uid-web")
NAME = VolumeName("test/scripted/pv-data")
ONE, TWO = 10**9, 2 * 10**9
SETTLED = 1.0
CLAIM = ObjectRef("PersistentVolumeClaim", "default", "data")


class WrittenClaims:
    """Who writes the status of claims: into the node's objects, unless told to refuse."""

    def __init__(self, node: MemoryNode) -> None:
        self._node = node
        self.patches: list[Mapping[str, Any]] = []
        self.told: list[str] = []
        self.refusals: list[bool] = []  # for the next patches, one after the other

    async def patch(self, claim: PersistentVolumeClaim, merge_patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        found = self._node.objects.claim(claim.metadata.namespace, claim.metadata.name)
        assert found is not None
        version = merge_patch.get("metadata", {}).get("resourceVersion", found.metadata.resource_version)
        if version != found.metadata.resource_version or (self.refusals and self.refusals.pop(0)):
            raise NotYet("cannot write", why="it changed")
        self.patches.append(merge_patch)
        after = merge(msgspec.to_builtins(found), merge_patch)
        after["metadata"]["resourceVersion"] = str(int(found.metadata.resource_version) + 1)
        written = msgspec.convert(after, PersistentVolumeClaim)
        self._node.put(written)
        return written

    def tell(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        self.told.append(f"{claim.key} {reason}: {message}")

    def now(self) -> str:
        return "2026-01-01T00:00:00Z"


class GrowingNode(MemoryNode):
    """A node whose volumes can grow, and whose claims are kept up with them."""

    def __init__(self) -> None:
        self.plugin = ScriptedPlugin(Abilities(expands=True, stages=True))
        self.writer = WrittenClaims(self)
        self.changes: list[Change] = []
        super().__init__(plugins=lambda context: [self.plugin.on(context)])

    def new_manager(self) -> VolumeManager:
        super().new_manager()
        self.manager = VolumeManager(
            settings=self.settings,
            host=self.host,
            paths=self.paths,
            plugins=VolumePluginManager([self.plugin]),
            claims=self.objects,
            node=lambda: self.facts,
            objects=self.objects,
            claim_status=self.writer,
            strict=True,
        )
        self.manager.subscribe(self.changes.append)
        return self.manager

    def ask(
        self,
        *,
        request: str = "2G",
        held: str = "1G",
        allocated: str = "2G",
        state: str = PENDING,
        volume: str = "2G",
        modes: tuple[str, ...] = ("ReadWriteOnce",),
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """What the claim and its volume say from now on."""
        bound = persistent_volume("data", access_modes=modes)
        self.put(structs.replace(bound, spec=structs.replace(bound.spec, capacity={STORAGE: volume})))
        claim = sample_objects.claim("data")
        status = PersistentVolumeClaimStatus(
            phase="Bound",
            capacity={STORAGE: held},
            allocated_resources={STORAGE: allocated} if allocated else {},
            allocated_resource_statuses={STORAGE: state} if state else {},
        )
        resources = ResourceRequirements(requests={STORAGE: request})
        before = self.objects.claim("default", "data")
        version = str(int(before.metadata.resource_version) + 1) if before is not None else "1"
        self.put(
            structs.replace(
                claim,
                metadata=structs.replace(claim.metadata, resource_version=version, annotations=annotations or {}),
                spec=structs.replace(claim.spec, access_modes=modes, resources=resources),
                status=status,
            )
        )

    async def mount(self, wanted: Pod = WEB) -> ActualVolume:
        self.add_pod(wanted)
        await self.manager.wait_for_attach_and_mount(wanted)
        await asyncio.sleep(SETTLED)
        return self.held

    @property
    def held(self) -> ActualVolume:
        return self.manager.actual.volumes[NAME]

    @property
    def status(self) -> PersistentVolumeClaimStatus:
        claim = self.objects.claim("default", "data")
        assert claim is not None
        return claim.status

    @property
    def state(self) -> str:
        return self.status.allocated_resource_statuses.get(STORAGE, "")

    @property
    def conditions(self) -> list[str]:
        return [each.type for each in self.status.conditions]

    @property
    def growths(self) -> list[int]:
        """The sizes that the plugin was asked for."""
        return [call.size for call in self.plugin.calls if call.step is Step.EXPAND]


def fails(error: Exception) -> Answer:
    return Answer(happens=False, error=error)


IMPOSSIBLE = fails(Infeasible("cannot grow", why="OUT_OF_RANGE: at most 1G"))
REFUSES = fails(Refused("cannot grow", why="INTERNAL: no"))
USED = fails(InUse("cannot grow", why="FAILED_PRECONDITION: it is mounted"))
UNABLE = fails(Unsupported("cannot grow", why="it has no such ability"))


# -- while it is mounted -----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_volume_grows_after_it_was_mounted_and_before_its_pod_uses_it() -> None:
    """Scenarios 42 and 50."""
    node = GrowingNode()
    node.ask()
    async with node.running():
        held = await node.mount()
    assert node.plugin.steps() == [Step.STAGE, Step.SET_UP, Step.EXPAND]
    grown = node.plugin.calls[-1]
    assert (grown.volume, grown.pod, grown.size, grown.stage_path) == ("pv-data", UID, TWO, "/stages/pv-data")
    assert (held.size, held.mounts[UID].presence) == (TWO, Presence.PRESENT)
    assert (node.state, node.status.capacity, node.conditions) == ("", {STORAGE: "1953125Ki"}, [])


@in_virtual_time
async def test_a_claim_is_told_that_a_node_has_begun_before_its_driver_is_asked() -> None:
    node = GrowingNode()
    node.ask()
    waiting = node.plugin.hang(Step.EXPAND)
    async with node.running():
        node.add_pod(WEB)
        await waiting.reached.wait()
        assert node.state == IN_PROGRESS
        assert node.manager.get_mounted_volumes_for_pod(UID) == {}
        waiting.release()
        await node.manager.wait_for_attach_and_mount(WEB)


@in_virtual_time
async def test_success_is_told_under_the_pod_and_under_the_claim() -> None:
    node = GrowingNode()
    node.ask()
    async with node.running():
        await node.mount()
    message = 'MountVolume.NodeExpandVolume succeeded for volume "pv-data" memory-node'
    assert node.writer.told == [f"default/data FileSystemResizeSuccessful: {message}"]
    told = [change for change in node.changes if isinstance(change, Noticed)]
    assert [(each.volume, each.reason, each.message, each.warning) for each in told] == [
        ("data", "FileSystemResizeSuccessful", message, False)
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"held": "2G", "state": ""},
        {"held": "2G", "state": "", "allocated": ""},
        {"held": "3G", "state": "", "allocated": ""},
        {"state": INFEASIBLE},  # scenario 43
        {"state": "ControllerResizeInProgress"},
    ],
)
@in_virtual_time
async def test_a_volume_that_need_not_or_may_not_grow_is_mounted_as_it_is(asked: dict[str, str]) -> None:
    node = GrowingNode()
    node.ask(**asked)  # type: ignore[arg-type]
    async with node.running():
        held = await node.mount()
    assert held.size == int(asked.get("held", "1G")[0]) * ONE
    assert (node.growths, node.writer.patches) == ([], [])


@in_virtual_time
async def test_a_volume_that_its_pod_may_only_read_is_mounted_as_it_is() -> None:
    node = GrowingNode()
    node.ask()
    async with node.running():
        held = await node.mount(pod("web", claimed("data", "data", read_only=True)))
    assert (held.size, node.growths, node.state) == (ONE, [], PENDING)


@in_virtual_time
async def test_a_size_that_cannot_be_had_is_told_and_then_the_volume_is_used_as_it_is() -> None:
    """Scenario 44: the mount in progress fails once; the next try finds that there is nothing to grow."""
    node = GrowingNode()
    node.ask()
    node.plugin.always(Step.EXPAND, IMPOSSIBLE)
    async with node.running():
        held = await node.mount()
    assert (node.growths, node.plugin.count(Step.SET_UP)) == ([TWO], 2)
    assert (node.state, node.conditions) == (INFEASIBLE, ["NodeResizeError"])
    assert node.status.conditions[0].message == "failed to expand pvc with OUT_OF_RANGE: at most 1G"
    assert (held.size, node.status.capacity) == (ONE, {STORAGE: "1G"})


@in_virtual_time
async def test_a_volume_whose_growth_is_refused_is_in_doubt_until_it_has_grown() -> None:
    """Scenario 45."""
    node = GrowingNode()
    node.ask()
    node.plugin.script(Step.EXPAND, REFUSES)
    async with node.running() as manager:
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert node.held.mounts[UID].presence is Presence.UNCERTAIN
        assert (node.state, node.conditions) == (IN_PROGRESS, ["NodeResizeError"])
        await manager.wait_for_attach_and_mount(WEB)
    assert (node.growths, node.state, node.conditions, node.held.size) == ([TWO, TWO], "", [], TWO)


@in_virtual_time
async def test_no_answer_while_it_grows_is_no_failure_of_the_claim() -> None:
    """operations.md 6.5, first row; Q9."""
    node = GrowingNode()
    node.ask()
    node.plugin.script(Step.EXPAND, doubtful())
    async with node.running() as manager:
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert node.held.mounts[UID].presence is Presence.UNCERTAIN
        assert (node.state, node.conditions) == (IN_PROGRESS, [])
        await manager.wait_for_attach_and_mount(WEB)
    assert (node.growths, node.state) == ([TWO, TWO], "")


@in_virtual_time
async def test_a_refused_size_that_nobody_asks_for_any_more_counts_as_one_that_cannot_be_had() -> None:
    """From the second failure on."""
    node = GrowingNode()
    node.ask(request="1500M")
    node.plugin.always(Step.EXPAND, REFUSES)
    async with node.running():
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert node.state == IN_PROGRESS
        await node.mount()
    assert (node.growths, node.state, node.held.size) == ([TWO, TWO], INFEASIBLE, ONE)


@in_virtual_time
async def test_a_failure_does_not_outlive_the_volume_on_the_node() -> None:
    """Q11: a volume that comes back, and fails for the first time again, has not failed before."""
    node = GrowingNode()
    node.ask()
    node.plugin.script(Step.EXPAND, REFUSES)
    async with node.running() as manager:
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        node.remove_pod(UID)
        await manager.wait_for_nothing_left(timeout=60)
        other = persistent_volume("other")
        node.put(structs.replace(other, spec=structs.replace(other.spec, capacity={STORAGE: "2G"})))
        node.ask(request="1500M")
        await _fail_another(node)
        node.plugin.script(Step.EXPAND, REFUSES)
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert (node.state, node.conditions) == (IN_PROGRESS, ["NodeResizeError"])


async def _fail_another(node: GrowingNode) -> None:
    """The growth of another volume fails: what is remembered is put in order then."""
    claim = sample_objects.claim("other")
    status = PersistentVolumeClaimStatus(
        phase="Bound",
        capacity={STORAGE: "1G"},
        allocated_resources={STORAGE: "2G"},
        allocated_resource_statuses={STORAGE: PENDING},
    )
    metadata = structs.replace(claim.metadata, resource_version="1")
    node.put(structs.replace(claim, metadata=metadata, status=status))
    node.plugin.script(Step.EXPAND, REFUSES)
    node.add_pod(pod("other", claimed("data", "other")))
    await asyncio.sleep(0.2)
    node.remove_pod(PodUid("uid-other"))
    await node.manager.wait_for_nothing_left(timeout=60)


@in_virtual_time
async def test_a_volume_that_does_not_grow_in_use_is_mounted_and_left_alone() -> None:
    """Scenario 52."""
    node = GrowingNode()
    node.ask()
    node.plugin.script(Step.EXPAND, USED)
    async with node.running():
        held = await node.mount()
        assert held.mounts[UID].presence is Presence.PRESENT
        assert (node.state, node.conditions) == (IN_PROGRESS, ["NodeResizeError"])
        node.ask(request="3G", allocated="3G", volume="3G")
        await asyncio.sleep(SETTLED)
    assert node.growths == [TWO]


@in_virtual_time
async def test_a_driver_that_cannot_grow_volumes_fails_a_claim_that_asks_for_it() -> None:
    node = GrowingNode()
    node.ask()
    node.plugin.script(Step.EXPAND, UNABLE)
    async with node.running():
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert (node.state, node.conditions) == (IN_PROGRESS, ["NodeResizeError"])
        assert node.held.mounts[UID].presence is Presence.UNCERTAIN


# -- the old way -------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_claim_that_tells_nothing_is_told_only_that_it_has_grown() -> None:
    """Scenario 49."""
    node = GrowingNode()
    node.ask(allocated="", state="")
    async with node.running():
        held = await node.mount()
    assert (node.growths, held.size, node.status.capacity) == ([TWO], TWO, {STORAGE: "1953125Ki"})
    assert len(node.writer.patches) == 1


@pytest.mark.parametrize(("answer", "size"), [(UNABLE, TWO), (USED, 0)])
@in_virtual_time
async def test_a_driver_that_has_no_part_in_it_is_left_alone_the_old_way(answer: Answer, size: int) -> None:
    """Scenario 53; operations.md 6.6."""
    node = GrowingNode()
    node.ask(allocated="", state="")
    node.plugin.script(Step.EXPAND, answer)
    async with node.running():
        held = await node.mount()
    assert (node.growths, held.size, node.writer.patches) == ([TWO], size, [])


@in_virtual_time
async def test_a_refusal_is_not_told_to_a_claim_that_tells_nothing_itself() -> None:
    node = GrowingNode()
    node.ask(allocated="", state="")
    node.plugin.script(Step.EXPAND, REFUSES)
    async with node.running():
        await node.mount()
    assert (len(node.growths), len(node.writer.patches)) == (2, 1)


# -- while a pod uses it -----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_volume_that_a_pod_uses_grows_and_stays_mounted() -> None:
    """Scenario 51."""
    node = GrowingNode()
    node.ask(held="10G", request="10G", allocated="", state="", volume="10G")
    async with node.running() as manager:
        held = await node.mount()
        assert (held.size, node.growths) == (10 * ONE, [])
        node.ask(held="10G", request="15G", allocated="15G", volume="15G")
        await asyncio.sleep(SETTLED)
        assert manager.get_mounted_volumes_for_pod(UID).keys() == {"data"}
    assert (node.growths, node.held.size, node.state) == ([15 * ONE], 15 * ONE, "")
    assert node.plugin.count(Step.SET_UP) == 1


@in_virtual_time
async def test_a_volume_that_two_pods_use_grows_once() -> None:
    node = GrowingNode()
    node.ask(held="1G", request="1G", allocated="", state="", volume="1G")
    other = pod("other", claimed("data", "data"))
    async with node.running():
        await node.mount()
        await node.mount(other)
        node.ask()
        await asyncio.sleep(SETTLED)
    assert node.growths == [TWO]


async def _mounted_small(node: GrowingNode) -> None:
    node.ask(request="1G", allocated="", state="", volume="1G")
    await node.mount()


@in_virtual_time
async def test_a_failure_while_a_pod_uses_it_leaves_it_mounted_and_is_tried_again() -> None:
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.plugin.script(Step.EXPAND, doubtful(), REFUSES)
        node.ask()
        await asyncio.sleep(0.2)
        assert (node.held.mounts[UID].presence, node.held.size) == (Presence.PRESENT, ONE)
        assert node.held.failures[UID].operation == "volume_fs_resize"
        await asyncio.sleep(10)
        assert node.held.failures == {}
    assert (node.growths, node.held.size) == ([TWO, TWO, TWO], TWO)


@in_virtual_time
async def test_a_size_that_cannot_be_had_in_use_is_tried_again_only_when_the_claim_says_so() -> None:
    """Scenario 102 of csi.md, as far as the node has a part in it; Q8."""
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.plugin.script(Step.EXPAND, IMPOSSIBLE)
        node.ask()
        await asyncio.sleep(60)
        assert (node.growths, node.state) == ([TWO], INFEASIBLE)
        node.ask(request="1500M", allocated="1500M")
        await asyncio.sleep(10)
    assert (node.growths, node.held.size, node.state) == ([TWO, 1500 * 10**6], 1500 * 10**6, "")


@in_virtual_time
async def test_a_volume_that_does_not_grow_in_use_is_not_tried_again() -> None:
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.plugin.script(Step.EXPAND, USED)
        node.ask()
        await asyncio.sleep(600)
    assert (node.growths, node.held.stays_small, node.held.failures) == ([TWO], True, {})


@in_virtual_time
async def test_a_claim_that_another_node_has_brought_to_its_size_is_believed() -> None:
    """Scenario 46."""
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.ask(held="2G", state="")
        await asyncio.sleep(SETTLED)
    assert (node.growths, node.held.size, node.writer.patches) == ([], TWO, [])


@pytest.mark.parametrize(
    ("annotations", "answer", "calls"), [({}, Answer(), 1), ({}, UNABLE, 1), ({NOT_REQUIRED: ""}, Answer(), 0)]
)
@in_virtual_time
async def test_a_volume_of_many_nodes_grows_here_too_unless_its_driver_needs_none(
    annotations: dict[str, str], answer: Answer, calls: int
) -> None:
    """Scenario 47."""
    node = GrowingNode()
    many = ("ReadWriteMany",)
    async with node.running():
        node.ask(request="1G", allocated="", state="", volume="1G", modes=many)
        await node.mount()
        node.plugin.script(Step.EXPAND, answer)
        node.ask(held="2G", state="", modes=many, annotations=annotations)
        await asyncio.sleep(SETTLED)
    assert (len(node.growths), node.held.size, node.held.failures) == (calls, TWO, {})
    assert node.writer.patches == []


# -- what comes in between ---------------------------------------------------------------------------------------------
@in_virtual_time
async def test_no_driver_is_asked_before_the_claim_could_be_told() -> None:
    node = GrowingNode()
    node.ask()
    node.writer.refusals = [True]
    async with node.running():
        node.add_pod(WEB)
        await asyncio.sleep(0.2)
        assert node.growths == []
        await node.mount()
    assert node.growths == [TWO]


@in_virtual_time
async def test_a_claim_that_could_not_be_told_of_success_is_told_after_another_try() -> None:
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.writer.refusals = [False, True]
        node.ask()
        await asyncio.sleep(10)
    assert (node.growths, node.held.size, node.state) == ([TWO, TWO], TWO, "")


@in_virtual_time
async def test_a_claim_that_could_not_be_told_of_a_failure_hides_nothing() -> None:
    node = GrowingNode()
    async with node.running():
        await _mounted_small(node)
        node.writer.refusals = [False, True]
        node.plugin.script(Step.EXPAND, REFUSES)
        node.ask()
        await asyncio.sleep(0.2)
        assert node.held.failures[UID].why == "INTERNAL: no"
        assert node.conditions == []


@in_virtual_time
async def test_a_pod_that_goes_while_its_volume_is_set_up_is_no_surprise() -> None:
    node = GrowingNode()
    node.ask()
    waiting = node.plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(WEB)
        await waiting.reached.wait()
        node.remove_pod(UID)
        waiting.release()
        await manager.wait_for_nothing_left(timeout=60)
    assert node.plugin.mounted == set()


@in_virtual_time
async def test_a_claim_that_goes_while_its_volume_is_set_up_is_missed() -> None:
    node = GrowingNode()
    node.ask()
    waiting = node.plugin.hang(Step.SET_UP)
    async with node.running():
        node.add_pod(WEB)
        await waiting.reached.wait()
        node.remove(CLAIM)
        waiting.release()
        await asyncio.sleep(0.2)
        assert node.held.failures[UID].why == "its claim 'default/data' cannot be found"
        assert node.held.mounts[UID].presence is Presence.UNCERTAIN
    assert node.growths == []


@in_virtual_time
async def test_growing_what_a_pod_does_not_have_any_more_is_nothing_to_do() -> None:
    node = GrowingNode()
    async with node.running() as manager:
        outcome = await manager.executor.execute(Expand(NAME, UID))
    assert (outcome.result, outcome.what) == (Result.NOT_YET, "nothing to grow")


# -- what a claim says -------------------------------------------------------------------------------------------------
def test_a_volume_without_a_claim_has_no_size_to_grow_to() -> None:
    objects = GrowingNode().objects
    scratch = empty_dir("scratch")
    assert growth_for(pod("web", scratch), scratch, VolumeSpec(volume=scratch), objects) == NO_GROWTH
    bound = VolumeSpec(persistent_volume=PersistentVolume())
    assert growth_for(WEB, claimed("data", "data"), bound, objects) == NO_GROWTH
