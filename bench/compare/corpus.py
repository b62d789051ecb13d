"""The corpus: manifests in plain files, each in a namespace of its own.

`AREA/NAME.yaml` is one manifest, and its first line says what it shows. `AREA/NAME.edited.yaml` is what it becomes
later; one without stays as it is. `cluster.yaml` holds what all of them share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).parent / "corpus"
NODE = "node-a"
LAST = "zz-last"
"""A namespace with one pod for each stage: whoever serves that pod has read all else."""

_CLUSTER = "cluster.yaml"
_EDITED = ".edited.yaml"
_WITHOUT_NAMESPACE = re.compile(
    r"^kind: (PersistentVolume|Node|CSIDriver|StorageClass|VolumeAttachment|ClusterTrustBundle)$", re.MULTILINE
)
_DIVIDER = re.compile(r"^---\n", re.MULTILINE)
_METADATA = re.compile(r"^metadata:$", re.MULTILINE)
_LAST_POD = """\
apiVersion: v1
kind: Pod
metadata:
  namespace: {namespace}
  name: {name}
spec:
  containers:
  - name: main
    image: busybox
    volumeMounts:
    - {{name: data, mountPath: /data}}
  volumes:
  - name: data
    emptyDir: {{}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One file of the corpus, and what it becomes when it is edited."""

    area: str
    name: str
    says: str
    text: str
    edited: str | None = None

    @property
    def namespace(self) -> str:
        """The namespace of its objects: no two manifests get in each other's way."""
        return f"{self.area}-{self.name}"

    def __str__(self) -> str:
        return f"{self.area}/{self.name}"


def read_corpus(place: Path = PLACE) -> list[Manifest]:
    """All manifests, by area and name."""
    files = sorted(place.glob("*/*.yaml"))
    edits = {file.parent / f"{file.name.removesuffix(_EDITED)}.yaml": file for file in files if _is_edit(file)}
    if strays := sorted(file.name for original, file in edits.items() if original not in files):
        raise ValueError(f"edits of manifests that are not there: {', '.join(strays)}")
    return [_read(file, edits.get(file)) for file in files if not _is_edit(file)]


def _is_edit(file: Path) -> bool:
    return file.name.endswith(_EDITED)


def _read(file: Path, edit: Path | None) -> Manifest:
    text = file.read_text(encoding="utf-8")
    says, _, _ = text.partition("\n")
    if not says.startswith("# "):
        raise ValueError(f"{file} does not begin with a line that says what it shows")
    edited = None if edit is None else edit.read_text(encoding="utf-8")
    return Manifest(area=file.parent.name, name=file.stem, says=says[2:], text=text, edited=edited)


def write_manifests(manifests: Sequence[Manifest], directory: Path, *, edited: bool) -> None:
    """Write them to a directory as both sides read it, before or after they were edited. Unchanged files stay."""
    for manifest in manifests:
        text = manifest.edited if edited and manifest.edited is not None else manifest.text
        _write(directory / f"{manifest.namespace}.yaml", in_namespace(text, manifest.namespace))
    _write(directory / _CLUSTER, (PLACE / _CLUSTER).read_text(encoding="utf-8"))
    if manifests:
        stage = "edited" if edited else "first"
        _write(directory / f"{LAST}-{stage}.yaml", _LAST_POD.format(namespace=LAST, name=stage))


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def in_namespace(text: str, namespace: str) -> str:
    """The same objects in this namespace. All else stays as it is written, so that reading YAML is compared as well."""
    return "---\n".join(_placed(document, namespace) for document in _DIVIDER.split(text))


def _placed(document: str, namespace: str) -> str:
    if _WITHOUT_NAMESPACE.search(document):
        return document
    placed, count = _METADATA.subn(f"metadata:\n  namespace: {namespace}", document)
    if count != 1:
        raise ValueError(f"an object in {namespace} has no line 'metadata:' of its own:\n{document}")
    return placed
