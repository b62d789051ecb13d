"""`mooring plan`: what would be done, found out without doing any of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.daemon.conftest import CommandLine

from mooring.observe.shapes import SHAPES


def pod(name: str, source: str, spec: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {spec}
  containers: [{{name: main, volumeMounts: [{{name: v, mountPath: /v}}]}}]
  volumes: [{{name: v, {source}}}]
---
"""


def plan(mooring: CommandLine, manifests: Path, text: str) -> dict[str, list[dict[str, Any]]]:
    (manifests / "a.yaml").write_text(text)
    ended = mooring("plan", manifests, "-o", "json")
    assert (ended.status, ended.err) == (0, "")
    answer: dict[str, list[dict[str, Any]]] = json.loads(ended.out)
    return answer


def test_a_volume_that_can_be_set_up_is_an_operation_with_its_path(mooring: CommandLine, manifests: Path) -> None:
    answer = plan(mooring, manifests, pod("web", "emptyDir: {}"))
    (operation,) = answer["operations"]
    assert (operation["operation"], operation["pod"], operation["volume"]) == ("volume_mount", "default/web", "v")
    assert operation["path"].startswith(f"{mooring.root}/pods/")
    assert (operation["plugin"], operation["risks"], answer["waits"]) == ("kubernetes.io/empty-dir", [], [])


def test_nothing_on_the_machine_is_changed(mooring: CommandLine, manifests: Path, tmp_path: Path) -> None:
    plan(mooring, manifests, pod("web", f"hostPath: {{path: {tmp_path}/made, type: DirectoryOrCreate}}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests"]


def test_the_answer_has_the_documented_fields(mooring: CommandLine, manifests: Path) -> None:
    answer = plan(mooring, manifests, pod("web", "emptyDir: {}") + pod("stuck", "secret: {secretName: x}"))
    assert set(answer) == set(SHAPES["plan (`plan`)"])
    assert set(answer["operations"][0]) == {"operation", "pod", "volume", "plugin", "path", "risks"}
    assert set(answer["waits"][0]) == {"pod", "volume", "cause", "next_step"}


def test_risks_are_told(mooring: CommandLine, manifests: Path) -> None:
    text = pod("host", "hostPath: {path: /etc}") + pod("maker", "hostPath: {path: /nowhere/made, type: FileOrCreate}")
    answer = plan(mooring, manifests, text + pod("group", "emptyDir: {}", "securityContext: {fsGroup: 2000}"))
    risks = {row["pod"]: row["risks"] for row in answer["operations"]}
    assert risks == {
        "default/host": ["gives containers /etc of this machine"],
        "default/maker": [
            "gives containers /nowhere/made of this machine",
            "creates it on this machine if it is missing",
        ],
        "default/group": ["gives its files to group 2000"],
    }


def test_volumes_that_would_wait_are_told_with_the_cause_instead(mooring: CommandLine, manifests: Path) -> None:
    text = pod("config", "configMap: {name: x}") + pod("odd", "csi: {driver: d.example.com}")
    text += pod("wrong", "hostPath: {path: /etc, type: File}") + pod("claim", "persistentVolumeClaim: {claimName: x}")
    text += pod("medium", "emptyDir: {medium: HugePages}")
    answer = plan(mooring, manifests, text)
    causes = {row["pod"]: row["cause"] for row in answer["waits"]}
    assert answer["operations"] == []
    assert 'configmap "x" not found' in causes["default/config"]
    assert "driver 'd.example.com' does not serve volumes of mode 'Ephemeral'" in causes["default/odd"]
    assert "/etc is not a file (it is a directory)" in causes["default/wrong"]
    assert 'persistentvolumeclaims "x" not found' in causes["default/claim"]
    assert "no container requests huge pages" in causes["default/medium"]


def test_what_is_on_disk_and_in_no_manifest_would_be_taken_away(mooring: CommandLine, manifests: Path) -> None:
    left = mooring.root / "pods" / "uid-old" / "volumes" / "kubernetes.io~empty-dir" / "data"
    left.mkdir(parents=True)
    (operation,) = plan(mooring, manifests, "")["operations"]
    assert (operation["operation"], operation["pod"], operation["volume"]) == ("volume_unmount", "uid-old", "data")
    assert operation["risks"] == ["deletes the data in it"]
    assert left.is_dir()


def test_the_table_is_for_people(mooring: CommandLine, manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "emptyDir: {}") + pod("stuck", "secret: {secretName: x}"))
    lines = mooring("plan", manifests).out.splitlines()
    assert lines[0].split() == ["DO", "POD", "VOLUME", "PATH", "RISKS"]
    assert lines[1].split()[:3] == ["volume_mount", "default/web", "v"]
    assert lines[3] == "These volumes would wait:"
    assert "default/stuck" in lines[5]


def test_nothing_to_do_is_said(mooring: CommandLine, manifests: Path) -> None:
    assert mooring("plan", manifests).out == "Nothing is to be done.\n"


def test_mistakes_are_unusable_input_with_their_places(mooring: CommandLine, manifests: Path) -> None:
    (manifests / "a.yaml").write_text("kind: Pod\n")
    ended = mooring("plan", manifests)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"mooring: {manifests}/a.yaml:1: apiVersion: cannot use this document")
    assert ended.err.endswith("mooring: nothing can be planned.\n")


CLAIM = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  local: {path: /disks/a}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
---
"""


def test_claims_find_their_volumes_and_a_disk_may_be_formatted(mooring: CommandLine, manifests: Path) -> None:
    text = CLAIM.replace("/disks/a", str(manifests)) + pod("db", "persistentVolumeClaim: {claimName: data}")
    answer = plan(mooring, manifests, text)
    (operation,) = answer["operations"]
    assert (operation["operation"], operation["volume"]) == ("mount_device", "disk")
    assert operation["risks"] == [f"formats {manifests} if it is a disk that carries nothing"]
    assert answer["waits"] == []


def test_a_volume_that_is_there_already_is_told_as_such(mooring: CommandLine, manifests: Path) -> None:
    path = plan(mooring, manifests, pod("web", "emptyDir: {}"))["operations"][0]["path"]
    Path(path).mkdir(parents=True)
    (operation,) = plan(mooring, manifests, pod("web", "emptyDir: {}"))["operations"]
    assert operation["risks"] == ["is there already: only what differs is written"]
