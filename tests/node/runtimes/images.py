"""Images for tests, made from the machine's own busybox: no registry is asked."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Sequence
from functools import cache

BUSYBOX = "localhost/busybox:test"
PAUSE = "localhost/pause:test"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_PASSWORDS = b"root:x:0:0::/:/bin/sh\n"


@cache
def docker_archive(name: str, command: Sequence[str] = ("sh",)) -> bytes:
    """An image with all of busybox's programs, as `docker save` writes it."""
    layer = _layer()
    difference = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{difference}"]},
            "history": [{"created_by": "mooring's tests"}],
        }
    ).encode()
    digest = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{digest}.json", "RepoTags": [name], "Layers": [f"{difference}/layer.tar"]}]
    files = {
        f"{digest}.json": config,
        f"{difference}/layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    return _tar(*(_file(path, data) for path, data in files.items()))


Entry = tuple[tarfile.TarInfo, bytes]


@cache
def _layer() -> bytes:
    with open("/bin/busybox", "rb") as stream:
        busybox = stream.read()
    programs = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    return _tar(
        *(_directory(name) for name in ("bin", "dev", "etc", "proc", "sys")),
        _directory("tmp", 0o1777),
        _file("bin/busybox", busybox, 0o755),
        *(_link(f"bin/{name}", "busybox") for name in programs if name != "busybox"),
        _file("etc/passwd", _PASSWORDS),
    )


def _tar(*entries: Entry) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for facts, data in entries:
            archive.addfile(facts, io.BytesIO(data))
    return buffer.getvalue()


def _file(path: str, data: bytes, mode: int = 0o644) -> Entry:
    facts = tarfile.TarInfo(path)
    facts.size, facts.mode = len(data), mode
    return facts, data


def _directory(path: str, mode: int = 0o755) -> Entry:
    facts = tarfile.TarInfo(path)
    facts.type, facts.mode = tarfile.DIRTYPE, mode
    return facts, b""


def _link(path: str, target: str) -> Entry:
    facts = tarfile.TarInfo(path)
    facts.type, facts.linkname = tarfile.SYMTYPE, target
    return facts, b""
