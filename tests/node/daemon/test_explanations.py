"""`explain` names the true cause in its first line, and says what to do next."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

pytestmark = pytest.mark.node

CAUSES = {
    "no-config": ("configMap: {name: absent}", "configmap \"absent\" not found in namespace 'default'"),
    "no-secret": ("secret: {secretName: absent}", "secret \"absent\" not found in namespace 'default'"),
    "no-key": (
        "configMap: {name: c, items: [{key: absent, path: p}]}",
        "cannot read ConfigMap 'c': configmap references non-existent config key: absent",
    ),
    "no-secret-key": (
        "secret: {secretName: s, items: [{key: absent, path: p}]}",
        "cannot read Secret 's': references non-existent secret key: absent",
    ),
    "wrong-kind": ("hostPath: {path: /etc, type: File}", "/etc is not a file (it is a directory)"),
    "elsewhere": ("configMap: {name: far}", "configmap \"far\" not found in namespace 'default', only in 'shop'"),
    "unserved": ("csi: {driver: d.example.com}", "waits for driver 'd.example.com' to register"),
    "medium": ("emptyDir: {medium: Disk}", "unknown storage medium 'Disk'"),
    "huge": ("emptyDir: {medium: HugePages}", "its medium is 'HugePages', and no container requests huge pages"),
    "claim": ("persistentVolumeClaim: {claimName: absent}", 'persistentvolumeclaims "absent" not found'),
    "certificate": (
        "projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: ED25519, credentialBundlePath: p}}]}",
        "cannot project a pod certificate ('a.b/c'): that needs a Kubernetes API server",
    ),
    "anchors": (
        "projected: {sources: [{clusterTrustBundle: {path: p, name: absent}}]}",
        'clustertrustbundle "absent" not found',
    ),
}


def test_the_first_line_names_the_cause_and_the_second_the_next_step(daemon: Daemon) -> None:
    objects = config_map("c") + config_map("far", namespace="shop") + secret("s")
    daemon.write("a.yaml", objects + "".join(pod(name, f"v: {source}") for name, (source, _) in CAUSES.items()))
    daemon.up()
    daemon.until(lambda: all(row["reason"] for row in daemon.json("get", "volumes")))
    for name, (_, cause) in CAUSES.items():
        daemon.until(functools.partial(explains, daemon, name, cause))
        lines = daemon.done("explain", name).splitlines()
        assert lines[0].startswith(f"default/{name}: volume 'v' is not ready: ")
        assert lines[1].startswith("Next step: ")
        answer = daemon.json("explain", name)
        assert (answer["ready"], cause in answer["cause"]) == (False, True)
        waited = daemon.run("wait", name, "--timeout", "0.01s")
        assert (waited.status, waited.out, cause in waited.err) == (1, "", True)
    said = daemon.log() + daemon.done("get", "events") + Path(daemon.root, "history.jsonl").read_text()
    assert "hunter2" not in said


def explains(daemon: Daemon, name: str, cause: str) -> bool:
    return cause in first_line(daemon, name)


def first_line(daemon: Daemon, name: str) -> str:
    return daemon.done("explain", name).splitlines()[0]


@pytest.mark.parametrize("source", ["emptyDir: {}", "configMap: {name: c}"], ids=["emptyDir", "configMap"])
def test_a_place_that_cannot_be_written_is_the_cause_and_mending_it_is_enough(daemon: Daemon, source: str) -> None:
    daemon.up()
    pods = f"{daemon.root}/pods"
    subprocess.run(["mount", "--bind", pods, pods], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", pods], check=True)
    daemon.write("a.yaml", config_map("c") + pod("web", f"v: {source}"))
    daemon.until(lambda: "default/web" in daemon.done("get", "pods"))
    daemon.until(lambda: "Read-only file system at " in first_line(daemon, "web"))
    assert "Next step: Make the file system writable" in daemon.done("explain", "web")
    subprocess.run(["umount", pods], check=True)
    daemon.mounted("web")


def test_what_was_missing_is_taken_as_soon_as_it_comes(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", "v: configMap: {name: late}"))
    daemon.up()
    daemon.until(lambda: daemon.volume("web/v")["state"] == "waiting" and daemon.volume("web/v")["attempts"] > 0)
    daemon.write("b.yaml", config_map("late"))
    daemon.mounted("web")
    assert daemon.volume("web/v")["reason"] is None


def test_top_until_mounted_gives_up_in_time_and_shows_the_reason(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", "v: configMap: {name: late}"))
    daemon.up()
    ended = daemon.run("top", "--until-mounted", "--timeout", "0.2s")
    assert (ended.status, ended.out.endswith("0 of 1 volumes mounted\n")) == (1, True)
    assert 'configmap "late" not found' in ended.out


def test_a_pod_or_volume_that_is_not_there_is_said_to_be_so(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", "v: emptyDir: {}"))
    daemon.up("web")
    for command in ("explain", "timeline", "wait"):
        ended = daemon.run(command, "nobody")
        assert (ended.status, "cannot find pod 'nobody': no manifest on this node has it" in ended.err) == (1, True)
    assert "Its volumes are: v." in daemon.run("explain", "web/w").err
