"""Requests to an API server over HTTP: who asks, how the server is recognised, and what its refusals mean."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yarl

from mooring.errors import MooringError
from mooring.kube.api import ApiError, InternalError
from mooring.kube.api_status import error_of
from mooring.kube.connection_errors import connection_error, no_answer
from mooring.kube.credentials import Credentials
from mooring.kube.kubeconfig import Access
from mooring.kube.proxies import proxy_from_environment
from mooring.kube.pulse import Pulse
from mooring.kube.reachability import Reachability

_CONNECT_TIMEOUT = 10.0
_CALL_TIMEOUT = 60.0
_PULSE_TIMEOUT = 15.0
_TRIES = 5
_LONGEST_PAUSE = 30.0
_READ_BUFFER = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of the server. `what` begins the error when it is refused; a query's empty parts are left out."""

    method: str
    path: str
    what: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


_READY = Request(method="GET", path="/readyz", what="cannot find out whether the API server is ready")


class _NoCredentials(InternalError):
    """Nothing was asked, for there was nothing to show. It says nothing of the server."""


class Transport:
    """Connections to one server. Raises `ApiError` and nothing else on purpose; use it as a context manager."""

    def __init__(self, access: Access, *, agent: str) -> None:
        self._access = access
        self._agent = agent
        self._proxy = access.proxy or proxy_from_environment(access.server, os.environ)
        self._credentials = Credentials(access, clock=time.monotonic, wall=time.time)
        self._session: aiohttp.ClientSession | None = None
        self.trouble: ApiError | None = None  # why the last request was not answered; None when it was
        self.reachability = Reachability(lambda: self.call(_READY))
        self._pulse = Pulse(self._is_there)

    async def __aenter__(self) -> Transport:
        # No limit: each watch holds a connection for itself as long as it lasts.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=_watchful_socket)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
            headers={"User-Agent": self._agent, "Accept": "application/json"},
            read_bufsize=_READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, request: Request) -> bytes:
        """The whole answer. A server that asks to be asked later is, a few times."""
        for left in reversed(range(_TRIES)):
            try:
                async with asyncio.timeout(_CALL_TIMEOUT), self.open(request) as response:
                    return await response.read()
            except TimeoutError:
                raise self._lost(no_answer(request.what, _CALL_TIMEOUT)) from None
            except ApiError as error:
                if not left or not error.retry_after or error.code not in (429, 503):
                    raise
                pause = min(error.retry_after, _LONGEST_PAUSE)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that has begun and is no refusal; leaving the context closes it."""
        response = await self._answer(request)
        try:
            yield response
        except aiohttp.ClientError as error:
            self.trouble = connection_error(request.what, error)
            self.reachability.doubted()  # it began to answer
            raise self.trouble from None
        finally:
            response.close()  # keeps the connection for others when the answer was read to its end

    async def pieces(self, response: aiohttp.ClientResponse, *, seconds: float) -> AsyncIterator[bytes]:
        """What a stream says, until it ends, has lasted for so long, or the server is not there any more."""
        end = asyncio.get_running_loop().time() + seconds
        while piece := await self._pulse.listen(response.content.readany, end):
            yield piece

    async def _is_there(self) -> bool:
        """Whether the server answers at all, whatever it says."""
        try:
            async with asyncio.timeout(_PULSE_TIMEOUT):
                response, _ = await self._ask(_READY)
                async with response:
                    await response.read()
        except _NoCredentials:
            return True  # as far as can be told
        except TimeoutError:
            self._lost(no_answer(_READY.what, _PULSE_TIMEOUT))
            return False
        except aiohttp.ClientError as error:
            self._lost(connection_error(_READY.what, error))
            return False
        except ApiError as error:
            self._lost(error)
            return False
        return True

    async def _answer(self, request: Request) -> aiohttp.ClientResponse:
        response, shown = await self._send(request)
        if response.status == 401 and self._credentials.refused(shown):
            response.close()
            response, shown = await self._send(request)  # with new credentials, and only once
        if response.status < 300:
            return response
        if response.status >= 500:
            self.reachability.doubted()
        try:
            async with asyncio.timeout(_CALL_TIMEOUT):
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError):
            body = b""
        finally:
            response.close()
        raise error_of(response.status, body, response.headers, request.what)

    def _lost(self, error: ApiError) -> ApiError:
        """The error, once it is remembered that there was no answer."""
        error.answered = False
        self.trouble = error
        self.reachability.lost()
        return error

    async def _send(self, request: Request) -> tuple[aiohttp.ClientResponse, str | None]:
        """The answer as far as its headers, and the Authorization that was shown for it."""
        try:
            answered = await self._ask(request)
        except ApiError as error:
            self._lost(error)
            raise
        self.trouble = None
        self._pulse.heard()
        return answered

    async def _ask(self, request: Request) -> tuple[aiohttp.ClientResponse, str | None]:
        assert self._session is not None, "an API server is asked inside its context"
        try:
            async with asyncio.timeout(_CALL_TIMEOUT):
                authorization = await self._credentials.authorization()
                response = await self._session.request(
                    request.method, self._url(request), **await self._options(request, authorization)
                )
                return response, authorization
        except ApiError:
            raise
        except MooringError as error:
            why = f"there are no credentials to show ({error.what}: {error.why})"
            raise _NoCredentials(request.what, why=why, next_step=error.next_step) from error
        except aiohttp.ClientError as error:
            raise connection_error(request.what, error) from None  # its own words may hold a proxy's password
        except TimeoutError:
            raise no_answer(request.what, _CALL_TIMEOUT) from None
        except OSError as error:
            raise connection_error(request.what, error) from error

    def _url(self, request: Request) -> yarl.URL:
        query = urlencode({key: value for key, value in request.query.items() if value})
        return yarl.URL(f"{self._access.server}{request.path}" + (f"?{query}" if query else ""), encoded=True)

    async def _options(self, request: Request, authorization: str | None) -> dict[str, Any]:
        headers: dict[str, str] = {}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if authorization is not None:
            headers["Authorization"] = authorization
        return {
            "data": request.body,
            "headers": headers,
            "ssl": await self._credentials.tls() or True,
            "server_hostname": self._access.server_name or None,
            "proxy": self._proxy or None,
            "allow_redirects": False,  # credentials are for this server only
        }


def _watchful_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute that the other side is gone without a word, also when nothing is sent."""
    made = socket.socket(family=address[0], type=address[1], proto=address[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    return made
