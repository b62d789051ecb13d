"""What the machine offers and what it lacks for the volumes that are here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.doctor.findings import Diagnosis, Severity
from mooring.doctor.layout import Area
from mooring.doctor.proofs import Proofs
from mooring.doctor.snapshot import Flavour, Survey

_BY_PLUGIN: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/nfs": ("mount.nfs",),
    "kubernetes.io/iscsi": ("iscsiadm",),
    "kubernetes.io/git-repo": ("git",),
}
_BY_FILE_SYSTEM: Mapping[str, tuple[str, ...]] = {
    "ext2": ("mkfs.ext2", "fsck", "resize2fs"),
    "ext3": ("mkfs.ext3", "fsck", "resize2fs"),
    "ext4": ("mkfs.ext4", "fsck", "resize2fs"),
    "xfs": ("mkfs.xfs", "xfs_repair", "xfs_growfs"),
    "btrfs": ("mkfs.btrfs", "btrfs"),
    "nfs": ("mount.nfs",),
    "nfs4": ("mount.nfs",),
    "cifs": ("mount.cifs",),
    "fuse": ("fusermount3",),
}
PROGRAMS = frozenset(name for table in (_BY_PLUGIN, _BY_FILE_SYSTEM) for names in table.values() for name in names)
"""Every program whose absence is told."""

_LITTLE = 0.05
_HARDLY_ANY = 0.01


def check_environment(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    """The kernel, helper programs, free space, and what mounts of the root directory are shared with."""
    yield from _kernel(survey)
    yield from _programs(survey, proofs)
    yield from _space(survey)
    yield from _root(survey)


def _kernel(survey: Survey) -> Iterator[Diagnosis]:
    features = survey.machine.features
    missing = [
        words
        for has, words in (
            (features.unique_mount_ids, "ids of mounts that are never reused (Linux 6.13)"),
            (features.detached_mounts, "mounts that are completed before they are seen (5.12)"),
            (features.mount_root_attribute, "telling mount points by statx (5.8)"),
            (features.confined_open, "opening without leaving a mount (5.6)"),
            (features.chmod_without_following, "changing modes without following links (6.6)"),
            (features.tmpfs_without_swap, "tmpfs without swap (6.4, not in user namespaces)"),
            ("fuse" in survey.machine.file_systems, "FUSE file systems (module fuse)"),
            ("overlay" in survey.machine.file_systems, "overlay file systems (module overlay)"),
        )
        if not has
    ]
    yield Diagnosis(
        kind="kernel",
        where=survey.root,
        what=features.description() + (f"; missing: {', '.join(missing)}" if missing else ""),
        next_step="Older ways with the same result are used for what is missing" if missing else "",
        severity=Severity.INFO,
    )
    if not survey.machine.superuser and not survey.machine.user_namespaces:
        yield Diagnosis(
            kind="user-namespaces",
            where="/proc/sys/user/max_user_namespaces",
            what="ordinary users may not make user namespaces here, and `mooring up --rootless` needs one",
            next_step="`sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1`, or run as root",
        )


def _programs(survey: Survey, proofs: Proofs) -> Iterator[Diagnosis]:
    needed: dict[str, str] = {}
    for path, unit in proofs.units.items():
        if unit.area in (Area.VOLUME, Area.DEVICE, Area.STAGE) and (not unit.pod or unit.pod in survey.knowledge.pods):
            needed.update(dict.fromkeys(_BY_PLUGIN.get(unit.plugin, ()), path))
    inside = f"{survey.root.rstrip('/')}/plugins/"
    for mount in survey.mounts.mounts:
        if mount.path.startswith(inside):
            kind = mount.fs_type.partition(".")[0]
            needed.update(dict.fromkeys(_BY_FILE_SYSTEM.get(kind, ()), mount.path))
    for name, path in sorted(needed.items()):
        if name not in survey.machine.programs:
            yield Diagnosis(
                kind="program",
                where=path,
                what=f"the program {name!r}, which a volume here needs, is not installed",
                next_step="Install the package that brings it",
            )
    absent = sorted(PROGRAMS - survey.machine.programs - needed.keys())
    if absent:
        yield Diagnosis(
            kind="program",
            where=survey.root,
            what=f"not installed, and not needed by anything here now: {', '.join(absent)}",
            severity=Severity.INFO,
        )


def _space(survey: Survey) -> Iterator[Diagnosis]:
    usage = survey.machine.usage
    if usage is None:
        return
    for name, free, total in (
        ("space", usage.available, usage.capacity),
        ("inodes", usage.inodes_free, usage.inodes),
    ):
        if total and free / total < _LITTLE:
            yield Diagnosis(
                kind="space",
                where=survey.root,
                what=f"its file system has {free / total:.1%} of its {name} left",
                next_step="Make room: volumes, records and the store need it",
                severity=Severity.ERROR if free / total < _HARDLY_ANY else Severity.WARNING,
            )


def _root(survey: Survey) -> Iterator[Diagnosis]:
    holding = survey.mounts.holding(survey.root)
    if survey.flavour is not Flavour.MOORING and holding is not None and "shared" not in holding.propagation:
        yield Diagnosis(
            kind="propagation",
            where=survey.root,
            what=f"the mount it is on is {holding.propagation}: mounts made here do not reach containers that run",
            next_step=f"`mount --make-rshared {holding.path}` before the kubelet is started",
            severity=Severity.INFO,
        )
    pods = survey.mounts.at(f"{survey.root.rstrip('/')}/pods")
    if pods is not None:
        yield Diagnosis(
            kind="file-system",
            where=pods.path,
            what=f"directories of pods are on a file system of their own: {pods.source!r} ({pods.fs_type})",
            severity=Severity.INFO,
        )
