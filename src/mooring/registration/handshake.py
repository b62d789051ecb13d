"""Registering one plugin, step by step, and letting it go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from mooring.errors import MooringError, NotYet, Refused
from mooring.registration.channel import dialled
from mooring.registration.conversations import Conversation, DriverConversation, RegistrarConversation, Timeouts
from mooring.registration.interface import PluginHandler, Step
from mooring.registration.worlds import ActualPlugin, DesiredSocket, Offered

log = logging.getLogger(__name__)

_SERVED_ELSEWHERE = frozenset(("DevicePlugin", "DRAPlugin"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """At which step a registration failed, and why."""

    step: Step
    why: str


class Attempt:
    """How far the registration of one socket is; belongs to the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self.step = Step.DIAL
        self.offered: Offered | None = None
        self.failure: Failure | None = None  # of the last try that ended
        self.may_retry = False  # what stood in its way has gone meanwhile
        self._patience: asyncio.Timeout | None = None

    def begin(self) -> None:
        self.count += 1
        self.step, self.offered, self.may_retry = Step.DIAL, None, False

    def at(self, step: Step) -> None:
        self.step = step

    def give_up(self) -> None:
        """The socket has gone: ask it no more. A registration that has begun goes on, and is undone afterwards."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def while_wanted(self) -> AsyncIterator[None]:
        """What is done here ends with `NotYet` when it is given up."""
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._patience = patience
                try:
                    yield
                finally:
                    self._patience = None
        except TimeoutError:
            raise NotYet("cannot register the plugin", why="its socket has gone or was made anew") from None


class Handshake:
    """Brings plugins and handlers together. For one name, handlers are called one after the other."""

    def __init__(self, handlers: Iterable[PluginHandler], timeouts: Timeouts) -> None:
        self._handlers = {handler.type(): handler for handler in handlers}
        self._timeouts = timeouts
        self._names: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def register(self, socket: DesiredSocket, attempt: Attempt) -> Offered:
        """What was registered. When this raises, nothing is, and `attempt` says at which step it failed."""
        async with AsyncExitStack() as stack:
            async with attempt.while_wanted():
                channel = await stack.enter_async_context(dialled(socket.path, timeout=self._timeouts.dial))
                kind = DriverConversation if socket.static else RegistrarConversation
                plugin: Conversation = kind(channel, socket.path, self._timeouts)
                offered = attempt.offered = await plugin.ask(attempt.at)
            attempt.at(Step.TYPE)
            async with self._name(offered):
                handler = await self._hand_over(plugin, offered, attempt)
                attempt.at(Step.NOTIFY)
                try:
                    await plugin.tell("")
                except MooringError:
                    await self._let_go(handler, offered)
                    raise
        return offered

    async def unregister(self, plugin: ActualPlugin) -> None:
        """Let a plugin go. This always succeeds: there is nobody left to try it again with."""
        async with self._name(plugin.offered):
            await self._let_go(self._handlers[plugin.offered.type], plugin.offered)

    def _name(self, offered: Offered) -> asyncio.Lock:
        """Held while a handler is called; forgotten with its last holder."""
        return self._names.setdefault((offered.type, offered.name), asyncio.Lock())

    async def _hand_over(self, plugin: Conversation, offered: Offered, attempt: Attempt) -> PluginHandler:
        """Let the handler take the plugin in; a refusal is told to the plugin before it is raised."""
        try:
            handler = self._handler_for(offered)
            attempt.at(Step.VALIDATE)
            await handler.validate(offered.name, offered.endpoint, offered.versions)
            attempt.at(Step.REGISTER)
            await handler.register(offered.name, offered.endpoint, offered.versions)
        except Exception as refusal:
            try:
                await plugin.tell(words_of(refusal))
            except MooringError as error:  # the refusal matters more
                log.debug("%s", error)
            raise
        return handler

    def _handler_for(self, offered: Offered) -> PluginHandler:
        handler = self._handlers.get(offered.type)
        if handler is not None:
            return handler
        what = f"cannot register plugin {offered.name!r}"
        if offered.type in _SERVED_ELSEWHERE:
            raise Refused(what, why=f"its type is {offered.type!r}, and this node runs CSI drivers only")
        known = ", ".join(sorted(self._handlers)) or "none"
        raise Refused(what, why=f"its type {offered.type!r} is unknown here", next_step=f"Known types are: {known}")

    async def _let_go(self, handler: PluginHandler, offered: Offered) -> None:
        try:
            async with asyncio.timeout(self._timeouts.deregister):
                await handler.deregister(offered.name, offered.endpoint)
        except TimeoutError:
            log.warning("%s %r was not let go within %g s", offered.type, offered.name, self._timeouts.deregister)
        except Exception:
            log.exception("letting go of %s %r failed", offered.type, offered.name)


def words_of(error: Exception) -> str:
    """What a person is told of an error. One that nobody foresaw is a mistake of ours, and named as such."""
    if isinstance(error, MooringError):
        return f"{error.why}. {error.next_step}" if error.next_step else error.why
    return f"a mistake in mooring: {type(error).__name__}: {error}"
