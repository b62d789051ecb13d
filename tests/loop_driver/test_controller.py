"""What the controller of the loop driver answers, at a real socket and on a machine in memory."""

from __future__ import annotations

from grpc import StatusCode, aio
from tests.loop_driver.driver_calls import MEBIBYTE, Calls, Mode, block, mount, refused
from tests.loop_driver.memory_bench import STATE, Bench

from mooring.stubs import csi_pb2 as csi

GIBIBYTE = 1 << 30


async def test_a_volume_is_made_once_for_each_name(bench: Bench) -> None:
    async with bench.serving() as calls:
        first, second = await calls.create("data"), await calls.create("data")
        other = await calls.create("other")
    assert first == second
    assert first.volume_id != other.volume_id
    assert bench.host.names_in(f"{STATE}/disks") == sorted(f"{each.volume_id}.img" for each in (first, other))


async def test_a_name_that_is_taken_by_another_volume_is_a_conflict(bench: Bench) -> None:
    async with bench.serving() as calls:
        await calls.create("data", size=MEBIBYTE, limit=MEBIBYTE)
        words = await refused(calls.create("data", size=2 * MEBIBYTE), StatusCode.ALREADY_EXISTS)
        await refused(calls.create("data", size=1, limit=4096), StatusCode.ALREADY_EXISTS)
        await refused(calls.create("data", parameters={"fsType": "btrfs"}), StatusCode.ALREADY_EXISTS)
    assert "'data'" in words


async def test_sizes_are_whole_blocks_within_their_limits(bench: Bench) -> None:
    async with bench.serving() as calls:
        assert (await calls.create("odd", size=MEBIBYTE + 1)).capacity_bytes == MEBIBYTE + 4096
        assert (await calls.create("small", size=1)).capacity_bytes == MEBIBYTE
        await refused(calls.create("never", size=MEBIBYTE + 1, limit=MEBIBYTE + 1), StatusCode.OUT_OF_RANGE)
        await refused(calls.create("less", size=2 * MEBIBYTE, limit=MEBIBYTE), StatusCode.OUT_OF_RANGE)
        await refused(calls.create("xfs", limit=MEBIBYTE, parameters={"fsType": "xfs"}), StatusCode.OUT_OF_RANGE)


async def test_what_is_beyond_the_capacity_is_refused_and_deleting_makes_room(bench: Bench) -> None:
    async with bench.serving(capacity=3 * MEBIBYTE) as calls:
        one = await calls.create("one", size=2 * MEBIBYTE)
        words = await refused(calls.create("two", size=2 * MEBIBYTE), StatusCode.RESOURCE_EXHAUSTED)
        await refused(calls.grow(one.volume_id, 4 * MEBIBYTE), StatusCode.RESOURCE_EXHAUSTED)
        assert (await calls.controller.GetCapacity(csi.GetCapacityRequest())).available_capacity == MEBIBYTE
        await calls.delete(one.volume_id)
        await calls.create("two", size=2 * MEBIBYTE)
    assert "--capacity" in words


async def test_a_full_disk_is_told_as_exhausted_and_leaves_nothing(bench: Bench) -> None:
    async with bench.serving() as calls:
        bench.host.limit_disk(2 * MEBIBYTE)
        await refused(calls.create("data", size=8 * MEBIBYTE), StatusCode.RESOURCE_EXHAUSTED)
        assert bench.host.names_in(f"{STATE}/disks") == []
        assert bench.host.names_in(f"{STATE}/volumes") == []
        bench.host.limit_disk(None)
        await calls.create("data", size=8 * MEBIBYTE)


