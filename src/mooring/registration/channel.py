"""A connection to exactly the socket that was found, and calls over it that say why they failed."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from mooring.errors import MooringError, NotYet
from mooring.rpc import grpc

if TYPE_CHECKING:
    from google.protobuf.message import Message

Asked = TypeVar("Asked", bound="Message")
Answered = TypeVar("Answered", bound="Message")

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # a socket appears a moment before somebody listens on it
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class CallFailed(MooringError):
    """A call to a plugin did not succeed."""

    def __init__(self, what: str, code: grpc.StatusCode, words: str) -> None:
        self.code = code
        told = words.strip().rstrip(".")
        super().__init__(what, why=f"{code.name}: {told}" if told else code.name)


@asynccontextmanager
async def dialled(path: str, *, timeout: float) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the socket that is at a path now, and to no later one; `NotYet` when it is not ready in time.

    gRPC is given the descriptor's path, because a path may be too long for a socket, or hold what it takes for syntax.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise NotYet("cannot dial the socket", why=error.strerror or str(error)) from error
    try:
        address = f"/proc/self/fd/{descriptor}"
        channel = grpc.aio.insecure_channel(f"unix:{address}", options=_OPTIONS)
        try:
            await _until_ready(channel, address, timeout)
            yield channel
        finally:
            await channel.close()
    finally:
        os.close(descriptor)


async def _until_ready(channel: grpc.aio.Channel, address: str, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await channel.channel_ready()
    except TimeoutError:
        raise NotYet("cannot dial the socket", why=f"{_why_not(address)} (waited {timeout:g} s)") from None


def _why_not(address: str) -> str:
    """Why a socket cannot be used: gRPC knows, and does not tell."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.setblocking(False)
        try:
            tried.connect(address)
        except ConnectionRefusedError:
            return "nobody listens on it"
        except OSError as error:
            return error.strerror or str(error)
    return "whoever listens on it does not answer"


async def call(
    method: grpc.aio.UnaryUnaryMultiCallable[Asked, Answered], request: Asked, *, timeout: float, what: str
) -> Answered:
    """One call; `CallFailed` when it did not succeed."""
    try:
        return await method(request, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        raise CallFailed(what, error.code(), error.details() or "") from error
    except grpc.aio.BaseError as error:  # an answer that cannot be read, for one
        raise CallFailed(what, grpc.StatusCode.UNKNOWN, str(error)) from error
