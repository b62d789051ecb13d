"""Registrations that go wrong: each says at which step and why, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from grpc import StatusCode, aio
from tests.registration.conftest import PATIENT, SOON, Bench, ScriptedRegistrar, bind, refusal

from mooring.registration.conversations import Timeouts
from mooring.registration.interface import SocketState, Step
from mooring.registration.registrar import Notified
from mooring.stubs import registration_pb2 as registration


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_socket_on_which_nobody_listens_fails_to_be_dialled(bench: Bench) -> None:
    bench.timeouts = replace(PATIENT, dial=0.2)
    bench.directory.mkdir()
    with bind(bench.directory / "stale.sock"):
        async with bench.running():
            view = await bench.until_failed(bench.directory / "stale.sock")
    assert (view.failing_step, view.why) == (Step.DIAL, "nobody listens on it (waited 0.2 s)")


async def test_whoever_accepts_and_says_nothing_holds_up_nobody_else(bench: Bench) -> None:
    bench.timeouts, bench.backoff = replace(PATIENT, dial=0.5), SOON
    bench.directory.mkdir()
    with bind(bench.directory / "mute.sock", listens=True):
        async with bench.running(), bench.registrar().serving() as registrar:
            await bench.until_registered(registrar)
            view = await bench.until_failed(bench.directory / "mute.sock")
    assert (view.failing_step, view.why) == (Step.DIAL, "whoever listens on it does not answer (waited 0.5 s)")


async def test_a_registrar_that_does_not_say_who_it_is_holds_up_nobody_else(bench: Bench) -> None:
    bench.timeouts, bench.backoff = replace(PATIENT, get_info=0.2), SOON
    silent = bench.registrar("silent")
    silent.before_info = never  # type: ignore[method-assign]
    async with bench.running(), silent.serving(), bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        view = await bench.until_failed(silent.path)
        assert view.failing_step is Step.GET_INFO
        assert "DEADLINE_EXCEEDED" in view.why


async def test_a_socket_that_goes_while_it_is_asked_is_not_waited_for(bench: Bench) -> None:
    bench.timeouts = Timeouts(dial=3600.0, get_info=3600.0)
    silent = bench.registrar("silent")
    asked = asyncio.Event()

    async def wait_forever() -> None:
        asked.set()
        await never()

    silent.before_info = wait_forever  # type: ignore[method-assign]
    async with bench.running(), silent.serving():
        await asked.wait()
        with bind(bench.directory / "mute.sock", listens=True):
            await bench.until_state(bench.directory / "mute.sock", SocketState.REGISTERING)
            os.unlink(bench.directory / "mute.sock")
            await bench.until_gone(bench.directory / "mute.sock")
        async with bench.registrar("silent").serving() as outspoken:  # takes the place of the silent one
            await bench.until_registered(outspoken)
            assert bench.handler.changes("silent") == ["register"]


async def test_a_registrar_that_dies_before_it_is_notified_is_deregistered(bench: Bench) -> None:
    registrar = bench.registrar()
    bench.handler.during["register"] = registrar.die
    async with bench.running(), registrar.serving():
        view = await bench.until_failed(registrar.path)
        assert view.failing_step is Step.NOTIFY
        assert bench.handler.changes() == ["register", "deregister"]


async def test_a_registrar_that_dies_while_it_is_notified_is_deregistered(bench: Bench) -> None:
    registrar = bench.registrar()

    async def die() -> None:
        dying.create_task(registrar.die())
        await never()

    registrar.before_notify = die  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as dying, bench.running(), registrar.serving():
        view = await bench.until_failed(registrar.path)
        assert view.failing_step is Step.NOTIFY
        assert bench.handler.changes() == ["register", "deregister"]


class AbortingRegistrar(ScriptedRegistrar):
    """Breaks off the call that tells it of its registration."""

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, context: aio.ServicerContext[object, object]
    ) -> registration.RegistrationStatusResponse:
        await context.abort(StatusCode.CANCELLED, "enough")


async def test_a_call_that_the_registrar_breaks_off_is_a_failure_like_any_other(bench: Bench) -> None:
    registrar = AbortingRegistrar(make_directory(bench), name="a.csi.test", endpoint="")
    async with bench.running(), registrar.serving():
        view = await bench.until_failed(registrar.path)
        assert (view.failing_step, view.why) == (Step.NOTIFY, "CANCELLED: enough")
        assert bench.handler.changes() == ["register", "deregister"]


async def test_a_refusal_that_cannot_be_told_stays_the_reason(bench: Bench) -> None:
    registrar = bench.registrar()
    bench.handler.during["validate"] = registrar.die
    bench.handler.refusals["validate"] = refusal("its name is odd")
    async with bench.running(), registrar.serving():
        view = await bench.until_failed(registrar.path)
        assert (view.failing_step, view.why) == (Step.VALIDATE, "its name is odd")


async def test_a_mistake_of_a_handler_costs_one_plugin(bench: Bench) -> None:
    registrar = bench.registrar()
    bench.handler.refusals["register"] = ZeroDivisionError("division by zero")
    async with bench.running(), registrar.serving():
        view = await bench.until_failed(registrar.path)
        words = "a mistake in mooring: ZeroDivisionError: division by zero"
        assert (view.failing_step, view.why) == (Step.REGISTER, words)
        assert await registrar.until_notified() == Notified(registered=False, error=words)
        bench.handler.refusals.clear()
        async with bench.registrar("b").serving() as other:
            await bench.until_registered(other)


@pytest.mark.parametrize("trouble", ["hangs", "fails"])
async def test_a_plugin_that_cannot_be_let_go_in_order_is_gone_all_the_same(bench: Bench, trouble: str) -> None:
    bench.timeouts = replace(PATIENT, deregister=0.2)
    if trouble == "hangs":
        bench.handler.during["deregister"] = never
    else:
        bench.handler.refusals["deregister"] = RuntimeError("out of order")
    async with bench.running():
        async with bench.registrar().serving() as registrar:
            await bench.until_registered(registrar)
        await bench.until_gone(registrar.path)


async def test_a_socket_made_anew_does_not_rest_for_what_the_last_one_did(bench: Bench) -> None:
    async with bench.running(), bench.registrar(type="Toaster").serving() as wrong:
        await bench.until_failed(wrong.path)
        async with bench.registrar().serving() as right:
            await bench.until_registered(right)
            view = bench.view(right.path)
    assert view is not None
    assert view.attempts == 1


async def test_a_failure_of_a_socket_that_has_gone_does_not_hold_up_the_next_one(bench: Bench) -> None:
    let_go = asyncio.Event()
    bench.handler.during["validate"] = let_go.wait
    bench.handler.refusals["validate"] = refusal()
    async with bench.running(), bench.registrar().serving():
        await bench.until(lambda: bench.handler.made("validate") == 1)
        async with bench.registrar().serving() as second, bench.registrar("b").serving() as other:
            await bench.until(lambda: bench.view(other.path) is not None)
            bench.handler.during.clear()
            bench.handler.refusals.pop("validate")
            let_go.set()
            await bench.until_registered(second)


async def test_a_failing_plugin_is_tried_until_it_is_well(bench: Bench) -> None:
    bench.backoff = SOON
    registrar = FailingRegistrar(make_directory(bench), name="a.csi.test", endpoint="")
    async with bench.running(), registrar.serving():
        await bench.until_registered(registrar)
        assert registrar.failures == 0
        assert bench.handler.registered["a.csi.test"] == (registrar.path, ("1.0.0",))


class FailingRegistrar(ScriptedRegistrar):
    """Says who it is when it is asked for the fourth time."""

    failures = 3

    async def before_info(self) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not yet")


def make_directory(bench: Bench) -> str:
    bench.directory.mkdir()
    return str(bench.directory)


async def test_without_an_endpoint_the_plugin_serves_where_it_registered(bench: Bench) -> None:
    async with bench.running(), bench.registrar(endpoint="").serving() as registrar:
        await bench.until_registered(registrar)
        assert bench.handler.registered["a.csi.test"][0] == registrar.path


@pytest.mark.parametrize(
    "name",
    [
        "with space.sock",
        "a,b.sock",
        "100%?#&;=+.sock",
        "%41%zz.sock",
        "new\nline.sock",
        "quotes'\"\\.sock",
        "übergrößenträger-€.sock",
        "-rf *.sock",
        "n" * 200,
        b"\xff\xfe not text.sock",
    ],
    ids=repr,
)
async def test_a_socket_may_have_any_name(bench: Bench, name: str | bytes) -> None:
    registrar = bench.registrar(socket_name=os.fsdecode(name), endpoint="")
    readable = os.fsencode(registrar.path).decode(errors="backslashreplace")
    async with bench.running(), registrar.serving():
        await bench.until_state(readable, SocketState.REGISTERED)
        assert bench.handler.registered["a.csi.test"][0] == registrar.path
        assert [count.socket_path for count in bench.manager.counts()] == [readable, readable]


async def test_a_hundred_plugins_register_at_once(bench: Bench) -> None:
    registrars = [bench.registrar(f"driver-{number}") for number in range(100)]
    async with bench.running() as manager:
        async with AsyncExitStack() as stack:
            for registrar in registrars:
                await stack.enter_async_context(registrar.serving())
            await bench.until_registered(*registrars)
            assert len(bench.handler.registered) == 100
            assert {view.attempts for view in manager.sockets()} == {1}
        await bench.until(lambda: manager.sockets() == [])
    assert bench.handler.registered == {}
    assert (bench.handler.made("register"), bench.handler.made("deregister")) == (100, 100)


async def test_stopping_waits_for_nobody(bench: Bench) -> None:
    bench.timeouts = Timeouts(dial=3600.0, get_info=3600.0)
    bench.handler.during["register"] = never
    silent = bench.registrar("silent")
    silent.before_info = never  # type: ignore[method-assign]
    bench.registrar()
    with bind(bench.directory / "mute.sock", listens=True):
        async with silent.serving(), bench.registrar().serving() as registrar:
            async with bench.running() as manager:
                await bench.until(lambda: bench.handler.made("register") == 1)
                assert {view.state for view in manager.sockets()} == {SocketState.REGISTERING}
            assert bench.handler.changes() == ["register"]
            assert registrar.statuses == []


async def test_no_descriptor_is_left_open(bench: Bench) -> None:
    async with bench.running():
        async with bench.registrar("first").serving() as first:  # whatever is opened once is open now
            await bench.until_registered(first)
        await bench.until_gone(first.path)
        before = sockets_held()
        for number in range(5):
            async with bench.registrar(f"driver-{number}").serving() as registrar:
                await bench.until_registered(registrar)
            await bench.until_gone(registrar.path)
        assert sockets_held() == before


def sockets_held() -> int:
    """How many descriptors lead to a file of the tests: O_PATH ones of sockets among them."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return sum("reg-" in link for link in links)
