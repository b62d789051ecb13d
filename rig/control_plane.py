"""etcd, kube-apiserver and kube-controller-manager on the loopback, with certificates and identities of their own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from rig import flags, kubeconfigs
from rig.certificates import Authority, new_key, private_pem, public_pem
from rig.program import Program

ETCD, SERVER, MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
PROGRAMS = (ETCD, SERVER, MANAGER)
BINARIES = Path(__file__).parents[1] / ".strangers" / "bin"

_PATIENCE = 60.0
_NEXT_LOOK = 0.05
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"  # made by the controller manager


class NotReady(Exception):
    """A program of the control plane ended, or does not come to serve."""


class ControlPlane:
    """A control plane whose programs can be killed and started one by one. Made by `running`."""

    def __init__(self, layout: flags.Layout, more: Mapping[str, Sequence[str]]) -> None:
        self._layout = layout
        self._authority = Authority()
        commands = {
            ETCD: flags.etcd(layout),
            SERVER: flags.kube_apiserver(layout),
            MANAGER: flags.kube_controller_manager(layout),
        }
        self._programs = {
            name: Program(
                [str(BINARIES / name), *command, *more.get(name, ())],
                directory=layout.directory,
                log=layout.directory / f"{name}.log",
            )
            for name, command in commands.items()
        }
        self._write_files()
        self._tls = ssl.create_default_context(cafile=layout.file("ca.crt"))
        self._tls.load_cert_chain(layout.file("admin.crt"), layout.file("admin.key"))

    @property
    def server(self) -> str:
        """The URL of the API server; it stays the same when the server is started anew."""
        return self._layout.server

    @property
    def authority(self) -> bytes:
        """The certificate that vouches for the API server, in PEM."""
        return self._authority.pair.certificate

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, who may do everything."""
        return self._layout.directory / "admin.kubeconfig"

    def node_kubeconfig(self, node: str) -> Path:
        """The kubeconfig of a kubelet on this node: the node authorizer decides what it may read."""
        return self.user_kubeconfig(f"system:node:{node}", ("system:nodes",), name=f"node-{node}")

    def user_kubeconfig(self, user: str, groups: tuple[str, ...] = (), *, name: str, server: str = "") -> Path:
        """The kubeconfig of anybody, by a client certificate; `server` is another way to the server."""
        fields = kubeconfigs.certificate_user(self._authority.sign(user, groups))
        return self.write_kubeconfig(name, fields, server=server)

    def write_kubeconfig(self, name: str, user: Mapping[str, Any], *, server: str = "") -> Path:
        """A kubeconfig whose user has these fields."""
        path = self._layout.directory / f"{name}.kubeconfig"
        return kubeconfigs.write(path, server=server or self.server, authority=self.authority, user=user)

    def kill(self, name: str) -> None:
        """Pull the plug of one program."""
        self._programs[name].kill()

    async def start(self, name: str) -> None:
        """Start one program, and wait until it serves."""
        self._programs[name].start()
        await self._ready(name)

    async def start_all(self) -> None:
        for name in PROGRAMS:
            self._programs[name].start()
            if name == ETCD:  # without it the server ends at once
                await self._ready(name)
        await self._ready(SERVER)
        await self._ready(MANAGER)
        await self._answers(f"{self.server}{_DEFAULT_ACCOUNT}", MANAGER)

    async def revive(self) -> None:
        """Start what does not run."""
        for name in PROGRAMS:
            if not self._programs[name].is_alive:
                await self.start(name)

    def kill_all(self) -> None:
        for name in reversed(PROGRAMS):
            self._programs[name].kill()

    async def compact_etcd(self) -> int:
        """Forget all revisions but the newest, and return it: watches from older ones can no longer be served."""
        etcd = self._layout.etcd
        async with self._session() as session:
            async with session.post(f"{etcd}/v3/maintenance/status", json={}) as answer:
                revision = int((await answer.json())["header"]["revision"])
            wish = {"revision": str(revision), "physical": True}
            async with session.post(f"{etcd}/v3/kv/compaction", json=wish) as answer:
                answer.raise_for_status()
        return revision

    async def _ready(self, name: str) -> None:
        urls = {
            ETCD: f"{self._layout.etcd}/health",
            SERVER: f"{self.server}/readyz",
            MANAGER: f"{self._layout.manager}/healthz",
        }
        await self._answers(urls[name], name)

    async def _answers(self, url: str, name: str) -> None:
        """Wait until a URL answers with 200. None of the programs tells when it does, so it is asked until then."""
        program = self._programs[name]
        try:
            async with asyncio.timeout(_PATIENCE), self._session() as session:
                while True:
                    with contextlib.suppress(aiohttp.ClientError):
                        async with session.get(url) as answer:
                            if answer.status == 200:
                                return
                    if not program.is_alive:
                        raise NotReady(f"{name} ended before it served:\n{program.last_words()}")
                    await asyncio.sleep(_NEXT_LOOK)
        except TimeoutError:
            why = f"{name} did not come to serve {url} within {_PATIENCE:.0f} s"
            raise NotReady(f"{why}:\n{program.last_words()}") from None

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls))

    def _write_files(self) -> None:
        authority = self._authority
        pairs = {
            "ca": authority.pair,
            "server": authority.sign("server", serves=(flags.HOST, "localhost", "kubernetes.default.svc")),
            "admin": authority.sign("admin", ("system:masters",)),
        }
        for name, pair in pairs.items():
            kubeconfigs.write_secret(self._layout.directory / f"{name}.crt", pair.certificate)
            kubeconfigs.write_secret(self._layout.directory / f"{name}.key", pair.key)
        accounts = new_key()
        kubeconfigs.write_secret(self._layout.directory / "service-account.key", private_pem(accounts))
        kubeconfigs.write_secret(self._layout.directory / "service-account.pub", public_pem(accounts))
        self.write_kubeconfig("admin", kubeconfigs.certificate_user(pairs["admin"]))
        self.user_kubeconfig("system:kube-controller-manager", name="controller-manager")


@contextlib.asynccontextmanager
async def running(
    directory: Path | None = None, *, more: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[ControlPlane]:
    """A control plane that serves. Afterwards no process is left of it, and no file.

    `directory` is made when it is missing, and must be empty when it is not; `more` are further flags by program.
    """
    with _standing(directory) as place:
        etcd, peer, server, manager = _free_ports(4)
        layout = flags.Layout(directory=place, etcd_port=etcd, peer_port=peer, server_port=server, manager_port=manager)
        plane = ControlPlane(layout, more or {})
        try:
            await plane.start_all()
            yield plane
        finally:
            plane.kill_all()


@contextlib.contextmanager
def _standing(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="rig-") as made:
            yield Path(made)
        return
    was_there = directory.exists()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    try:
        yield directory.resolve()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if was_there:
            directory.mkdir(mode=0o700, exist_ok=True)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens at. Somebody else may take one until it is used: the program says so then."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((flags.HOST, 0))
        return [each.getsockname()[1] for each in sockets]
