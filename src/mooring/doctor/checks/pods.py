"""Directories of pods that are gone, or of which nobody can tell: what they hold, and what of it is surely nothing."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from mooring.doctor.findings import CLEARS, Diagnosis, Severity
from mooring.doctor.layout import Area, Unit
from mooring.doctor.proofs import MOUNTED, Proofs, Verdict
from mooring.doctor.snapshot import Entry, Survey
from mooring.host.interface import FileKind


def check_pods(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """Every directory of a pod that is not known to be wanted, part by part."""
    place = f"{survey.root.rstrip('/')}/pods"
    yield from _tops(survey)
    entry = survey.entries.get(place)
    if entry is None or entry.kind is not FileKind.DIRECTORY:
        return
    for uid in entry.names:
        pod = survey.entries[f"{place}/{uid}"]
        if pod.kind is not FileKind.DIRECTORY:
            yield _stray(pod, "it stands where only directories of pods belong")
        elif uid not in survey.knowledge.pods:
            yield from _check_pod(survey, proofs, pod, uid)


def whose(survey: Survey, uid: str) -> str:
    """A pod by the name it has or had, else by its UID."""
    name = survey.knowledge.names.get(uid, "")
    return f"pod {name} ({uid})" if name else f"pod {uid}"


def severity(survey: Survey) -> Severity:
    """Of something that belongs to a pod nobody asked for: while a manager runs that knows better, it is no news."""
    uncertain = not survey.knowledge.certain and survey.knowledge.manager
    return Severity.INFO if uncertain else Severity.WARNING


def left_to(survey: Survey) -> str:
    """What is said instead of a repair while somebody manages the root directory."""
    return f"Leave it to {survey.knowledge.manager}, or stop that and run `mooring doctor --repair`"


def _tops(survey: Survey) -> Iterator[Diagnosis]:
    """What keeps the directories of all pods and plugins from being examined."""
    for name in ("pods", "plugins", "plugins_registry"):
        entry = survey.entries.get(f"{survey.root.rstrip('/')}/{name}")
        if entry is None or entry.mounted:
            continue
        if entry.kind is not FileKind.DIRECTORY:
            yield _stray(entry, f"it stands where the directory of all {name.replace('_', ' ')} belongs")
        elif not entry.whole:
            yield Diagnosis(
                kind="unreadable",
                where=entry.path,
                what=f"what is in it cannot be told: {(entry.trouble or 'it could not be read').lower()}",
                next_step="Run the command as the user who owns it, or as root",
                severity=Severity.ERROR,
            )


def _stray(entry: Entry, what: str) -> Diagnosis:
    kind = "link" if entry.kind is FileKind.LINK else entry.kind.value
    leads = f" to {entry.text!r}, which is not followed" if entry.text else ""
    return Diagnosis(
        kind="stray",
        where=entry.path,
        what=f"a {kind}{leads}: {what}",
        next_step=f"Look at it with `ls -l {shlex.quote(entry.path)}`; nobody but you can tell what it is for",
    )


def _check_pod(survey: Survey, proofs: Proofs, pod: Entry, uid: str) -> Iterator[Diagnosis]:
    knowledge = survey.knowledge
    alive = "" if knowledge.certain else proofs.users_of(pod.path)
    parts = [] if alive else list(proofs.clearable_parts(pod.path))
    cleared = [path for path, _ in parts]
    if pod.path not in cleared:
        yield _summary(survey, pod, uid, alive)
    for path, verdict in parts:
        yield _empty(survey, path, uid, verdict)
    for path, unit in proofs.units_of(uid):
        if survey.entries[path].mounted:
            continue  # what is mounted there is told by itself
        if not any(path == each or path.startswith(f"{each}/") for each in cleared):
            yield _kept(survey, path, unit, proofs.verdicts[path])
    yield from _odd_scaffolding(survey, pod, uid, proofs)


def _summary(survey: Survey, pod: Entry, uid: str, alive: str) -> Diagnosis:
    knowledge = survey.knowledge
    if knowledge.certain:
        what = f"the directory of {whose(survey, uid)}, which is gone: it does not hold only what is surely nothing"
        next_step = "What keeps it is told below it, thing by thing"
    else:
        what = f"cannot tell whether {whose(survey, uid)} is gone: {knowledge.why}"
        next_step = f"Ask the cluster: `kubectl get pods -A -o wide | grep {shlex.quote(uid)}` or `crictl pods`"
    return Diagnosis(
        kind="orphan" if knowledge.certain else "unknown-pod",
        where=pod.path,
        what=what + (f"; {alive}" if alive else "") + (f" ({pod.trouble})" if pod.trouble else ""),
        next_step=next_step,
        severity=severity(survey),
        whose=whose(survey, uid),
    )


def _empty(survey: Survey, path: str, uid: str, verdict: Verdict) -> Diagnosis:
    managed = bool(survey.knowledge.manager)
    gone = "which is gone" if survey.knowledge.certain else "of which nobody here can tell whether it is gone"
    return Diagnosis(
        kind="empty",
        where=path,
        what=f"empty directories, and nothing that is in use, of {whose(survey, uid)}, {gone}",
        next_step=left_to(survey) if managed else CLEARS,
        severity=severity(survey),
        whose=whose(survey, uid),
        repair=() if managed else verdict.steps,
    )


def _kept(survey: Survey, path: str, unit: Unit, verdict: Verdict) -> Diagnosis:
    plugin = f" of {unit.plugin}" if unit.plugin else ""
    name = f" {unit.name!r}" if unit.area is not Area.POD_FILE else ""
    quoted = shlex.quote(path)
    if verdict.kept:
        what = f"a {unit.area.value}{name}{plugin} that holds: {'; '.join(map(str, verdict.kept))}"
        next_step = f"Save what you need of it; once the pod is surely gone, `rm -r --one-file-system {quoted}`"
    elif verdict.why:
        what = f"a {unit.area.value}{name}{plugin} that is empty and not to be touched: {verdict.why}"
        next_step = "Look who uses it, or let `mooring up` and `mooring down` finish what a record tells of"
    else:
        what = f"a {unit.area.value}{name}{plugin} of a pod that is in use"
        next_step = "Wait until the processes that use the pod have ended"
    if any(each.what == MOUNTED for each in verdict.kept):
        next_step = f"Look what is mounted there with `findmnt --submounts --target {quoted}`; nothing below it is safe"
    return Diagnosis(
        kind="leftover",
        where=path,
        what=what,
        next_step=next_step,
        severity=severity(survey),
        whose=whose(survey, unit.pod),
        holds=tuple(each.path for each in verdict.kept),
    )


def _odd_scaffolding(survey: Survey, pod: Entry, uid: str, proofs: Proofs) -> Iterator[Diagnosis]:
    """What stands where a directory above volumes belongs, or could not be read."""
    for entry in proofs.scaffolding(pod.path):
        path = entry.path
        if entry.kind is FileKind.DIRECTORY and (entry.whole or entry.mounted):
            continue
        why = entry.trouble or ("it could not be read to its end" if entry.kind is FileKind.DIRECTORY else "")
        what = f"a {entry.kind.value} where a directory of {whose(survey, uid)} belongs"
        yield Diagnosis(
            kind="stray",
            where=path,
            what=what + (f": {why}" if why else ""),
            next_step=f"Look at it with `ls -l {shlex.quote(posixpath.dirname(path))}`",
            severity=severity(survey),
            whose=whose(survey, uid),
        )
