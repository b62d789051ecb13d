"""Sockets that nobody listens on, and loop devices that lost their file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mooring.doctor.checks.pods import left_to
from mooring.doctor.findings import CLEARS, DetachLoop, Diagnosis, RemoveSocket, Severity
from mooring.doctor.snapshot import Entry, LoopFacts, Survey
from mooring.host.interface import FileKind


def check_sockets(survey: Survey) -> Iterator[Diagnosis]:
    """Sockets of drivers and of mooring itself that refuse connections; those in volumes are data of the pods."""
    for path, entry in sorted(survey.entries.items()):
        if entry.kind is not FileKind.SOCKET or path not in survey.silent_sockets:
            continue
        parts = survey.below(path).split("/")
        if parts[0] == "plugins_registry" or (parts[0] == "plugins" and not parts[1].startswith("kubernetes.io")):
            yield _socket(survey, entry, f"nobody listens on it: the driver in {parts[-2]!r} has ended or was removed")
        elif parts[0] in ("device-plugins", "pod-resources"):
            yield _socket(survey, entry, "nobody listens on it: the kubelet or the device plugin it is of has ended")
        elif parts == ["mooring.sock"]:
            yield _socket(survey, entry, "the control socket of a daemon that has ended without taking it away")


def _socket(survey: Survey, entry: Entry, what: str) -> Diagnosis:
    managed = bool(survey.knowledge.manager)
    return Diagnosis(
        kind="stale-socket",
        where=entry.path,
        what=what,
        next_step=left_to(survey) if managed else CLEARS,
        repair=() if managed else (RemoveSocket(entry.path, entry.inode),),
    )


def check_loops(survey: Survey) -> Iterator[Diagnosis]:
    """Loop devices whose file was removed, and those of block maps that no pod has any more."""
    for loop in survey.loops:
        if loop.deleted:
            yield _deleted(survey, loop)
        elif not _has_pod(survey, loop):
            yield Diagnosis(
                kind="loop-device",
                where=loop.device,
                what=f"a loop device of {loop.backing}, which no pod that is known uses"
                + (f"; {loop.in_use}" if loop.in_use else ""),
                next_step=f"Once nothing uses it, `losetup -d {shlex.quote(loop.device)}`; the file stays",
                holds=(loop.backing,),
            )


def _has_pod(survey: Survey, loop: LoopFacts) -> bool:
    parts = survey.below(loop.backing).split("/")
    return any(part in survey.knowledge.pods for part in parts)


def _deleted(survey: Survey, loop: LoopFacts) -> Diagnosis:
    device = shlex.quote(loop.device)
    what = f"a loop device of {loop.backing}, which was removed"
    if loop.in_use:
        next_step = f"It goes once nothing uses it: `losetup -d {device}`"
        what += f"; {loop.in_use}"
    elif loop.keeps_bytes:
        what += "; nothing else leads to the bytes in it"
        next_step = f"Save them with `dd if={device} of=FILE bs=1M`, then `losetup -d {device}`"
    else:
        next_step = left_to(survey) if survey.knowledge.manager else CLEARS
    clears = not loop.in_use and not loop.keeps_bytes and not survey.knowledge.manager
    return Diagnosis(
        kind="loop-device",
        where=loop.device,
        what=what,
        next_step=next_step,
        severity=Severity.WARNING,
        holds=(loop.backing,),
        repair=(DetachLoop(loop.device, loop.backing),) if clears else (),
    )
