"""Data files that cannot be read, records that tell of something, and what a crash left of them half written."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from mooring.doctor import data_files, layout
from mooring.doctor.checks.pods import left_to, whose
from mooring.doctor.findings import CLEARS, Diagnosis, RemoveEmptyFile, RemoveLink, Severity
from mooring.doctor.snapshot import DataFile, Entry, Survey
from mooring.host import records
from mooring.host.atomic_writer import NEW_DATA_LINK
from mooring.host.durable_files import NEW
from mooring.host.interface import FileKind

_RECORDS = ("intents", "debts")


def check_records(survey: Survey) -> Iterator[Diagnosis]:
    """All files that mean something and do not say it, or say that something is not finished."""
    for file in survey.files.values():
        yield from _data_file(survey, file)
    yield from _missing_data_files(survey)
    for path, entry in sorted(survey.entries.items()):
        yield from _half_written(survey, path, entry)
    lock = survey.entries.get(f"{survey.root.rstrip('/')}/mooring.lock")
    if lock is not None and lock.kind is not FileKind.FILE:
        yield Diagnosis(
            kind="stray",
            where=lock.path,
            what=f"a {lock.kind.value} stands where the file of the lock belongs: who runs here cannot be told",
            next_step=f"Make sure that no daemon runs, then `rm {shlex.quote(lock.path)}`",
            severity=Severity.ERROR,
        )
    if survey.store.trouble:
        yield Diagnosis(
            kind="store",
            where=f"{survey.root.rstrip('/')}/store/objects.db",
            what=f"the store cannot be used: {survey.store.trouble}",
            next_step="Put a backup in its place, or move it away and start again: manifests are read anew",
            severity=Severity.ERROR,
        )


def _data_file(survey: Survey, file: DataFile) -> Iterator[Diagnosis]:
    parts = survey.below(file.path).split("/")
    if parts[0] in _RECORDS:
        yield from _record(survey, file, parts[0])
    elif parts[0] == "runs" and file.path.endswith(".json"):
        if trouble := _trouble(file):
            what = f"a record of a run that cannot be used: {trouble}; its pod counts as having containers"
            yield _damaged(file, what, "Look with your container runtime whether any is left, then remove the record")
    elif parts[-1] in ("vol_data.json", "iscsi.json"):
        trouble = _trouble(file) or _missing_fields(file)
        if trouble:
            what = f"a data file of a volume that cannot be used: {trouble}"
            yield _damaged(file, what, "Its driver must unmount the volume without it; keep the file until then")
    elif parts[-1] in ("cpu_manager_state", "memory_manager_state") and (trouble := _trouble(file)):
        what = f"a state file without which the kubelet does not start: {trouble}"
        yield _damaged(file, what, f"Drain the node, stop the kubelet and `rm {shlex.quote(file.path)}`")


def _trouble(file: DataFile) -> str:
    try:
        data_files.json_object(file)
    except ValueError as error:
        return str(error)
    return ""


def _missing_fields(file: DataFile) -> str:
    if not file.path.endswith("vol_data.json") or data_files.volume_of(file):
        return ""
    return "it does not name a driver and a volume"


def _damaged(file: DataFile, what: str, next_step: str) -> Diagnosis:
    return Diagnosis(kind="data-file", where=file.path, what=what, next_step=next_step, severity=Severity.ERROR)


def _record(survey: Survey, file: DataFile, place: str) -> Iterator[Diagnosis]:
    if trouble := data_files.record_trouble(file):
        what = f"a record that cannot be used: {trouble}"
        yield _damaged(file, what, "Look what is mounted; remove the file once nothing of it is left")
        return
    body = records.decode(file.data)
    if place == "debts":
        over = body.get("boot") != survey.boot
        ended = "; the machine was booted since, and the next start forgets it" if over else ""
        yield Diagnosis(
            kind="debt",
            where=file.path,
            what=f"{body.get('source')!r} was taken away from {body.get('path')} under its users "
            f"({body.get('why')}){ended}",
            next_step="It is over when the last process that used it has ended",
            severity=Severity.INFO if over else Severity.WARNING,
        )
        return
    uid = str(body.get("pod") or "")
    if not survey.knowledge.manager and survey.knowledge.certain and uid and uid not in survey.knowledge.pods:
        yield Diagnosis(
            kind="record",
            where=file.path,
            what=f"{body.get('operation')} of volume {body.get('volume')!r} was begun at {body.get('path')} and is not "
            f"proven to be undone; it was for {whose(survey, uid)}",
            next_step="`mooring down` undoes it",
            whose=str(body.get("owner") or whose(survey, uid)),
            holds=(str(body.get("path") or ""),),
        )


def _missing_data_files(survey: Survey) -> Iterator[Diagnosis]:
    for path, entry in sorted(survey.entries.items()):
        unit = layout.unit_of(survey.below(path))
        if unit is None or unit.plugin != "kubernetes.io/csi" or unit.area is not layout.Area.VOLUME:
            continue
        if survey.below(path) == unit.path and entry.names and entry.whole and "vol_data.json" not in entry.names:
            mounted = survey.entries.get(f"{path}/mount")
            if mounted is None or mounted.mounted or mounted.names:
                yield Diagnosis(
                    kind="data-file",
                    where=f"{path}/vol_data.json",
                    what=f"the data file of volume {unit.name!r} is missing: nothing tells which driver made it",
                    next_step="Find the driver by what is mounted there, and let it unpublish the volume",
                    whose=whose(survey, unit.pod),
                )


def _half_written(survey: Survey, path: str, entry: Entry) -> Iterator[Diagnosis]:
    parts = survey.below(path).split("/")
    managed = bool(survey.knowledge.manager)
    next_step = left_to(survey) if managed else CLEARS
    if entry.kind is FileKind.FILE and path.endswith(NEW) and (parts[0] in (*_RECORDS, "runs") or len(parts) == 1):
        clears = entry.size == 0 and entry.links == 1 and not managed
        yield Diagnosis(
            kind="half-written",
            where=path,
            what=f"a file of {entry.size} bytes that a crash left half written; it is never read",
            next_step=next_step if entry.size == 0 else f"`rm {shlex.quote(path)}`",
            repair=(RemoveEmptyFile(path, entry.inode),) if clears else (),
        )
    elif entry.kind is FileKind.FILE and parts[0] == "runs" and path.endswith(".lock"):
        if f"{path.removesuffix('.lock')}.json" not in survey.entries:
            clears = entry.size == 0 and not managed
            yield Diagnosis(
                kind="stale-lock",
                where=path,
                what="the lock of a run of which there is no record any more",
                next_step=next_step,
                repair=(RemoveEmptyFile(path, entry.inode),) if clears else (),
            )
    elif entry.kind is FileKind.LINK and posixpath.basename(path) == NEW_DATA_LINK:
        yield from _half_switched(survey, path, entry, next_step)


def _half_switched(survey: Survey, path: str, entry: Entry, next_step: str) -> Iterator[Diagnosis]:
    unit = layout.unit_of(survey.below(path))
    if unit is None or unit.plugin not in layout.CONTENT_PLUGINS or unit.area is not layout.Area.VOLUME:
        return
    if survey.below(path) != f"{unit.path}/{NEW_DATA_LINK}":
        return
    ours = entry.text.startswith("..20") and "/" not in entry.text
    yield Diagnosis(
        kind="half-written",
        where=path,
        what=f"a writer of volume {unit.name!r} was killed half way; a kubelet cannot write it any more",
        next_step=next_step,
        whose=whose(survey, unit.pod),
        repair=(RemoveLink(path, entry.text),) if ours and not survey.knowledge.manager else (),
    )
