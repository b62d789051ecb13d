"""The client side of `mooring run`: starts what the daemon plans, shows logs, obeys signals, and tells the end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from mooring.daemon.client import Body, Client
from mooring.errors import MooringError
from mooring.host.paths import Paths
from mooring.runtimes.choice import make_runtime
from mooring.runtimes.fence import Fence, RunEnded
from mooring.runtimes.interface import RunPlan, Runtime
from mooring.runtimes.logs import LogLine
from mooring.runtimes.pod_run import PodRun, RestartPauses, Show
from mooring.runtimes.records import RunRequest, RuntimeOptions
from mooring.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PREPARED_WITHIN = 150.0  # longer than a hanging volume is waited for
_ENDED_WITHIN = 60.0


def run_pod(settings: Settings, pod: str, runtime: str, options: RuntimeOptions) -> int:
    """Run the containers of a pod whose volumes are mounted; its exit status."""
    return asyncio.run(_RunClient(settings, pod).run(runtime, options))


class _RunClient:
    def __init__(self, settings: Settings, pod: str) -> None:
        self._settings, self._pod = settings, pod
        self._client = Client(settings.root)
        self._signals = 0
        self._running: PodRun | None = None

    async def run(self, name: str, options: RuntimeOptions) -> int:
        runtime = make_runtime(name, options)
        try:
            with self._obeying_signals():
                plan = await self._begin(name, options, runtime)
                try:
                    return await self._run(runtime, plan)
                finally:
                    await self._end(plan)
        finally:
            await runtime.close()

    async def _begin(self, name: str, options: RuntimeOptions, runtime: Runtime) -> RunPlan:
        features = await runtime.features()
        request = RunRequest(
            runtime=name,
            options=options,
            recursive_read_only=features.recursive_read_only,
            images=features.images,
        )
        body = Body(msgspec.json.encode(request), "application/json")
        answer = await asyncio.to_thread(
            self._client.post, "/v1/run", {"pod": self._pod}, body=body, patience=_PREPARED_WITHIN
        )
        return msgspec.convert(answer, RunPlan)

    async def _run(self, runtime: Runtime, plan: RunPlan) -> int:
        fence = Fence(Paths(self._settings.root), plan.uid, plan.run)
        pauses = RestartPauses(initial=self._settings.restart_pause, maximum=self._settings.restart_pause_maximum)
        self._running = PodRun(runtime, plan, fence.permit, _shown(prefixed=len(plan.containers) > 1), pauses)
        for _ in range(self._signals):
            self._running.stop()
        status = await self._running.run()
        try:
            async with fence.permit():
                return status
        except RunEnded as error:
            click.echo(f"mooring: {error.why}", err=True)
            return status

    async def _end(self, plan: RunPlan) -> None:
        """Tell the daemon. One that does not answer finds out by itself, now or when the next one starts."""
        asked = {"uid": plan.uid, "run": plan.run}
        try:
            answer = await asyncio.to_thread(self._client.post, "/v1/run/end", asked, patience=_ENDED_WITHIN)
        except MooringError as error:
            click.echo(f"mooring: {error}", err=True)
            return
        if not answer["done"]:
            click.echo(f"mooring: containers of {plan.pod} may be left: {answer['cause']}", err=True)

    @contextmanager
    def _obeying_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        self._signals += 1
        if self._running is not None:
            self._running.stop()


def _shown(*, prefixed: bool) -> Show:
    """Prints lines where their container wrote them, with its name when there are several."""

    def show(container: str, line: LogLine) -> None:
        prefix = f"[{container}] " if prefixed else ""
        click.echo(f"{prefix}{line.text}", err=line.stream == "stderr")

    return show
