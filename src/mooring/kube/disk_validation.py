"""Disks on networks, and volumes of drivers that are programs: iscsi, fc and flexVolume."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.objects.volumes import FCVolumeSource, FlexVolumeSource, ISCSIVolumeSource
from mooring.kube.value_rules import check_required

_NAMES = {
    "iqn": (re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+(?::[^,;*&$|\s]+)?"), "iqn.2026-01.com.example:disk"),
    "eui": (re.compile(r"eui\.[A-Za-z0-9]{16}"), "eui.02004567A425678D"),
    "naa": (re.compile(r"naa\.[A-Za-z0-9]{32}"), "naa.62004567BA64678D0123456789ABCDEF"),
}
_LARGEST_LUN = 255
_RESERVED = (".kubernetes.io", ".k8s.io")


def check_iscsi(source: ISCSIVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(source.target_portal, (*path, "targetPortal"))
    yield from check_required(source.iqn, (*path, "iqn"))
    if source.iqn:
        yield from _name_problems(source.iqn, (*path, "iqn"))
    yield from _lun_problems(source.lun, (*path, "lun"))
    wants_secret = source.chap_auth_discovery or source.chap_auth_session
    if wants_secret and (source.secret_ref is None or not source.secret_ref.name):
        why = "CHAP is wanted, and no Secret with the credentials is named"
        yield FieldProblem(path=(*path, "secretRef"), why=why, next_step='Add "secretRef: {name: …}" here')
    if source.initiator_name is not None:
        yield from _name_problems(source.initiator_name, (*path, "initiatorName"))


def _name_problems(name: str, path: FieldPath) -> Iterator[FieldProblem]:
    kind = next((kind for kind in _NAMES if name.startswith(kind)), None)
    if kind is None:
        yield FieldProblem(path=path, why=f"{quoted(name)} does not begin with iqn, eui or naa")
        return
    pattern, example = _NAMES[kind]
    if pattern.fullmatch(name) is None:
        yield FieldProblem(path=path, why=f"{quoted(name)} is no {kind} name", next_step=f"Write it like {example}")


def check_fc(source: FCVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    if source.target_wwns and source.wwids:
        why = "targetWWNs and wwids say two ways to find the disk"
        yield FieldProblem(path=(*path, "wwids"), why=why, next_step="Keep one of them")
    elif not source.target_wwns and not source.wwids:
        next_step = "Add targetWWNs and lun, or wwids"
        yield FieldProblem(path=path, why="it names no disk", next_step=next_step)
    if source.target_wwns and source.lun is None:
        yield FieldProblem(path=(*path, "lun"), why="it is required with targetWWNs and missing")
    elif source.lun is not None:
        yield from _lun_problems(source.lun, (*path, "lun"))


def _lun_problems(lun: int, path: FieldPath) -> Iterator[FieldProblem]:
    if not 0 <= lun <= _LARGEST_LUN:
        yield FieldProblem(path=path, why=f"{lun} is not between 0 and {_LARGEST_LUN}")


def check_flex_volume(source: FlexVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(source.driver, (*path, "driver"))
    for key in source.options:
        prefix, slash, _ = key.partition("/")
        if slash and f".{prefix.lower()}".endswith(_RESERVED):
            why = f"{quoted(key)} is among the names that Kubernetes keeps for itself"
            yield FieldProblem(path=(*path, "options", key), why=why, next_step="Rename the option")
