"""Credentials that change while we run: token files that are written anew, and programs that print them."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from mooring.errors import InvalidInput, NotYet
from mooring.kube.kubeconfig import Access, ExecCommand

_READ_AGAIN = 60.0
"""Seconds after which a token file is read again, as Kubernetes' own clients do."""
_RUN_TIMEOUT = 60.0

_Version = tuple[tuple[int, int, int], ...]


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
        self._printed: tuple[bytes, bytes] | None = None  # a certificate and its key that a program gave us
        self._tls: ssl.SSLContext | None = None
        self._tls_files: _Version = ()

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
        files = _version(access.client_certificate_file, access.client_key_file)
        if self._tls is None or files != self._tls_files:  # certificates of kubelets are replaced while they run
            self._tls, self._tls_files = _context(access, self._printed), files
        return self._tls

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
        if not token and self._held is not None:
            token = self._held.token  # it may be about to be replaced
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
            pair = status.client_certificate_data.encode(), status.client_key_data.encode()
            if pair != self._printed:
                self._printed, self._tls = pair, None
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


def _version(*files: str) -> _Version:
    """Changes when one of the files does."""
    found = []
    for file in files:
        if file:
            try:
                status = os.stat(file)
            except OSError:
                continue
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _context(access: Access, printed: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """TLS as the access describes it. A server is always verified unless the kubeconfig says otherwise."""
    try:
        # Comments around certificates may be in any encoding.
        authority = access.certificate_authority.decode("ascii", "ignore") or None
        context = ssl.create_default_context(cadata=authority)
        # Python is stricter by default than Go, with which clusters' certificates are made.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = printed or _pair(access)
        if certificate:
            _load_pair(context, certificate, key)
    except (ssl.SSLError, OSError) as error:
        why = f"a certificate or key cannot be used: {error}"
        raise InvalidInput("cannot reach the API server", why=why, next_step="Look into the kubeconfig") from error
    return context


def _pair(access: Access) -> tuple[bytes, bytes]:
    """The client's certificate and key, where what stands in the kubeconfig itself goes before files."""
    certificate, key = access.client_certificate, access.client_key
    if not certificate and access.client_certificate_file:
        with open(access.client_certificate_file, "rb") as stream:
            certificate = stream.read()
    if not key and access.client_key_file:
        with open(access.client_key_file, "rb") as stream:
            key = stream.read()
    return certificate, key


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module reads files only: the pair lies for a moment in one that only we can read."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "pair.pem")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(certificate + b"\n" + key)
        context.load_cert_chain(path, password=lambda: b"")  # else it would ask whoever sits at the terminal
