"""`mooring mounts` on the real kernel: what containers see, sub-paths included, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod

from mooring.observe.shapes import SHAPES

pytestmark = pytest.mark.node

VOLUMES = """\
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: config, configMap: {name: c}}
"""


def web(*mounts: str, spec: str = "", volumes: str = VOLUMES, env: str = "") -> str:
    """The manifest of a pod whose one container has these mounts."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{tier: front}}}}
spec:
{spec}
  containers:
  - name: main
    env: [{env}]
    volumeMounts: [{", ".join(f"{{{mount}}}" for mount in mounts)}]
{volumes}---
"""


def rows(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """By the path in the container."""
    return {row["container_path"]: row for row in daemon.json("mounts", "web")}


def test_whole_volumes_are_shown_where_they_are(daemon: Daemon) -> None:
    manifest = web("name: disk, mountPath: /disk", "name: config, mountPath: /config")
    daemon.write("a.yaml", config_map("c") + manifest)
    daemon.up("web")
    assert rows(daemon)["/disk"] == {
        "container": "main",
        "volume": "disk",
        "host_path": str(daemon.path("web/disk")),
        "container_path": "/disk",
        "read_only": False,
        "recursive_read_only": False,
        "propagation": "private",
        "device": None,
        "permissions": None,
        "image": None,
        "image_sub_path": None,
    }
    assert rows(daemon)["/config"]["read_only"]
    assert set(rows(daemon)["/disk"]) == set(SHAPES["container mount (`mounts`)"])


def test_sub_paths_of_directories_and_files_are_real_and_go_with_the_daemon(daemon: Daemon) -> None:
    mounts = (
        "name: disk, mountPath: /www, subPath: www/html, readOnly: true",
        "name: memory, mountPath: /scratch, subPathExpr: $(TIER)/$(NAME)",
        "name: config, mountPath: /etc/key, subPath: key",
    )
    env = (
        "{name: TIER, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['tier']\"}}}, {name: NAME, value: a-$(TIER)}"
    )
    group = "  securityContext: {fsGroup: 2000}"
    daemon.write("a.yaml", config_map("c", "hello") + web(*mounts, spec=group, env=env))
    daemon.up("web")
    assert "/volume-subpaths/" not in "".join(daemon.mounts())
    found = rows(daemon)
    assert [row["read_only"] for row in found.values()] == [True, False, True]
    www, scratch, key = (Path(row["host_path"]) for row in found.values())
    assert {str(www), str(scratch), str(key)} <= set(daemon.mounts())
    made = daemon.path("web/disk") / "www" / "html"
    assert os.path.samestat(www.stat(), made.stat())
    assert (made.stat().st_mode & 0o7777, made.stat().st_gid) == (0o2777, 2000)
    assert os.path.samestat(scratch.stat(), (daemon.path("web/memory") / "front" / "a-front").stat())
    assert key.read_text() == "hello"
    (scratch / "file").write_text("kept")
    before = daemon.mounts()
    assert rows(daemon) == found
    assert daemon.mounts() == before
    pid = daemon.pid
    daemon.done("down")
    daemon.ended(pid)
    assert daemon.mounts() == {}
    assert os.listdir(f"{daemon.root}/pods") == []


def test_sub_paths_survive_a_killed_daemon_and_go_when_their_pod_has_gone_meanwhile(daemon: Daemon) -> None:
    source = Path(daemon.root).parent / "srv"
    (source / "a").mkdir(parents=True)
    (source / "file").write_text("precious")
    volumes = f"{VOLUMES}  - {{name: host, hostPath: {{path: {source}}}}}\n"
    mounts = (
        "name: disk, mountPath: /a, subPath: a",
        "name: host, mountPath: /b, subPath: a",
        "name: host, mountPath: /c, subPath: file",
    )
    daemon.write("a.yaml", web(*mounts, volumes=volumes))
    daemon.up("web")
    rows(daemon)
    before = daemon.mounts()
    assert len(before) == 3
    daemon.end(signal.SIGKILL)
    daemon.up("web")
    rows(daemon)
    assert daemon.mounts() == before
    daemon.end(signal.SIGKILL)
    (daemon.manifests / "a.yaml").unlink()
    daemon.up()
    daemon.until(lambda: os.listdir(f"{daemon.root}/pods") == [])
    assert daemon.mounts() == {}
    assert (source / "file").read_text() == "precious"


def test_a_link_out_of_the_volume_is_refused_and_nothing_is_mounted(daemon: Daemon) -> None:
    daemon.write("a.yaml", web("name: disk, mountPath: /a, subPath: a/etc"))
    daemon.up("web")
    os.symlink("/", daemon.path("web/disk") / "a")
    ended = daemon.run("mounts", "web")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "mooring: cannot prepare the sub-path of volume 'disk' for container 'main': it leads out of the volume.\n"
    )
    assert daemon.mounts() == {}
    assert not Path(daemon.root, "pods", daemon.volume("web/disk")["pod_uid"], "volume-subpaths").exists()


def test_a_pod_that_is_not_ready_is_explained(daemon: Daemon) -> None:
    daemon.write("a.yaml", web("name: config, mountPath: /config"))
    daemon.up()
    ended = daemon.run("mounts", "web")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("mooring: pod 'default/web' is not ready: volume 'config' is not ready: ")
    assert 'configmap "c" not found' in ended.err


def test_a_pod_nobody_knows_and_a_pod_without_volumes(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("bare", "unused: emptyDir: {}").replace("{name: unused, mountPath: /unused}", ""))
    daemon.up("bare")
    assert daemon.run("mounts", "nobody").status == 1
    assert daemon.json("mounts", "bare") == []
    ended = daemon.run("mounts", "bare", "-o", "podman")
    assert (ended.status, ended.out, ended.err) == (0, "", "its containers use no volumes\n")


def test_every_format_names_the_path_of_the_sub_path(daemon: Daemon) -> None:
    mount = "name: disk, mountPath: /a, subPath: a, readOnly: true, recursiveReadOnly: IfPossible"
    daemon.write("a.yaml", web(mount))
    daemon.up("web")
    path = rows(daemon)["/a"]["host_path"]
    assert path in daemon.done("mounts", "web")
    [entry] = json.loads(daemon.done("mounts", "web", "-o", "oci"))["main"]["mounts"]
    assert (entry["source"], entry["options"]) == (path, ["rbind", "rro", "rprivate"])
    assert daemon.done("mounts", "web", "-o", "podman") == f"# container main\n-v {path}:/a:ro\n"
    docker = shlex.split(daemon.done("mounts", "web", "-o", "docker"), comments=True)
    options = "readonly,bind-propagation=rprivate,bind-recursive=readonly"
    assert docker == ["--mount", f"type=bind,source={path},target=/a,{options}"]
    assert daemon.done("mounts", "web", "-o", "systemd") == f"# container main\nBindReadOnlyPaths={path}:/a\n"


def test_what_must_be_recursively_read_only_is_refused_for_podman(daemon: Daemon) -> None:
    daemon.write("a.yaml", web("name: disk, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled"))
    daemon.up("web")
    assert rows(daemon)["/a"]["recursive_read_only"]
    ended = daemon.run("mounts", "web", "-o", "podman")
    assert ended.status == 1
    assert "the container runtime cannot make mounts recursively read-only" in ended.err


def test_a_volume_in_a_volume_is_shown_in_both_ways(daemon: Daemon) -> None:
    """A sub-path next to the whole volume, and one below the other in the container."""
    mounts = (
        "name: disk, mountPath: /data",
        "name: memory, mountPath: /data/inner, subPath: deep/er",
        "name: disk, mountPath: /data/inner/again, subPath: x",
    )
    daemon.write("a.yaml", web(*mounts))
    daemon.up("web")
    found = rows(daemon)
    assert list(found) == ["/data", "/data/inner", "/data/inner/again"]
    (Path(found["/data/inner/again"]["host_path"]) / "file").write_text("seen")
    assert (Path(found["/data"]["host_path"]) / "x" / "file").read_text() == "seen"
    (daemon.manifests / "a.yaml").unlink()
    daemon.done("wait", "web", "--for", "unmounted", "--timeout", "10s")
    daemon.until(lambda: os.listdir(f"{daemon.root}/pods") == [])
    assert daemon.mounts() == {}
