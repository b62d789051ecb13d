"""What is decided over a survey, without a machine: surveys are values."""

from __future__ import annotations

import os
from dataclasses import replace

from msgspec import structs

from mooring.doctor.examination import examine, is_clean
from mooring.doctor.findings import Diagnosis, RemoveEmptyDirectory, Severity, UnmountBind, UnmountEmptyTmpfs
from mooring.doctor.snapshot import Entry, Flavour, Knowledge, Machine, Survey, Use
from mooring.host.features import KernelFeatures
from mooring.host.health import Answer
from mooring.host.interface import FileKind, FileSystemUsage, MountFacts
from mooring.host.mount_table import MountTable

ROOT = "/root"
FEATURES = KernelFeatures(
    unique_mount_ids=True,
    detached_mounts=True,
    mount_root_attribute=True,
    confined_open=True,
    chmod_without_following=True,
    tmpfs_without_swap=True,
    mount_events=True,
)
DISK = MountFacts(id=1, parent_id=0, path="/", root="/", device=os.makedev(8, 1), fs_type="ext4", source="/dev/sda1")
GONE = Knowledge(certain=True)


def entries(*paths: str, files: tuple[str, ...] = ()) -> dict[str, Entry]:
    """Directories at these paths and above them, and files of a few bytes."""
    kinds = {ROOT: FileKind.DIRECTORY}
    for path in (*paths, *files):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            kinds[f"{ROOT}/{'/'.join(parts[:depth])}"] = FileKind.DIRECTORY
    for path in files:
        kinds[f"{ROOT}/{path}"] = FileKind.FILE
    return {
        path: Entry(
            path=path,
            kind=kind,
            mode=0o700,
            size=5 if kind is FileKind.FILE else 0,
            names=tuple(sorted(each.rpartition("/")[2] for each in kinds if each.rpartition("/")[0] == path)),
        )
        for path, kind in kinds.items()
    }


def survey(found: dict[str, Entry], knowledge: Knowledge = GONE, *mounts: MountFacts) -> Survey:
    for mount in mounts:
        found[mount.path] = Entry(path=mount.path, kind=FileKind.DIRECTORY, mounted=True, whole=False)
    return Survey(
        root=ROOT,
        flavour=Flavour.MOORING,
        entries=found,
        mounts=MountTable([DISK, *mounts]),
        knowledge=knowledge,
        machine=Machine(features=FEATURES, file_systems=frozenset(("fuse", "overlay"))),
        answers={mount.path: Answer.WELL for mount in mounts},
    )


def tmpfs(path: str, identity: int = 2) -> MountFacts:
    place = f"{ROOT}/{path}"
    return MountFacts(
        id=identity,
        parent_id=1,
        path=place,
        root="/",
        device=identity,
        fs_type="tmpfs",
        source="tmpfs",
        options=("rw",),
    )


def told(found: Survey, kind: str) -> list[Diagnosis]:
    return [each for each in examine(found) if each.kind == kind]


VOLUME = "pods/u1/volumes/kubernetes.io~empty-dir/data"


def test_empty_directories_of_a_pod_that_is_gone_are_removed_from_the_bottom_up() -> None:
    (found,) = told(survey(entries(VOLUME)), "empty")
    paths = [f"{ROOT}/{VOLUME.rsplit('/', depth)[0] if depth else VOLUME}" for depth in range(4)]
    assert found.repair == tuple(RemoveEmptyDirectory(path) for path in paths)


def test_a_pod_that_is_known_has_no_leftovers() -> None:
    known = Knowledge(certain=True, pods={"u1": "default/web"})
    assert is_clean(examine(survey(entries(VOLUME), known)))


def test_no_part_of_a_volume_goes_while_another_part_stays() -> None:
    found = survey(entries(f"{VOLUME}/empty", files=(f"{VOLUME}/file",)))
    assert [each.repair for each in examine(found) if each.repair] == []
    assert told(found, "leftover")[0].holds == (f"{ROOT}/{VOLUME}/file",)


def test_a_directory_that_was_not_read_to_its_end_stays() -> None:
    found = entries(VOLUME)
    found[f"{ROOT}/{VOLUME}"] = replace(found[f"{ROOT}/{VOLUME}"], whole=False)
    assert not any(f"{ROOT}/{VOLUME}" in str(each.repair) for each in examine(survey(found)))


