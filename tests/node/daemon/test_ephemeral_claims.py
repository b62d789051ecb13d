"""A generic ephemeral volume under the real daemon: its claim is made, bound, mounted, and goes with the pod."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, pod

pytestmark = pytest.mark.node

SOURCE = (
    "scratch: ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: '', "
    "resources: {requests: {storage: 1Gi}}}}}"
)


def test_an_ephemeral_volume_is_claimed_mounted_and_released(daemon: Daemon) -> None:
    place = Path(daemon.root).parent / "place"
    place.mkdir()
    daemon.write(
        "volume.yaml",
        f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  local: {{path: {place}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [here]}}]
""",
    )
    manifest = daemon.write("web.yaml", pod("web", SOURCE))
    daemon.up("web")
    (claim,) = daemon.json("get", "claims")
    assert (claim["claim"], claim["phase"], claim["volume"]) == ("default/web-scratch", "Bound", "disk")
    (daemon.path("web/scratch") / "file").write_text("kept")
    manifest.unlink()
    daemon.until(lambda: daemon.json("get", "claims") == [])
    assert (place / "file").read_text() == "kept"
    assert daemon.mounts() == {}
