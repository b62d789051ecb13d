"""A recording proxy, and registrars, that run beside a test which itself waits for commands to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Literal, TypeVar

from grpc import StatusCode

from mooring.registration.registrar import Registrar
from mooring.testing.recording_proxy import RecordedCall, RecordingProxy
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

T = TypeVar("T")

_LONG = 30.0
"""Seconds after which a test that waits for what never comes is given up."""

_ALWAYS = 10_000


class Hold(asyncio.Event):
    """Holds an answer back. `reached` is set once there is one: the call was forwarded by then, if it is at all."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.reached = threading.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()

    def until_reached(self) -> None:
        assert self.reached.wait(_LONG), "the call did not come"

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self.set)


class _Proxy(RecordingProxy):
    """Can take back what was written for it."""

    def forget(self, method: str) -> None:
        self._answers.pop(method, None)


class Beside:
    """A thread whose event loop serves a proxy to a driver, and registrars in a directory."""

    def __init__(self, socket: str, driver: str, registry: str) -> None:
        self.socket, self._registry = socket, registry
        self._driver = driver
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._stack = AsyncExitStack()
        self._proxy: _Proxy | None = None
        self._registrars: dict[str, Registrar] = {}

    def start(self) -> None:
        """Listen for calls, and forward them."""
        if not self._thread.is_alive():
            self._thread.start()
        self._proxy = self._run(self._serve())

    def stop(self) -> None:
        """End everything; may be called at any time."""
        if self._thread.is_alive():
            self._run(self._stack.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LONG)
        self._loop.close()

    async def _serve(self) -> _Proxy:
        proxy = _Proxy(self.socket, self._driver)
        await self._stack.enter_async_context(proxy.serving())
        return proxy

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LONG)

    # -- registrars ------------------------------------------------------------------------------------------------
    def register(self, name: str, *, endpoint: str = "", **more: Any) -> Registrar:
        """Make a driver known, at the proxy where nothing else is said."""
        if not self._thread.is_alive():
            self._thread.start()
        return self.serve(Registrar(self._registry, name=name, endpoint=endpoint or self.socket, **more))

    def serve(self, registrar: Registrar) -> Registrar:
        """Let a registrar serve until the end, or until it is stopped."""
        return self._run(self._register(registrar))

    def unregister(self, registrar: Registrar) -> None:
        self._run(registrar.close())

    async def _register(self, registrar: Registrar) -> Registrar:
        await self._stack.enter_async_context(registrar.serving())
        return registrar

    # -- another driver --------------------------------------------------------------------------------------------
    def serve_scripted(self, driver: ScriptedCSIDriver) -> None:
        """Let a driver of the test's own serve until the end, and make it known."""
        self.register(driver.name, endpoint=driver.socket)
        self._run(self._stack.enter_async_context(driver.serving()))

    # -- what calls are answered -----------------------------------------------------------------------------------
    @property
    def proxy(self) -> _Proxy:
        assert self._proxy is not None
        return self._proxy

    def answer(self, method: str, *answers: Answer) -> None:
        """The next calls of a method are answered so, one after the other."""

        async def write() -> None:
            self.proxy.answer(method, *answers)

        self._run(write())

    def fail(self, method: str, code: StatusCode, words: str = "because", *, times: int = _ALWAYS) -> None:
        """Calls of a method fail, without being forwarded."""
        self.answer(method, *[Answer(code=code, words=words, happens=False)] * times)

    def forward(self, method: str) -> None:
        """Calls of a method reach the driver again."""

        async def forget() -> None:
            self.proxy.forget(method)

        self._run(forget())

    def hold(self, method: str, *, forwarded: bool, dies: bool = False) -> Hold:
        """The next call of a method gets no answer until it is released, and none at all if the proxy `dies` then."""
        held = Hold(self._loop)
        self.answer(method, Answer(late=held, happens=forwarded, dies=dies))
        return held

    # -- what was called -------------------------------------------------------------------------------------------
    def calls(self, *methods: str) -> list[RecordedCall]:
        async def look() -> list[RecordedCall]:
            return self.proxy.calls

        return [call for call in self._run(look()) if not methods or call.method in methods]

    def changes(self, *, failed: bool = False) -> list[str]:
        """The methods called that change something, in their order."""
        found = (call for call in self.calls() if failed or call.code is StatusCode.OK)
        return [call.method for call in found if not call.method.startswith(_QUESTIONS)]


_QUESTIONS = ("Get", "Probe", "NodeGet", "ControllerGet", "CreateVolume")
