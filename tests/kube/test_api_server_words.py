"""The client of an API server against a stand-in, for what a real one cannot be made to do or say."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rig.certificates import Authority

from mooring.kube.api import (
    ConnectionRefused,
    EventType,
    Expired,
    InternalError,
    Invalid,
    TooManyRequests,
    Unauthorized,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.api_server import ApiServer
from mooring.kube.kubeconfig import Access
from mooring.kube.objects.kinds import CLUSTER_TRUST_BUNDLE, CONFIG_MAP
from mooring.kube.objects.pod import ConfigMap

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def standing_in(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server that answers everything in one way."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": "7"}, "data": data}


def status(code: int, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Status", "code": code, **fields}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def answering(*answers: tuple[int, dict[str, Any], dict[str, str]], seen: list[web.Request] | None = None) -> Answer:
    """One answer after the other; the last one stays."""
    left = list(answers)

    async def answer(request: web.Request) -> web.Response:
        if seen is not None:
            seen.append(request)
        code, body, headers = left.pop(0) if len(left) > 1 else left[0]
        return web.json_response(body, status=code, headers=headers)

    return answer


def streaming(*chunks: bytes, breaks: bool = False) -> Answer:
    """A watch of these chunks, which ends in order, or with the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if breaks and request.transport is not None:
            request.transport.close()
        return response

    return answer


async def read(url: str, **access: Any) -> ConfigMap:
    async with ApiServer(Access(server=url, **access)) as api:
        return await api.get(CONFIG_MAP, "default", "a")


async def watched(answer: Answer) -> list[WatchEvent[ConfigMap]]:
    async with (
        asyncio.timeout(30),
        standing_in(answer) as url,
        ApiServer(Access(server=url)) as api,
        api.watch(CONFIG_MAP, WatchOptions(resource_version="1")) as events,
    ):
        return [event async for event in events]


# -- away and back -----------------------------------------------------------------------------------------------------
async def test_a_server_that_could_do_nothing_is_looked_at_until_it_is_ready() -> None:
    seen: list[web.Request] = []
    broken = status(500, message="etcd is away")
    async with (
        asyncio.timeout(30),
        standing_in(answering((500, broken, {}), (500, broken, {}), (200, {}, {}), seen=seen)) as url,
        ApiServer(Access(server=url)) as api,
    ):
        with pytest.raises(InternalError, match="etcd is away"):
            await api.get(CONFIG_MAP, "default", "a")
        await api.until_back()
    assert [request.path for request in seen[1:]] == ["/readyz", "/readyz"]


