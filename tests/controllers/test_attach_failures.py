"""What fails on the way, and what is in doubt then (attachdetach.md A12 to A21, A41 to A43)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.controllers.attach_bench import REFUSAL, SOON, cluster, node, pod, unique
from tests.controllers.test_attach_detach import LONG, attached

from mooring.controllers.attachdetach.attachers import DanglingAttachment
from mooring.kube.objects.kinds import NODE, VOLUME_ATTACHMENT
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec


@in_virtual_time
async def test_a_volume_that_cannot_be_attached_is_in_doubt_and_not_told_to_the_node() -> None:
    async with cluster() as bench:
        bench.attacher.refuses["n1"] = "no such disk"
        await bench.put(node("n1"))
        await bench.volume("v1")
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes()
        assert bench.presence("v1", "n1") is Presence.UNCERTAIN
        assert await bench.says_attached("n1") == []
        assert bench.warnings()[0] == ("web", 'AttachVolume.Attach failed for volume "v1" : no such disk')
        bench.attacher.refuses.clear()
        await bench.attacher.look_again()
        await bench.passes()
        assert bench.presence("v1", "n1") is Presence.PRESENT
        assert await bench.says_attached("n1") == ["v1"]


@in_virtual_time
async def test_failures_rest_longer_and_longer() -> None:
    async with cluster() as bench:
        bench.store.fails["order"] = REFUSAL
        await bench.put(node("n1"))
        await bench.volume("v1")
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes(0.5 + 1 + 2 + 0.1)
        assert bench.trace.count("order n1") == 4
        await bench.passes(LONG)
        assert bench.trace.count("order n1") < 50


@in_virtual_time
async def test_a_volume_in_doubt_is_detached_before_it_is_attached_elsewhere() -> None:
    async with cluster() as bench:
        bench.attacher.refuses["n1"] = "no such disk"
        await bench.put(node("n1"), node("n2"))
        await bench.volume("v1")
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes()
        bench.forget_trace()
        await bench.pod_moves("web", "n2", "v1")
        await bench.passes()
        assert bench.trace == ["cancel n1", "order n2", "tell n2: v1"]


@in_virtual_time
async def test_a_volume_that_is_attached_after_nobody_waits_any_more_is_detached_too() -> None:
    async with cluster() as bench:
        bench.attacher.silent.add("n1")
        await bench.put(node("n1"), node("n2"))
        await bench.volume("v1")
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes(121)
        why = "timed out waiting for external-attacher of disk.csi.test CSI driver to attach volume v1"
        assert bench.warnings() == [("web", f'AttachVolume.Attach failed for volume "v1" : {why}')]
        await bench.pod_moves("web", "n2", "v1")
        await bench.passes(121)
        assert "order n2" not in bench.trace  # it may be attached to n1 to this moment
        bench.attacher.silent.clear()
        await bench.attacher.look_again()
        await bench.passes(300)
        assert bench.attacher.attached == {"n2"}
        assert bench.attacher.worst == 1


@in_virtual_time
async def test_a_failed_detach_leaves_the_volume_in_doubt_and_out_of_the_status() -> None:
    async with cluster() as bench:
        await attached(bench)
        bench.attacher.keeps["n1"] = "the disk is busy"
        await bench.pod_goes("web")
        await bench.passes()
        assert bench.presence("v1", "n1") is Presence.UNCERTAIN
        assert await bench.says_attached("n1") == []


@in_virtual_time
async def test_a_volume_that_another_node_could_not_let_go_of_is_not_attached_here() -> None:
    async with cluster() as bench:
        await attached(bench)
        bench.attacher.keeps["n1"] = "the disk is busy"
        await bench.put(node("n2"))
        await bench.pod_moves("web", "n2", "v1")
        await bench.passes(LONG)
        assert bench.attacher.attached == {"n1"}
        assert "order n2" not in bench.trace
        why = "Volume is already exclusively attached to one node and can't be attached to another"
        assert bench.warnings() == [("web", f'Multi-Attach error for volume "v1" {why}')]
        bench.attacher.keeps.clear()
        await bench.attacher.look_again()
        await bench.passes()
        assert bench.attacher.attached == {"n2"}
        assert bench.attacher.worst == 1


@dataclass
class ToldAttacher:
    """Does and answers as it is told, and notes what it was asked."""

    asked: list[str] = field(default_factory=list)
    attach_fails: list[Exception] = field(default_factory=list)
    detach_fails: list[Exception] = field(default_factory=list)
    sees: Presence | None = None

    async def attach(self, spec: VolumeSpec, node: str) -> str:
        self.asked.append(f"attach {node}")
        if self.attach_fails:
            raise self.attach_fails.pop()
        return f"/dev/{spec.name}"

    async def detach(self, name: VolumeName, node: str) -> None:
        self.asked.append(f"detach {node}")
        if self.detach_fails:
            raise self.detach_fails.pop()

    def look(self, name: VolumeName, node: str) -> Presence | None:
        return self.sees


@in_virtual_time
async def test_the_status_carries_the_device_path() -> None:
    async with cluster(attacher=ToldAttacher()) as bench:
        await attached(bench)
        (told,) = (await bench.store.get(NODE, "", "n1")).status.volumes_attached
        assert (told.name, told.device_path) == (unique("v1"), "/dev/v1")


@in_virtual_time
async def test_a_volume_that_hangs_on_a_third_node_is_in_doubt_there_and_detached_from_it() -> None:
    hanging = DanglingAttachment("cannot attach", why="it is attached to n3", node="n3")
    attacher = ToldAttacher(attach_fails=[hanging])
    async with cluster(attacher=attacher) as bench:
        await bench.put(node("n1"), node("n3"))
        await bench.volume("v1")
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes(5)
        assert attacher.asked == ["attach n1", "detach n3", "attach n1"]
        assert bench.presence("v1", "n3") is Presence.ABSENT
        assert bench.presence("v1", "n1") is Presence.PRESENT


@in_virtual_time
async def test_a_volume_wanted_again_after_a_failed_detach_is_attached_again_and_stays() -> None:
    attacher = ToldAttacher(detach_fails=[REFUSAL])
    async with cluster(attacher=attacher) as bench:
        await attached(bench)
        await bench.pod_goes("web")
        await bench.passes(0.1)
        assert bench.presence("v1", "n1") is Presence.UNCERTAIN
        await bench.put(pod("web", "n1", "v1"))
        await bench.put(node("n2"), pod("other", "n2", "v1"))
        await bench.passes(LONG)
        assert attacher.asked == ["attach n1", "detach n1", "attach n1"]
        assert await bench.says_attached("n1") == ["v1"]
        assert await bench.says_attached("n2") == []


@in_virtual_time
async def test_what_is_not_attached_any_more_is_attached_again() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        (order,) = (await bench.store.list(VOLUME_ATTACHMENT)).items
        await bench.store.delete(VOLUME_ATTACHMENT, "", order.metadata.name)
        await bench.passes(5)
        assert bench.presence("v1", "n1") is Presence.PRESENT
        assert "order n1" in bench.trace
        assert await bench.says_attached("n1") == ["v1"]


@in_virtual_time
async def test_an_attacher_that_cannot_say_changes_nothing() -> None:
    attacher = ToldAttacher(sees=None)
    async with cluster(attacher=attacher) as bench:
        await attached(bench)
        await bench.passes(LONG)
        assert bench.trace == []
        attacher.sees = Presence.ABSENT
        await bench.passes(61)
        assert attacher.asked == ["attach n1", "attach n1"]


@in_virtual_time
async def test_a_node_that_cannot_be_told_holds_up_no_other() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"), node("n2"))
        await bench.volume("v1")
        await bench.volume("v2")
        bench.store.fails["tell n1"] = REFUSAL
        await bench.put(pod("a", "n1", "v1"), pod("b", "n2", "v2"))
        await bench.passes()
        assert await bench.says_attached("n2") == ["v2"]
        assert bench.trace.count("tell n2: v2") == 1
        bench.store.fails.clear()
        await bench.passes(5)
        assert await bench.says_attached("n1") == ["v1"]
        assert bench.trace.count("tell n2: v2") == 1


@in_virtual_time
async def test_a_node_without_an_object_is_told_nothing_and_when_it_is_back_all() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.store.delete(NODE, "", "n1")
        await bench.volume("v2")
        await bench.put(pod("more", "n1", "v2"))
        await bench.passes(SOON)
        assert [each for each in bench.trace if each.startswith("tell")] == []
        await bench.put(node("n1"))
        await bench.passes()
        assert await bench.says_attached("n1") == ["v1", "v2"]


@in_virtual_time
async def test_each_comparison_of_what_is_attached_to_a_node_is_counted_by_plugin() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.passes(130)
        assert bench.watcher.done.count(("verify_volumes_are_attached_per_node", True)) == 2
