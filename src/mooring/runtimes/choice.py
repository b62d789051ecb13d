"""Which runtimes there are. Each is loaded when it is used: gRPC takes its time."""

from __future__ import annotations

from mooring.errors import InvalidInput
from mooring.runtimes.interface import Runtime
from mooring.runtimes.records import RuntimeOptions

RUNTIMES = ("podman", "cri")


def check_runtime(name: str) -> None:
    """`InvalidInput` when there is no runtime of this name."""
    if name not in RUNTIMES:
        known = " and ".join(RUNTIMES)
        raise InvalidInput(f"cannot use runtime {name!r}", why="it is not known", next_step=f"Known are {known}")


def make_runtime(name: str, options: RuntimeOptions) -> Runtime:
    """The runtime of this name. On the event loop that will use it."""
    check_runtime(name)
    if name == "podman":
        from mooring.runtimes.podman import PodmanRuntime  # noqa: PLC0415 - as the next

        return PodmanRuntime(options)
    from mooring.runtimes.cri import CriRuntime  # noqa: PLC0415 - loads gRPC

    return CriRuntime(options)
