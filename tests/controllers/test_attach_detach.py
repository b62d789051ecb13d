"""Attaching on two nodes, and the handshake before a detach (attachdetach.md A1 to A11, A19, A46)."""

from __future__ import annotations

from tests.controllers.attach_bench import MANY, REFUSAL, SOON, Cluster, cluster, node, pod, unique

from mooring.controllers.attachdetach.controller import Timing
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.presence import Presence

LONG = 3600.0
UNMOUNT = 360.0


async def attached(bench: Cluster, *, in_use: bool = False) -> None:
    """Node n1 has the volume v1 for the pod web."""
    await bench.put(node("n1"))
    await bench.volume("v1")
    await bench.put(pod("web", "n1", "v1"))
    await bench.passes()
    if in_use:
        await bench.node_says("n1", in_use=["v1"])
        await bench.passes()
    assert await bench.says_attached("n1") == ["v1"]
    bench.forget_trace()


@in_virtual_time
async def test_nothing_is_done_for_nothing() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"))
        await bench.passes(LONG)
        assert bench.trace == []


@in_virtual_time
async def test_a_volume_is_attached_once_and_then_told_to_the_node() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.passes(LONG)
        assert bench.trace == []
        assert bench.presence("v1", "n1") is Presence.PRESENT
        assert bench.told == [("web", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v1" ')]


@in_virtual_time
async def test_a_node_is_told_before_a_volume_is_detached() -> None:
    async with cluster() as bench:
        await attached(bench)
        await bench.pod_goes("web")
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]
        assert bench.attacher.attached == set()
        assert bench.presence("v1", "n1") is Presence.ABSENT
        assert bench.forced == []


@in_virtual_time
async def test_a_volume_that_a_healthy_node_uses_is_never_detached() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert bench.trace == []
        await bench.node_says("n1", in_use=[])
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_node_that_is_not_ready_loses_the_volume_when_the_longest_wait_is_over() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.pod_goes("web")
        await bench.node_says("n1", ready=False)
        await bench.passes(UNMOUNT - 1)
        assert bench.trace == []
        await bench.passes(2)
        assert bench.trace == ["tell n1:", "cancel n1"]
        assert bench.forced == ["timeout"]


@in_virtual_time
async def test_without_force_only_the_taint_takes_a_used_volume_away() -> None:
    async with cluster(Timing(force_detach_on_timeout=False)) as bench:
        await attached(bench, in_use=True)
        await bench.pod_goes("web")
        await bench.node_says("n1", ready=False)
        await bench.passes(LONG)
        assert bench.trace == []
        await bench.node_is_off("n1")
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]
        assert bench.forced == ["out-of-service"]


@in_virtual_time
async def test_a_node_that_is_out_of_service_loses_the_volume_at_once() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.pod_goes("web")
        await bench.node_is_off("n1")
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]
        assert bench.forced == ["out-of-service"]


@in_virtual_time
async def test_nothing_is_detached_when_the_node_cannot_be_told() -> None:
    async with cluster() as bench:
        await attached(bench)
        bench.store.fails["tell n1"] = REFUSAL
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert "cancel n1" not in bench.trace
        assert await bench.says_attached("n1") == ["v1"]
        assert bench.trace[:2] == ["tell n1:", "tell n1: v1"]
        bench.store.fails.clear()
        await bench.passes(UNMOUNT)
        assert bench.trace[-2:] == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_node_that_says_at_the_last_moment_that_it_uses_the_volume_keeps_it() -> None:
    async with cluster() as bench:
        await attached(bench)
        bench.store.after["tell n1:"] = {"volumesInUse": [unique("v1")]}
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert "cancel n1" not in bench.trace
        await bench.node_says("n1", in_use=[])
        await bench.passes(SOON)
        assert bench.trace[-2:] == ["tell n1:", "cancel n1"]
        assert bench.attacher.attached == set()


@in_virtual_time
async def test_a_volume_for_many_is_attached_to_both_nodes_and_detached_from_each_alone() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"), node("n2"))
        await bench.volume("v1", MANY)
        await bench.put(pod("a", "n1", "v1"), pod("b", "n2", "v1"))
        await bench.passes()
        assert bench.attacher.worst == 2
        await bench.pod_goes("a")
        await bench.passes()
        assert bench.attacher.attached == {"n2"}
        assert await bench.says_attached("n2") == ["v1"]


@in_virtual_time
async def test_a_volume_for_one_waits_until_the_other_node_has_let_go() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.put(node("n2"), pod("other", "n2", "v1"))
        await bench.passes(LONG)
        assert bench.attacher.attached == {"n1"}
        message = 'Multi-Attach error for volume "v1" Volume is already used by pod(s) web'
        assert bench.warnings() == [("other", message)]
        await bench.pod_goes("web")
        await bench.passes(LONG)
        assert bench.attacher.attached == {"n1"}
        await bench.node_says("n1", in_use=[])
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1", "order n2", "tell n2: v1"]
        assert bench.attacher.worst == 1
        assert len(bench.warnings()) == 1


@in_virtual_time
async def test_a_pod_that_moves_is_told_while_the_old_node_still_uses_its_volume() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.put(node("n2"))
        await bench.pod_moves("web", "n2", "v1")
        await bench.passes(600)
        nobody = "Volume is already exclusively attached to one node and can't be attached to another"
        assert bench.warnings() == [("web", f'Multi-Attach error for volume "v1" {nobody}')]


@in_virtual_time
async def test_a_pod_that_comes_back_ends_the_wait_and_the_next_one_begins_anew() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.node_says("n1", ready=False)
        await bench.pod_goes("web")
        await bench.passes(UNMOUNT - 10)
        await bench.put(pod("web", "n1", "v1"))
        await bench.passes()
        await bench.pod_goes("web")
        await bench.passes(UNMOUNT - 10)
        assert bench.trace == []
        await bench.passes(20)
        assert bench.trace == ["tell n1:", "cancel n1"]


@in_virtual_time
async def test_a_volume_unmounted_late_on_a_healthy_node_counts_as_forced_and_is_looked_at_all_the_same() -> None:
    async with cluster() as bench:
        await attached(bench, in_use=True)
        await bench.pod_goes("web")
        await bench.passes(UNMOUNT + 60)
        looked = bench.store.looked
        await bench.node_says("n1", in_use=[])
        await bench.passes()
        assert bench.trace == ["tell n1:", "cancel n1"]
        assert bench.forced == ["timeout"]
        assert bench.store.looked > looked
