"""Volumes, claims, classes, attachments and drivers of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.kube.disk_validation import check_fc, check_flex_volume, check_iscsi
from mooring.kube.field_errors import FieldPath, FieldProblem
from mooring.kube.name_rules import broken_subdomain
from mooring.kube.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.objects.volumes import Volume
from mooring.kube.value_rules import (
    check_choice,
    check_no_backsteps,
    check_quantities,
    check_quantity,
    check_required,
)
from mooring.kube.volume_validation import check_driver_name, check_host_path, check_nfs

_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_VOLUME_MODES = ("Filesystem", "Block")
_SOURCES = {"local", *Volume.__struct_fields__} - {"name"}


def volume_problems(volume: PersistentVolume) -> Iterator[FieldProblem]:
    spec, path = volume.spec, ("spec",)
    yield from _volume_source_problems(spec, path)
    if "storage" not in spec.capacity:
        at = (*path, "capacity", "storage")
        yield FieldProblem(path=at, why="it is required and missing", next_step='Add, for example, "storage: 1Gi"')
    else:
        yield from check_quantity(spec.capacity["storage"], (*path, "capacity", "storage"), positive=True)
    yield from _access_mode_problems(spec.access_modes, (*path, "accessModes"))
    yield from check_choice(spec.volume_mode, (*path, "volumeMode"), _VOLUME_MODES)
    policies = ("", "Retain", "Delete", "Recycle")
    yield from check_choice(spec.persistent_volume_reclaim_policy, (*path, "persistentVolumeReclaimPolicy"), policies)
    yield from _class_name_problems(spec.storage_class_name, path)


def _volume_source_problems(spec: PersistentVolumeSpec, path: FieldPath) -> Iterator[FieldProblem]:
    names = [
        encoded
        for name, encoded in zip(spec.__struct_fields__, spec.__struct_encode_fields__, strict=True)
        if name in _SOURCES and getattr(spec, name) is not None
    ]
    if not names:
        yield FieldProblem(path=path, why="it has no source", next_step="Add one, for example local, csi or nfs")
    elif len(names) > 1:
        why = f"it has several sources: {' and '.join(names)}"
        yield FieldProblem(path=(*path, names[1]), why=why, next_step="Keep one of them")
    if spec.host_path is not None:
        yield from check_host_path(spec.host_path, (*path, "hostPath"))
    if spec.nfs is not None:
        yield from check_nfs(spec.nfs, (*path, "nfs"))
    if spec.iscsi is not None:
        yield from check_iscsi(spec.iscsi, (*path, "iscsi"))
    if spec.fc is not None:
        yield from check_fc(spec.fc, (*path, "fc"))
    if spec.flex_volume is not None:
        yield from check_flex_volume(spec.flex_volume, (*path, "flexVolume"))
    if spec.csi is not None:
        yield from check_driver_name(spec.csi.driver, (*path, "csi", "driver"))
        yield from check_required(spec.csi.volume_handle, (*path, "csi", "volumeHandle"))
    if spec.local is not None:
        yield from check_required(spec.local.path, (*path, "local", "path"))
        yield from check_no_backsteps(spec.local.path, (*path, "local", "path"))
        if spec.node_affinity is None or spec.node_affinity.required is None:
            why = "a local volume must say on which node it is"
            yield FieldProblem(path=(*path, "nodeAffinity"), why=why, next_step="Add nodeAffinity.required")


def claim_problems(claim: PersistentVolumeClaim) -> Iterator[FieldProblem]:
    spec, path = claim.spec, ("spec",)
    yield from _access_mode_problems(spec.access_modes, (*path, "accessModes"))
    requests = (*path, "resources", "requests")
    if "storage" not in spec.resources.requests:
        at = (*requests, "storage")
        yield FieldProblem(path=at, why="it is required and missing", next_step='Add, for example, "storage: 1Gi"')
    else:
        yield from check_quantity(spec.resources.requests["storage"], (*requests, "storage"), positive=True)
    yield from check_quantities(spec.resources.limits, (*path, "resources", "limits"))
    yield from check_choice(spec.volume_mode, (*path, "volumeMode"), _VOLUME_MODES)
    yield from _class_name_problems(spec.storage_class_name, path)


def _access_mode_problems(modes: tuple[str, ...], path: FieldPath) -> Iterator[FieldProblem]:
    if not modes:
        next_step = 'Add, for example, "accessModes: [ReadWriteOnce]"'
        yield FieldProblem(path=path, why="it is required and missing", next_step=next_step)
    for position, mode in enumerate(modes):
        yield from check_choice(mode, (*path, position), _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        why = "ReadWriteOncePod allows no other mode beside it"
        yield FieldProblem(path=path, why=why, next_step="Keep one of them")


def _class_name_problems(name: str | None, path: FieldPath) -> Iterator[FieldProblem]:
    if name and (why := broken_subdomain(name)):
        yield FieldProblem(path=(*path, "storageClassName"), why=why)


def class_problems(storage_class: StorageClass) -> Iterator[FieldProblem]:
    yield from check_required(storage_class.provisioner, ("provisioner",))
    yield from check_choice(storage_class.reclaim_policy, ("reclaimPolicy",), ("Delete", "Retain"))
    binding_modes = ("Immediate", "WaitForFirstConsumer")
    yield from check_choice(storage_class.volume_binding_mode, ("volumeBindingMode",), binding_modes)


def attachment_problems(attachment: VolumeAttachment) -> Iterator[FieldProblem]:
    spec, path = attachment.spec, ("spec",)
    yield from check_driver_name(spec.attacher, (*path, "attacher"))
    yield from check_required(spec.node_name, (*path, "nodeName"))
    if (spec.source.persistent_volume_name is None) == (spec.source.inline_volume_spec is None):
        why = "it needs either persistentVolumeName or inlineVolumeSpec"
        yield FieldProblem(path=(*path, "source"), why=why, next_step="Write one of the two")


def driver_problems(driver: CSIDriver) -> Iterator[FieldProblem]:
    spec, path = driver.spec, ("spec",)
    policies = ("ReadWriteOnceWithFSType", "File", "None")
    yield from check_choice(spec.fs_group_policy, (*path, "fsGroupPolicy"), policies)
    for position, mode in enumerate(spec.volume_lifecycle_modes):
        at = (*path, "volumeLifecycleModes", position)
        yield from check_choice(mode, at, ("Persistent", "Ephemeral"))
