"""What the node is asked for: random sets of pods with every kind of volume that a node has of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from torture.arena import DISKS, Arena

_PODS = 8

_PLAIN = {
    "scratch": "emptyDir: {}",
    "memory": "emptyDir: {medium: Memory}",
    "config": "configMap: {name: settings}",
    "secret": "secret: {secretName: key}",
    "labels": "downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}",
    "all": "projected: {sources: [{configMap: {name: settings}}, {secret: {name: key}}]}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """One pod: its volumes by name, with what each is."""

    name: str
    volumes: dict[str, str]
    group: int | None = None

    def manifest(self) -> str:
        mounts = ", ".join(
            f"{{name: {name}, mountPath: /{name}}}" for name in self.volumes if not name.startswith("raw")
        )
        devices = ", ".join(
            f"{{name: {name}, devicePath: /dev/{name}}}" for name in self.volumes if name.startswith("raw")
        )
        sources = "".join(f"  - name: {name}\n    {source}\n" for name, source in self.volumes.items())
        group = f"  securityContext: {{fsGroup: {self.group}}}\n" if self.group is not None else ""
        return (
            f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {self.name}\n  labels: {{app: {self.name}}}\nspec:\n{group}"
            f"  containers:\n  - name: main\n    volumeMounts: [{mounts}]\n    volumeDevices: [{devices}]\n"
            f"  volumes:\n{sources}"
        )


@dataclass(slots=True)
class Wishes:
    """The pods that are wanted now, written as manifests."""

    arena: Arena
    chance: random.Random
    pods: dict[str, PodWish] = field(default_factory=dict)
    _count: int = 0

    def begin(self) -> None:
        """Write what pods refer to."""
        for place, first in ((self.arena.manifests, 0), (self.arena.reference_manifests, 2)):
            volumes = [_local(f"dir{n}", str(self.arena.directory(n)), "Filesystem") for n in range(DISKS)]
            volumes.append(_local("disk0", self.arena.device(first), "Filesystem"))
            volumes.append(_local("disk1", self.arena.device(first + 1), "Block"))
            (place / "volumes.yaml").write_text("---\n".join(volumes))
        self.edit()

    def copy(self) -> None:
        """Ask the undisturbed instance for the same."""
        ours, theirs = self.arena.manifests, self.arena.reference_manifests
        for path in theirs.glob("*.yaml"):
            if not (ours / path.name).exists():
                path.unlink()
        for path in ours.glob("*.yaml"):
            if path.name != "volumes.yaml":
                _replace(theirs / path.name, path.read_text())

    def edit(self) -> None:
        """Change what content volumes show."""
        text = f"generation-{self._count}"
        self._count += 1
        _replace(
            self.arena.manifests / "content.yaml",
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{setting: {text}}}\n---\n"
            f"apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData: {{key: {text}}}\n",
        )

    def change(self) -> None:
        """Let a few pods come and go."""
        for _ in range(self.chance.randint(1, 4)):
            if self.pods and (len(self.pods) >= _PODS or self.chance.random() < 0.45):
                name = self.chance.choice(sorted(self.pods))
                del self.pods[name]
                (self.arena.manifests / f"{name}.yaml").unlink()
            else:
                wish = self._new_pod()
                self.pods[wish.name] = wish
                _replace(self.arena.manifests / f"{wish.name}.yaml", wish.manifest())
        if self.chance.random() < 0.3:
            self.edit()

    def clear(self) -> None:
        for name in list(self.pods):
            del self.pods[name]
            (self.arena.manifests / f"{name}.yaml").unlink()

    def _new_pod(self) -> PodWish:
        self._count += 1
        names = self.chance.sample(sorted(_PLAIN), self.chance.randint(1, 4))
        volumes = {name: _PLAIN[name] for name in names}
        claims = [f"dir{number}" for number in range(DISKS)] + ["disk0", "disk1"]
        for claim in self.chance.sample(claims, self.chance.randint(0, 3)):
            name = "raw1" if claim == "disk1" else claim
            volumes[name] = f"persistentVolumeClaim: {{claimName: {claim}}}"
        group = self.chance.choice((None, None, 2000))
        return PodWish(name=f"pod{self._count}", volumes=volumes, group=group)


def _replace(path: Path, text: str) -> None:
    """Write as an editor does that knows its trade: a half-written manifest would not be a fault of the daemon."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def _local(name: str, path: str, mode: str) -> str:
    return f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 16Mi}}
  accessModes: [ReadWriteMany]
  volumeMode: {mode}
  storageClassName: ""
  claimRef: {{name: {name}, namespace: default}}
  local: {{path: {path}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [here]}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: default}}
spec:
  accessModes: [ReadWriteMany]
  volumeMode: {mode}
  storageClassName: ""
  volumeName: {name}
  resources: {{requests: {{storage: 16Mi}}}}
"""
