"""FlexVolume drivers that really run: found at once, asked for everything, dropped when they go."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, pod

pytestmark = pytest.mark.node

DRIVER = """#!/bin/sh
echo "$1 $2" >> {log}
case $1 in
init) echo '{{"status": "Success", "capabilities": {{"attach": false}}}}' ;;
mount) mount -t tmpfs -o size=1m flex "$2" && echo '{{"status": "Success"}}' ;;
unmount) umount "$2" && echo '{{"status": "Success"}}' ;;
*) echo '{{"status": "Not supported"}}' ;;
esac
"""


def install(daemon: Daemon, *, executable: bool = True) -> Path:
    program = Path(daemon.root) / "volumeplugins/example.com~mem/mem"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(DRIVER.format(log=Path(daemon.root).parent / "calls"))
    if executable:
        program.chmod(0o755)
    return program


def flex_pod(name: str = "web") -> str:
    return pod(
        name, "data: flexVolume: {driver: example.com/mem, options: {a: b}}", spec="  securityContext: {fsGroup: 7}"
    )


def calls(daemon: Daemon) -> list[str]:
    lines = (Path(daemon.root).parent / "calls").read_text().splitlines()
    return [line.partition(" ")[0] for line in lines]


def cause(daemon: Daemon) -> str:
    """Why the pod's volume is not there; nothing while the pod itself is not known."""
    ended = daemon.run("explain", "web", "-o", "json")
    return str(json.loads(ended.out)["volumes"][0]["cause"]) if ended.out else ""


def test_a_driver_mounts_and_unmounts_for_a_pod(daemon: Daemon) -> None:
    install(daemon)
    daemon.write("web.yaml", flex_pod())
    daemon.up("web")
    path = daemon.path("web/data")
    assert (path.stat().st_gid, path.stat().st_mode & 0o2070) == (7, 0o2070)
    assert str(path) in daemon.mounts()
    daemon.done("down")
    assert calls(daemon) == ["init", "mount", "unmount"]


def test_a_pod_waits_for_its_driver_and_goes_on_at_once_when_it_comes(daemon: Daemon) -> None:
    daemon.write("web.yaml", flex_pod())
    daemon.up()
    daemon.until(lambda: "no FlexVolume driver" in cause(daemon))
    program = install(daemon, executable=False)
    program.chmod(0o755)  # the last step of an installation is an event, too
    daemon.mounted("web")
    daemon.done("down")


def test_after_a_restart_the_driver_takes_away_what_it_mounted(daemon: Daemon) -> None:
    install(daemon)
    manifest = daemon.write("web.yaml", flex_pod())
    daemon.up("web")
    path = daemon.path("web/data")
    daemon.end(signal.SIGKILL)
    manifest.unlink()
    daemon.up()
    daemon.until(lambda: not path.exists())
    assert calls(daemon) == ["init", "mount", "init", "unmount"]
    daemon.done("down")


def test_a_driver_that_goes_and_comes_back_serves_again(daemon: Daemon) -> None:
    program = install(daemon)
    daemon.up()
    program.unlink()
    daemon.write("web.yaml", flex_pod())
    daemon.until(lambda: "no FlexVolume driver" in cause(daemon))
    install(daemon)
    daemon.mounted("web")
    daemon.done("down")
