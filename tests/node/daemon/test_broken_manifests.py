"""Mistakes dropped beside running pods: each is named with its place, and nothing that runs is touched."""

from __future__ import annotations

import functools
import os

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

pytestmark = pytest.mark.node

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: broken
spec:
  containers:
  - name: main
    volumeMounts:
    - name: data
      mountPath: /data
  volumes:
  - name: data
    emptyDir: {}
"""
MISTAKES = [
    ("name: broken", "\tname: broken", "4"),
    (POD, "- a\n- b\n", "1"),
    (POD, "hello\n", "1"),
    ("metadata:\n  name: broken", "metadata:\n- broken", "3: metadata"),
    ("name: broken", "name: 12", "4: metadata.name"),
    ("name: broken", "name: yes", "4: metadata.name"),
    ("  name: broken\n", "", "3: metadata.name"),
    ("kind: Pod\n", "", "1: kind"),
    ("kind: Pod", "kind: [Pod]", "2: kind"),
    ("apiVersion: v1\n", "", "1: apiVersion"),
    ("name: broken", "name: Broken", "4: metadata.name"),
    ("name: broken", f"name: {'w' * 254}", "4: metadata.name"),
    ("name: broken", "name: broken\n  name: broken", "5: metadata.name"),
    ("name: broken", "name: broken\n  uid: ../../etc", "5: metadata.uid"),
    ("name: broken", "name: broken\n  labels: {app: a b}", "5: metadata.labels.app"),
    ("emptyDir: {}", "emptyDir: {}\n    hostPath: {path: /x}", "14: spec.volumes[0].hostPath"),
    ("emptyDir: {}", "emptyDir: {}\n  - name: data", "14: spec.volumes[1].name"),
    ("    - name: data", "    - name: date", "9: spec.containers[0].volumeMounts[0].name"),
    ("      mountPath: /data\n", "", "9: spec.containers[0].volumeMounts[0].mountPath"),
    ("emptyDir: {}", "configMap: {name: c, defaultMode: 999}", "13: spec.volumes[0].configMap.defaultMode"),
    ("emptyDir: {}", "configMap: {}", "13: spec.volumes[0].configMap.name"),
    ("emptyDir: {}", "secret: {secretName: s, defaultMode: '0644'}", "13: spec.volumes[0].secret.defaultMode"),
    ("emptyDir: {}", "emptyDir: {sizeLimit: 10GB}", "13: spec.volumes[0].emptyDir.sizeLimit"),
    ("emptyDir: {}", "emptyDir: {sizeLimit: -1Gi}", "13: spec.volumes[0].emptyDir.sizeLimit"),
    ("emptyDir: {}", "hostPath: {path: /a/../b}", "13: spec.volumes[0].hostPath.path"),
    ("emptyDir: {}", "hostPath: {path: /x, type: Folder}", "13: spec.volumes[0].hostPath.type"),
    ("emptyDir: {}", "persistentVolumeClaim: {}", "13: spec.volumes[0].persistentVolumeClaim.claimName"),
    ("emptyDir: {}", "emptyDir: {", "14"),
    ("name: broken", 'name: "broken', "4"),
    ("name: broken", "name: *broken", "4: metadata.name"),
    ("spec:\n", "spec:\n  securityContext: {fsGroup: -5}\n", "6: spec.securityContext.fsGroup"),
]


def test_thirty_mistakes_are_each_named_and_running_pods_do_not_notice(daemon: Daemon) -> None:
    volumes = ("disk: emptyDir: {}", "config: configMap: {name: c}", "keys: secret: {secretName: s}")
    daemon.write("good.yaml", config_map("c") + secret("s") + pod("web", *volumes))
    daemon.up("web")
    before = (daemon.mounts(), daemon.json("get", "volumes"), stamps(daemon))
    file = daemon.manifests / "broken.yaml"
    assert len(MISTAKES) >= 30
    for old, new, place in MISTAKES:
        assert old in POD
        file.write_text(POD.replace(old, new, 1))
        daemon.until(functools.partial(is_found, daemon, f"{file}:{place}"))
        (finding,) = daemon.json("get", "findings")
        assert (finding["kind"], bool(finding["what"])) == ("manifest", True)
        os.unlink(file)
        daemon.until(lambda: places(daemon) == [])
    assert (daemon.mounts(), daemon.json("get", "volumes"), stamps(daemon)) == before
    assert [row["pod"] for row in daemon.json("get", "pods")] == ["default/web"]


def is_found(daemon: Daemon, place: str) -> bool:
    return place in places(daemon)


def places(daemon: Daemon) -> list[str]:
    return [finding["where"] for finding in daemon.json("get", "findings")]


def stamps(daemon: Daemon) -> list[tuple[str, int]]:
    """Where `..data` leads in each content volume, and when the volume last changed."""
    tops = [daemon.path("web/config"), daemon.path("web/keys")]
    return [(os.readlink(top / "..data"), os.stat(top).st_mtime_ns) for top in tops]


def test_a_pods_own_file_that_breaks_keeps_it_running_until_it_is_mended(daemon: Daemon) -> None:
    good = config_map("c") + pod("web", "v: configMap: {name: c}")
    file = daemon.write("a.yaml", good)
    daemon.up("web")
    file.write_text(good.replace("kind: Pod\n", "kind: Pod\n  oops: {\n"))
    daemon.until(lambda: places(daemon) != [])
    path = daemon.path("web/v")
    assert ((path / "key").read_text(), daemon.volume("web/v")["state"]) == ("1", "mounted")
    file.write_text(good.replace("key: '1'", "key: '2'"))
    daemon.until(lambda: (path / "key").read_text() == "2")
    assert places(daemon) == []


def test_a_file_caught_half_written_takes_nothing_away(daemon: Daemon) -> None:
    web = pod("web", "work: emptyDir: {}", "config: configMap: {name: c}")
    file = daemon.write("a.yaml", config_map("c") + web)
    daemon.up("web")
    kept, key = daemon.path("web/work") / "kept", daemon.path("web/config") / "key"
    kept.write_text("precious")
    with file.open("w") as stream:
        stream.write(config_map("c", "2"))
        stream.flush()
        daemon.write("b.yaml", pod("other", "v: emptyDir: {}"))
        daemon.until(lambda: "default/other" in daemon.done("get", "pods"))
        assert (key.read_text(), kept.read_text()) == ("1", "precious")
        stream.write(web)
    daemon.until(lambda: key.read_text() == "2")
    assert kept.read_text() == "precious"
