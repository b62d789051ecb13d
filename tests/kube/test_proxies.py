"""Which proxy is between here and the API server, and requests through one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rig.certificates import Authority
from tests.kube.test_api_server_words import answering, config_map, read, serving, standing_in

from mooring.errors import InvalidInput
from mooring.kube.api import ConnectionRefused
from mooring.kube.api_server import ApiServer
from mooring.kube.kubeconfig import Access
from mooring.kube.objects.kinds import CONFIG_MAP
from mooring.kube.proxies import proxy_from_environment

PASSWORD = "hunter2"


SERVER = "https://cluster.example:6443"
PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({"https_proxy": "http://proxy:3128"}, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://large:1", "https_proxy": "http://small:1"}, "http://large:1"),
        ({"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128"),
        ({"HTTPS_PROXY": "proxy"}, "http://proxy"),
        ({"HTTPS_PROXY": "me:word@proxy:3128"}, "http://me:word@proxy:3128"),
        ({"HTTP_PROXY": "http://plain:3128", "ALL_PROXY": "http://all:3128"}, ""),
    ],
)
def test_a_proxy_comes_from_the_environment(environment: dict[str, str], proxy: str) -> None:
    assert proxy_from_environment(SERVER, environment) == proxy


def test_a_server_without_tls_has_a_variable_of_its_own() -> None:
    environment = {**PROXY, "HTTP_PROXY": "http://plain:3128"}
    assert proxy_from_environment("http://cluster.example", environment) == "http://plain:3128"


@pytest.mark.parametrize("server", ["https://127.8.9.1:6443", "https://[::1]:6443", "https://localhost:6443"])
def test_nobody_is_between_us_and_the_loopback(server: str) -> None:
    assert proxy_from_environment(server, PROXY) == ""


@pytest.mark.parametrize(
    ("server", "exceptions", "is_excepted"),
    [
        (SERVER, "*", True),
        (SERVER, " other , Cluster.Example ", True),
        (SERVER, "example", True),
        (SERVER, "ample", False),
        (SERVER, ".example", True),
        (SERVER, "*.example", True),
        (SERVER, ".cluster.example", False),
        (SERVER, "*.cluster.example", False),
        (SERVER, "cluster.example:6443", True),
        (SERVER, "cluster.example:443", False),
        (SERVER, "*.example:6443", True),
        ("https://cluster.example", "cluster.example:443", True),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.96.0.1", "10.96.0.1/12,", True),
        ("https://10.112.0.1", "10.96.0.0/12", False),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://10.96.0.1", "10.96.0.1:443", True),
        ("https://10.96.0.1", "10.96.0.1:80", False),
        ("https://10.96.0.11", "10.96.0.1", False),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "FD00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]:6443", "[fd00::1]", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "fc00::/16,10.0.0.0/8", False),
        ("https://[::ffff:10.0.0.1]", "10.0.0.1", True),
        (SERVER, "10.0.0.0/8,10.0.0.1,no/network,,:6443", False),
    ],
)
def test_exceptions_are_read_as_go_reads_them(server: str, exceptions: str, *, is_excepted: bool) -> None:
    proxy = proxy_from_environment(server, {**PROXY, "NO_PROXY": exceptions})
    assert proxy == ("" if is_excepted else "http://proxy:3128")


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://me:hidden@proxy:1080", "no HTTP proxy"),
        ("socks5h://proxy", "no HTTP proxy"),
        ("https://me:hidden@proxy:3128", "cannot be encrypted"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_unless_it_is_not_needed(proxy: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        proxy_from_environment(SERVER, {"HTTPS_PROXY": proxy})
    assert "HTTPS_PROXY" in str(refusal.value)
    assert "hidden" not in str(refusal.value)
    assert proxy_from_environment(SERVER, {"HTTPS_PROXY": proxy, "NO_PROXY": ".example"}) == ""


@dataclass
class Proxy:
    """A proxy that makes tunnels for whoever knows the password."""

    port: int = 0
    asked_for: list[str] = field(default_factory=list)

    def url(self, password: str = PASSWORD) -> str:
        return f"http://me:{password}@127.0.0.1:{self.port}"

    async def serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        with contextlib.closing(answer):
            head = (await client.readuntil(b"\r\n\r\n")).decode()
            method, target, _ = head.split(" ", 2)
            expected = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
            if f"Proxy-Authorization: Basic {expected}" not in head:
                answer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            assert method == "CONNECT"
            self.asked_for.append(target)
            host, _, port = target.rpartition(":")
            there, back = await asyncio.open_connection(host, int(port))
            answer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with asyncio.TaskGroup() as both:
                both.create_task(passing_on(client, back))
                both.create_task(passing_on(there, answer))


async def passing_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Everything that one side says to the other, until it has nothing more to say."""
    with contextlib.closing(target), contextlib.suppress(ConnectionError):
        while piece := await source.read(1 << 16):
            target.write(piece)
            await target.drain()


@contextlib.asynccontextmanager
async def a_proxy() -> AsyncIterator[Proxy]:
    made = Proxy()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


async def test_a_server_is_asked_and_recognised_through_a_tunnel(tmp_path: Path) -> None:
    authority = Authority()
    async with (
        asyncio.timeout(30),
        standing_in(answering((200, config_map(), {})), tls=serving(authority, tmp_path)) as url,
        a_proxy() as proxy,
    ):
        found = await read(url, proxy=proxy.url(), certificate_authority=authority.pair.certificate)
        assert found.metadata.name == "a"
        assert proxy.asked_for == [url.removeprefix("https://")]
        with pytest.raises(ConnectionRefused, match="not to be trusted"):
            await read(url, proxy=proxy.url(), certificate_authority=Authority().pair.certificate)


async def test_the_password_of_a_proxy_that_refuses_does_not_show() -> None:
    async with asyncio.timeout(30), a_proxy() as proxy:
        access = Access(server="https://127.0.0.1:1", proxy=proxy.url("wrong-password"))
        async with ApiServer(access) as api:
            with pytest.raises(ConnectionRefused, match=r"proxy at 127\.0\.0\.1 .* status 407") as refusal:
                await api.get(CONFIG_MAP, "default", "a")
            assert refusal.value is api.trouble
    assert "wrong-password" not in str(refusal.value)
    assert refusal.value.__suppress_context__, "a traceback would show what the transport says"


@pytest.mark.parametrize("place", ["127.0.0.1:1", "", "nowhere.invalid:1"])
async def test_the_password_of_a_proxy_that_cannot_be_used_does_not_show(place: str) -> None:
    async with ApiServer(Access(server="https://127.0.0.1:1", proxy=f"http://me:{PASSWORD}@{place}")) as api:
        with pytest.raises(Exception, match="cannot read ConfigMap") as failure:
            await api.get(CONFIG_MAP, "default", "a")
    assert PASSWORD not in str(failure.value)
