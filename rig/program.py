"""A program of the rig: started with a log, ended without ceremony, gone when the rig is."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PRCTL = ctypes.CDLL(None).prctl  # looked up here, for little may be done between fork and exec


class Program:
    """One program that may be started and killed again and again."""

    def __init__(self, command: Sequence[str], *, directory: Path, log: Path) -> None:
        self._command = list(command)
        self._directory = directory
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return os.path.basename(self._command[0])

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; it does not serve yet. It sees nothing of our environment, where proxies may be set."""
        assert not self.is_alive, f"{self.name} runs already"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env={"PATH": os.defpath, "HOME": str(self._directory)},
                start_new_session=True,  # a Ctrl-C is for the rig, which then ends all in order
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, looked up before
            )

    def kill(self) -> None:
        """Pull the plug, and wait until it is dead; fine when it is already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def last_words(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""


def _die_with_parent() -> None:
    _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL)
