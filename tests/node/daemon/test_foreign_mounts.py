"""Somebody else changes the mounts of a running daemon: noticed, repaired when provably ours, told otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret
from tests.node.daemon.test_local_volumes import CLAIM, Disk, disk, stage, volume

from mooring.host import syscalls

__all__ = ["disk"]
pytestmark = pytest.mark.node

MEMORY = "memory: emptyDir: {medium: Memory}"
KEYS = "keys: secret: {secretName: s}"
ALL = "all: projected: {sources: [{secret: {name: s}}, {configMap: {name: c}}]}"


@pytest.fixture(autouse=True, params=["auto", "poll"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the daemon is told: by fanotify where this kernel has it, and by a poll of mountinfo."""
    chosen: str = request.param
    monkeypatch.setenv("MOORING_MOUNT_EVENTS", chosen)
    monkeypatch.setenv("MOORING_RESYNC_INTERVAL", "1s")  # bounds when flags are looked at after other changes
    return chosen


def unmount(path: Path) -> None:
    syscalls.umount2(str(path), syscalls.UMOUNT_NOFOLLOW)


def mount_tmpfs(path: Path) -> None:
    syscalls.mount("foreign", str(path), "tmpfs", 0, "")


def mount_over(path: Path) -> None:
    """Mount something with a file in it, so that it can be recognised."""
    mount_tmpfs(path)
    (path / "foreign").touch()


def remount_read_only(path: Path) -> None:
    flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY
    syscalls.mount("", str(path), "", flags, "")


def options(path: Path) -> str:
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {row[4]: row[5] for row in rows}[str(path)]


