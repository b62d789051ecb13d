"""The volumes of a pod, source by source."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.kube.disk_validation import check_fc, check_flex_volume, check_iscsi
from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.file_validation import check_downward_files, check_items, check_projected
from mooring.kube.name_rules import broken_driver_name, broken_label
from mooring.kube.objects.volumes import (
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    NFSVolumeSource,
    SecretVolumeSource,
    Volume,
)
from mooring.kube.value_rules import (
    check_choice,
    check_id,
    check_mode,
    check_no_backsteps,
    check_quantity,
    check_relative,
    check_required,
)

_HOST_PATH_TYPES = (
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)


def check_volumes(volumes: tuple[Volume, ...], path: FieldPath) -> Iterator[FieldProblem]:
    """Names, their uniqueness, and one source each. A volume without a source becomes an emptyDir by default."""
    first: dict[str, int] = {}
    for position, volume in enumerate(volumes):
        at = (*path, position)
        if not volume.name:
            yield from check_required(volume.name, (*at, "name"))
        elif why := broken_label(volume.name):
            yield FieldProblem(path=(*at, "name"), why=why)
        elif volume.name in first:
            why = f"volumes[{first[volume.name]}] is also called {quoted(volume.name)}"
            yield FieldProblem(path=(*at, "name"), why=why, next_step="Give each volume a name of its own")
        first.setdefault(volume.name, position)
        names = volume.source_names
        if len(names) > 1:
            why = f"the volume {quoted(volume.name)} has several sources: {' and '.join(names)}"
            yield FieldProblem(path=(*at, names[1]), why=why, next_step="Keep one of them")
        yield from _source_problems(volume, at)


def _source_problems(volume: Volume, path: FieldPath) -> Iterator[FieldProblem]:
    if volume.empty_dir is not None:
        yield from _empty_dir_problems(volume.empty_dir, (*path, "emptyDir"))
    if volume.host_path is not None:
        yield from check_host_path(volume.host_path, (*path, "hostPath"))
    if volume.config_map is not None:
        yield from check_required(volume.config_map.name, (*path, "configMap", "name"))
        yield from _content_problems(volume.config_map, (*path, "configMap"))
    if volume.secret is not None:
        yield from check_required(volume.secret.secret_name, (*path, "secret", "secretName"))
        yield from _content_problems(volume.secret, (*path, "secret"))
    if volume.downward_api is not None:
        at = (*path, "downwardAPI")
        yield from check_mode(volume.downward_api.default_mode, (*at, "defaultMode"))
        yield from check_id(volume.downward_api.default_user, (*at, "defaultUser"))
        yield from check_downward_files(volume.downward_api.items, at)
    if volume.projected is not None:
        yield from check_projected(volume.projected, (*path, "projected"))
    if volume.persistent_volume_claim is not None:
        claim_name = volume.persistent_volume_claim.claim_name
        yield from check_required(claim_name, (*path, "persistentVolumeClaim", "claimName"))
    if volume.image is not None:
        yield from check_required(volume.image.reference, (*path, "image", "reference"))
    yield from _remote_problems(volume, path)


def _remote_problems(volume: Volume, path: FieldPath) -> Iterator[FieldProblem]:
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is None:
        at = (*path, "ephemeral", "volumeClaimTemplate")
        yield FieldProblem(path=at, why="it is required and missing", next_step='Add "volumeClaimTemplate" here')
    if volume.csi is not None:
        yield from check_driver_name(volume.csi.driver, (*path, "csi", "driver"))
    if volume.nfs is not None:
        yield from check_nfs(volume.nfs, (*path, "nfs"))
    if volume.iscsi is not None:
        yield from check_iscsi(volume.iscsi, (*path, "iscsi"))
    if volume.fc is not None:
        yield from check_fc(volume.fc, (*path, "fc"))
    if volume.flex_volume is not None:
        yield from check_flex_volume(volume.flex_volume, (*path, "flexVolume"))
    if volume.git_repo is not None:
        yield from check_required(volume.git_repo.repository, (*path, "gitRepo", "repository"))
        yield from check_relative(volume.git_repo.directory, (*path, "gitRepo", "directory"))


def _empty_dir_problems(source: EmptyDirVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_quantity(source.size_limit, (*path, "sizeLimit"))
    yield from check_mode(source.mode, (*path, "mode"), most=0o1777)


def _content_problems(source: ConfigMapVolumeSource | SecretVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_mode(source.default_mode, (*path, "defaultMode"))
    yield from check_id(source.default_user, (*path, "defaultUser"))
    yield from check_items(source.items, path)


def check_host_path(source: HostPathVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(source.path, (*path, "path"))
    yield from check_no_backsteps(source.path, (*path, "path"))
    yield from check_choice(source.type, (*path, "type"), _HOST_PATH_TYPES)


def check_driver_name(name: str, path: FieldPath) -> Iterator[FieldProblem]:
    if not name:
        yield from check_required(name, path)
    elif why := broken_driver_name(name):
        yield FieldProblem(path=path, why=why)


def check_nfs(source: NFSVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(source.server, (*path, "server"))
    if not source.path.startswith("/"):
        why = f"{quoted(source.path)} is not an absolute path"
        yield FieldProblem(path=(*path, "path"), why=why, next_step="Write the path that the server exports")
