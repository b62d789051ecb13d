"""One instance of mooring, driven through its command line and killed like a process whose plug is pulled."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PATIENCE = 60.0


class Stuck(AssertionError):
    """The instance does not come to rest as it should."""


class Instance:
    """A root directory with manifests, and the daemon on it when one runs, which may share its work."""

    def __init__(self, root: Path, manifests: Path, *, share_work: str) -> None:
        self.root, self.manifests, self._share_work = root, manifests, share_work
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, faults: Mapping[str, str] | None = None) -> None:
        """Start the daemon; it may die at any time from now on."""
        assert self._process is None
        command = [*_MOORING, "--root", str(self.root), "up", str(self.manifests), "--node-name", "here"]
        environment = {**os.environ, "MOORING_SHARE_WORK": self._share_work, **(faults or {})}
        with open(self.root.parent / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Pull the plug; fine when it is out already."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask the daemon to end, and see that it does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(_PATIENCE) != 0:
            raise Stuck(f"the daemon ended with {self._process.returncode}:\n{self.log()}")
        self._process = None

    def ready(self) -> None:
        """Wait until the daemon has heard its sources."""
        self.until("the daemon answers", lambda: self.ask("get", "pods") is not None)

    def ask(self, *arguments: str) -> Any:
        """What a command prints as JSON; None when it fails."""
        done = subprocess.run(
            [*_MOORING, "--root", str(self.root), *arguments, "-o", "json"], capture_output=True, check=False
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    def until(self, what: str, condition: Any) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline or not self.is_alive:
                state = json.dumps(self.ask("get", "volumes"), indent=1)
                raise Stuck(f"it did not come to pass that {what}:\n{state}\n{self.log()}")
            time.sleep(0.02)

    def log(self) -> str:
        return (self.root.parent / "log").read_text(errors="replace")[-6000:]


_MOORING = [sys.executable, "-m", "mooring"]
