"""Credentials that change while we run: token files that are written anew, and programs that print them."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from mooring.errors import NotYet
from mooring.kube.kubeconfig import Access, ExecCommand
from mooring.kube.tls_context import Pair, TlsContext

_READ_AGAIN = 60.0
"""Seconds after which a token file is read again, as Kubernetes' own clients do."""
_RUN_TIMEOUT = 60.0


class _Printed(msgspec.Struct, rename="camel"):
    """The `status` of an ExecCredential."""

    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    status: _Printed | None = None


@dataclass(slots=True)
class _Held:
    """A token, and until when it need not be asked for again."""

    token: str
    until: float


class Credentials:
    """The Authorization header and the TLS settings for a server. `wall` is the time since 1970."""

    def __init__(self, access: Access, *, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._access = access
        self._clock, self._wall = clock, wall
        self._held: _Held | None = None
        self._turn = asyncio.Lock()
        self._printed: Pair | None = None  # that a program gave us
        self._tls = TlsContext(access)

    async def authorization(self) -> str | None:
        """The header for the next request, or None when a certificate speaks for us, or nothing does."""
        access = self._access
        if access.user:
            pair = f"{access.user}:{access.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        token = await self._fresh_token() if self._can_be_renewed else access.token
        return f"Bearer {token}" if token else None

    def refused(self, shown: str | None) -> bool:
        """The server did not accept this header: what it was made of is not used again. Whether there may be better.

        Many requests may be refused at once; the new token that the first of them led to is not thrown away.
        """
        if self._held is not None and shown == (f"Bearer {self._held.token}" if self._held.token else None):
            self._held = None
        return self._can_be_renewed

    async def tls(self) -> ssl.SSLContext | None:
        """How the server is recognised, and we are by a certificate; None for a server without TLS."""
        access = self._access
        if not access.server.startswith("https://"):
            return None
        if access.exec is not None and self._held is None:
            await self._fresh_token()  # it may print a certificate
        return self._tls.current(self._printed)

    @property
    def _can_be_renewed(self) -> bool:
        return bool(self._access.token_file) or self._access.exec is not None

    async def _fresh_token(self) -> str:
        async with self._turn:
            if self._held is None or self._clock() >= self._held.until:
                if self._access.exec is not None:
                    self._held = self._take(await _run(self._access.exec, self._access), self._access.exec)
                else:
                    self._held = self._read(self._access.token_file)
            return self._held.token

    def _read(self, file: str) -> _Held:
        try:
            with open(file, encoding="utf-8") as stream:
                token = stream.read().strip()
            why = "" if token else "it is empty"
        except (OSError, UnicodeDecodeError) as error:
            token, why = "", str(getattr(error, "strerror", "") or error)
        if not token:  # it may be about to be replaced
            token = self._held.token if self._held is not None else self._access.token
        if not token:
            raise NotYet("cannot read the token", why=why, next_step=f"See {file}")
        return _Held(token, self._clock() + _READ_AGAIN)

    def _take(self, printed: bytes, asked: ExecCommand) -> _Held:
        what = _getting(asked)
        try:
            status = msgspec.json.decode(printed, type=_ExecCredential).status
        except msgspec.MsgspecError:
            raise NotYet(what, why="what it printed is no ExecCredential") from None
        if status is None or not (status.token or status.client_certificate_data):
            raise NotYet(what, why="it printed neither a token nor a certificate")
        if status.client_certificate_data:
            self._printed = status.client_certificate_data.encode(), status.client_key_data.encode()
        left = float("inf")
        if status.expiration_timestamp:
            left = max(0.0, _seconds(status.expiration_timestamp, what) - self._wall())
        return _Held(status.token, self._clock() + left)


async def _run(asked: ExecCommand, access: Access) -> bytes:
    """What a program for credentials prints."""
    what = _getting(asked)
    try:
        process = await asyncio.create_subprocess_exec(
            asked.command,
            *asked.arguments,
            env={**os.environ, **asked.environment, "KUBERNETES_EXEC_INFO": _question(asked, access)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it may hold secrets
        )
    except OSError as error:
        raise NotYet(what, why=error.strerror or str(error), next_step=asked.hint) from error
    try:
        async with asyncio.timeout(_RUN_TIMEOUT):
            printed, _ = await process.communicate()
    except TimeoutError:
        raise NotYet(what, why=f"it did not end within {_RUN_TIMEOUT:.0f} s") from None
    finally:
        if process.returncode is None:  # it takes too long, or nobody waits for us any more
            process.kill()
            await process.wait()
    if process.returncode:
        raise NotYet(what, why=f"it ended with status {process.returncode}", next_step=asked.hint)
    return printed


def _question(asked: ExecCommand, access: Access) -> str:
    """What the program is told, as KUBERNETES_EXEC_INFO."""
    spec: dict[str, object] = {"interactive": False}
    if asked.gives_cluster:
        cluster = {
            "server": access.server,
            "tls-server-name": access.server_name,
            "insecure-skip-tls-verify": access.insecure,
            "certificate-authority-data": base64.b64encode(access.certificate_authority).decode(),
            "proxy-url": access.proxy,
        }
        spec["cluster"] = {key: value for key, value in cluster.items() if value}
    question = {"apiVersion": asked.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(question).decode()


def _getting(asked: ExecCommand) -> str:
    return f"cannot get credentials from {asked.command!r}"


def _seconds(timestamp: str, what: str) -> float:
    try:
        return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).astimezone(UTC).timestamp()
    except ValueError:
        raise NotYet(what, why=f"its expirationTimestamp {timestamp!r} is no time") from None
