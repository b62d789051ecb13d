"""`mooring doctor` on real mounts, loop devices, processes and daemons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

from mooring.host import loop_devices, syscalls
from mooring.host.programs import find_program

pytestmark = pytest.mark.node

EMPTY_DIR = "volumes/kubernetes.io~empty-dir"


def doctor(daemon: Daemon, *options: str) -> tuple[int, list[dict[str, Any]]]:
    ended = daemon.run("doctor", "-o", "json", *options)
    return ended.status, json.loads(ended.out)


def told(rows: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {row["where"]: row for row in rows if row["kind"] == kind}


def directory(daemon: Daemon, path: str) -> Path:
    made = Path(daemon.root, path)
    made.mkdir(parents=True, exist_ok=True)
    return made


def tmpfs(path: Path) -> Path:
    syscalls.mount("tmpfs", str(path), "tmpfs", 0, "")
    return path


def bind(source: Path, target: Path) -> None:
    syscalls.mount(str(source), str(target), "", syscalls.MS_BIND, "")


@pytest.fixture
def stopped(daemon: Daemon) -> Daemon:
    """A root directory of mooring with a pod that is known, whose daemon was killed."""
    daemon.write("known.yaml", pod("known", "scratch: emptyDir: {medium: Memory}", "word: secret: {secretName: word}"))
    daemon.write("word.yaml", secret("word"))
    daemon.up("known")
    daemon.end(signal.SIGKILL)
    return daemon


# -- with a daemon -----------------------------------------------------------------------------------------------
def test_a_healthy_instance_has_nothing_to_be_done_about(daemon: Daemon) -> None:
    daemon.write("web.yaml", pod("web", "scratch: emptyDir: {}", "word: secret: {secretName: word}") + secret("word"))
    daemon.up("web")
    status, rows = doctor(daemon)
    assert {row["severity"] for row in rows} == {"info"}
    assert status == 0


def test_nothing_is_repaired_below_a_running_daemon(daemon: Daemon) -> None:
    daemon.write("plain.yaml", config_map("plain"))
    daemon.up()
    orphan = directory(daemon, f"pods/gone/{EMPTY_DIR}/data")
    ended = daemon.run("doctor", "--repair", "-o", "json")
    assert ended.status == 1
    assert "nothing was repaired: the daemon (process" in ended.err
    assert orphan.is_dir()
    assert str(orphan.parents[2]) in told(json.loads(ended.out), "empty")


def test_pods_of_the_store_are_no_leftovers_after_a_crash(stopped: Daemon) -> None:
    before = stopped.mounts()
    status, rows = doctor(stopped, "--repair")
    assert status == 0
    assert [row["kind"] for row in rows if row["state"] == "repaired"] == ["stale-socket"]
    assert stopped.mounts() == before


def test_a_repaired_root_directory_starts_again(stopped: Daemon) -> None:
    directory(stopped, f"pods/gone/{EMPTY_DIR}/data")
    doctor(stopped, "--repair")
    stopped.up("known")
    assert stopped.path("known/word").joinpath("key").read_text() == "hunter2"


# -- mounts of pods that are gone --------------------------------------------------------------------------------
def test_an_empty_tmpfs_of_a_pod_that_is_gone_is_unmounted_and_its_directory_removed(stopped: Daemon) -> None:
    tmpfs(directory(stopped, f"pods/gone/{EMPTY_DIR}/memory"))
    status, _ = doctor(stopped, "--repair")
    assert status == 0
    assert not Path(stopped.root, "pods/gone").exists()


def test_a_tmpfs_with_a_file_stays_mounted_and_is_told(stopped: Daemon) -> None:
    place = tmpfs(directory(stopped, f"pods/gone/{EMPTY_DIR}/memory"))
    (place / "file").write_text("bytes")
    status, rows = doctor(stopped, "--repair")
    assert status == 1
    assert (place / "file").read_text() == "bytes"
    assert str(place) in told(rows, "mount")


def test_a_mount_of_a_kubelets_pod_is_never_undone(daemon: Daemon) -> None:
    place = tmpfs(directory(daemon, f"pods/unknown/{EMPTY_DIR}/memory"))
    _, rows = doctor(daemon, "--repair")
    assert str(place) in daemon.mounts()
    assert str(place) in told(rows, "mount")


def test_a_sub_path_of_a_pod_that_is_gone_is_unmounted_and_its_files_stay(stopped: Daemon) -> None:
    source = Path(stopped.root).parent / "elsewhere"
    source.mkdir()
    (source / "file").write_text("bytes")
    bind(source, directory(stopped, "pods/gone/volume-subpaths/data/main/0"))
    status, _ = doctor(stopped, "--repair")
    assert status == 0
    assert not Path(stopped.root, "pods/gone").exists()
    assert (source / "file").read_text() == "bytes"


def test_a_mount_of_a_removed_directory_stays_since_nothing_else_leads_to_its_files(stopped: Daemon) -> None:
    source = Path(stopped.root).parent / "elsewhere"
    source.mkdir()
    place = directory(stopped, "pods/gone/volume-subpaths/data/main/0")
    bind(source, place)
    source.rmdir()
    _, rows = doctor(stopped, "--repair")
    assert str(place) in stopped.mounts()
    assert str(place) in told(rows, "deleted-source")


def test_stacked_mounts_hidden_files_and_the_machine_itself_are_told(daemon: Daemon) -> None:
    stacked = directory(daemon, f"pods/u/{EMPTY_DIR}/stacked")
    tmpfs(tmpfs(stacked))
    covered = directory(daemon, f"pods/u/{EMPTY_DIR}/covered")
    (covered / "hidden.db").write_text("bytes")
    tmpfs(covered)
    machine = directory(daemon, f"pods/u/{EMPTY_DIR}/machine")
    bind(Path("/"), machine)
    _, rows = doctor(daemon, "--repair")
    assert list(told(rows, "stacked")) == [str(stacked)]
    assert told(rows, "hidden")[str(covered)]["holds"] == [f"{covered}/hidden.db"]
    assert list(told(rows, "loop")) == [str(machine)]
    assert {str(stacked), str(covered), str(machine)} <= daemon.mounts().keys()


def test_pods_on_a_file_system_of_their_own_are_examined(daemon: Daemon) -> None:
    tmpfs(directory(daemon, "pods"))
    orphan = directory(daemon, f"pods/u/{EMPTY_DIR}/data").parents[2]
    status, rows = doctor(daemon, "--repair")
    assert status == 0
    assert not orphan.exists()
    assert f"{daemon.root}/pods" in told(rows, "file-system")


def test_a_stage_that_no_pod_uses_is_told_and_stays_mounted(daemon: Daemon) -> None:
    stage = directory(daemon, "plugins/kubernetes.io/csi/disk.example.com/abc")
    place = tmpfs(directory(daemon, "plugins/kubernetes.io/csi/disk.example.com/abc/globalmount"))
    (stage / "vol_data.json").write_text(json.dumps({"driverName": "disk.example.com", "volumeHandle": "vol-1"}))
    _, rows = doctor(daemon, "--repair")
    assert told(rows, "staged")[str(stage)]["whose"] == "volume 'vol-1' of CSI driver 'disk.example.com'"
    assert str(place) in daemon.mounts()


# -- who uses it -------------------------------------------------------------------------------------------------
@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def waiting(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process that has done something and then does nothing until it is killed."""
    code = f"{script}\nprint(flush=True)\nimport time\ntime.sleep(3600)"
    made = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    return made


