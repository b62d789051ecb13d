"""Plans to run, and the clock they run on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.runtimes.interface import ContainerPlan, Role, RunPlan


def container(name: str, script: str = "exit 0", *, role: Role = Role.REGULAR, image: str = "image") -> ContainerPlan:
    return ContainerPlan(name=name, role=role, image=image, command=("sh", "-c", script))


def plan_of(place: Path, *containers: ContainerPlan, restart_policy: str = "Never", grace_seconds: int = 30) -> RunPlan:
    return RunPlan(
        run="run1",
        uid="uid-web",
        namespace="default",
        name="web",
        log_directory=str(place),
        containers=containers,
        restart_policy=restart_policy,
        grace_seconds=grace_seconds,
    )


@asynccontextmanager
async def permitted() -> AsyncIterator[None]:
    """A permit that is always given."""
    yield
