"""Who may read what should be secret: keys, the store, secrets on a disk."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from mooring.doctor import layout
from mooring.doctor.checks.pods import whose
from mooring.doctor.findings import Diagnosis, Severity
from mooring.doctor.layout import Area
from mooring.doctor.proofs import Proofs
from mooring.doctor.snapshot import Entry, Survey
from mooring.host.atomic_writer import DATA_LINK
from mooring.host.interface import FileKind

_PRIVATE = re.compile(
    r"service-account\.key|mooring\.sock|history\.jsonl|store(/.*)?|(intents|debts|runs|offline)(/.*)?|pki/.*\.(key|pem)"
)
_DATA_DIRECTORY = re.compile(r"\.\.20\d\d_.*")
_MEMORY = frozenset(("tmpfs", "ramfs"))


def check_secrets(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """Files and volumes with more readers than their owner, and secrets outside of memory."""
    owner = survey.entries[survey.root].uid if survey.root in survey.entries else 0
    for path, entry in sorted(survey.entries.items()):
        if not entry.mounted and not entry.trouble and _PRIVATE.fullmatch(survey.below(path)):
            yield from _private(survey, entry, owner)
    for path, unit in proofs.units.items():
        if unit.area is not Area.VOLUME or unit.plugin not in layout.CONTENT_PLUGINS:
            continue
        if unit.plugin in layout.SECRET_PLUGINS:
            yield from _secret_volume(survey, path, unit.pod)
        yield from _old_copies(survey, path, unit.pod)
    yield from _open_directories(survey, proofs)


def _private(survey: Survey, entry: Entry, owner: int) -> Iterator[Diagnosis]:
    if entry.kind is FileKind.LINK:
        return
    quoted = shlex.quote(entry.path)
    wanted = 0o700 if entry.kind is FileKind.DIRECTORY else 0o600
    if entry.mode & 0o077 and not _is_below_private(survey, entry.path):
        yield Diagnosis(
            kind="mode",
            where=entry.path,
            what=f"others than its owner may use it: its mode is {entry.mode:04o}",
            next_step=f"`chmod {wanted:04o} {quoted}`",
            severity=Severity.ERROR if entry.path.endswith(".key") else Severity.WARNING,
        )
    if entry.uid != owner:
        yield Diagnosis(
            kind="owner",
            where=entry.path,
            what=f"it belongs to user {entry.uid}, and the root directory to user {owner}",
            next_step=f"`chown {owner} {quoted}`",
        )


def _is_below_private(survey: Survey, path: str) -> bool:
    """Whether a directory above it, below the root directory, lets nobody in but its owner."""
    first = survey.entries.get(f"{survey.root.rstrip('/')}/{survey.below(path).split('/')[0]}")
    return first is not None and first.path != path and first.mode & 0o077 == 0


def _secret_volume(survey: Survey, path: str, pod: str) -> Iterator[Diagnosis]:
    mount = survey.mounts.at(path)
    entry = survey.entries[path]
    holding = mount or survey.mounts.holding(path)
    if mount is None and entry.names and (holding is None or holding.fs_type not in _MEMORY):
        on = holding.fs_type if holding is not None else "an unknown file system"
        yield Diagnosis(
            kind="secret-on-disk",
            where=path,
            what=f"a volume of secrets that lies on a disk ({on}) instead of in memory",
            next_step=f"Once its pod is gone, `rm -r --one-file-system {shlex.quote(path)}`, and change the secrets",
            severity=Severity.ERROR,
            whose=whose(survey, pod),
            holds=tuple(f"{path}/{name}" for name in entry.names[:10]),
        )
    swappable = mount is not None and mount.fs_type == "tmpfs" and "noswap" not in mount.options
    if mount is not None and swappable and survey.machine.swap and survey.machine.features.tmpfs_without_swap:
        yield Diagnosis(
            kind="secret-swap",
            where=path,
            what="a volume of secrets that may be written to swap, although this kernel can keep it out",
            next_step="It is mounted without swap when its pod is started anew",
            severity=Severity.INFO,
            whose=whose(survey, pod),
        )


def _old_copies(survey: Survey, path: str, pod: str) -> Iterator[Diagnosis]:
    """Data directories that `..data` does not name: a killed writer left them, and nobody reads them."""
    link = survey.entries.get(f"{path}/{DATA_LINK}")
    current = link.text if link is not None else ""
    for name in survey.entries[path].names:
        entry = survey.entries.get(f"{path}/{name}")
        if entry is not None and _DATA_DIRECTORY.fullmatch(name) and name != current and entry.names:
            yield Diagnosis(
                kind="old-copy",
                where=entry.path,
                what="files of a ConfigMap or Secret that a killed writer left behind and nobody is shown",
                next_step=f"`rm -r --one-file-system {shlex.quote(entry.path)}`",
                whose=whose(survey, pod),
                holds=tuple(f"{entry.path}/{each}" for each in entry.names[:10]),
            )
    if link is not None and link.text and link.text not in survey.entries[path].names:
        yield Diagnosis(
            kind="broken-content",
            where=link.path,
            what=f"the link to the files of the volume leads to {link.text!r}, which is not there",
            next_step="Its files are written again when its pod is, or anything of its source changes",
            whose=whose(survey, pod),
        )


def _open_directories(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """Secrets have modes that count on the directories above them keeping other users out."""
    above = [survey.entries.get(survey.root), survey.entries.get(f"{survey.root.rstrip('/')}/pods")]
    if not all(entry is not None and entry.mode & 0o001 for entry in above):
        return
    secret = (unit.pod for unit in proofs.units.values() if unit.plugin in layout.SECRET_PLUGINS)
    for uid in sorted({pod for pod in secret if pod}):
        entry = survey.entries.get(f"{survey.root.rstrip('/')}/pods/{uid}")
        if entry is not None and entry.mode & 0o001:
            yield Diagnosis(
                kind="mode",
                where=entry.path,
                what=f"every user of this machine may enter the directory of a pod with secrets ({entry.mode:04o})",
                next_step=f"`chmod 0750 {shlex.quote(entry.path)}`",
                whose=whose(survey, uid),
            )