def layers(path: Path) -> int:
    return sum(line.split()[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def reasons(daemon: Daemon) -> list[str]:
    """Of the events about what others did."""
    return [row["reason"] for row in daemon.json("get", "events") if row["reason"].startswith("Volume")]


def come(daemon: Daemon, name: str) -> None:
    """Return when a pod that was written just now is known, and its volumes are mounted."""
    daemon.until(lambda: f"default/{name}" in [row["pod"] for row in daemon.json("get", "pods")])
    daemon.mounted(name)


def findings(daemon: Daemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.json("get", "findings")
    return found


def counted(daemon: Daemon, kind: str) -> bool:
    """Whether a change of this kind was counted once."""
    return f'mooring_foreign_mount_changes_total{{kind="{kind}"}} 1.0' in metrics(daemon)


def metrics(daemon: Daemon) -> str:
    socket = f"{daemon.root}/mooring.sock"
    done = subprocess.run(
        ["curl", "-s", "--unix-socket", socket, "http://mooring/metrics"], capture_output=True, text=True, check=True
    )
    return done.stdout


# -- unmounted -----------------------------------------------------------------------------------------------------
def test_a_memory_volume_that_was_unmounted_is_mounted_again_empty_and_the_event_says_so(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    (path / "precious").write_text("data")
    unmount(path)
    daemon.until(lambda: path.is_mount() and "VolumeUnmountedExternally" in reasons(daemon))
    assert os.listdir(path) == []
    [event] = daemon.json("get", "events")
    assert "what was in it is lost" in event["message"]
    assert counted(daemon, "unmounted")
    assert "VolumeUnmountedExternally" in daemon.done("timeline", "web/memory")


@pytest.mark.parametrize("kind", ["keys", "all"])
def test_a_content_volume_that_was_unmounted_is_written_again(daemon: Daemon, kind: str) -> None:
    daemon.write("a.yaml", config_map("c") + secret("s") + pod("web", KEYS, ALL))
    daemon.up("web")
    path = daemon.path(f"web/{kind}")
    unmount(path)
    daemon.until(lambda: path.is_mount() and (path / "key").exists())
    assert (path / "key").read_text() in ("hunter2", "1")
    daemon.until(lambda: reasons(daemon) == ["VolumeUnmountedExternally"])
    assert "lost" not in daemon.json("get", "events")[0]["message"]


def test_a_bound_directory_that_was_unmounted_is_bound_again(daemon: Daemon) -> None:
    data = Path(daemon.root).parent / "data"
    data.mkdir()
    daemon.write("a.yaml", volume(str(data)) + pod("web", CLAIM))
    daemon.up("web")
    path = daemon.path("web/data")
    (path / "kept").touch()
    unmount(path)
    daemon.until(lambda: str(path) in daemon.mounts())
    assert os.listdir(path) == ["kept"]
    daemon.until(lambda: reasons(daemon) == ["VolumeUnmountedExternally"])


def test_a_stage_that_was_unmounted_is_mounted_again(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device) + pod("web", CLAIM))
    daemon.up("web")
    (daemon.path("web/data") / "kept").touch()
    unmount(stage(daemon))
    daemon.until(lambda: stage(daemon).is_mount())
    assert (stage(daemon) / "kept").exists()
    assert (daemon.path("web/data") / "kept").exists()
    daemon.write("a.yaml", volume(disk.device))
    daemon.until(lambda: daemon.mounts() == {})


def test_a_stage_and_a_bind_that_were_both_unmounted_come_back_with_their_content(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device) + pod("web", CLAIM))
    daemon.up("web")
    path = daemon.path("web/data")
    (path / "kept").touch()
    unmount(path)
    unmount(stage(daemon))
    daemon.until(lambda: path.is_mount() and stage(daemon).is_mount())
    assert (path / "kept").exists()


def test_a_sub_path_that_was_unmounted_is_bound_again(daemon: Daemon) -> None:
    manifest = pod("web", MEMORY).replace("mountPath: /memory", "mountPath: /memory, subPath: inner")
    daemon.write("a.yaml", manifest)
    daemon.up("web")
    [row] = daemon.json("mounts", "web")
    target = Path(row["host_path"])
    (target / "kept").touch()
    unmount(target)
    daemon.until(lambda: str(target) in daemon.mounts())
    assert os.listdir(target) == ["kept"]
    daemon.until(lambda: reasons(daemon) == ["VolumeUnmountedExternally"])


def test_a_volume_that_was_moved_away_is_set_up_again(daemon: Daemon) -> None:
    daemon.write("a.yaml", secret("s") + pod("web", KEYS))
    daemon.up("web")
    path, elsewhere = daemon.path("web/keys"), Path(daemon.root).parent / "elsewhere"
    elsewhere.mkdir()
    subprocess.run(["mount", "--move", str(path), str(elsewhere)], check=True)
    daemon.until(lambda: path.is_mount() and (path / "key").exists())
    daemon.until(lambda: reasons(daemon) == ["VolumeMovedExternally"])


# -- mounted over --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["memory", "disk", "keys"])
def test_a_foreign_mount_over_a_volume_is_found_named_and_never_taken_away(daemon: Daemon, kind: str) -> None:
    daemon.write("objects.yaml", secret("s"))
    daemon.write("a.yaml", pod("web", MEMORY, "disk: emptyDir: {}", KEYS))
    daemon.up("web")
    path = daemon.path(f"web/{kind}")
    mount_over(path)
    daemon.until(lambda: [row["where"] for row in findings(daemon)] == [str(path)])
    assert "'foreign' (tmpfs) was mounted over it" in findings(daemon)[0]["what"]
    daemon.until(lambda: reasons(daemon) == ["VolumeMountedOver"])
    daemon.write("a.yaml", "")
    daemon.until(lambda: "'foreign' (tmpfs) is mounted over it" in daemon.done("timeline", "default/web"))
    assert (path / "foreign").exists()
    unmount(path)
    daemon.until(lambda: daemon.mounts() == {} and os.listdir(f"{daemon.root}/pods") == [])
    assert findings(daemon) == []


def test_a_finding_is_over_when_the_foreign_mount_is_gone(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    mount_over(path)
    daemon.until(lambda: len(findings(daemon)) == 1)
    unmount(path)
    daemon.until(lambda: findings(daemon) == [])
    assert daemon.volume("web/memory")["state"] == "mounted"


def test_a_mount_over_a_pod_s_directory_is_found(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    mount_tmpfs(path.parents[2])
    daemon.until(lambda: [row["where"] for row in findings(daemon)] == [str(path)])
    unmount(path.parents[2])
    daemon.until(lambda: findings(daemon) == [])


def test_a_double_mount_of_the_same_volume_is_taken_away(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    (path / "kept").touch()
    for _ in range(2):
        syscalls.mount(str(path), str(path), "", syscalls.MS_BIND, "")
    daemon.until(lambda: layers(path) == 1 and "VolumeMountedTwice" in reasons(daemon))
    assert os.listdir(path) == ["kept"]
    assert findings(daemon) == []


def test_a_volume_that_was_replaced_waits_until_the_foreign_mount_is_gone(daemon: Daemon) -> None:
    daemon.write("a.yaml", secret("s") + pod("web", KEYS))
    daemon.up("web")
    path = daemon.path("web/keys")
    unmount(path)
    mount_over(path)
    daemon.until(lambda: daemon.volume("web/keys")["reason"] is not None)
    daemon.until(lambda: "'foreign' (tmpfs)" in daemon.json("explain", "web")["cause"])
    assert os.listdir(path) == ["foreign"]
    unmount(path)
    daemon.mounted("web")
    assert (path / "key").read_text() == "hunter2"


def test_after_a_restart_the_foreign_mount_over_a_volume_is_known_as_such(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    daemon.end(signal.SIGKILL)
    mount_over(path)
    daemon.up("web")
    daemon.until(lambda: [row["where"] for row in findings(daemon)] == [str(path)])
    daemon.write("a.yaml", "")
    daemon.until(lambda: "is mounted over it" in daemon.done("timeline", "default/web"))
    assert (path / "foreign").exists()


def test_a_mount_below_a_volume_is_legal_and_blocks_its_teardown_by_name(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    (path / "inner").mkdir()
    mount_tmpfs(path / "inner")
    daemon.write("b.yaml", pod("other", MEMORY))
    come(daemon, "other")
    assert findings(daemon) == []
    assert reasons(daemon) == []
    daemon.write("a.yaml", "")
    daemon.until(lambda: f"is mounted below it at {path}/inner" in daemon.done("timeline", "default/web"))
    unmount(path / "inner")
    daemon.until(lambda: not path.exists())


# -- read-only -----------------------------------------------------------------------------------------------------
def test_a_volume_that_was_remounted_read_only_is_made_writable_again(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", MEMORY))
    daemon.up("web")
    path = daemon.path("web/memory")
    remount_read_only(path)
    daemon.until(lambda: options(path).startswith("rw") and reasons(daemon) == ["VolumeRemountedReadOnly"])
    assert findings(daemon) == []


def test_a_file_system_that_became_read_only_is_a_finding_and_left_alone(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device) + pod("web", CLAIM))
    daemon.up("web")
    syscalls.mount("", str(stage(daemon)), "", syscalls.MS_REMOUNT | syscalls.MS_RDONLY, "")
    daemon.until(lambda: len(findings(daemon)) == 2)
    assert {row["where"] for row in findings(daemon)} == {str(stage(daemon)), str(daemon.path("web/data"))}
    assert "run fsck on" in findings(daemon)[0]["next_step"]
    daemon.until(lambda: set(reasons(daemon)) == {"VolumeFileSystemReadOnly"})


def test_a_read_only_volume_stays_read_only(daemon: Daemon) -> None:
    data = Path(daemon.root).parent / "data"
    data.mkdir()
    claim = "data: persistentVolumeClaim: {claimName: data, readOnly: true}"
    daemon.write("a.yaml", volume(str(data)) + pod("web", claim) + pod("other", MEMORY))
    daemon.up("web", "other")
    remount_read_only(daemon.path("other/memory"))
    daemon.until(lambda: options(daemon.path("other/memory")).startswith("rw"))
    daemon.until(lambda: reasons(daemon) == ["VolumeRemountedReadOnly"])
    assert options(daemon.path("web/data")).startswith("ro")


# -- no false alarms -----------------------------------------------------------------------------------------------
def test_three_hundred_pods_that_come_and_go_raise_no_alarm(daemon: Daemon) -> None:
    data = Path(daemon.root).parent / "data"
    data.mkdir()
    many = "".join(pod(f"p{number}", MEMORY, KEYS) for number in range(300))
    sub = pod("web", MEMORY, CLAIM).replace("mountPath: /memory", "mountPath: /memory, subPath: inner")
    daemon.write("objects.yaml", secret("s") + volume(str(data)))
    daemon.write("many.yaml", many)
    daemon.write("web.yaml", sub)
    daemon.up("web", "p0")
    daemon.json("mounts", "web")
    daemon.until(lambda: all(row["state"] == "mounted" for row in daemon.json("get", "volumes")))
    daemon.write("many.yaml", pod("last", MEMORY))
    daemon.write("web.yaml", "")
    come(daemon, "last")
    daemon.until(lambda: len(daemon.mounts()) == 1)
    unmount(daemon.path("last/memory"))  # whatever was to be noticed before this one has been by then
    daemon.until(lambda: reasons(daemon) == ["VolumeUnmountedExternally"])
    assert findings(daemon) == []
    assert counted(daemon, "unmounted")
    counts = [line for line in metrics(daemon).splitlines() if line.startswith("mooring_foreign_mount_changes_total")]
    assert sum(float(line.split()[-1]) for line in counts) == 1.0
