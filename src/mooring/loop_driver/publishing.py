"""Publishing and unpublishing volumes, with those that are made for one pod and go with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from grpc import StatusCode

from mooring.errors import Doubtful, MooringError
from mooring.loop_driver import requirements
from mooring.loop_driver.driver import Driver
from mooring.loop_driver.failures import Failure, require, unknown_volume
from mooring.loop_driver.stages import Stages
from mooring.loop_driver.targets import Targets
from mooring.loop_driver.volumes import Access, Phase, Stage, Target, Volume
from mooring.stubs import csi_pb2 as csi


class Publishing:
    """NodePublishVolume and NodeUnpublishVolume."""

    def __init__(self, driver: Driver, stages: Stages, targets: Targets) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._stages = stages
        self._targets = targets

    async def publish(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        what = "publish a volume"
        require(what, volume_id=request.volume_id, target_path=request.target_path)
        require(what, volume_capability=request.HasField("volume_capability"))
        access = requirements.access_of(what, request.volume_capability)
        with self._driver.locks.holding(what, request.volume_id):
            if request.volume_context.get(requirements.EPHEMERAL_KEY) == "true":
                await self._publish_inline(request, access)
            else:
                volume = self._shelf.volume(what, request.volume_id)
                stage = _usable_stage(what, volume, request, access)
                await self._publish(volume, stage, _target(request, access, stage), _flags(request))
        return csi.NodePublishVolumeResponse()

    async def unpublish(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        what = "unpublish a volume"
        require(what, volume_id=request.volume_id, target_path=request.target_path)
        with self._driver.locks.holding(what, request.volume_id):
            self._shelf.require_explained(what, request.volume_id)
            volume = self._shelf.volumes.get(request.volume_id)
            target = volume.target(request.target_path) if volume is not None else None
            if volume is None or target is None:
                await self._require_free(what, request)
            else:
                volume = await self._unpublish(volume, target)
            if volume is not None and volume.inline and not volume.targets:
                await self._remove_inline(volume)
        return csi.NodeUnpublishVolumeResponse()

    async def _publish(self, volume: Volume, stage: Stage, target: Target, flags: Sequence[str]) -> Volume:
        """Publish a staged volume; targets that a start of the machine has cleared are forgotten by the way."""
        live = await self._look(volume, target)
        if target in live:
            return volume
        _require_compatible(volume, target, live)
        before, volume = volume, await self._shelf.keep(replace(volume, targets=(*live, target)))
        disk = self._shelf.disk(volume.id)
        try:
            await self._driver.on_host(
                lambda: self._targets.publish(disk, stage, target, flags), f"publish {volume.id}"
            )
        except Doubtful:
            raise
        except (MooringError, OSError):
            await self._shelf.keep(replace(before, targets=live))
            raise
        return volume

    async def _unpublish(self, volume: Volume, target: Target) -> Volume:
        disk = self._shelf.disk(volume.id)
        left = volume.without_target(target.path)
        await self._driver.on_host(lambda: self._targets.unpublish(disk, target, left), f"unpublish {volume.id}")
        return await self._shelf.keep(replace(volume, targets=left))

    async def _look(self, volume: Volume, target: Target) -> tuple[Target, ...]:
        """The live targets of a volume; something else that is mounted at the new one is refused."""

        def look() -> tuple[tuple[Target, ...], bool]:
            return self._targets.live(volume), self._driver.host.mount_at(target.path) is not None

        live, is_taken = await self._driver.on_host(look, f"look at {volume.id}")
        if is_taken and all(each.path != target.path for each in live):
            raise _foreign("publish a volume", target.path)
        return live

    async def _require_free(self, what: str, request: csi.NodeUnpublishVolumeRequest) -> None:
        """Nothing is published there: well, unless something is mounted there that is not ours to take away."""
        mounted = await self._driver.on_host(
            lambda: self._driver.host.mount_at(request.target_path), f"look at {request.target_path}"
        )
        if mounted is None:
            return
        if request.volume_id not in self._shelf.volumes:
            raise unknown_volume(what, request.volume_id)
        raise _foreign(what, request.target_path)

    # -- inline volumes --------------------------------------------------------------------------------------------
    async def _publish_inline(self, request: csi.NodePublishVolumeRequest, access: Access) -> None:
        """Make a volume for a pod and publish it. Until that is done it counts as not made."""
        what = "publish an inline volume"
        if access is Access.BLOCK:
            raise requirements.invalid(what, "an inline volume cannot be a raw device")
        fs_type = requirements.staged_type(request.volume_capability.mount.fs_type, "")
        volume = await self._inline_volume(what, request, fs_type)
        stage = Stage(path=self._shelf.inline_stage(volume.id), access=access, fs_type=volume.fs_type)
        flags = _flags(request)
        try:
            await self._driver.on_host(
                lambda: self._driver.host.make_directories(stage.path, 0o700), f"make {stage.path}"
            )
            volume = await self._stages.stage(volume, stage, flags)
            volume = await self._publish(volume, stage, _target(request, access, stage), flags)
            if volume.phase is Phase.CREATING:
                await self._shelf.keep(replace(volume, phase=Phase.READY))
        except Doubtful:
            raise
        except (MooringError, OSError):
            left = self._shelf.volumes.get(volume.id)
            if left is not None and left.phase is Phase.CREATING:
                await self._remove_inline(left)
            raise

    async def _inline_volume(self, what: str, request: csi.NodePublishVolumeRequest, fs_type: str) -> Volume:
        identity = request.volume_id
        self._shelf.require_explained(what, identity)
        found = self._shelf.volumes.get(identity)
        if found is not None and found.inline and found.phase is Phase.READY:
            return found
        if found is not None and not found.inline:
            why = f"{identity!r} is a volume that was made before, and not for a pod"
            raise Failure(StatusCode.ALREADY_EXISTS, f"cannot {what}", why=why)
        if found is not None:  # of a try that nobody was told of
            await self._remove_inline(found)
        size = requirements.new_size(
            what,
            csi.CapacityRange(required_bytes=requirements.inline_size(what, request.volume_context)),
            fs_type=fs_type,
        )
        self._driver.require_room(what, size)
        volume = await self._shelf.keep(
            Volume(id=identity, name="", size=size, fs_type=fs_type, inline=True, phase=Phase.CREATING)
        )
        disk = self._shelf.disk(identity)
        try:
            await self._driver.on_host(lambda: self._driver.backing.create(disk, size), f"make {disk}")
        except (MooringError, OSError):
            await self._shelf.forget(volume)
            raise
        return volume

    async def _remove_inline(self, volume: Volume) -> None:
        for target in volume.targets:
            volume = await self._unpublish(volume, target)
        volume = await self._stages.unstage(volume)
        path = self._shelf.inline_stage(volume.id)

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._driver.host.remove_directory(path)

        await self._driver.on_host(remove, f"remove {path}")
        await self._shelf.forget(volume)


def _usable_stage(what: str, volume: Volume, request: csi.NodePublishVolumeRequest, access: Access) -> Stage:
    """The stage that a volume is published from; it must be the one that the caller means."""
    stage, path = volume.stage, request.staging_target_path
    if stage is None or not path:
        why = "the field 'staging_target_path' is missing" if not path else "it is not staged"
        raise Failure(
            StatusCode.FAILED_PRECONDITION, f"cannot {what} {volume.id!r}", why=why, next_step="Stage it first"
        )
    if stage.path != path:
        raise requirements.invalid(what, f"{volume.id!r} is staged at {stage.path!r}, not at {path!r}")
    if stage.access is not access:
        why = f"{volume.id!r} is staged for access of type {stage.access.value}, not {access.value}"
        raise requirements.invalid(what, why)
    return stage


def _target(request: csi.NodePublishVolumeRequest, access: Access, stage: Stage) -> Target:
    capability = request.volume_capability
    return Target(
        path=request.target_path,
        access=access,
        read_only=request.readonly or stage.read_only or requirements.is_reader(capability),
        alone=requirements.is_alone(capability),
    )


def _flags(request: csi.NodePublishVolumeRequest) -> tuple[str, ...]:
    return tuple(request.volume_capability.mount.mount_flags)


def _require_compatible(volume: Volume, target: Target, live: Sequence[Target]) -> None:
    what = f"cannot publish volume {volume.id!r} at {target.path!r}"
    if any(each.path == target.path for each in live):
        raise Failure(StatusCode.ALREADY_EXISTS, what, why="it is published there in another way")
    if live and (target.alone or any(each.alone for each in live)):
        raise Failure(
            StatusCode.FAILED_PRECONDITION,
            what,
            why=f"it may have one user only, and is published at {live[0].path!r}",
            next_step="Unpublish it there first",
        )


def _foreign(what: str, path: str) -> Failure:
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        f"cannot {what} at {path!r}",
        why="something is mounted there that does not belong to the volume",
        next_step="Find out whose it is; it is left alone",
    )