async def test_a_server_that_gave_no_answer_is_looked_at_until_it_is_there() -> None:
    async with standing_in(answering((200, {}, {}))) as url:
        pass
    async with asyncio.timeout(30), ApiServer(Access(server=url)) as api:
        with pytest.raises(ConnectionRefused):
            await api.get(CONFIG_MAP, "default", "a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await api.until_back()


async def test_one_request_that_fails_again_and_again_does_not_make_a_ready_server_come_back() -> None:
    looks = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal looks
        if request.path == "/readyz":
            looks += 1
            return web.Response(text="ok")
        return web.json_response(status(500, message="this one is broken"), status=500)

    async with (
        asyncio.timeout(30),
        standing_in(answer) as url,
        ApiServer(Access(server=url)) as api,
        asyncio.TaskGroup() as tasks,
    ):
        back = tasks.create_task(api.until_back())
        while looks < 2:
            with pytest.raises(InternalError, match="broken"):
                await api.get(CONFIG_MAP, "default", "a")
            await asyncio.sleep(0.1)
        assert not back.done()
        back.cancel()


async def test_an_answer_that_is_cut_is_none() -> None:
    looks = [503, 200]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/readyz":
            return web.Response(status=looks.pop(0))
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    async with asyncio.timeout(30), standing_in(answer) as url, ApiServer(Access(server=url)) as api:
        with pytest.raises(ConnectionRefused, match="in the middle of its answer") as failure:
            await api.get(CONFIG_MAP, "default", "a")
        assert api.trouble is failure.value
        await api.until_back()
        assert api.trouble is None


# -- refusals ----------------------------------------------------------------------------------------------------------
async def test_a_server_that_asks_for_patience_is_asked_again() -> None:
    seen: list[web.Request] = []
    busy = (429, status(429), {"Retry-After": "1"})
    async with standing_in(answering(busy, (200, config_map(), {}), seen=seen)) as url:
        assert (await read(url)).metadata.name == "a"
    assert len(seen) == 2


async def test_a_server_that_is_busy_and_does_not_say_how_long_is_the_callers_to_wait_for() -> None:
    seen: list[web.Request] = []
    async with standing_in(answering((429, status(429, message="slow down"), {}), seen=seen)) as url:
        with pytest.raises(TooManyRequests, match="slow down"):
            await read(url)
    assert len(seen) == 1


async def test_a_watch_that_is_refused_says_when_to_come_back_and_is_not_repeated() -> None:
    with pytest.raises(TooManyRequests) as refusal:
        await watched(answering((429, status(429), {"Retry-After": "9"})))
    assert refusal.value.retry_after == 9


@pytest.mark.parametrize("code", [302, 500, 502])
async def test_an_answer_that_is_no_status_is_told_by_its_number(code: int) -> None:
    async with standing_in(answering((code, {"oops": 1}, {"Location": "/elsewhere"}))) as url:
        with pytest.raises(InternalError, match=f"HTTP status {code}") as refusal:
            await read(url)
    assert refusal.value.code == code


async def test_nonsense_is_told_as_such() -> None:
    async with standing_in(answering((200, {"metadata": 7}, {}))) as url:
        with pytest.raises(InternalError, match="makes no sense"):
            await read(url)


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_is_none_is_not_asked_for(name: str) -> None:
    async with ApiServer(Access(server="http://127.0.0.1:1")) as api:
        with pytest.raises(Invalid):
            await api.get(CONFIG_MAP, "default", name)


async def test_a_name_does_not_lead_anywhere_else() -> None:
    seen: list[web.Request] = []
    async with (
        standing_in(answering((200, config_map(), {}), seen=seen)) as url,
        ApiServer(Access(server=url)) as api,
    ):
        await api.get(CONFIG_MAP, "default", "../secrets/key?x=1")
    assert seen[0].raw_path == "/api/v1/namespaces/default/configmaps/..%2Fsecrets%2Fkey%3Fx%3D1"


# -- deletions ---------------------------------------------------------------------------------------------------------
async def test_who_deletes_needs_no_right_to_read() -> None:
    seen: list[web.Request] = []
    gone, left = status(200, status="Success"), config_map(key="value")
    async with (
        standing_in(answering((200, gone, {}), (200, left, {}), seen=seen)) as url,
        ApiServer(Access(server=url)) as api,
    ):
        assert await api.delete(CONFIG_MAP, "default", "a") is None
        held = await api.delete(CONFIG_MAP, "default", "a")
    assert held is not None
    assert held.data == {"key": "value"}
    assert [request.method for request in seen] == ["DELETE", "DELETE"]


# -- credentials -------------------------------------------------------------------------------------------------------
async def test_a_refused_token_is_replaced_and_the_request_repeated_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    shown: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        shown.append(request.headers["Authorization"])
        file.write_text("new")
        if shown[-1] == "Bearer new":
            return web.json_response(config_map())
        return web.json_response(status(401), status=401)

    async with standing_in(answer) as url:
        await read(url, token_file=str(file))
    assert shown == ["Bearer old", "Bearer new"]


async def test_a_token_that_cannot_be_replaced_is_not_shown_again() -> None:
    seen: list[web.Request] = []
    async with standing_in(answering((401, status(401, message="who?"), {}), seen=seen)) as url:
        with pytest.raises(Unauthorized, match="who"):
            await read(url, token="old")
    assert len(seen) == 1


async def test_missing_credentials_are_an_error_of_the_api(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="no credentials"):
        await read("http://127.0.0.1:1", token_file=str(tmp_path / "missing"))


# -- connections -------------------------------------------------------------------------------------------------------
def serving(authority: Authority, directory: Path) -> ssl.SSLContext:
    pair = authority.sign("server", serves=("127.0.0.1",))
    (directory / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "server.pem")
    return context


async def test_a_server_is_recognised_by_its_authority_and_no_other(tmp_path: Path) -> None:
    authority = Authority()
    async with standing_in(answering((200, config_map(), {})), tls=serving(authority, tmp_path)) as url:
        await read(url, certificate_authority=authority.pair.certificate)
        with pytest.raises(ConnectionRefused, match="not to be trusted"):
            await read(url, certificate_authority=Authority().pair.certificate)
        with pytest.raises(ConnectionRefused, match="not to be trusted"):
            await read(url, certificate_authority=authority.pair.certificate, server_name="other.example")


async def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    async with standing_in(answering((200, {}, {}))) as url:
        pass
    with pytest.raises(ConnectionRefused, match="cannot be reached"):
        await read(url)


# -- watches -----------------------------------------------------------------------------------------------------------
async def test_an_expiry_in_the_middle_of_a_watch_is_an_event() -> None:
    gone = status(410, reason="Expired", message="too old resource version", details={"retryAfterSeconds": 3})
    first, second = await watched(streaming(line("ADDED", config_map()), line("ERROR", gone)))
    assert first.type is EventType.ADDED
    assert second.type is EventType.ERROR
    assert isinstance(second.error, Expired)
    assert second.error.retry_after == 3


async def test_a_line_that_is_cut_in_the_middle_does_not_count() -> None:
    events = await watched(streaming(line("ADDED", config_map()), line("ADDED", config_map("b"))[:40], breaks=True))
    assert [event.object.metadata.name for event in events if event.object is not None] == ["a"]


async def test_lines_are_put_together_however_they_arrive() -> None:
    written = line("ADDED", config_map("a")) + line("MODIFIED", config_map("b")) + line("DELETED", config_map("c"))
    events = await watched(streaming(*(written[at : at + 7] for at in range(0, len(written), 7))))
    assert [event.type for event in events] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]


