"""How operations end: answers, errors of the machine and surprises as outcomes (operations.md 1.9 and 2.4)."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from mooring.errors import Doubtful, NotYet, Refused
from mooring.kube.objects.pod import Pod, PodSecurityContext
from mooring.kube.objects.storage import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    VolumeNodeAffinity,
)
from mooring.manager.claims import NoClaimStatus
from mooring.manager.intents import Intents
from mooring.manager.operation_executor import OperationExecutor
from mooring.manager.operations.context import OperationContext
from mooring.plugins.interface import NodeFacts
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    DEVICE_MOUNTABLE,
    PLAIN,
    Abilities,
    Answer,
    ScriptedPlugin,
    Step,
    surprise,
)
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Detach,
    MakePodDirectory,
    Mount,
    Operation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
)
from mooring.world.presence import Presence, Result
from mooring.world.spec import VolumeSpec

WEB, V = PodUid("uid-web"), VolumeName("test/scripted/disk")
INLINE = VolumeSpec(volume=scripted("disk"))


class Bench:
    """An executor over both worlds of a node, with a pod that wants a volume."""

    def __init__(
        self, abilities: Abilities = PLAIN, *, spec: VolumeSpec = INLINE, strict: bool = True, owner: Pod | None = None
    ) -> None:
        self.plugin = ScriptedPlugin(abilities)
        self.node = MemoryNode(plugins=lambda context: [self.plugin.on(context)])
        manager = self.node.manager
        self.desired, self.actual = manager.desired, manager.actual
        self.node.host.make_directories("/var/lib/mooring", 0o755)
        context = OperationContext(
            intents=Intents(self.node.host, "/var/lib/mooring/intents"),
            walks=manager.walks,
            expected=manager.expected,
            desired=manager.desired,
            actual=manager.actual,
            plugins=manager.plugins,
            host=self.node.host,
            paths=self.node.paths,
            claims=self.node.objects,
            claim_status=NoClaimStatus(),
            tell=manager.tell,
            node=lambda: replace(NodeFacts(name="n", memory=1, cpu_milli=1), labels={"zone": "a"}),
        )
        self.executor = OperationExecutor(context, strict=strict)
        mount = DesiredMount(
            pod=owner or pod("web", scripted("disk")), spec=spec, outer_names=("disk",), requested_at=0.0, revision=7
        )
        self.desired.add(DesiredVolume(name=V, plugin=self.plugin.name), WEB, mount)
        self.spec = spec

    def hold(self, *, mounted: bool = True) -> None:
        mount = ActualMount(pod=WEB, presence=Presence.PRESENT, spec=self.spec)
        self.actual.put(
            ActualVolume(
                name=V, plugin=self.plugin.name, spec=self.spec, mounts={WEB: mount} if mounted else {}, stage_path="/s"
            )
        )


async def test_a_done_mount_tells_path_revision_and_spec() -> None:
    bench = Bench()
    outcome = await bench.executor.execute(Mount(V, WEB))
    assert (outcome.result, outcome.revision, outcome.spec) == (Result.DONE, 7, INLINE)
    assert outcome.path == bench.node.paths.pod_volume_dir(WEB, "test/scripted", "disk")


async def test_a_mount_makes_the_pods_directories_closed_to_others() -> None:
    bench = Bench()
    await bench.executor.execute(Mount(V, WEB))
    for path in (bench.node.paths.pod_volumes_dir(WEB), bench.node.paths.pod_plugins_dir(WEB)):
        facts = bench.node.host.look(path)
        assert facts is not None
        assert facts.mode == 0o750


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Refused("cannot", why="no", next_step="Ask"), Result.REFUSED),
        (NotYet("cannot yet", why="missing"), Result.NOT_YET),
        (Doubtful("no answer", why="timeout"), Result.UNKNOWN),
    ],
)
async def test_the_class_of_an_error_decides_what_is_known(error: Refused | NotYet | Doubtful, result: Result) -> None:
    """operations.md 3.1."""
    bench = Bench()
    bench.plugin.script(Step.SET_UP, Answer(error=error))
    outcome = await bench.executor.execute(Mount(V, WEB))
    assert outcome.result is result
    assert (outcome.what, outcome.why, outcome.next_step) == (error.what, error.why, error.next_step)


@pytest.mark.parametrize(
    ("error", "why", "advice"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "No space left on device at /x", "Free some space"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error", ""),
        (OSError("half a write"), "half a write", ""),
        (TimeoutError(), "no answer came in time", ""),
    ],
)
async def test_an_error_of_the_machine_leaves_doubt_and_says_what_happened(
    error: OSError, why: str, advice: str
) -> None:
    bench = Bench()
    bench.plugin.script(Step.SET_UP, Answer(error=error))
    outcome = await bench.executor.execute(Mount(V, WEB))
    assert (outcome.result, outcome.what, outcome.why) == (Result.UNKNOWN, "volume mount stopped half way", why)
    assert outcome.next_step.startswith(advice)


async def test_a_surprise_costs_doubt_and_is_counted() -> None:
    """R39; operations.md 1.9, 10.1 scenario 9."""
    bench = Bench(strict=False)
    bench.plugin.script(Step.SET_UP, surprise())
    outcome = await bench.executor.execute(Mount(V, WEB))
    assert outcome.result is Result.UNKNOWN
    assert outcome.why == "mooring has a bug here: RuntimeError: the script has a bug"
    assert bench.executor.surprises == 1
    assert (await bench.executor.execute(Mount(V, WEB))).succeeded


async def test_a_strict_executor_lets_surprises_out() -> None:
    bench = Bench(strict=True)
    bench.plugin.script(Step.SET_UP, surprise())
    with pytest.raises(RuntimeError, match="the script has a bug"):
        await bench.executor.execute(Mount(V, WEB))


async def test_cancellation_is_never_swallowed() -> None:
    bench = Bench(strict=False)
    hanging = bench.plugin.hang(Step.SET_UP)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.executor.execute(Mount(V, WEB)))
        await hanging.reached.wait()
        running.cancel()
    assert running.cancelled()


@pytest.mark.parametrize("operation", [Mount(V, WEB), Attach(V), Stage(V)])
async def test_a_set_up_whose_wish_went_before_it_ran_does_nothing(operation: Operation) -> None:
    bench = Bench(ATTACHABLE)
    bench.desired.forget_pod(WEB)
    outcome = await bench.executor.execute(operation)
    assert outcome.result is Result.NOT_YET  # nothing was tried, so nothing is learned
    assert bench.plugin.calls == []


@pytest.mark.parametrize("operation", [Unmount(V, WEB), RemovePodDirectory(WEB)])
async def test_a_teardown_whose_pod_came_back_before_it_ran_does_nothing(operation: Operation) -> None:
    bench = Bench()
    bench.hold()
    await bench.executor.execute(MakePodDirectory(WEB))
    assert (await bench.executor.execute(operation)).result is Result.NOT_YET
    assert bench.plugin.calls == []
    assert bench.node.host.look(bench.node.paths.pod_dir(WEB)) is not None


async def test_a_mount_whose_pod_went_while_others_want_the_volume_does_nothing() -> None:
    bench = Bench()
    outcome = await bench.executor.execute(Mount(V, PodUid("uid-gone")))
    assert outcome.result is Result.NOT_YET
    assert bench.plugin.calls == []


@pytest.mark.parametrize("operation", [Attach(V), Stage(V), Unstage(V), Detach(V)])
async def test_a_step_that_the_plugin_does_not_have_is_refused(operation: Operation) -> None:
    """R12."""
    bench = Bench(PLAIN)
    bench.hold()
    assert (await bench.executor.execute(operation)).result is Result.REFUSED


async def test_an_unknown_plugin_is_refused() -> None:
    """R12; operations.md 10.3 scenario 40."""
    bench = Bench()
    bench.hold()
    bench.desired.forget_pod(WEB)
    bench.actual.put(structs.replace(bench.actual.volumes[V], plugin=PluginName("test/gone")))
    outcome = await bench.executor.execute(Unmount(V, WEB))
    assert (outcome.result, outcome.why) == (Result.REFUSED, "no volume plugin matched name: test/gone")


async def test_an_unmount_of_what_is_not_there_is_done() -> None:
    bench = Bench()
    bench.hold(mounted=False)
    assert (await bench.executor.execute(Unmount(V, WEB))).succeeded
    assert bench.plugin.calls == []


async def test_unstaging_hands_over_the_path_of_the_stage() -> None:
    bench = Bench(DEVICE_MOUNTABLE)
    bench.hold(mounted=False)
    await bench.executor.execute(Unstage(V))
    assert bench.plugin.calls[0].stage_path == "/s"


async def test_staging_without_attachment_has_no_device_path() -> None:
    bench = Bench(DEVICE_MOUNTABLE)
    outcome = await bench.executor.execute(Stage(V))
    assert (outcome.path, bench.plugin.calls[0].device_path) == ("/stages/disk", "")


def bound_to(zone: str) -> PersistentVolume:
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=(zone,))
    term = NodeSelectorTerm(match_expressions=(requirement,))
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    volume = persistent_volume("c")
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, node_affinity=affinity))


@pytest.mark.parametrize("operation", [Mount(V, WEB), Stage(V)])
async def test_a_volume_for_another_node_is_refused_before_anything_is_touched(operation: Operation) -> None:
    """operations.md 2.4 step 2."""
    bench = Bench(DEVICE_MOUNTABLE, spec=VolumeSpec(persistent_volume=bound_to("b")))
    outcome = await bench.executor.execute(operation)
    assert outcome.result is Result.REFUSED
    assert outcome.why.startswith("no matching NodeSelectorTerms")
    assert bench.plugin.calls == []


async def test_a_volume_for_this_node_is_mounted() -> None:
    bench = Bench(spec=VolumeSpec(persistent_volume=bound_to("a")))
    assert (await bench.executor.execute(Mount(V, WEB))).succeeded


@pytest.mark.parametrize(("takes", "result"), [(False, Result.REFUSED), (True, Result.DONE)])
async def test_mount_options_need_a_plugin_that_takes_them(takes: bool, result: Result) -> None:
    """operations.md 2.4 step 4."""
    volume = persistent_volume("c")
    spec = msgspec.structs.replace(volume.spec, mount_options=("ro",))
    optioned = VolumeSpec(persistent_volume=msgspec.structs.replace(volume, spec=spec))
    bench = Bench(Abilities(takes_mount_options=takes), spec=optioned)
    assert (await bench.executor.execute(Mount(V, WEB))).result is result


async def test_the_group_of_the_pod_is_handed_over() -> None:
    """operations.md 2.4 step 7."""
    owner = pod("web", scripted("disk"), security=PodSecurityContext(fs_group=42))
    bench = Bench(owner=owner)
    await bench.executor.execute(Mount(V, WEB))
    assert bench.plugin.calls[0].fs_group == 42


async def test_pod_directories_are_made_and_removed() -> None:
    bench = Bench()
    assert (await bench.executor.execute(MakePodDirectory(WEB))).succeeded
    assert bench.node.host.look(bench.node.paths.pod_volumes_dir(WEB)) is not None
    bench.desired.forget_pod(WEB)
    assert (await bench.executor.execute(RemovePodDirectory(WEB))).succeeded
    assert bench.node.host.look(bench.node.paths.pod_dir(WEB)) is None


async def test_a_directory_that_still_holds_data_is_a_refusal() -> None:
    bench = Bench()
    await bench.executor.execute(MakePodDirectory(WEB))
    bench.node.host.create_file(f"{bench.node.paths.pod_volumes_dir(WEB)}/data", 0o644)
    bench.desired.forget_pod(WEB)
    assert (await bench.executor.execute(RemovePodDirectory(WEB))).result is Result.REFUSED
