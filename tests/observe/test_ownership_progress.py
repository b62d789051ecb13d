"""A walk over a volume's files can be watched: in `get volumes`, `explain`, metrics, and afterwards in the timeline."""

from __future__ import annotations

from pathlib import Path

from tests.observe.conftest import observed

from mooring.host.interface import NewFile
from mooring.observe.shapes import SHAPES
from mooring.testing.memory_host import MemoryHost

MANIFESTS = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  local: {path: /srv/data}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [here]}]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: pv}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {fsGroup: 2000}
  containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"""


async def test_a_walk_can_be_watched_and_leaves_a_line_of_history(manifests: Path) -> None:
    host = MemoryHost()
    host.make_directories("/srv/data", 0o755)
    host.write_files("/srv/data", [NewFile(path=f"f{n}", data=b"", mode=0o600) for n in range(9)])
    host.seconds_per_owned_entry = 0.1
    (manifests / "a.yaml").write_text(MANIFESTS)
    async with observed(manifests, host=host) as node:

        async def is_walking() -> bool:
            rows = await node.get("/v1/volumes")
            return bool(rows and rows[0]["progress"])

        await node.until(is_walking)
        (row,) = await node.get("/v1/volumes")
        explanation = await node.get("/v1/explain", pod="default/web")
        metrics = await node.text("/metrics")
        await node.mounted("default/web")
        (after,) = await node.get("/v1/volumes")
        timeline = await node.get("/v1/timeline", pod="default/web")
    assert (row["state"], row["progress"]["group"], after["progress"]) == ("mounting", 2000, None)
    assert row["progress"].keys() == SHAPES["progress (`progress` of a volume)"].keys()
    assert "its files are being given to group 2000: " in explanation["cause"]
    assert "mooring_ownership_walks_in_progress 1.0" in metrics
    assert 'mooring_ownership_files_total{result="changed"}' in metrics
    (line,) = (entry for entry in timeline if entry["what"] == "ownership")
    assert (line["result"], line["detail"]) == ("done", "group 2000: 10 entries, 10 changed")
