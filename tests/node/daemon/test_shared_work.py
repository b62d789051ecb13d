"""A daemon that shares its work with a second process does to a machine what one does that works alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

pytestmark = pytest.mark.node

PODS = 40
VOLUMES = (
    "disk: emptyDir: {}",
    "memory: emptyDir: {medium: Memory, sizeLimit: 16Mi}",
    "config: configMap: {name: c}",
    "safe: secret: {secretName: s, defaultMode: 0400}",
    "mixed: projected: {sources: [{configMap: {name: c}}, {secret: {name: s, items: [{key: key, path: sub/s}]}}]}",
)


def write_pods(daemon: Daemon, value: str = "1") -> list[str]:
    names = [f"web-{number}" for number in range(PODS)]
    group = "  securityContext: {fsGroup: 2000}"
    pods = (pod(name, *VOLUMES, spec=group if number % 2 else "") for number, name in enumerate(names))
    daemon.write("a.yaml", config_map("c", value) + secret("s") + "".join(pods))
    return names


def tree(daemon: Daemon) -> dict[str, tuple[int, int, int, bytes]]:
    """Modes, owners and contents below the pods' directory; of data directories without their names."""
    top = Path(daemon.root, "pods")
    found = {}
    for place, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = Path(place, name)
            facts = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            shown = "/".join("..time" if part.startswith("..2") else part for part in path.relative_to(top).parts)
            found[shown] = (facts.st_mode, facts.st_uid, facts.st_gid, content)
    return found


def second_process(pid: int) -> int | None:
    """The one child of a daemon, if it has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def begun(daemon: Daemon) -> int:
    """The second process of a daemon that has just been started."""
    daemon.until(lambda: second_process(daemon.pid) is not None)
    found = second_process(daemon.pid)
    assert found is not None
    return found


def runs(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def test_sharing_makes_no_difference(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for share_work in ("off", "always"):
        monkeypatch.setenv("MOORING_SHARE_WORK", share_work)
        names = write_pods(daemon)
        daemon.done("up", daemon.manifests, "--detach", "--node-name", "here")
        if share_work == "always":
            begun(daemon)
        daemon.mounted(*names)
        if share_work == "off":
            assert second_process(daemon.pid) is None
        mounted = tree(daemon)
        write_pods(daemon, "2")
        config = daemon.path("web-7/config") / "key"
        daemon.until(lambda config=config: config.read_text() == "2")  # type: ignore[misc]
        pid = daemon.pid
        daemon.done("down")
        daemon.ended(pid)
        assert daemon.mounts() == {}
        assert os.listdir(f"{daemon.root}/pods") == []
        seen.append(mounted)
    assert seen[0] == seen[1]
    assert len(seen[0]) > PODS * 30


def test_a_daemon_that_is_killed_with_its_second_process_finds_everything_again(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_SHARE_WORK", "always")
    names = write_pods(daemon)
    daemon.done("up", daemon.manifests, "--detach", "--node-name", "here")
    second = begun(daemon)
    daemon.until(lambda: len(daemon.mounts()) > PODS // 2)
    daemon.end(signal.SIGKILL)
    daemon.until(lambda: not runs(second))
    before = daemon.mounts()
    daemon.up(*names)
    after = daemon.mounts()
    assert before.items() <= after.items()  # what was mounted is the same mount
    assert len(after) == 3 * PODS


def test_a_second_process_that_is_killed_costs_a_moment(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_SHARE_WORK", "always")
    names = write_pods(daemon)
    daemon.done("up", daemon.manifests, "--detach", "--node-name", "here")
    os.kill(begun(daemon), signal.SIGKILL)
    daemon.mounted(*names)
    assert len(daemon.mounts()) == 3 * PODS
