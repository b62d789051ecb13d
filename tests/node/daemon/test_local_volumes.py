"""Local PersistentVolumes with the real daemon: a directory, a disk with a file system, and a raw disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, pod

from mooring.host import loop_devices, syscalls
from mooring.host.programs import find_program

pytestmark = pytest.mark.node

MEBIBYTE = 1 << 20
CLAIM = "data: persistentVolumeClaim: {claimName: data}"
GROUP = "  securityContext: {fsGroup: 1234}"


class Disk:
    """A loop device on a file beside the root directory."""

    def __init__(self, daemon: Daemon) -> None:
        self.image = Path(daemon.root).parent / "disk.img"
        with open(self.image, "xb") as file:
            file.truncate(32 * MEBIBYTE)
        self.device = loop_devices.attach(str(self.image), False)


@pytest.fixture
def disk(daemon: Daemon) -> Iterator[Disk]:
    """A new disk; whatever a failing test left of it is taken away, for loop devices do not vanish with a namespace."""
    if find_program("mkfs.ext4") is None:
        pytest.skip("needs the program mkfs.ext4")
    made = Disk(daemon)
    try:
        yield made
    finally:
        daemon.kill_all()
        detach_loops(daemon)
        for path in reversed(daemon.mounts()):
            with suppress(OSError):
                syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW)
        detach_loops(daemon)


def detach_loops(daemon: Daemon) -> None:
    """Detach what is not mounted; a loop device on another one comes after it and goes before it."""
    for loop in reversed(loops_below(os.path.dirname(daemon.root))):
        with suppress(OSError):
            loop_devices.detach(loop)


def loops_below(directory: str) -> list[str]:
    return [f"/dev/{name}" for name, backing in loop_devices.attached() if backing.startswith(f"{directory}/")]


def volume(path: str, *, mode: str = "Filesystem", access: str = "ReadWriteOnce", more: str = "") -> str:
    """A PersistentVolume `disk` of this node, and the claim `data` for it."""
    return f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [{access}]
  volumeMode: {mode}
  storageClassName: ""
  local: {{path: {path}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [here]}}]
{more}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [{access}]
  volumeMode: {mode}
  storageClassName: ""
  volumeName: disk
  resources: {{requests: {{storage: 1Gi}}}}
---
"""


def raw_pod(name: str) -> str:
    return pod(name, CLAIM).replace(
        "volumeMounts: [{name: data, mountPath: /data}]", "volumeDevices: [{name: data, devicePath: /dev/data}]"
    )


def stage(daemon: Daemon) -> Path:
    return Path(daemon.root, "plugins/kubernetes.io/local-volume/mounts/disk")


def maps(daemon: Daemon) -> Path:
    return Path(daemon.root, "plugins/kubernetes.io~local-volume/volumeDevices/disk")


def assert_nothing_left(daemon: Daemon, *, loops: int) -> None:
    """No mount, no loop device but the test's own, and no directory of a pod or a volume."""
    assert daemon.mounts() == {}
    assert len(loops_below(os.path.dirname(daemon.root))) == loops
    assert os.listdir(f"{daemon.root}/pods") == []
    assert not stage(daemon).exists()
    assert not maps(daemon).exists()


# -- a directory ---------------------------------------------------------------------------------------------------
def test_a_directory_is_shared_by_pods_and_keeps_its_content(daemon: Daemon) -> None:
    source = Path(daemon.root).parent / "source"
    source.mkdir()
    daemon.write("a.yaml", volume(str(source)) + pod("one", CLAIM) + pod("two", CLAIM))
    daemon.up("one", "two")
    (daemon.path("one/data") / "file").write_text("kept")
    assert (daemon.path("two/data") / "file").read_text() == "kept"
    assert set(daemon.mounts()) == {str(daemon.path("one/data")), str(daemon.path("two/data"))}
    daemon.done("down")
    assert_nothing_left(daemon, loops=0)
    assert (source / "file").read_text() == "kept"


def test_a_read_only_claim_cannot_be_written_through(daemon: Daemon) -> None:
    source = Path(daemon.root).parent / "source"
    source.mkdir()
    read_only = CLAIM.replace("claimName: data", "claimName: data, readOnly: true")
    daemon.write("a.yaml", volume(str(source)) + pod("one", read_only, spec=GROUP))
    daemon.up("one")
    with pytest.raises(OSError, match="Read-only"):
        (daemon.path("one/data") / "file").touch()
    assert source.stat().st_gid == 0


def test_a_path_that_appears_later_is_mounted_then(daemon: Daemon) -> None:
    source = Path(daemon.root).parent / "late"
    daemon.write("a.yaml", volume(str(source)) + pod("one", CLAIM))
    daemon.up()
    daemon.until(lambda: "does not exist" in daemon.done("explain", "one"))
    source.mkdir()
    daemon.mounted("one")


