"""Manifest files read document by document, with all that is wrong with them in one go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.kube.field_errors import FieldPath, FieldProblem, ManifestProblem, closest, format_field, quoted
from mooring.kube.manifest import Manifest
from mooring.kube.objects.kinds import ALL_KINDS, Kind, find_kind
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.shape import ShapeReader
from mooring.kube.validation import advise, validate
from mooring.kube.yaml_builder import Document
from mooring.kube.yaml_loader import read_documents
from mooring.kube.yaml_syntax import YamlFault

MOST_PROBLEMS: Final = 100
"""A file with more problems than this is not read to its end."""

MOST_WARNINGS: Final = 100
"""Unknown kinds and fields beyond this many are ignored without a word."""


class ManifestReader:
    """Reads one file and collects its objects, problems and warnings.

    The lines of an object's fields take more room than the object: they are kept only for who asks for them.
    """

    def __init__(self, origin: str, *, keep_lines: bool) -> None:
        self.origin = origin
        self._keep_lines = keep_lines
        self.manifests: list[Manifest] = []
        self.problems: list[ManifestProblem] = []
        self.warnings: list[ManifestProblem] = []

    def read(self, text: bytes) -> None:
        faults: list[YamlFault] = []
        for document in read_documents(text, faults):
            self._read_object(document, document.data, ())
        room = max(0, MOST_PROBLEMS - len(faults))
        self.problems = [*map(self._place_fault, faults), *self.problems[:room]]

    def _place_fault(self, fault: YamlFault) -> ManifestProblem:
        return ManifestProblem(
            file=self.origin,
            document=fault.document,
            line=fault.line,
            field=format_field(fault.path),
            what="cannot read the file",
            why=fault.why,
            next_step=fault.next_step,
        )

    def _read_object(
        self, document: Document, data: Any, within: FieldPath, of_list: str = "", version: str = ""
    ) -> None:
        """Read one object, or every item of a list. Items of a `PodList` need not say that they are pods."""
        if len(self.problems) >= MOST_PROBLEMS:
            return
        if not isinstance(data, dict):
            why = "expected an object with apiVersion, kind and metadata"
            self._report(document, within, "cannot use this document", [FieldProblem(path=(), why=why)])
            return
        kind_name, api_version = data.get("kind") or of_list, data.get("apiVersion") or version
        unusable = list(_check_identity(kind_name, api_version))
        if unusable:
            self._report(document, within, "cannot use this document", unusable)
        elif kind_name.endswith("List"):
            self._read_items(document, data, within, kind_name, api_version)
        else:
            kind = find_kind(api_version, kind_name)
            if kind is not None:
                self._read_known(document, data, within, kind)
            elif _is_misspelt(kind_name, api_version):
                self._report(document, within, "cannot use this document", [_unknown_kind(kind_name, api_version)])
            elif len(self.warnings) < MOST_WARNINGS:
                self._warn(document, within, f"skipped {quoted(kind_name)}", [_unknown_kind(kind_name, api_version)])

    def _read_items(
        self, document: Document, data: dict[str, Any], within: FieldPath, kind_name: str, api_version: str
    ) -> None:
        items = data.get("items")
        if items is not None and not isinstance(items, list):
            why = "expected a list of objects"
            self._report(
                document, within, f"cannot use this {quoted(kind_name)}", [FieldProblem(path=("items",), why=why)]
            )
            return
        item_kind = kind_name.removesuffix("List")
        for position, item in enumerate(items or ()):
            at = (*within, "items", position)
            self._read_object(document, item, at, item_kind, api_version if item_kind else "")

    def _read_known(
        self, document: Document, data: dict[str, Any], within: FieldPath, kind: Kind[KubernetesObject]
    ) -> None:
        reader = ShapeReader(most_warnings=MOST_WARNINGS - len(self.warnings))
        obj = reader.read(data, kind.type)
        subject = _name_object(kind, data)
        self._warn(document, within, f"unknown field in {subject}", reader.warnings)
        self._report(document, within, f"cannot use {subject}", reader.problems)
        if obj is None:
            return
        self._report(document, within, f"cannot use {subject}", validate(obj))
        self._warn(document, within, f"{subject} will not work", advise(obj))
        line, lines = document.line, document.lines
        if lines is not None:
            line, lines = lines.follow(within, otherwise=line)
        kept = lines if self._keep_lines else None
        manifest = Manifest(object=obj, origin=self.origin, document=document.number, line=line, lines=kept)
        self.manifests.append(manifest)

    def _report(self, document: Document, within: FieldPath, what: str, problems: Iterable[FieldProblem]) -> None:
        self.problems.extend(self._place(document, within, what, problem) for problem in problems)

    def _warn(self, document: Document, within: FieldPath, what: str, problems: Iterable[FieldProblem]) -> None:
        self.warnings.extend(self._place(document, within, what, problem) for problem in problems)

    def _place(self, document: Document, within: FieldPath, what: str, problem: FieldProblem) -> ManifestProblem:
        path = (*within, *problem.path)
        return ManifestProblem(
            file=self.origin,
            document=document.number,
            line=document.line_of(path),
            field=format_field(path),
            what=what,
            why=problem.why,
            next_step=problem.next_step,
        )


def _check_identity(kind_name: object, api_version: object) -> Iterable[FieldProblem]:
    """Whether the document says in texts what it is."""
    if not kind_name:
        yield FieldProblem(path=("kind",), why="it is required and missing", next_step='Add, for example, "kind: Pod"')
    elif not isinstance(kind_name, str):
        yield FieldProblem(path=("kind",), why="expected a text", next_step='Write, for example, "kind: Pod"')
    if not api_version:
        known = [kind.api_version for kind in ALL_KINDS if kind.name == kind_name]
        next_step = f'Add "apiVersion: {known[0]}"' if known else 'Add, for example, "apiVersion: v1"'
        yield FieldProblem(path=("apiVersion",), why="it is required and missing", next_step=next_step)
    elif not isinstance(api_version, str):
        yield FieldProblem(
            path=("apiVersion",), why="expected a text", next_step='Write, for example, "apiVersion: v1"'
        )


_OTHER_KINDS = frozenset(
    [
        "Binding",
        "ComponentStatus",
        "Endpoints",
        "LimitRange",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Service",
        "CSIStorageCapacity",
        "VolumeAttributesClass",
    ]
)
"""Kinds of the groups that mooring reads, and has no use for."""


def _is_misspelt(kind_name: str, api_version: str) -> bool:
    """Whether a known kind is meant: skipping it would take away what the file gave before."""
    names = [kind.name for kind in ALL_KINDS]
    if kind_name in names:
        return True
    ours = any(kind.api_version == api_version for kind in ALL_KINDS)
    return ours and kind_name not in _OTHER_KINDS and closest(kind_name, names) != ""


def _unknown_kind(kind_name: str, api_version: str) -> FieldProblem:
    versions = [kind.api_version for kind in ALL_KINDS if kind.name == kind_name]
    if versions:
        why = f"mooring does not know the apiVersion {quoted(api_version)} of it"
        return FieldProblem(path=("apiVersion",), why=why, next_step=f'Write "apiVersion: {versions[0]}"')
    meant = closest(kind_name, [kind.name for kind in ALL_KINDS])
    next_step = f"Perhaps {quoted(meant)} is meant" if meant else ""
    return FieldProblem(
        path=("kind",), why=f"mooring has no use for {quoted(api_version)} {quoted(kind_name)}", next_step=next_step
    )


def _name_object(kind: Kind[KubernetesObject], data: dict[str, Any]) -> str:
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{kind} {quoted(name)}" if isinstance(name, str) and name else f"this {kind}"