async def test_requests_that_cannot_be_served_are_refused_before_anything_is_made(bench: Bench) -> None:
    async with bench.serving() as calls:
        create = calls.controller.CreateVolume
        await refused(create(csi.CreateVolumeRequest(volume_capabilities=[mount()])), StatusCode.INVALID_ARGUMENT)
        await refused(create(csi.CreateVolumeRequest(name="data")), StatusCode.INVALID_ARGUMENT)
        for wrong in (
            mount(mode=Mode.MULTI_NODE_MULTI_WRITER),
            block(mode=Mode.MULTI_NODE_SINGLE_WRITER),
            mount("reiserfs"),
            csi.VolumeCapability(access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER)),
        ):
            request = csi.CreateVolumeRequest(name="data", volume_capabilities=[wrong])
            await refused(create(request), StatusCode.INVALID_ARGUMENT)
        words = await refused(calls.create(parameters={"speed": "fast"}), StatusCode.INVALID_ARGUMENT)
        elsewhere = csi.TopologyRequirement(requisite=[csi.Topology(segments={"zone": "moon"})])
        await refused(calls.create(accessibility_requirements=elsewhere), StatusCode.RESOURCE_EXHAUSTED)
    assert "'speed'" in words
    assert bench.host.names_in(f"{STATE}/disks") == []


async def test_deleting_what_is_not_there_is_done_and_what_is_in_use_is_refused(bench: Bench) -> None:
    async with bench.serving() as calls:
        await calls.delete("never-was")
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        words = await refused(calls.delete(volume), StatusCode.FAILED_PRECONDITION)
        await calls.unstage(volume)
        await calls.delete(volume)
    assert "staged at '/stage'" in words
    assert bench.loops() == []


async def listed(calls: Calls, most: int, token: str = "") -> tuple[list[str], str]:
    answer = await calls.controller.ListVolumes(csi.ListVolumesRequest(max_entries=most, starting_token=token))
    return [entry.volume.volume_id for entry in answer.entries], answer.next_token


async def test_lists_come_in_pages_that_hold_when_entries_go(bench: Bench) -> None:
    async with bench.serving() as calls:
        ids = sorted([(await calls.create(f"volume-{number}")).volume_id for number in range(5)])
        first, token = await listed(calls, 2)
        await calls.delete(first[-1])  # the one that the token stands for
        second, token = await listed(calls, 2, token)
        third, end = await listed(calls, 2, token)
        await refused(listed(calls, 2, "nonsense"), StatusCode.ABORTED)
        await refused(listed(calls, -1), StatusCode.INVALID_ARGUMENT)
    assert [*first, *second, *third] == ids
    assert end == ""


async def test_capabilities_are_confirmed_or_the_reason_is_told(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id

        async def validated(*capabilities: csi.VolumeCapability) -> csi.ValidateVolumeCapabilitiesResponse:
            return await calls.controller.ValidateVolumeCapabilities(
                csi.ValidateVolumeCapabilitiesRequest(volume_id=volume, volume_capabilities=capabilities)
            )

        fine = await validated(mount("xfs"), block())
        wrong = await validated(mount(), mount(mode=Mode.MULTI_NODE_MULTI_WRITER))
    assert len(fine.confirmed.volume_capabilities) == 2
    assert not wrong.HasField("confirmed")
    assert "MULTI_NODE_MULTI_WRITER" in wrong.message


async def test_snapshots_are_made_once_for_each_name_and_restored_in_full_size(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume, other = (await calls.create()).volume_id, (await calls.create("other")).volume_id
        first, second = await calls.snapshot(volume), await calls.snapshot(volume)
        await refused(calls.snapshot(other), StatusCode.ALREADY_EXISTS)
        await refused(calls.snapshot("never-was", "of-nothing"), StatusCode.NOT_FOUND)
        source = csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=first.snapshot_id))
        restored = await calls.create("restored", size=2 * MEBIBYTE, volume_content_source=source)
        await refused(calls.create("restored", size=2 * MEBIBYTE), StatusCode.ALREADY_EXISTS)
        assert (await calls.create("restored", size=2 * MEBIBYTE, volume_content_source=source)) == restored
        await calls.controller.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=first.snapshot_id))
        await calls.controller.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=first.snapshot_id))
        await refused(calls.create("late", volume_content_source=source), StatusCode.NOT_FOUND)
    assert first == second
    assert first.ready_to_use
    assert restored.content_source == source
    assert restored.capacity_bytes == 2 * MEBIBYTE
    assert [copied.rpartition("/")[2] for _, copied in bench.backing.copied] == [
        f"{first.snapshot_id}.img",
        f"{restored.volume_id}.img",
    ]


