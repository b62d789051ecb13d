"""`mooring doctor` as a person uses it, on directories that need no mount."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.doctor.conftest import examine
from tests.doctor.corpus import CSI, EMPTY_DIR, Broken, vol_data

from mooring.daemon.command_line import run
from mooring.observe.shapes import SHAPES


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["doctor", *arguments])
    written = capsys.readouterr()
    return status, written.out, written.err


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "other"])
def test_what_is_no_root_directory_is_unusable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("no directory")
    elif kind != "missing":
        place.mkdir()
    if kind == "other":
        (place / "Music").mkdir()
    status, out, err = answered(capsys, "--root", str(place))
    assert (status, out) == (2, "")
    assert f"cannot examine '{place}'" in err


def test_a_root_directory_with_nothing_left_in_it_is_fine(root: Path) -> None:
    for name in ("pods", "plugins", "plugins_registry"):
        (root / name).mkdir(0o750)
    report = examine(root)
    assert report.status == 0
    assert {row["severity"] for row in report.rows} <= {"info"}


def test_the_tier_of_the_kernel_is_told(root: Path) -> None:
    (root / "pods").mkdir()
    assert examine(root).one("kernel")["what"].startswith("tier ")


def test_the_table_tells_the_exact_next_step(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    it = Broken(root)
    it.file(f"pods/u1/{EMPTY_DIR}/my data/file")
    status, out, err = answered(capsys, "--root", str(root))
    assert status == 1
    assert f"rm -r --one-file-system '{root}/pods/u1/{EMPTY_DIR}/my data'" in out
    assert "2 found, 0 of them for --repair" in err


def test_names_cannot_give_orders_to_a_terminal(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Broken(root).file(f"pods/\x1b[2J/{EMPTY_DIR}/data/file")
    _, out, _ = answered(capsys, "--root", str(root))
    assert "\x1b[2J" not in out
    assert "\\x1b[2J" in out


def test_a_volume_is_told_by_what_its_data_file_says(root: Path) -> None:
    it = Broken(root)
    it.file("plugins/kubernetes.io/csi/disk.example.com/abc/vol_data.json", vol_data("vol-9"))
    assert examine(root).one("staged")["whose"] == "volume 'vol-9' of CSI driver 'disk.example.com' (pv-1)"


def test_a_stage_that_a_pod_uses_is_not_told(root: Path) -> None:
    it = Broken(root)
    it.file("plugins/kubernetes.io/csi/disk.example.com/abc/vol_data.json", vol_data())
    it.file(f"pods/u1/{CSI}/pv-1/vol_data.json", vol_data())
    assert [row for row in examine(root).rows if row["kind"] == "staged"] == []


def test_a_pod_is_told_by_the_name_in_its_hosts_file(root: Path) -> None:
    hosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.5\tweb-0\n"
    Broken(root).file("pods/u1/etc-hosts", hosts)
    assert examine(root).one("leftover")["whose"] == "pod web-0 (u1)"


def test_a_pod_is_told_by_its_name_in_the_history(root: Path) -> None:
    it = Broken(root)
    it.file("history.jsonl", '{"at":1.0,"pod":"u1","volume":"v","what":"mount","pod_name":"default/web"}\nhalf').chmod(
        0o600
    )
    it.file(f"pods/u1/{EMPTY_DIR}/data/file")
    assert examine(root).one("leftover")["whose"] == "pod default/web (u1)"


def test_a_socket_with_a_listener_stays(root: Path) -> None:
    place = root / "plugins_registry" / "d.sock"
    place.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        assert examine(root, "--repair").status == 0
        assert place.exists()


def test_nothing_is_repaired_while_somebody_has_the_lock(root: Path) -> None:
    it = Broken(root)
    it.directory("pods/u1")
    lock = it.file("mooring.lock", "4711\n")
    with open(lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        report = examine(root, "--repair")
    assert (root / "pods/u1").is_dir()
    assert "the daemon (process 4711) manages" in report.err


def test_the_lock_is_taken_without_being_written_to(root: Path) -> None:
    it = Broken(root)
    it.directory("pods/u1")
    lock = it.file("mooring.lock", "4711\n")
    examine(root, "--repair")
    assert not (root / "pods/u1").exists()
    assert lock.read_text() == "4711\n"


def test_a_kubelet_that_listens_below_the_root_directory_is_left_to_its_work(root: Path) -> None:
    it = Broken(root)
    it.directory("pods/u1")
    it.directory("pod-resources")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "pod-resources/kubelet.sock"))
        listening.listen()
        report = examine(root, "--repair")
    assert (root / "pods/u1").is_dir()
    assert "a kubelet, which listens on" in report.err
    assert report.status == 0


def test_a_file_that_a_process_has_open_keeps_its_whole_pod(root: Path) -> None:
    it = Broken(root)
    it.directory(f"pods/u1/{EMPTY_DIR}/cache")
    placeholder = it.file("pods/u1/plugins/kubernetes.io~empty-dir/cache/ready", b"")
    code = "import sys, time; f = open(sys.argv[1]); print(flush=True); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code, str(placeholder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        report = examine(root, "--repair")
        process.kill()
    assert placeholder.exists()
    assert f"process {process.pid} (" in report.one("unknown-pod")["what"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove anything")
def test_what_could_not_be_cleared_is_told_with_the_reason(root: Path) -> None:
    it = Broken(root)
    it.directory("pods/u1")
    (root / "pods").chmod(0o555)
    report = examine(root, "--repair")
    (root / "pods").chmod(0o755)
    assert "it could not be cleared: " in report.one("empty")["what"]
    assert report.status == 1


def test_every_finding_has_the_fields_that_are_documented(root: Path) -> None:
    Broken(root).file(f"pods/u1/{EMPTY_DIR}/data/file")
    rows = examine(root).rows
    assert {frozenset(row) for row in rows} == {frozenset(SHAPES["diagnosis (`doctor`)"])}
    assert all(f"{row['kind']}," in f"{SHAPES['diagnosis (`doctor`)']['kind']}," for row in rows)


def test_a_link_in_the_place_of_a_directory_is_told_and_not_followed(root: Path) -> None:
    it = Broken(root)
    outside = root.parent / "outside"
    outside.mkdir()
    it.link("plugins", str(outside))
    report = examine(root, "--repair")
    assert report.one("stray")["where"] == f"{root}/plugins"
    assert outside.is_dir()
