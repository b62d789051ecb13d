"""Every volume type as a real tree: content, modes and owners, and what an edit reaches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

pytestmark = pytest.mark.node

VOLUMES = (
    "disk: emptyDir: {}",
    "memory: emptyDir: {medium: Memory, sizeLimit: 16Mi}",
    "config: configMap: {name: c}",
    "safe: secret: {secretName: s, defaultMode: 0400}",
    "about: downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}",
    "mixed: projected: {sources: [{configMap: {name: c}}, {secret: {name: s, items: [{key: key, path: sub/s}]}}]}",
    "host: hostPath: {path: /etc, type: Directory}",
)
LABELS = "  labels: {app: web, tier: front}"


def facts(path: Path) -> tuple[int, int, int]:
    found = os.lstat(path)
    return found.st_mode & 0o7777, found.st_uid, found.st_gid


def test_without_a_group_every_type_has_the_kubelets_modes(daemon: Daemon) -> None:
    daemon.write("a.yaml", config_map("c") + secret("s") + pod("web", *VOLUMES, metadata=LABELS))
    daemon.up("web")
    paths = {name: daemon.path(f"web/{name}") for name in ("disk", "memory", "config", "safe", "about", "mixed")}
    assert {name: facts(path)[0] for name, path in paths.items()} == {
        "disk": 0o777,
        "memory": 0o1777,
        "config": 0o777,
        "safe": 0o1777,
        "about": 0o1777,
        "mixed": 0o1777,
    }
    assert {facts(path)[1:] for path in paths.values()} == {(0, 0)}
    assert facts((paths["config"] / "key").resolve()) == (0o644, 0, 0)
    assert facts((paths["safe"] / "key").resolve()) == (0o400, 0, 0)
    assert (paths["config"] / "key").read_text() == "1"
    assert (paths["safe"] / "key").read_text() == "hunter2"
    assert (paths["mixed"] / "sub" / "s").read_text() == "hunter2"
    assert (paths["about"] / "labels").read_text() == 'app="web"\ntier="front"'
    assert daemon.volume("web/host")["path"] == "/etc"
    in_memory = {"memory", "safe", "about", "mixed"}
    assert set(daemon.mounts()) == {str(path) for name, path in paths.items() if name in in_memory}
    assert os.statvfs(paths["memory"]).f_blocks * os.statvfs(paths["memory"]).f_frsize == 16 * 2**20


def test_with_a_group_everything_belongs_to_it(daemon: Daemon) -> None:
    group = "  securityContext: {fsGroup: 2000}"
    daemon.write("a.yaml", config_map("c") + secret("s") + pod("web", *VOLUMES, metadata=LABELS, spec=group))
    daemon.up("web")
    assert facts(daemon.path("web/disk")) == (0o2777, 0, 2000)
    assert facts(daemon.path("web/memory")) == (0o3777, 0, 2000)
    assert facts(daemon.path("web/config")) == (0o2777, 0, 2000)
    safe = daemon.path("web/safe")
    assert facts(safe) == (0o3777, 0, 2000)
    assert facts((safe / "..data").resolve()) == (0o2755, 0, 2000)
    assert facts((safe / "key").resolve()) == (0o440, 0, 2000)
    for name in ("safe", "config", "mixed", "about"):
        top = daemon.path(f"web/{name}")
        entries = [top, *(Path(place) / entry for place, dirs, files in os.walk(top) for entry in (*dirs, *files))]
        assert {facts(entry)[2] for entry in entries} == {2000}, name


def test_pod_directories_are_closed_to_others(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", "v: emptyDir: {}"))
    daemon.up("web")
    uid = daemon.volume("web/v")["pod_uid"]
    assert facts(Path(daemon.root, "pods", uid))[0] == 0o750
    assert facts(Path(daemon.root, "pods", uid, "volumes"))[0] == 0o750
    assert facts(Path(daemon.root, "mooring.sock"))[0] == 0o600
    assert facts(Path(daemon.root, "store", "objects.db"))[0] == 0o600


def test_an_edited_config_map_reaches_all_that_use_it_and_nothing_else(daemon: Daemon) -> None:
    users = pod("one", "v: configMap: {name: c}") + pod("two", "v: projected: {sources: [{configMap: {name: c}}]}")
    daemon.write("pods.yaml", users + pod("other", "v: configMap: {name: d}", "s: secret: {secretName: s}"))
    objects = daemon.write("objects.yaml", config_map("c") + config_map("d") + secret("s"))
    daemon.up("one", "two", "other")
    untouched = [daemon.path("other/v"), daemon.path("other/s")]
    before = [(os.readlink(path / "..data"), os.stat(path).st_mtime_ns) for path in untouched]
    objects.write_text(config_map("c", "edited") + config_map("d") + secret("s"))
    changed = [daemon.path("one/v") / "key", daemon.path("two/v") / "key"]
    daemon.until(lambda: [path.read_text() for path in changed] == ["edited", "edited"])
    assert [(os.readlink(path / "..data"), os.stat(path).st_mtime_ns) for path in untouched] == before


def test_an_edited_label_reaches_the_files_that_show_it(daemon: Daemon) -> None:
    volume = "v: downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}"
    daemon.write("a.yaml", pod("web", volume, metadata=LABELS))
    daemon.up("web")
    file = daemon.path("web/v") / "labels"
    daemon.write("a.yaml", pod("web", volume, metadata="  labels: {app: other}"))
    daemon.until(lambda: file.read_text() == 'app="other"')


def test_a_key_that_vanishes_leaves_the_running_pod_its_files(daemon: Daemon) -> None:
    daemon.write("pod.yaml", pod("web", "v: configMap: {name: c, items: [{key: key, path: file}]}"))
    objects = daemon.write("objects.yaml", config_map("c"))
    daemon.up("web")
    file = daemon.path("web/v") / "file"
    objects.write_text(config_map("c").replace("key:", "renamed:"))
    daemon.until(lambda: "non-existent config key: key" in daemon.done("get", "events"))
    assert (file.read_text(), daemon.volume("web/v")["state"]) == ("1", "mounted")
    objects.write_text(config_map("c", "2"))
    daemon.until(lambda: file.read_text() == "2")