def test_a_directory_that_a_process_works_in_is_not_cleared(
    daemon: Daemon, processes: list[subprocess.Popen[bytes]]
) -> None:
    place = directory(daemon, f"pods/u/{EMPTY_DIR}/data")
    processes.append(waiting("import os, sys; os.chdir(sys.argv[1])", place))
    status, rows = doctor(daemon, "--repair")
    assert status == 1
    assert place.is_dir()
    assert f"process {processes[0].pid} (" in told(rows, "unknown-pod")[str(place.parents[2])]["what"]


def test_a_directory_that_a_container_sees_is_not_cleared(
    daemon: Daemon, processes: list[subprocess.Popen[bytes]]
) -> None:
    place = directory(daemon, f"pods/u/{EMPTY_DIR}/data")
    seen = Path(daemon.root).parent / "seen"
    seen.mkdir()
    script = (
        "import sys; from mooring.host import namespaces, syscalls; namespaces.enter_private_mounts();"
        "syscalls.mount(sys.argv[1], sys.argv[2], '', syscalls.MS_BIND, '')"
    )
    processes.append(waiting(script, place, seen))
    status, rows = doctor(daemon, "--repair")
    assert status == 1
    assert place.is_dir()
    assert f"mounted at {seen}" in told(rows, "unknown-pod")[str(place.parents[2])]["what"]


