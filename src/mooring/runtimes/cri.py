"""Containers with a runtime that speaks the Container Runtime Interface: containerd, CRI-O and others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Iterator
from typing import TypeVar

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started without the interpreter being forked

import grpc
from grpc import aio

from mooring.runtimes.cri_requests import can_mount_images, container_config, sandbox_config
from mooring.runtimes.interface import (
    RUN_LABEL,
    ContainerPlan,
    ContainerState,
    Features,
    Phase,
    Pull,
    RunPlan,
    RuntimeFailed,
)
from mooring.runtimes.records import RuntimeOptions
from mooring.stubs import cri_pb2 as cri
from mooring.stubs import cri_pb2_grpc as services

DEFAULT_ENDPOINT = "/run/containerd/containerd.sock"
_PATIENCE = 60.0
_PULL_PATIENCE = 1800.0
_LOOK_AGAIN = 0.1  # seconds between two looks at a container that runs: the interface has no call that waits
_TRIES = 5  # of a removal
_PHASES = {cri.CONTAINER_CREATED: Phase.CREATED, cri.CONTAINER_EXITED: Phase.ENDED}

Answer = TypeVar("Answer")


class CriRuntime:
    """Speaks to a runtime over its unix socket."""

    def __init__(self, options: RuntimeOptions) -> None:
        self._handler = options.oci_runtime
        self._socket = (options.endpoint or DEFAULT_ENDPOINT).removeprefix("unix://")
        self._channel = aio.insecure_channel(f"unix://{self._socket}")
        self._runtime: services.RuntimeServiceAsyncStub = services.RuntimeServiceStub(self._channel)
        self._images: services.ImageServiceAsyncStub = services.ImageServiceStub(self._channel)

    @property
    def where(self) -> str:
        return f"the container runtime at {self._socket}"

    async def features(self) -> Features:
        with self._worded("tell what it can do"):
            version = await self._runtime.Version(cri.VersionRequest(), timeout=_PATIENCE)
            status = await self._runtime.Status(cri.StatusRequest(), timeout=_PATIENCE)
        handlers = {handler.name: handler.features for handler in status.runtime_handlers}
        own = handlers.get(self._handler)
        return Features(
            recursive_read_only=own is not None and own.recursive_read_only_mounts,
            images=can_mount_images(version.runtime_name, version.runtime_version),
        )

    # -- starting ------------------------------------------------------------------------------------------------
    async def make_sandbox(self, plan: RunPlan) -> None:
        request = cri.RunPodSandboxRequest(config=sandbox_config(plan), runtime_handler=self._handler)
        with self._worded(f"make the sandbox of pod {plan.pod!r}"):
            await self._runtime.RunPodSandbox(request, timeout=4 * _PATIENCE)

    async def fetch_image(self, container: ContainerPlan) -> None:
        images = [container.image, *(mount.image for mount in container.mounts if mount.image is not None)]
        for image in dict.fromkeys(images):
            spec = cri.ImageSpec(image=image)
            with self._worded(f"look for image {image!r}"):
                found = await self._images.ImageStatus(cri.ImageStatusRequest(image=spec), timeout=_PATIENCE)
            if found.HasField("image") and container.pull is not Pull.ALWAYS:
                continue
            if container.pull is Pull.NEVER:
                why = "it is not there, and imagePullPolicy is Never"
                raise RuntimeFailed(f"{self.where} cannot use image {image!r}", why=why, next_step="Import it first")
            with self._worded(f"pull image {image!r}"):
                await self._images.PullImage(cri.PullImageRequest(image=spec), timeout=_PULL_PATIENCE)

    async def start(self, plan: RunPlan, container: ContainerPlan, attempt: int) -> None:
        with self._worded(f"start container {container.name!r}"):
            for earlier in await self._containers(plan.run):
                if earlier.metadata.name == container.name:
                    await self._runtime.RemoveContainer(
                        cri.RemoveContainerRequest(container_id=earlier.id), timeout=_PATIENCE
                    )
            sandbox = next(iter(await self._sandboxes(plan.run)), "")
            made = await self._runtime.CreateContainer(
                cri.CreateContainerRequest(
                    pod_sandbox_id=sandbox,
                    config=container_config(plan, container, attempt),
                    sandbox_config=sandbox_config(plan),
                ),
                timeout=_PATIENCE,
            )
            request = cri.StartContainerRequest(container_id=made.container_id)
            await self._runtime.StartContainer(request, timeout=_PATIENCE)

    # -- watching ------------------------------------------------------------------------------------------------
    async def wait(self, run: str, container: str, attempt: int) -> int | None:
        with self._worded(f"wait for container {container!r}"):
            wanted = (container, attempt)
            found = [each for each in await self._containers(run) if _key(each) == wanted]
            while found:
                status = await self._status(found[0].id)
                if status is None:
                    break
                if status.state == cri.CONTAINER_EXITED:
                    return status.exit_code
                await asyncio.sleep(_LOOK_AGAIN)
        return None

    async def states(self, run: str) -> list[ContainerState]:
        found: list[ContainerState] = []
        with self._worded("list containers"):
            for container in await self._containers(run):
                status = await self._status(container.id)
                if status is not None:
                    ended = status.state == cri.CONTAINER_EXITED
                    found.append(
                        ContainerState(
                            name=container.metadata.name,
                            attempt=container.metadata.attempt,
                            phase=_PHASES.get(status.state, Phase.RUNNING),
                            exit_code=status.exit_code if ended else None,
                        )
                    )
        return sorted(found, key=lambda state: (state.name, state.attempt))

    async def is_gone(self, run: str) -> bool:
        with self._worded("list containers"):
            return not await self._containers(run) and not await self._sandboxes(run)

    # -- ending --------------------------------------------------------------------------------------------------
    async def stop(self, run: str, grace: float) -> None:
        with self._worded("stop containers"):
            running = [each for each in await self._containers(run) if each.state != cri.CONTAINER_EXITED]
            await asyncio.gather(*(self._stop(each.id, grace) for each in running))

    async def _stop(self, container: str, grace: float) -> None:
        request = cri.StopContainerRequest(container_id=container, timeout=int(grace))
        await _unless_missing(self._runtime.StopContainer(request, timeout=grace + _PATIENCE))

    async def remove(self, run: str) -> None:
        with self._worded("remove containers"):
            for tries_left in reversed(range(_TRIES)):
                try:
                    await self._remove(run)
                    return
                except aio.AioRpcError:
                    if not tries_left:
                        raise
                await asyncio.sleep(_LOOK_AGAIN)  # somebody else may be removing it at the same time

    async def _remove(self, run: str) -> None:
        for container in await self._containers(run):
            if container.state != cri.CONTAINER_EXITED:
                await self._stop(container.id, 0)
            removal = cri.RemoveContainerRequest(container_id=container.id)
            await _unless_missing(self._runtime.RemoveContainer(removal, timeout=_PATIENCE))
        for sandbox in await self._sandboxes(run):
            stop = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)
            await _unless_missing(self._runtime.StopPodSandbox(stop, timeout=_PATIENCE))
            gone = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
            await _unless_missing(self._runtime.RemovePodSandbox(gone, timeout=_PATIENCE))

    async def close(self) -> None:
        await self._channel.close()

    # -- the runtime's own lists ---------------------------------------------------------------------------------
    async def _containers(self, run: str) -> list[cri.Container]:
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector={RUN_LABEL: run}))
        return list((await self._runtime.ListContainers(request, timeout=_PATIENCE)).containers)

    async def _sandboxes(self, run: str) -> list[str]:
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector={RUN_LABEL: run}))
        return [each.id for each in (await self._runtime.ListPodSandbox(request, timeout=_PATIENCE)).items]

    async def _status(self, container: str) -> cri.ContainerStatus | None:
        request = cri.ContainerStatusRequest(container_id=container)
        answer = await _unless_missing(self._runtime.ContainerStatus(request, timeout=_PATIENCE))
        return answer.status if answer is not None else None

    @contextlib.contextmanager
    def _worded(self, what: str) -> Iterator[None]:
        """Errors of the wire as ours: who could not do what, and why."""
        try:
            yield
        except aio.AioRpcError as error:
            why = (error.details() or error.code().name).rstrip(".")
            next_step = ""
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                next_step = "Look whether it runs, or name its socket with --endpoint"
            raise RuntimeFailed(f"{self.where} cannot {what}", why=why, next_step=next_step) from error


def _key(container: cri.Container) -> tuple[str, int]:
    return container.metadata.name, container.metadata.attempt


async def _unless_missing(call: Awaitable[Answer]) -> Answer | None:
    """What a call answers; None when there is no such thing any more."""
    try:
        return await call
    except aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return None
        raise
