"""`mooring csi`: drivers of the Container Storage Interface."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from mooring.errors import InvalidInput, Refused
from mooring.kube.quantity import parse_quantity

if TYPE_CHECKING:
    from mooring.loop_driver.driver import Options


_LONGEST_CALL = 3600.0
"""Seconds that a file system may take to be made or copied."""


_driver_name = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


class Size(click.ParamType[int]):
    """A number of bytes such as `10Gi`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = parse_quantity(str(value)).value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < 0:
            self.fail(f"{value} is less than nothing", param, ctx)
        return size


@click.group()
def csi() -> None:
    """Drivers of the Container Storage Interface."""


@csi.command("serve-loop")
@click.option("--endpoint", metavar="SOCKET", required=True, help="Path of the socket, or unix: and the path.")
@click.option("--state", metavar="DIR", required=True, help="Directory for volumes and what is known of them.")
@click.option("--name", metavar="NAME", default="loop.mooring.dev", show_default=True, help="Name of the driver.")
@click.option("--node-id", metavar="ID", help="What the driver calls this node [the host name].")
@click.option("--attach", is_flag=True, help="Volumes must be attached before they are staged.")
@click.option("--max-volumes", metavar="N", type=click.IntRange(min=0), default=0, help="How many may be attached.")
@click.option("--capacity", metavar="SIZE", type=Size(), help="How large all volumes may be together, such as 10Gi.")
@click.option("--register", metavar="DIR", help="Make the driver known in this plugin registry.")
@click.option(
    "--also-node",
    "others",
    metavar="ID,SOCKET[,DIR]",
    multiple=True,
    help="Another node that volumes can be attached to, its socket and its plugin registry; may be repeated.",
)
def serve_loop(
    endpoint: str,
    state: str,
    name: str,
    node_id: str | None,
    attach: bool,
    max_volumes: int,
    capacity: int | None,
    register: str | None,
    others: tuple[str, ...],
) -> None:
    """Serve a CSI driver whose volumes are files on loop devices, until SIGTERM or Ctrl-C.

    For demonstrations and tests: ext4, xfs and btrfs, raw devices, growing, snapshots and copies. Volumes stay mounted
    when it ends, and it goes on with them when it starts again.
    """
    import asyncio  # noqa: PLC0415 - as all below, not for `mooring csi --help`

    from mooring.loop_driver.driver import Options  # noqa: PLC0415

    if os.geteuid() != 0:
        raise Refused("cannot serve volumes", why="only root may mount on this machine", next_step="Run it as root")
    if _driver_name.fullmatch(name) is None:
        why = "it must have at most 63 letters, digits, dashes and dots, with a letter or digit at both ends"
        raise InvalidInput(f"cannot use {name!r} as the name of a driver", why=why, place="--name")
    own = node_id or platform.node()
    places = {own: (_socket(endpoint), register), **dict(_other_node(each) for each in others)}
    if len(places) <= len(others):
        raise InvalidInput("cannot serve a node twice", why="two have the same ID", place="--also-node")
    options = Options(
        state=os.path.realpath(state),
        node_id=own,
        other_nodes=tuple(node for node in places if node != own),
        name=name,
        attach=attach,
        max_volumes=max_volumes,
        capacity=capacity,
    )
    asyncio.run(_serve(options, places))


def _socket(endpoint: str) -> str:
    return os.path.abspath(endpoint.removeprefix("unix://").removeprefix("unix:"))


def _other_node(text: str) -> tuple[str, tuple[str, str | None]]:
    node, *places = text.split(",")
    if not node or len(places) not in (1, 2) or not all(places):
        raise InvalidInput(f"cannot read {text!r}", why="ID,SOCKET or ID,SOCKET,DIR is expected", place="--also-node")
    return node, (_socket(places[0]), places[1] if len(places) > 1 else None)


