"""The bundled loop driver passes csi-sanity, the conformance tests of CSI itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.conftest import Programs, Strangers

from mooring.host import loop_devices
from mooring.host.programs import find_program

pytestmark = pytest.mark.cluster

MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("access", "fs_type", "flags"),
    [
        ("mount", "ext4", ()),
        ("mount", "xfs", ()),
        ("mount", "btrfs", ()),
        ("block", "", ()),
        ("mount", "ext4", ("--attach", "--max-volumes", "4")),
        ("block", "", ("--attach", "--max-volumes", "4", "--capacity", "16Gi")),
    ],
)
def test_the_loop_driver_is_sane(
    strangers: Strangers,
    programs: Programs,
    node_root: str,
    place: Path,
    access: str,
    fs_type: str,
    flags: tuple[str, ...],
) -> None:
    if fs_type and find_program(f"mkfs.{fs_type}") is None:
        pytest.skip(f"needs the program mkfs.{fs_type}")
    sanity = strangers("csi-sanity")
    socket, state = place / "csi.sock", f"{node_root}/state"
    serve = (sys.executable, "-m", "mooring", "csi", "serve-loop", "--node-id", "here")
    programs.serve(*serve, "--endpoint", socket, "--state", state, *flags)
    command: list[str | Path] = [
        sanity,
        "--ginkgo.no-color",
        "--csi.endpoint",
        socket,
        "--csi.testvolumeaccesstype",
        access,
    ]
    command += ["--csi.mountdir", f"{node_root}/mount", "--csi.stagingdir", f"{node_root}/stage"]
    command += ["--csi.testvolumesize", str(320 * MEBIBYTE), "--csi.testvolumeexpandsize", str(480 * MEBIBYTE)]
    if fs_type:
        parameters = place / "parameters.yaml"
        parameters.write_text(f"fsType: {fs_type}\n")
        command += ["--csi.testvolumeparameters", parameters]
    if "--max-volumes" in flags:
        command.append("--csi.testnodevolumeattachlimit")
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " 0 Failed" in ended.stdout
    assert [backing for _, backing in loop_devices.attached() if backing.startswith(node_root)] == []
    assert list(Path(state, "disks").iterdir()) == []