def test_a_directory_that_somebody_has_mounted_on_in_another_namespace_is_not_cleared(
    stopped: Daemon, processes: list[subprocess.Popen[bytes]]
) -> None:
    place = directory(stopped, f"pods/gone/{EMPTY_DIR}/data")
    script = (
        "import sys; from mooring.host import namespaces, syscalls; namespaces.enter_private_mounts();"
        "syscalls.mount('tmpfs', sys.argv[1], 'tmpfs', 0, ''); open(sys.argv[1] + '/file', 'w').write('bytes')"
    )
    processes.append(waiting(script, place))
    status, _ = doctor(stopped, "--repair")
    assert status == 1
    assert Path(f"/proc/{processes[0].pid}/root{place}/file").read_text() == "bytes"


# -- dead file systems -------------------------------------------------------------------------------------------
@pytest.fixture
def served(daemon: Daemon) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A volume that a FUSE daemon serves."""
    program = find_program("bindfs")
    if program is None:
        pytest.skip("needs the program bindfs")
    source = Path(daemon.root).parent / "source"
    source.mkdir()
    place = directory(daemon, "pods/u/volumes/kubernetes.io~csi/pv-1/mount")
    process = subprocess.Popen([program, "-f", str(source), str(place)])
    while not os.path.ismount(place):
        assert process.poll() is None
    yield place, process
    process.kill()
    process.wait()
    with suppress(OSError):
        syscalls.umount2(str(place), syscalls.UMOUNT_NOFOLLOW | syscalls.MNT_DETACH)


def test_a_mount_without_a_server_is_told(daemon: Daemon, served: tuple[Path, subprocess.Popen[bytes]]) -> None:
    place, server = served
    server.kill()
    server.wait()
    _, rows = doctor(daemon, "--repair")
    assert "its server is gone" in told(rows, "dead-mount")[str(place)]["what"]
    assert str(place) in daemon.mounts()


def test_a_mount_that_does_not_answer_holds_nothing_up(
    daemon: Daemon, served: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    place, server = served
    orphan = directory(daemon, f"pods/v/{EMPTY_DIR}/data").parents[2]
    server.send_signal(signal.SIGSTOP)
    try:
        _, rows = doctor(daemon, "--repair")
    finally:
        server.send_signal(signal.SIGCONT)
    assert "it does not answer" in told(rows, "dead-mount")[str(place)]["what"]
    assert not orphan.exists()


# -- loop devices ------------------------------------------------------------------------------------------------
@pytest.fixture
def image(daemon: Daemon) -> Iterator[Path]:
    made = directory(daemon, "plugins/kubernetes.io/csi") / "disk.img"
    with open(made, "wb") as file:
        file.truncate(1 << 20)
    yield made
    device = loop_devices.of(str(made))
    if device is not None:
        loop_devices.detach(device)


def test_a_loop_device_of_a_removed_file_without_bytes_is_detached(daemon: Daemon, image: Path) -> None:
    device = loop_devices.attach(str(image), False)
    image.unlink()
    status, rows = doctor(daemon, "--repair")
    assert status == 0
    assert told(rows, "loop-device")[device]["state"] == "repaired"
    assert loop_devices.of(str(image)) is None


def test_a_loop_device_that_alone_leads_to_bytes_stays(daemon: Daemon, image: Path) -> None:
    image.write_bytes(bytes(4096) + b"bytes of a user" + bytes(4096 - 15))
    device = loop_devices.attach(str(image), False)
    image.unlink()
    status, rows = doctor(daemon, "--repair")
    assert status == 1
    assert f"dd if={device}" in told(rows, "loop-device")[device]["next_step"]
    assert loop_devices.of(str(image)) == device