# -- a disk --------------------------------------------------------------------------------------------------------
def test_a_disk_is_formatted_once_shared_and_keeps_its_content(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device) + pod("one", CLAIM, spec=GROUP) + pod("two", CLAIM))
    daemon.up("one", "two")
    (daemon.path("one/data") / "file").write_text("kept")
    assert (daemon.path("two/data") / "file").read_text() == "kept"
    assert (daemon.path("one/data").stat().st_gid, daemon.path("one/data").stat().st_mode & 0o7777) == (1234, 0o2775)
    assert len(daemon.mounts()) == 3
    pid = daemon.pid
    daemon.done("down")
    daemon.ended(pid)
    assert_nothing_left(daemon, loops=1)
    daemon.up("one", "two")
    assert (daemon.path("two/data") / "file").read_text() == "kept"
    daemon.done("down")
    assert_nothing_left(daemon, loops=1)


def test_the_last_pod_to_go_lets_the_disk_go(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device))
    one = daemon.write("one.yaml", pod("one", CLAIM))
    two = daemon.write("two.yaml", pod("two", CLAIM))
    daemon.up("one", "two")
    one.unlink()
    daemon.until(lambda: len(daemon.mounts()) == 2)
    assert stage(daemon).is_mount()
    two.unlink()
    daemon.until(lambda: daemon.mounts() == {} and not stage(daemon).exists())
    assert os.listdir(f"{daemon.root}/pods") == []
    loop_devices.detach(disk.device)


@pytest.mark.parametrize("then", ["up", "down"])
def test_a_killed_daemon_s_disk_is_kept_by_the_next_one_and_taken_down(daemon: Daemon, disk: Disk, then: str) -> None:
    daemon.write("a.yaml", volume(disk.device) + pod("one", CLAIM))
    daemon.up("one")
    mounts = daemon.mounts()
    daemon.end(signal.SIGKILL)
    assert daemon.mounts() == mounts
    if then == "up":
        daemon.up("one")
        assert daemon.mounts() == mounts
    else:
        os.unlink(f"{daemon.root}/mooring.sock")
    daemon.done("down")
    assert_nothing_left(daemon, loops=1)


def test_a_disk_with_other_data_is_never_formatted(daemon: Daemon, disk: Disk) -> None:
    with open(disk.device, "r+b") as device:
        device.write(b"LUKS\xba\xbe" + bytes(506))
    daemon.write("a.yaml", volume(disk.device) + pod("one", CLAIM))
    daemon.up()
    daemon.until(lambda: "local: failed to mount device" in daemon.done("explain", "one"))
    assert daemon.mounts() == {}
    assert disk.image.read_bytes()[:6] == b"LUKS\xba\xbe"


# -- a raw disk ----------------------------------------------------------------------------------------------------
def test_a_raw_disk_is_written_through_the_pod_s_link(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device, mode="Block") + raw_pod("one"))
    daemon.up("one")
    link = daemon.path("one/data")
    uid = daemon.volume("one/data")["pod_uid"]
    assert str(link) == f"{daemon.root}/pods/{uid}/volumeDevices/kubernetes.io~local-volume/disk"
    assert os.readlink(link) == disk.device
    assert set(daemon.mounts()) == {str(maps(daemon) / uid)}
    with open(link, "r+b", buffering=0) as device:
        device.write(b"from the pod" + bytes(500))
        os.fsync(device.fileno())
    assert disk.image.read_bytes()[:12] == b"from the pod"
    daemon.done("down")
    assert_nothing_left(daemon, loops=1)


@pytest.mark.parametrize("then", ["up", "down"])
def test_a_killed_daemon_s_map_is_kept_by_the_next_one_and_taken_down(daemon: Daemon, disk: Disk, then: str) -> None:
    daemon.write("a.yaml", volume(disk.device, mode="Block") + raw_pod("one"))
    daemon.up("one")
    beside = os.path.dirname(daemon.root)
    mounts, loops = daemon.mounts(), loops_below(beside)
    daemon.end(signal.SIGKILL)
    if then == "up":
        daemon.up("one")
        assert (daemon.mounts(), loops_below(beside)) == (mounts, loops)
    else:
        os.unlink(f"{daemon.root}/mooring.sock")
    daemon.done("down")
    assert_nothing_left(daemon, loops=1)


def test_a_pod_removed_while_nobody_ran_loses_its_device(daemon: Daemon, disk: Disk) -> None:
    daemon.write("a.yaml", volume(disk.device, mode="Block"))
    one = daemon.write("one.yaml", raw_pod("one"))
    daemon.up("one")
    daemon.end(signal.SIGKILL)
    one.unlink()
    daemon.up()
    daemon.until(lambda: daemon.mounts() == {} and os.listdir(f"{daemon.root}/pods") == [])
    daemon.until(lambda: not maps(daemon).exists())
    assert len(loops_below(os.path.dirname(daemon.root))) == 1