async def test_an_object_may_be_larger_than_any_buffer() -> None:
    large = "x" * 5_000_000
    (event,) = await watched(streaming(line("ADDED", config_map(large=large))))
    assert event.object is not None
    assert event.object.data == {"large": large}


async def test_an_event_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(InternalError, match="'RENAMED'"):
        await watched(streaming(line("RENAMED", config_map())))


async def test_many_watches_at_once_do_not_wait_for_each_other() -> None:
    """aiohttp allows a hundred connections unless it is told otherwise."""
    all_here, count = asyncio.Event(), 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 150:
            all_here.set()
        response = web.StreamResponse()
        await response.prepare(request)
        await all_here.wait()
        return response

    async with asyncio.timeout(30), standing_in(answer) as url, ApiServer(Access(server=url)) as api:

        async def follow() -> None:
            async with api.watch(CONFIG_MAP) as events:
                assert [event async for event in events] == []

        async with asyncio.TaskGroup() as tasks:
            for _ in range(150):
                tasks.create_task(follow())


# -- versions ----------------------------------------------------------------------------------------------------------
def with_versions(**versions: list[str]) -> Answer:
    """A server with these plurals by version of certificates.k8s.io."""

    async def answer(request: web.Request) -> web.Response:
        version = request.path.removeprefix("/apis/certificates.k8s.io/")
        if version not in versions:
            return web.Response(status=404, text="404 page not found")
        names = [{"name": name, "kind": name} for name in versions[version]]
        return web.json_response({"kind": "APIResourceList", "resources": names})

    return answer


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"v1": ["clustertrustbundles"], "v1beta1": ["clustertrustbundles"]}, "certificates.k8s.io/v1"),
        ({"v1": ["certificatesigningrequests"], "v1beta1": ["clustertrustbundles"]}, "certificates.k8s.io/v1beta1"),
        ({"v1alpha1": ["clustertrustbundles"]}, "certificates.k8s.io/v1alpha1"),
        ({"v1": ["certificatesigningrequests"]}, None),
        ({}, None),
    ],
)
async def test_the_newest_version_that_a_server_has_is_used(versions: dict[str, list[str]], found: str | None) -> None:
    async with standing_in(with_versions(**versions)) as url, ApiServer(Access(server=url)) as api:
        served = await api.served(CLUSTER_TRUST_BUNDLE)
    assert (served.api_version if served is not None else None) == found
