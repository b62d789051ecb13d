"""Mounts below the root directory: dead, stacked, of pods that are gone, over files, of what was removed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from mooring.doctor import layout
from mooring.doctor.below_mounts import DELETED
from mooring.doctor.checks.pods import left_to, severity, whose
from mooring.doctor.findings import CLEARS, Diagnosis, Repair, Severity, UnmountBind, UnmountEmptyTmpfs
from mooring.doctor.layout import Area
from mooring.doctor.proofs import Proofs
from mooring.doctor.snapshot import Survey
from mooring.host.health import Answer
from mooring.host.interface import MountFacts

_MADE_BY_US = frozenset(("kubernetes.io/local-volume", "kubernetes.io/host-path"))
_FLAGS = frozenset(("nosuid", "nodev", "noexec", "ro"))  # a remount would lose these should it have to be undone
_HIDDEN_ON_PURPOSE = {"iscsi.json"}  # the iSCSI plugin keeps it below its mount


def check_mounts(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """All that is wrong with what is mounted below the root directory."""
    inside = f"{survey.root.rstrip('/')}/"
    below = [mount for mount in survey.mounts.mounts if mount.path.startswith(inside)]
    layers = Counter(mount.path for mount in below)
    told: set[str] = set()
    for mount in below:
        if survey.mounts.at(mount.path) is mount:
            yield from _health(survey, mount)
        if layers[mount.path] > 1 and mount.path not in told:
            told.add(mount.path)
            yield _stacked(survey, mount, layers[mount.path])
        yield from _content(survey, mount)
        yield from _of_pod(survey, proofs, mount)
    yield from _hidden(survey)


def _pod(survey: Survey, path: str) -> str:
    uid = layout.pod_of(survey.below(path))
    return whose(survey, uid) if uid else ""


def _health(survey: Survey, mount: MountFacts) -> Iterator[Diagnosis]:
    quoted = shlex.quote(mount.path)
    answer = survey.answers.get(mount.path, Answer.WELL)
    if answer is not Answer.WELL:
        yield Diagnosis(
            kind="dead-mount",
            where=mount.path,
            what=f"the {mount.fs_type} file system {mount.source!r} that is mounted here is dead: {answer.value}",
            next_step=f"Bring its server back; if it is gone for good, `umount -l {quoted}`",
            severity=Severity.ERROR,
            whose=_pod(survey, mount.path),
        )
    options = mount.options
    if "ro" in options and "rw" in options and options.index("rw") < options.index("ro"):
        yield Diagnosis(
            kind="read-only",
            where=mount.path,
            what=f"{mount.source!r} is mounted for writing, but its file system has become read-only",
            next_step="Look for errors of its device with `dmesg`, and check the file system before it is used again",
            severity=Severity.ERROR,
            whose=_pod(survey, mount.path),
        )


def _stacked(survey: Survey, mount: MountFacts, layers: int) -> Diagnosis:
    return Diagnosis(
        kind="stacked",
        where=mount.path,
        what=f"{layers} mounts are stacked on one place, and only the last one is seen",
        next_step=f"Look at all of them with `findmnt {shlex.quote(mount.path)}`; each `umount` takes the upper one",
        whose=_pod(survey, mount.path),
    )


def _content(survey: Survey, mount: MountFacts) -> Iterator[Diagnosis]:
    if mount.root.endswith(DELETED):
        yield Diagnosis(
            kind="deleted-source",
            where=mount.path,
            what=f"what is mounted here, {mount.root.removesuffix(DELETED)!r} of {mount.source!r}, was removed: "
            "nothing but this mount leads to what is left in it",
            next_step=f"Copy what you need from it before `umount {shlex.quote(mount.path)}`",
            whose=_pod(survey, mount.path),
        )
    elif _shows_root(survey, mount):
        yield Diagnosis(
            kind="loop",
            where=mount.path,
            what=f"a mount of {mount.root!r} that has the root directory itself in it: removing what is below would "
            "remove the files of this machine",
            next_step=f"Never remove anything below it; `umount {shlex.quote(mount.path)}` first",
            severity=Severity.ERROR,
            whose=_pod(survey, mount.path),
        )


def _shows_root(survey: Survey, mount: MountFacts) -> bool:
    """Whether a mount shows a directory in which the root directory lies, or the whole machine."""
    host = survey.mounts.at("/")
    if host is not None and (mount.device, mount.root) == (host.device, host.root):
        return True
    holding = survey.mounts.holding(survey.root)
    if holding is None or holding.device != mount.device:
        return False
    inside = holding.root.rstrip("/") + survey.root[len(holding.path.rstrip("/")) :]
    return inside == mount.root or inside.startswith(f"{mount.root.rstrip('/')}/")


def _of_pod(survey: Survey, proofs: Proofs, mount: MountFacts) -> Iterator[Diagnosis]:
    """A mount in the directory of a pod that is not known to be wanted."""
    uid = layout.pod_of(survey.below(mount.path))
    if not uid or uid in survey.knowledge.pods:
        return
    steps = _unmounting(survey, proofs, mount)
    managed = bool(survey.knowledge.manager)
    gone = "is gone" if survey.knowledge.certain else "may be gone: nobody here can tell"
    quoted = shlex.quote(mount.path)
    if steps:
        next_step = left_to(survey) if managed else CLEARS
    elif mount.fs_type == "tmpfs" and mount.root == "/":
        next_step = f"It is in memory only: save what you need of it before `umount {quoted}`"
    else:
        next_step = f"Once the pod is surely gone, `umount {quoted}`; its files stay on {mount.source!r}"
    yield Diagnosis(
        kind="mount",
        where=mount.path,
        what=f"a mount of {mount.source!r} ({mount.fs_type}, {mount.root!r}) of {whose(survey, uid)}, which {gone}",
        next_step=next_step,
        severity=severity(survey),
        whose=whose(survey, uid),
        repair=() if managed else steps,
    )


def _unmounting(survey: Survey, proofs: Proofs, mount: MountFacts) -> Repair:
    """How a mount of a pod that is surely gone is undone without a byte being lost; nothing when that is not sure."""
    path = mount.path
    unit = proofs.unit_at(path)
    if not survey.knowledge.certain or unit is None or unit.pod in survey.knowledge.pods:
        return ()
    if survey.mounts.at(path) is not mount or proofs.recorded(path) or proofs.users_of(path):
        return ()
    if sum(each.path == path for each in survey.mounts.mounts) > 1 or len(survey.mounts.tree_of(mount.id)) > 1:
        return ()
    if f"{survey.root.rstrip('/')}/{unit.path}" != path or survey.answers.get(path) is not Answer.WELL:
        return ()
    plain = not _FLAGS & frozenset(mount.options) and _is_shown_once(survey, mount)
    if mount.id in survey.empty_mounts and unit.area is Area.VOLUME and plain:
        return (UnmountEmptyTmpfs(path, mount.id),)
    source = survey.sources.get(mount.id, "")
    ours = unit.area is Area.SUB_PATH or (unit.area is Area.VOLUME and unit.plugin in _MADE_BY_US)
    return (UnmountBind(path, mount.id, source),) if source and ours else ()


def _is_shown_once(survey: Survey, mount: MountFacts) -> bool:
    return sum(other.device == mount.device for other in survey.mounts.mounts) == 1


def _hidden(survey: Survey) -> Iterator[Diagnosis]:
    for path, names in survey.covered.items():
        if set(names) <= _HIDDEN_ON_PURPOSE:
            continue
        yield Diagnosis(
            kind="hidden",
            where=path,
            what=f"a mount hides what lies in the directory below it: {', '.join(repr(name) for name in names)}",
            next_step="It is seen again, and can be saved, once nothing is mounted there any more",
            whose=_pod(survey, path),
            holds=tuple(f"{path}/{name}" for name in names),
        )
