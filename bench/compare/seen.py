"""What one side has made of the manifests, and the single facts of it that are compared."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from bench.compare.corpus import Manifest
from bench.compare.machine import ROOT

Entry = Mapping[str, Any]
"""A path as `bench/kubelet-peer/tree` lists it."""

_OWN = re.compile(rf"{ROOT.name}(?!/(?:pods|plugins)(?:/|$)).*")
_MACHINERY = re.compile(r"drivers(/flex|/images|/csi(/[^/]*\.sock)?)?|drivers/(flex|images)/.*")
_DATA_KEY = re.compile(r"^(data|binaryData|stringData)\.(.+)$")
_QUOTED = re.compile(r'\["([^"]*)"\]')
_POD = re.compile(rf"{ROOT.name}/pods/(?P<uid>[^/]+)")


class Stage(enum.Enum):
    """When both sides are looked at."""

    FIRST = "first"
    EDITED = "edited"
    LEFT = "left"  # after all pods have gone


class Fact(NamedTuple):
    """What is compared: a field of something, in one manifest. The machine itself is the manifest `-`."""

    stage: Stage
    manifest: str
    subject: str
    field: str


Facts = Mapping[Fact, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPod:
    """One pod: why it is not ready, if it is not, and its volumes that are there: plugin and path by name."""

    namespace: str
    name: str
    uid: str
    ready: bool
    causes: Sequence[str] = ()
    volumes: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An object that is not accepted, and the fields to blame."""

    namespace: str  # empty for kinds without
    kind: str
    name: str
    fields: frozenset[str]  # as `field_name` writes them


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One side at one stage."""

    stage: Stage
    entries: Sequence[Entry]
    pods: Sequence[SeenPod] = ()
    refusals: Sequence[Refusal] = ()


Run = Generator[Seen, None, None]
"""One side at each stage; it ends what it started when it is closed."""


def facts_of(seen: Seen, manifests: Iterable[Manifest], uids: Mapping[str, str]) -> dict[Fact, str]:
    """All single facts of what was seen. `uids` are the pods as `namespace/name` by their UIDs."""
    names = {manifest.namespace: str(manifest) for manifest in manifests}
    found: dict[Fact, str] = {}
    for refusal in seen.refusals:
        fact = Fact(seen.stage, names.get(refusal.namespace, "-"), f"{refusal.kind} {refusal.name}", "refused")
        found[fact] = ", ".join(sorted(refusal.fields))
    for pod in seen.pods:
        for subject, what, value in _of_pod(pod):
            found[Fact(seen.stage, names.get(pod.namespace, "-"), subject, what)] = value
    for entry in seen.entries:
        path = str(entry["path"])
        if _OWN.fullmatch(path) is None and _MACHINERY.fullmatch(path) is None:
            manifest, subject = _placed(path, uids, names)
            _add_entry(found, seen.stage, manifest, subject, entry)
    return found


def _of_pod(pod: SeenPod) -> Iterator[tuple[str, str, str]]:
    yield f"pod {pod.name}", "ready", "yes" if pod.ready else "no"
    if not pod.ready:
        yield f"pod {pod.name}", "cause", "; ".join(sorted(set(pod.causes)))
    for name, (plugin, path) in pod.volumes.items():
        yield f"volume {pod.name}/{name}", "plugin", plugin
        yield f"volume {pod.name}/{name}", "path", path.replace(pod.uid, f"<{pod.name}>")


def _placed(path: str, uids: Mapping[str, str], names: Mapping[str, str]) -> tuple[str, str]:
    """The manifest that a path belongs to, and the path with names in place of UIDs."""
    manifest, subject = "-", path
    of_pod = _POD.match(path)
    for uid, key in uids.items():
        if uid in path:
            namespace, _, name = key.partition("/")
            subject = subject.replace(uid, f"<{name}>")
            if of_pod is not None and of_pod["uid"] == uid:
                manifest = names.get(namespace, "-")
            else:
                subject = path.replace(uid, f"<{key}>")
    return manifest, subject


def _add_entry(found: dict[Fact, str], stage: Stage, manifest: str, subject: str, entry: Entry) -> None:
    for what, value in entry.items():
        if what != "path":
            fact = Fact(stage, manifest, subject, what)
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            # Two data directories of one volume look alike but for their number; both must be seen.
            found[fact] = f"{found[fact]} and {text}" if fact in found else text


def field_name(path: str) -> str:
    """The path to a field with keys of data as Kubernetes writes them: `data[key]`, whatever the key is."""
    return _DATA_KEY.sub(r"\1[\2]", _QUOTED.sub(r"[\1]", path))


def parent(subject: str) -> str:
    """The directory that a path lies in."""
    return str(PurePosixPath(subject).parent)


def below_root(path: str) -> str:
    """A path as both sides would tell it."""
    return path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else path


def is_path(subject: str) -> bool:
    """Whether this is a path below /srv, not a pod, a volume or an object."""
    return not subject.startswith(("pod ", "volume ")) and subject[:1].islower()
