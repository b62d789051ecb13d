"""What a container runtime is asked to do, and what it tells."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from mooring.errors import MooringError
from mooring.manager.container_mounts import Propagation

POD_LABEL = "mooring.pod"
RUN_LABEL = "mooring.run"
CONTAINER_LABEL = "mooring.container"
ATTEMPT_LABEL = "mooring.attempt"
"""Labels that everything a run starts carries, so that it is found again by whoever asks."""

KILLED = 137
"""The exit status of a container that somebody removed before its own could be asked for: 128 and SIGKILL."""


class Role(enum.Enum):
    """When a container runs."""

    INIT = "init"  # to its end, before the next one
    SIDECAR = "sidecar"  # from its turn among the init containers until all regular ones have ended
    REGULAR = "regular"


class Pull(enum.Enum):
    """When an image is fetched; the words are podman's."""

    MISSING = "missing"
    ALWAYS = "always"
    NEVER = "never"


class MountPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, file or image at a place in a container. One of `host_path` and `image` is set."""

    volume: str
    container_path: str
    host_path: str | None = None
    image: str | None = None
    image_sub_path: str = ""
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: Propagation = Propagation.PRIVATE
    relabel: bool = False


class DevicePlan(msgspec.Struct, frozen=True, kw_only=True):
    container_path: str
    host_path: str
    permissions: str


class ContainerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One container, worked out to the last value. Its repr shows no variable's value."""

    name: str
    role: Role
    image: str
    pull: Pull = Pull.MISSING
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: Mapping[str, str] = {}
    mounts: tuple[MountPlan, ...] = ()
    devices: tuple[DevicePlan, ...] = ()
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    privileged: bool = False
    read_only_root: bool = False

    def __repr__(self) -> str:
        return f"ContainerPlan({self.name!r}, image={self.image!r}, env={sorted(self.env)})"


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All containers of a pod, in the order in which they are declared, init containers first."""

    run: str  # one run of one pod; no two have the same
    uid: str
    namespace: str
    name: str
    log_directory: str
    containers: tuple[ContainerPlan, ...]
    restart_policy: str = "Always"
    grace_seconds: int = 30

    @property
    def pod(self) -> str:
        return f"{self.namespace}/{self.name}"

    def log_path(self, container: str, attempt: int) -> str:
        """The file that an attempt of a container writes to, relative to the log directory."""
        return f"{container}/{attempt}.log"

    def labels(self, container: str = "", attempt: int = 0) -> dict[str, str]:
        """What everything of this run is marked with; of a container also its name and attempt."""
        own = {CONTAINER_LABEL: container, ATTEMPT_LABEL: str(attempt)} if container else {}
        return {POD_LABEL: self.uid, RUN_LABEL: self.run, **own}


class Phase(enum.Enum):
    """How far a container is. What a runtime cannot tell counts as running."""

    CREATED = "created"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """What a runtime tells of one container."""

    name: str  # in the pod
    attempt: int
    phase: Phase
    exit_code: int | None = None  # of an ended one


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a runtime can do that others cannot."""

    recursive_read_only: bool
    images: bool  # mount an image as a volume


class RuntimeFailed(MooringError):
    """The runtime did not answer, or answered with an error."""


class Runtime(Protocol):
    """Starts, watches, stops and removes the containers of runs. Every call may raise `RuntimeFailed`.

    `stop` and `remove` find everything by the run's labels: they need no memory of what was started.
    """

    @property
    def where(self) -> str:
        """Which runtime this is, in words for people: its program or its socket."""
        ...

    async def features(self) -> Features: ...

    async def make_sandbox(self, plan: RunPlan) -> None:
        """Make what the containers share."""
        ...

    async def fetch_image(self, container: ContainerPlan) -> None:
        """Have the images there that a container needs, as its plan says when to fetch them."""
        ...

    async def start(self, plan: RunPlan, container: ContainerPlan, attempt: int) -> None:
        """Create and start a container; an earlier attempt of it is removed."""
        ...

    async def wait(self, run: str, container: str, attempt: int) -> int | None:
        """Return when a container has ended: its exit status, or None when somebody removed it."""
        ...

    async def states(self, run: str) -> list[ContainerState]:
        """All containers of a run, sorted by name and attempt."""
        ...

    async def is_gone(self, run: str) -> bool:
        """Whether nothing of a run is left: no container and no sandbox."""
        ...

    async def stop(self, run: str, grace: float) -> None:
        """End all containers of a run: with SIGTERM, and after the grace period with SIGKILL."""
        ...

    async def remove(self, run: str) -> None:
        """Remove everything of a run, killing what still runs. The second call finds nothing to do."""
        ...

    async def close(self) -> None: ...
