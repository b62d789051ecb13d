"""What plugins keep for the whole node: volumes that are staged and no pod uses, and the places they leave."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from mooring.doctor import data_files
from mooring.doctor.checks.pods import left_to
from mooring.doctor.findings import CLEARS, Diagnosis, Severity
from mooring.doctor.layout import Area, Unit
from mooring.doctor.path_index import PathIndex
from mooring.doctor.proofs import Proofs, Verdict
from mooring.doctor.snapshot import Survey
from mooring.host.interface import FileKind, MountFacts


def check_staging(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """Every stage that no pod on this node uses."""
    mounts_by_path = PathIndex((mount.path, mount) for mount in survey.mounts.mounts)
    shown = frozenset(mount.device for mount in mounts_by_path.at_or_below(f"{survey.root.rstrip('/')}/pods"))
    used = frozenset(filter(None, (data_files.volume_key(survey, path) for path in _pods_data_files(survey))))
    for path, unit in proofs.units.items():
        if unit.area is not Area.STAGE:
            continue
        mounts = list(mounts_by_path.at_or_below(path))
        key = data_files.volume_key(survey, f"{path}/vol_data.json")
        if any(mount.device in shown for mount in mounts) or _pods_of(survey, proofs, path) or (key and key in used):
            continue
        yield _described(survey, path, unit, proofs.verdicts[path], mounts)
    yield from _outside_of_stages(survey, proofs, shown)


def _outside_of_stages(survey: Survey, proofs: Proofs, shown: frozenset[int]) -> Iterator[Diagnosis]:
    """Mounts and files among the plugins' directories that are at no place where a plugin is known to put any."""
    plugins = f"{survey.root.rstrip('/')}/plugins/"
    for mount in survey.mounts.mounts:
        if mount.path.startswith(plugins) and proofs.unit_at(mount.path) is None and mount.device not in shown:
            own = not survey.below(mount.path).startswith("plugins/kubernetes.io")
            yield Diagnosis(
                kind="staged",
                where=mount.path,
                what=f"a mount of {mount.source!r} ({mount.fs_type}) in a directory of plugins; no pod uses it",
                next_step=f"Ask its driver; where that is gone for good, `umount {shlex.quote(mount.path)}`",
                severity=Severity.INFO if own else Severity.WARNING,
            )
    for path, entry in sorted(survey.entries.items()):
        known = path.startswith(f"{plugins}kubernetes.io") or survey.below(path).startswith("plugins_registry/")
        if not known or proofs.unit_at(path) is not None or entry.mounted:
            continue
        if entry.kind not in (FileKind.DIRECTORY, FileKind.SOCKET):
            yield Diagnosis(
                kind="stray",
                where=path,
                what=f"a {entry.kind.value} in a directory of plugins where none belongs",
                next_step=f"Look at it with `ls -l {shlex.quote(path)}`",
            )


def _pods_data_files(survey: Survey) -> list[str]:
    pods = f"{survey.root.rstrip('/')}/pods/"
    return [path for path in survey.files if path.startswith(pods) and path.endswith("/vol_data.json")]


def _pods_of(survey: Survey, proofs: Proofs, path: str) -> bool:
    """Whether a pod that has a directory here has a map of this block volume."""
    pods = survey.entries.get(f"{survey.root.rstrip('/')}/pods")
    there = frozenset(pods.names) if pods is not None else frozenset()
    return any(posixpath.basename(entry.path) in there for entry in proofs.members[path])


def _described(survey: Survey, path: str, unit: Unit, verdict: Verdict, mounts: list[MountFacts]) -> Diagnosis:
    owner = data_files.volume_of(data_files.data_file_of(survey, path))
    subject = owner or f"volume {unit.name!r} of {unit.plugin}"
    quoted = shlex.quote(path)
    if mounts:
        return Diagnosis(
            kind="staged",
            where=path,
            what=f"{subject} is mounted for the node at {mounts[0].path} from {mounts[0].source!r}, and no pod uses it",
            next_step=f"Let its driver unstage it; where that is gone for good, `umount {shlex.quote(mounts[0].path)}`",
            whose=owner,
            holds=tuple(each.path for each in mounts[:10]),
        )
    if verdict.clears:
        managed = bool(survey.knowledge.manager)
        return Diagnosis(
            kind="empty",
            where=path,
            what=f"an empty place where {subject} was staged; no pod uses it",
            next_step=left_to(survey) if managed else CLEARS,
            severity=Severity.INFO if managed else Severity.WARNING,
            whose=owner,
            repair=() if managed else verdict.steps,
        )
    why = "; ".join(map(str, verdict.kept)) or verdict.why
    return Diagnosis(
        kind="staged",
        where=path,
        what=f"{subject} is not mounted here, no pod uses it, and something of it is left: {why}",
        next_step=f"If its driver says that it is not staged, `rm -r --one-file-system {quoted}`",
        whose=owner,
        holds=tuple(each.path for each in verdict.kept),
    )
