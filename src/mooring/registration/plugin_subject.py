"""Plugin sockets as the engine knows them: what is wanted, what is there, and how to get from one to the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import assert_never

from mooring.engine.pending import Slot
from mooring.errors import MooringError
from mooring.registration.handshake import Attempt, Failure, Handshake, words_of
from mooring.registration.worlds import (
    ActualPlugin,
    DesiredSocket,
    DesiredSockets,
    Identity,
    Offered,
    Operation,
    Register,
    Unregister,
    changed_paths,
    observed,
    plan,
)

log = logging.getLogger(__name__)

REGISTER = "register"
UNREGISTER = "unregister"


class PluginSubject:
    """The worlds of plugin sockets. Keys are paths; one path never has two operations at once."""

    def __init__(self, handshake: Handshake, *, changed: Callable[[], None]) -> None:
        self._handshake = handshake
        self._changed = changed
        self.desired = DesiredSockets()
        self.actual: dict[str, ActualPlugin] = {}
        self.attempts: dict[str, Attempt] = {}  # of the sockets that are desired, as they are
        self.working: dict[str, Operation] = {}  # what is under way
        self.freed: Callable[[str], None] = lambda _: None  # told the paths that may succeed now

    def observe(self, seen: Mapping[str, Identity], *, gone: Collection[str], static: bool) -> list[str]:
        """Take in a look at all sockets of a kind; the paths that changed."""
        before, self.desired = self.desired, observed(self.desired, seen, gone=gone, static=static)
        changed = changed_paths(before, self.desired)
        for path in changed:
            attempt = self.attempts.pop(path, None)
            if attempt is not None:
                attempt.give_up()
        if changed:
            self._changed()
        return changed

    # -- what the engine asks --------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return self.desired.sockets.keys() | self.actual.keys()

    def plan(self, key: str) -> Sequence[Operation]:
        return plan(self.desired.sockets.get(key), self.actual.get(key))

    def slot(self, operation: Operation) -> Slot:
        return Slot(operation.path)

    def kind(self, operation: Operation) -> str:
        return REGISTER if isinstance(operation, Register) else UNREGISTER

    async def execute(self, operation: Operation) -> Offered | None:
        """What was registered, or None."""
        self.working[operation.path] = operation
        match operation:
            case Register(socket):
                return await self._register(socket)
            case Unregister(plugin):
                self._changed()
                await self._handshake.unregister(plugin)
                return None
            case _:
                assert_never(operation)

    def apply(self, operation: Operation, outcome: Offered | None) -> bool:
        del self.working[operation.path]
        match operation:
            case Register(socket):
                done = self._apply_register(socket, outcome)
            case Unregister(plugin):
                done = True
                del self.actual[plugin.path]
                self._free(plugin.offered)
                log.info("unregistered %s %r", plugin.offered.type, plugin.offered.name)
            case _:
                assert_never(operation)
        self._changed()
        return done

    # -- doing it --------------------------------------------------------------------------------------------------
    async def _register(self, socket: DesiredSocket) -> Offered | None:
        if self.desired.sockets.get(socket.path) != socket:
            return None  # it has gone before its turn came
        attempt = self.attempts.setdefault(socket.path, Attempt())
        attempt.begin()
        self._changed()
        try:
            offered = await self._handshake.register(socket, attempt)
        except MooringError as error:
            attempt.failure = Failure(step=attempt.step, why=words_of(error))
        except Exception as error:
            log.exception("registering %s failed", socket.path)
            attempt.failure = Failure(step=attempt.step, why=words_of(error))
        else:
            attempt.failure = None
            return offered
        return None

    def _apply_register(self, socket: DesiredSocket, offered: Offered | None) -> bool:
        if offered is not None:
            self.actual[socket.path] = ActualPlugin(path=socket.path, incarnation=socket.incarnation, offered=offered)
            log.info("registered %s %r at %s", offered.type, offered.name, offered.endpoint)
            return True
        attempt = self.attempts.get(socket.path)
        if attempt is None or attempt.failure is None:
            return True  # the next socket at this path does not rest for what this one did
        why = f"{attempt.failure.step.value}: {attempt.failure.why}"
        log.warning("cannot register the plugin at %s: %s", socket.path, why)
        return attempt.may_retry

    def _free(self, left: Offered) -> None:
        """A name is free again: those who were refused it need not rest."""
        for path, attempt in self.attempts.items():
            offered = attempt.offered
            if offered is not None and (offered.type, offered.name) == (left.type, left.name):
                attempt.may_retry = True
                self.freed(path)
