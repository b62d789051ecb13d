"""What `mooring mounts` prints is understood by those it is printed for."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest
from tests.node.daemon.conftest import config_map
from tests.node.runtimes.conftest import Pods, container, pod
from tests.node.runtimes.engines import LIMITS, Podman
from tests.node.runtimes.images import BUSYBOX, docker_archive

pytestmark = [pytest.mark.node, pytest.mark.parametrize("engine", ["podman"], indirect=True)]

SCRIPT = "cat /config/key; touch /config/x 2>/dev/null || echo ' refused'; echo written > /data/file; cat /one"
MANIFEST = config_map("c", "from the map") + pod(
    "web",
    container(
        "main",
        "exit 0",
        """\
volumeMounts:
- {name: config, mountPath: /config, readOnly: true}
- {name: data, mountPath: /data}
- {name: config, mountPath: /one, subPath: key}""",
    ),
    spec="  volumes: [{name: config, configMap: {name: c}}, {name: data, emptyDir: {}}]\n",
)
SEEN = "from the map refused\nfrom the map"


def test_podman_takes_the_arguments_made_for_it(pods: Pods) -> None:
    assert isinstance(pods.engine, Podman)
    pods.up(MANIFEST)
    pods.daemon.mounted("web")
    _, line = pods.daemon.done("mounts", "web", "-o", "podman").splitlines()
    limits = [f"--ulimit={limit}" for limit in LIMITS]
    seen = pods.engine.call("run", "--rm", "--network=host", *limits, *shlex.split(line), BUSYBOX, "sh", "-c", SCRIPT)
    assert seen == SEEN
    assert (pods.daemon.path("web/data") / "file").read_text() == "written\n"


def test_runc_takes_the_configuration_made_for_it(pods: Pods, tmp_path: Path) -> None:
    pods.up(MANIFEST)
    pods.daemon.mounted("web")
    parts = json.loads(pods.daemon.done("mounts", "web", "-o", "oci"))["main"]
    bundle = tmp_path / "bundle"
    _unpack(bundle / "rootfs")
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": ["sh", "-c", SCRIPT], "env": ["PATH=/bin"]}
    config["root"]["readonly"] = False
    config["mounts"] += parts["mounts"]
    config["linux"]["devices"] = parts["devices"]
    config["linux"]["resources"]["devices"] += parts["device_rules"]
    (bundle / "config.json").write_text(json.dumps(config))
    name = f"mooring-{uuid.uuid4().hex[:12]}"
    done = subprocess.run(
        ["runc", "--root", f"{tmp_path}/runc", "run", "--bundle", bundle, name],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, SEEN), done.stderr
    assert (pods.daemon.path("web/data") / "file").read_text() == "written\n"
    assert os.listdir(tmp_path / "runc") == []


def _unpack(root: Path) -> None:
    """The files of the test's image."""
    root.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(docker_archive(BUSYBOX))) as image:
        layer = next(name for name in image.getnames() if name.endswith("layer.tar"))
        content = image.extractfile(layer)
        assert content is not None
        with tarfile.open(fileobj=content) as files:
            files.extractall(root, filter="tar")
