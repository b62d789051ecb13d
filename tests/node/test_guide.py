"""The guide's library example runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.node

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guide.md"
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    volumeMounts: [{name: config, mountPath: /config}, {name: cache, mountPath: /cache}]
  volumes:
  - name: config
    configMap: {name: settings}
  - name: cache
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
"""


def test_the_library_example_of_the_guide_mounts_a_pod(node_root: str) -> None:
    found = re.search(r"## As a library\n\n```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program = found[1].replace("/srv/volumes", f"{node_root}/volumes")
    Path(node_root, "web.yaml").write_text(MANIFEST, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=node_root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    written = list(Path(node_root, "volumes/pods").glob("*/volumes/kubernetes.io~configmap/config/greeting"))
    assert [path.read_text(encoding="utf-8") for path in written] == ["hello"]
