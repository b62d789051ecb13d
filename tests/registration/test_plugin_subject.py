"""Operations whose world changes between one of the engine's calls and the next."""

from __future__ import annotations

from tests.registration.conftest import Bench, RecordingHandler, refusal

from mooring.host.linux import LinuxHost
from mooring.registration.conversations import Timeouts
from mooring.registration.handshake import Handshake
from mooring.registration.plugin_subject import PluginSubject
from mooring.registration.registrar import Registrar
from mooring.registration.socket_watcher import identity_of
from mooring.registration.worlds import Identity, Operation, Register, Unregister


def identity(registrar: Registrar) -> Identity:
    facts = LinuxHost().look(registrar.path)
    assert facts is not None
    return identity_of(facts)


def subject_of(handler: RecordingHandler) -> PluginSubject:
    return PluginSubject(Handshake([handler], Timeouts()), changed=lambda: None)


async def do(subject: PluginSubject, registrar: Registrar) -> Operation:
    """The operation that is due for a socket, done and applied."""
    (operation,) = subject.plan(registrar.path)
    subject.apply(operation, await subject.execute(operation))
    return operation


async def test_a_name_that_is_freed_before_its_refusal_is_noted_lets_nobody_rest(bench: Bench) -> None:
    first, second = bench.registrar("a"), bench.registrar("a", socket_name="second.sock")
    subject = subject_of(bench.handler)
    async with first.serving(), second.serving():
        both = {registrar.path: identity(registrar) for registrar in (first, second)}
        subject.observe(both, gone=(), static=False)
        assert isinstance(await do(subject, first), Register)
        bench.handler.refusals["validate"] = refusal("another one has the name")
        (late,) = subject.plan(second.path)
        outcome = await subject.execute(late)
        subject.observe({second.path: both[second.path]}, gone=(), static=False)
        assert isinstance(await do(subject, first), Unregister)
        assert subject.apply(late, outcome)  # so that the engine goes on with it at once
        del bench.handler.refusals["validate"]
        assert isinstance(await do(subject, second), Register)
        assert subject.plan(second.path) == []


async def test_a_refusal_that_nothing_has_changed_about_rests(bench: Bench) -> None:
    bench.handler.refusals["validate"] = refusal()
    subject = subject_of(bench.handler)
    async with bench.registrar().serving() as registrar:
        subject.observe({registrar.path: identity(registrar)}, gone=(), static=False)
        (operation,) = subject.plan(registrar.path)
        assert not subject.apply(operation, await subject.execute(operation))


async def test_a_socket_that_went_before_its_turn_is_not_dialled(bench: Bench) -> None:
    subject = subject_of(bench.handler)
    async with bench.registrar().serving() as registrar:
        subject.observe({registrar.path: identity(registrar)}, gone=(), static=False)
        (operation,) = subject.plan(registrar.path)
        subject.observe({}, gone={registrar.path}, static=False)
        assert subject.apply(operation, await subject.execute(operation))
        assert (bench.handler.calls, subject.attempts, subject.working) == ([], {}, {})
        assert list(subject.keys()) == []
