"""A pod with a volume that comes and goes, and a daemon that is killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.node.csi.conftest import NODE_NAME, Node
from tests.node.csi.manifests import block_pod, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

from mooring.testing.fault_points import FAULT

SETTING_UP = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]
TAKING_AWAY = ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"]


@dataclass(frozen=True, slots=True)
class Scene:
    """A pod with a volume that is attached, staged and published; it comes and goes with its file.

    A raw device need not be attached: that has nothing to do with what it is.
    """

    node: Node
    block: bool = False

    @property
    def setting_up(self) -> list[str]:
        return SETTING_UP[1:] if self.block else SETTING_UP

    @property
    def taking_away(self) -> list[str]:
        return TAKING_AWAY[:-1] if self.block else TAKING_AWAY

    def prepare(self) -> None:
        self.node.set(attach="local")
        self.node.start_behind_proxy(*([] if self.block else ["--attach"]))
        self.node.make("data")
        known = csi_driver(f"attachRequired: {str(not self.block).lower()}")
        self.node.daemon.write("a.yaml", known + volume("data", block=self.block))

    def want(self) -> None:
        web = block_pod("web", "data") if self.block else pod("web", claimed("data"))
        self.node.daemon.write("pod.yaml", web)

    def leave(self) -> None:
        Path(self.node.daemon.manifests, "pod.yaml").unlink()

    def start(self) -> None:
        self.node.daemon.up()

    def kill(self) -> None:
        self.node.daemon.end(signal.SIGKILL)

    def start_until(self, done: Callable[[], bool], environment: pytest.MonkeyPatch, point: str) -> bool:
        """Start a daemon that dies at a point, and say whether it has: it may have been done before it got there."""
        daemon = self.node.daemon
        with environment.context() as mine:
            mine.setenv(FAULT, point)
            ended = daemon.run("up", daemon.manifests, "--detach", "--node-name", NODE_NAME)
        if ended.status != 0:
            return True
        pid = daemon.pid
        self.node.until(lambda: _is_over(pid) or done())
        if _is_over(pid):
            daemon.ended(pid)
            return True
        self.kill()
        return False

    def kill_around(self, method: str, change: Callable[[], None], *, forwarded: bool) -> None:
        """Kill the daemon when, by some change, it waits for the answer to a call."""
        held = self.node.beside.hold(method, forwarded=forwarded)
        change()
        held.until_reached()
        self.kill()
        held.release()

    def until_there(self) -> None:
        self.node.mounted("web")

    def until_gone(self) -> None:
        self.node.until(lambda: self.node.left() == {}, self.node.left)


def _is_over(pid: int) -> bool:
    """Whether a process of ours has ended; nobody has asked how yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
