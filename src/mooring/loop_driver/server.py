"""The driver's server: its services at a socket, each call brought to its end whether its caller waits or not."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started without the interpreter being forked

from google.protobuf.message import Message
from grpc import GenericRpcHandler, StatusCode, aio, method_handlers_generic_handler, unary_unary_rpc_method_handler

from mooring.errors import MooringError, Refused
from mooring.loop_driver.controller import Controller
from mooring.loop_driver.driver import Calls, Driver
from mooring.loop_driver.failures import Failure, failure_of
from mooring.loop_driver.identity import Identity
from mooring.loop_driver.node import Node
from mooring.loop_driver.recovery import recover

log = logging.getLogger(__name__)

_LONGEST_SOCKET = 107  # unix(7): with the zero byte behind it the path has 108
_LAST_WAIT = 10.0  # seconds for operations under way when the driver ends

_LOOKS = re.compile(r"(Controller|Node)?(Get|List|Probe|Validate)")  # methods that change nothing

Context = aio.ServicerContext[Message, Message]
Call = Callable[[Any], Awaitable[Message]]


@asynccontextmanager
async def serving(driver: Driver, sockets: Mapping[str, str]) -> AsyncIterator[None]:
    """The driver is ready at the sockets of its nodes. At the end they go, and volumes stay as they are."""
    for socket in sockets.values():
        _clear_way(socket)
    await recover(driver)
    outside: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        operations = _Operations(tasks)
        try:
            async with AsyncExitStack() as listening:
                for node, socket in sockets.items():
                    services = _services(driver.seen_by(node), operations)
                    await listening.enter_async_context(_listening(socket, services))
                yield
        except Exception as error:
            outside = error  # raised here, it would come wrapped as if it were one of the operations
        finally:
            await operations.end()
    if outside is not None:
        raise outside


@asynccontextmanager
async def _listening(socket: str, handlers: Sequence[GenericRpcHandler]) -> AsyncIterator[None]:
    server = aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as error:
        raise Refused(f"cannot listen at {socket!r}", why=str(error)) from error
    await server.start()
    try:
        os.chmod(socket, 0o600)
        yield
    finally:
        await server.stop(_LAST_WAIT)
        with suppress(FileNotFoundError):
            os.unlink(socket)


def _clear_way(socket: str) -> None:
    """Make room for a socket: a directory for it, and no socket that a driver left which was killed."""
    what = f"cannot listen at {socket!r}"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        raise Refused(what, why=f"the path is longer than {_LONGEST_SOCKET} bytes", next_step="Choose a shorter one")
    os.makedirs(os.path.dirname(socket), 0o750, exist_ok=True)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(socket).st_mode):
            raise Refused(what, why="something else is there", next_step="Choose another path")
        os.unlink(socket)


class _Operations:
    """What is under way. A caller that stops waiting ends nothing: what it began goes on, and keeps its volume."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._running: set[asyncio.Task[Message | Failure]] = set()

    async def answer(self, call: Call, request: Message) -> Message | Failure:
        task = self._tasks.create_task(_answer(call, request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Give what is under way a little time; what hangs then is found half done at the next start."""
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=_LAST_WAIT)
        for task in late:
            task.cancel()


def _services(driver: Driver, operations: _Operations) -> list[GenericRpcHandler]:
    named: dict[str, Calls] = {
        "csi.v1.Identity": Identity(driver).calls(),
        "csi.v1.Controller": Controller(driver).calls(),
        "csi.v1.Node": Node(driver).calls(),
    }
    return [_service(name, calls, operations) for name, calls in named.items()]


def _service(name: str, calls: Calls, operations: _Operations) -> GenericRpcHandler:
    handlers = {
        _method(asked): unary_unary_rpc_method_handler(
            _handler(call, operations), request_deserializer=asked.FromString, response_serializer=_serialized
        )
        for asked, call in calls.items()
    }
    return method_handlers_generic_handler(name, handlers)


def _handler(call: Call, operations: _Operations) -> Callable[[Message, Context], Awaitable[Message]]:
    async def handle(request: Message, context: Context) -> Message:
        answer = await operations.answer(call, request)
        if isinstance(answer, Failure):
            await context.abort(answer.code, str(answer))
        return answer

    return handle


async def _answer(call: Call, request: Message) -> Message | Failure:
    """What a call comes to. Only names are logged: requests hold secrets."""
    method, volume = _method(type(request)), getattr(request, "volume_id", "") or getattr(request, "name", "")
    try:
        answer = await call(request)
    except (MooringError, OSError) as error:
        failure = failure_of(error, f"{method} failed")
        log.info("%s %s: %s: %s", method, volume, failure.code.name, failure)
        return failure
    except Exception:
        log.exception("%s %s: a bug of the driver", method, volume)
        why = "the driver has a bug; its log tells more"
        return Failure(StatusCode.INTERNAL, f"{method} failed", why=why)
    log.log(logging.DEBUG if _LOOKS.match(method) else logging.INFO, "%s %s: done", method, volume)
    return answer


def _method(asked: type[Message]) -> str:
    return asked.__name__.removesuffix("Request")


def _serialized(answer: Message) -> bytes:
    return answer.SerializeToString()