def test_a_directory_that_a_process_uses_stays() -> None:
    used = replace(survey(entries(VOLUME)), uses=(Use(process=7, program="sh", path=f"{ROOT}/{VOLUME}"),))
    assert [each.repair for each in examine(used) if each.repair] == []
    assert "process 7 (sh)" in told(used, "leftover")[0].what


def test_while_somebody_manages_the_root_directory_nothing_is_to_be_repaired() -> None:
    managed = Knowledge(certain=True, manager="the daemon (process 7)")
    (found,) = told(survey(entries(VOLUME), managed), "empty")
    assert found.repair == ()
    assert "the daemon (process 7)" in found.next_step


def test_an_empty_tmpfs_is_unmounted_only_of_a_pod_that_is_surely_gone() -> None:
    mount = tmpfs(VOLUME)
    sure = replace(survey(entries(VOLUME), GONE, mount), empty_mounts=frozenset((mount.id,)))
    unsure = replace(sure, knowledge=Knowledge(why="nobody knows"))
    assert told(sure, "mount")[0].repair == (UnmountEmptyTmpfs(mount.path, mount.id),)
    assert told(unsure, "mount")[0].repair == ()


def test_a_tmpfs_that_is_seen_elsewhere_stays_mounted() -> None:
    mount = tmpfs(VOLUME)
    other = structs.replace(mount, id=3, path="/elsewhere")
    found = replace(survey(entries(VOLUME), GONE, mount), empty_mounts=frozenset((mount.id,)))
    found = replace(found, mounts=MountTable([DISK, mount, other]))
    assert told(found, "mount")[0].repair == ()


def test_a_bind_mount_is_undone_only_when_its_files_are_seen_elsewhere() -> None:
    place = "pods/u1/volume-subpaths/data/main/0"
    mount = structs.replace(tmpfs(place), device=DISK.device, root="/srv/data", fs_type="ext4", source="/dev/sda1")
    alone = survey(entries(place), GONE, mount)
    seen = replace(alone, sources={mount.id: "/srv/data"})
    assert told(alone, "mount")[0].repair == ()
    assert told(seen, "mount")[0].repair == (UnmountBind(mount.path, mount.id, "/srv/data"),)


def test_secrets_on_a_disk_are_an_error() -> None:
    place = "pods/u1/volumes/kubernetes.io~secret/token"
    (found,) = told(survey(entries(files=(f"{place}/password",))), "secret-on-disk")
    assert (found.where, found.severity) == (f"{ROOT}/{place}", Severity.ERROR)


def test_a_mount_that_became_read_only_is_told() -> None:
    mount = structs.replace(tmpfs(VOLUME), fs_type="ext4", options=("rw", "relatime", "ro"))
    known = Knowledge(certain=True, pods={"u1": "default/web"})
    assert [each.where for each in told(survey(entries(VOLUME), known, mount), "read-only")] == [mount.path]


def test_a_mount_that_is_meant_to_be_read_only_is_not_told() -> None:
    mount = structs.replace(tmpfs(VOLUME), fs_type="ext4", options=("ro", "relatime", "rw"))
    known = Knowledge(certain=True, pods={"u1": "default/web"})
    assert told(survey(entries(VOLUME), known, mount), "read-only") == []


def test_a_missing_program_matters_only_when_a_volume_needs_it() -> None:
    known = Knowledge(certain=True, pods={"u1": "default/web"})
    needed = told(survey(entries("pods/u1/volumes/kubernetes.io~nfs/data"), known), "program")
    unneeded = told(survey(entries(VOLUME), known), "program")
    assert [each.severity for each in needed] == [Severity.WARNING, Severity.INFO]
    assert [each.severity for each in unneeded] == [Severity.INFO]


def test_a_full_file_system_is_told() -> None:
    usage = FileSystemUsage(capacity=1000, available=5, used=995, inodes=100, inodes_free=50, inodes_used=50)
    found = survey(entries("pods"))
    found = replace(found, machine=replace(found.machine, usage=usage))
    assert [(each.severity, each.what) for each in told(found, "space")] == [
        (Severity.ERROR, "its file system has 0.5% of its space left")
    ]