@csi.command("create")
@click.argument("name")
@click.option("--endpoint", metavar="SOCKET", required=True, help="The driver's socket.")
@click.option("--size", metavar="SIZE", type=Size(), required=True, help="How large it must be, such as 1Gi.")
@click.option("--fs-type", metavar="TYPE", default="", help="File system that it is to have, such as ext4.")
@click.option("--block", is_flag=True, help="A raw device instead of a file system.")
@click.option("--parameter", "parameters", metavar="KEY=VALUE", multiple=True, help="For the driver; may be repeated.")
def create(name: str, endpoint: str, size: int, fs_type: str, block: bool, parameters: tuple[str, ...]) -> None:
    """Let a driver make a volume, and print a PersistentVolume for it.

    The manifest goes to stdout, ready for a directory of `mooring up` or for `mooring apply -f -`. A name that was
    used before gives the same volume again.
    """
    import asyncio  # noqa: PLC0415

    from mooring.daemon.csi_volumes import Wanted, create_volume  # noqa: PLC0415
    from mooring.daemon.tables import as_yaml  # noqa: PLC0415

    pairs = dict(_pair(each) for each in parameters)
    wanted = Wanted(name=name, size=size, fs_type=fs_type, block=block, parameters=pairs)
    click.echo(as_yaml(asyncio.run(create_volume(endpoint, wanted))), nl=False)


@csi.command("delete")
@click.argument("handle")
@click.option("--endpoint", metavar="SOCKET", required=True, help="The driver's socket.")
def delete(handle: str, endpoint: str) -> None:
    """Let a driver delete a volume, with all that is on it. HANDLE is the volumeHandle of its PersistentVolume."""
    import asyncio  # noqa: PLC0415

    from mooring.daemon.csi_volumes import delete_volume  # noqa: PLC0415

    asyncio.run(delete_volume(endpoint, handle))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InvalidInput(f"cannot read {text!r}", why="KEY=VALUE is expected", place="--parameter")
    return key, value


async def _serve(options: Options, places: Mapping[str, tuple[str, str | None]]) -> None:
    """Serve each node at its socket, and make it known in its registry."""
    import asyncio  # noqa: PLC0415
    import logging  # noqa: PLC0415
    import signal  # noqa: PLC0415

    from mooring.host.linux import LinuxHost  # noqa: PLC0415
    from mooring.loop_driver.backing import LinuxBackingFiles  # noqa: PLC0415
    from mooring.loop_driver.driver import make_driver  # noqa: PLC0415
    from mooring.loop_driver.server import serving  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # Callers have deadlines of their own; what they began is finished, however long it takes.
    host = LinuxHost(deadline=_LONGEST_CALL)
    with _alone(options.state):
        driver = make_driver(options, host, LinuxBackingFiles())
        sockets = {node: socket for node, (socket, _) in places.items()}
        async with serving(driver, sockets), contextlib.AsyncExitStack() as registrations:
            for socket, registry in places.values():
                await registrations.enter_async_context(_registered(options.name, socket, registry))
            click.echo(f"{options.name} serves at {sockets[options.node_id]}")
            await stopped.wait()


@contextlib.asynccontextmanager
async def _registered(name: str, socket: str, registry: str | None) -> AsyncIterator[None]:
    """The driver is known in a plugin registry, if one is named."""
    if registry is None:
        yield
        return
    from mooring.registration.registrar import Registrar  # noqa: PLC0415

    os.makedirs(registry, 0o750, exist_ok=True)
    async with Registrar(os.path.abspath(registry), name=name, endpoint=socket).serving():
        yield


@contextlib.contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Hold the lock of a state directory: two drivers on one would undo each other's work."""
    os.makedirs(directory, 0o700, exist_ok=True)
    descriptor = os.open(f"{directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Refused(
            f"cannot use {directory!r} as state directory",
            why="another driver runs there",
            next_step="End that one, or choose another --state",
        ) from None
    finally:
        os.close(descriptor)