async def test_a_copy_is_never_smaller_than_its_source(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = await calls.create(size=4 * MEBIBYTE)
        source = csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=volume.volume_id))
        await refused(calls.create("copy", size=MEBIBYTE, volume_content_source=source), StatusCode.OUT_OF_RANGE)
        assert (await calls.create("copy", size=0, volume_content_source=source)).capacity_bytes == 4 * MEBIBYTE


async def test_a_mounted_source_is_frozen_while_it_is_copied(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        await calls.snapshot(volume)
    assert bench.backing.frozen == bench.backing.thawed == ["/stage"]


async def test_a_volume_is_attached_before_it_is_staged_when_the_driver_says_so(bench: Bench) -> None:
    async with bench.serving(attach=True, max_volumes=1) as calls:
        volume, second = (await calls.create()).volume_id, (await calls.create("second")).volume_id

        async def attached(identity: str, node: str = "here", *, readonly: bool = False) -> dict[str, str]:
            request = csi.ControllerPublishVolumeRequest(
                volume_id=identity, node_id=node, volume_capability=mount(), readonly=readonly
            )
            return dict((await calls.controller.ControllerPublishVolume(request)).publish_context)

        await refused(calls.stage(volume), StatusCode.FAILED_PRECONDITION)
        await refused(attached(volume, "there"), StatusCode.NOT_FOUND)
        context = await attached(volume)
        assert context == await attached(volume)
        await refused(attached(volume, readonly=True), StatusCode.ALREADY_EXISTS)
        words = await refused(attached(second), StatusCode.RESOURCE_EXHAUSTED)
        await refused(calls.stage(volume), StatusCode.FAILED_PRECONDITION)  # without its context
        await calls.stage(volume, context=context)
        detach = csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id="here")
        await refused(calls.controller.ControllerUnpublishVolume(detach), StatusCode.FAILED_PRECONDITION)
        await calls.unstage(volume)
        await calls.controller.ControllerUnpublishVolume(detach)
        await attached(second)
    assert "1 volumes" in words


async def test_a_driver_without_attachments_does_not_know_the_calls(bench: Bench) -> None:
    async with bench.serving() as calls:
        request = csi.ControllerPublishVolumeRequest(volume_id="any", node_id="here", volume_capability=mount())
        await refused(calls.controller.ControllerPublishVolume(request), StatusCode.UNIMPLEMENTED)


async def test_a_volume_is_attached_to_one_of_several_nodes_at_a_time_and_staged_only_there(bench: Bench) -> None:
    async with (
        bench.serving(attach=True, other_nodes=("there",)) as here,
        aio.insecure_channel(f"unix:{bench.socket_of('there')}") as channel,
    ):
        there = Calls(channel)
        assert (await there.node.NodeGetInfo(csi.NodeGetInfoRequest())).node_id == "there"
        volume = (await here.create()).volume_id

        async def attached(node: str) -> dict[str, str]:
            request = csi.ControllerPublishVolumeRequest(volume_id=volume, node_id=node, volume_capability=mount())
            return dict((await here.controller.ControllerPublishVolume(request)).publish_context)

        async def detached(node: str) -> None:
            await there.controller.ControllerUnpublishVolume(
                csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id=node)
            )

        context = await attached("here")
        await refused(attached("there"), StatusCode.FAILED_PRECONDITION)
        await refused(there.stage(volume, context=context), StatusCode.FAILED_PRECONDITION)
        await detached("there")  # from where it is not
        await here.stage(volume, context=context)
        await refused(detached("here"), StatusCode.FAILED_PRECONDITION)
        await here.unstage(volume)
        await detached("here")
        await there.stage(volume, context=await attached("there"))
