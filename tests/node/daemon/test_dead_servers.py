"""A FUSE file system whose daemon is stopped or killed costs its own volumes only."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod
from tests.node.daemon.test_local_volumes import CLAIM, volume

from mooring.host import syscalls
from mooring.host.programs import find_program

pytestmark = pytest.mark.node

OTHERS = ("one", "two", "three")


class FuseServer:
    """A directory served by a FUSE daemon of its own, at a place beside the root directory."""

    def __init__(self, daemon: Daemon) -> None:
        beside = Path(daemon.root).parent
        self.place = beside / "served"
        (beside / "source" / "data").mkdir(parents=True)
        (beside / "source" / "data" / "mine").write_text("kept")
        self.place.mkdir()
        program = find_program("bindfs")
        assert program is not None
        command = [program, "-f", "-o", "attr_timeout=0,entry_timeout=0", str(beside / "source"), str(self.place)]
        self.process = subprocess.Popen(command)
        daemon.until((self.place / "data").is_dir)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(daemon: Daemon) -> Iterator[FuseServer]:
    if find_program("bindfs") is None:
        pytest.skip("needs the program bindfs")
    made = FuseServer(daemon)
    yield made
    made.kill()
    daemon.kill_all()
    for path in [*reversed(daemon.mounts()), str(made.place)]:
        with suppress(OSError):
            syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW | syscalls.MNT_DETACH)


def served_volume(server: FuseServer) -> str:
    return volume(str(server.place / "data"), access="ReadWriteMany")


def others(daemon: Daemon, generation: str) -> list[str]:
    names = [f"{name}-{generation}" for name in OTHERS]
    for name in names:
        daemon.write(f"{name}.yaml", pod(name, "scratch: emptyDir: {}", "config: configMap: {name: plain}"))
    return names


def test_a_stopped_server_holds_up_its_own_volume_and_no_other(daemon: Daemon, server: FuseServer) -> None:
    daemon.write("volume.yaml", served_volume(server) + config_map("plain"))
    daemon.up()
    server.stop()
    daemon.write("held.yaml", pod("held", CLAIM))
    mounted(daemon, *others(daemon, "a"))
    daemon.until(lambda: "no answer" in explained(daemon))
    said = explained(daemon)
    assert "FUSE daemon 'bindfs'" in said
    assert f"process {server.process.pid}, stopped" in said
    mounted(daemon, *others(daemon, "b"))
    server.go_on()
    daemon.mounted("held")
    assert (daemon.path("held/data") / "mine").read_text() == "kept"


def mounted(daemon: Daemon, *pods: str) -> None:
    """Return when pods that were just written are seen and mounted."""
    daemon.until(lambda: {f"default/{name}" for name in pods} <= {row["pod"] for row in daemon.json("get", "pods")})
    daemon.mounted(*pods)


def explained(daemon: Daemon) -> str:
    volumes = daemon.json("explain", "held")["volumes"]
    return volumes[0]["cause"] or "" if volumes else ""


def test_a_pod_that_goes_while_its_server_is_stopped_leaves_nothing(daemon: Daemon, server: FuseServer) -> None:
    daemon.write("volume.yaml", served_volume(server))
    held = daemon.write("held.yaml", pod("held", CLAIM))
    daemon.up("held")
    server.stop()
    second = daemon.write("second.yaml", pod("second", CLAIM))
    daemon.until(lambda: any(row["operation"] == "volume_mount" for row in daemon.json("get", "operations")))
    held.unlink()
    second.unlink()
    daemon.done("wait", "held", "--for", "unmounted", "--timeout", "20s")
    daemon.done("wait", "second", "--for", "unmounted", "--timeout", "20s")
    assert daemon.mounts() == {}
    server.go_on()
    time.sleep(0.2)  # whoever was left behind in the kernel goes on now, and must have no effect
    assert daemon.mounts() == {}
    assert (server.place / "data" / "mine").read_text() == "kept"


def test_the_daemon_stops_at_once_beside_a_stopped_server(daemon: Daemon, server: FuseServer) -> None:
    daemon.write("volume.yaml", served_volume(server))
    daemon.up()
    server.stop()
    daemon.write("held.yaml", pod("held", CLAIM))
    daemon.until(lambda: bool(daemon.json("get", "pods")))
    daemon.until(lambda: "no answer" in explained(daemon))
    daemon.end(signal.SIGTERM)
    server.go_on()
    daemon.up("held")


@pytest.mark.parametrize("blow", ["stopped", "killed"])
def test_down_finishes_although_a_server_is_dead_and_its_mount_in_use(
    daemon: Daemon, server: FuseServer, blow: str
) -> None:
    daemon.write("volume.yaml", served_volume(server) + config_map("plain"))
    daemon.write("held.yaml", pod("held", CLAIM))
    daemon.up("held", *others(daemon, "a"))
    user = os.open(daemon.path("held/data"), os.O_RDONLY | os.O_DIRECTORY)  # keeps the mount busy
    try:
        server.stop() if blow == "stopped" else server.kill()
        pid = daemon.pid
        daemon.done("down", "--timeout", "30s")
        daemon.ended(pid)
        assert daemon.mounts() == {}
        assert len(os.listdir(f"{daemon.root}/debts")) == 1
        daemon.manifests.joinpath("held.yaml").unlink()
        daemon.up("one-a")
        found = [row for row in daemon.json("get", "findings") if row["kind"] == "debt"]
        # Once its daemon is dead nobody can use a FUSE file system any more: that debt is paid.
        assert [row["where"].endswith("/disk") for row in found] == ([True] if blow == "stopped" else [])
    finally:
        os.close(user)


def test_a_dead_server_under_a_mounted_pod_is_survived_twenty_times(daemon: Daemon, server: FuseServer) -> None:
    daemon.write("volume.yaml", served_volume(server) + config_map("plain"))
    daemon.up()
    for turn in range(20):
        held = daemon.write("held.yaml", pod(f"held{turn}", CLAIM))
        mounted(daemon, f"held{turn}")
        server.stop()
        daemon.write("plain.yaml", pod(f"plain{turn}", "config: configMap: {name: plain}"))
        held.unlink()
        mounted(daemon, f"plain{turn}")
        daemon.done("wait", f"held{turn}", "--for", "unmounted", "--timeout", "20s")
        server.go_on()
    assert sorted(row["pod"] for row in daemon.json("get", "volumes")) == ["default/plain19"]


def test_more_volumes_than_may_run_at_once_wait_for_a_server_and_others_pass_them_by(
    daemon: Daemon, server: FuseServer
) -> None:
    daemon.write("plain.yaml", config_map("plain"))
    daemon.up()
    server.stop()
    source = f"served: hostPath: {{path: {server.place}/data, type: Directory}}"
    daemon.write("held.yaml", "".join(pod(f"held{number}", source) for number in range(80)))
    daemon.until(lambda: len(daemon.json("get", "pods")) == 80)
    mounted(daemon, *others(daemon, "a"))
    server.go_on()
    mounted(daemon, *(f"held{number}" for number in range(80)))
