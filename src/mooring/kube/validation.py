"""Whether an object is one that an API server would take: its metadata, and the rules of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mooring.kube.advice import advise
from mooring.kube.certificate_validation import broken_bundle_name, bundle_problems
from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.name_rules import (
    broken_data_key,
    broken_driver_name,
    broken_label,
    broken_label_value,
    broken_path_element,
    broken_qualified_name,
    broken_subdomain,
)
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import kind_of
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Namespace, Pod, Secret
from mooring.kube.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.pod_validation import pod_problems
from mooring.kube.secret_validation import all_data, type_problems
from mooring.kube.storage_validation import (
    attachment_problems,
    claim_problems,
    class_problems,
    driver_problems,
    volume_problems,
)

__all__ = ["advise", "validate", "validate_update"]

MOST_DATA = 1024 * 1024
_MOST_ANNOTATIONS = 256 * 1024


def validate(obj: KubernetesObject) -> list[FieldProblem]:
    """Everything that is wrong with the object, defaulted or not. What only shows at run time is not looked for."""
    return [*_metadata_problems(obj), *_kind_problems(obj)]


def validate_update(old: KubernetesObject, new: KubernetesObject) -> list[FieldProblem]:
    """What forbids `new` to take the place of `old`."""
    problems = []
    if isinstance(old, ConfigMap) and isinstance(new, ConfigMap) and old.immutable:
        problems = _immutable_problems(
            {"data": (old.data, new.data), "binaryData": (old.binary_data, new.binary_data)}, still=new.immutable
        )
    elif isinstance(old, Secret) and isinstance(new, Secret) and old.immutable:
        problems = _immutable_problems({"data": (all_data(old), all_data(new))}, still=new.immutable)
    return problems


def _immutable_problems(fields: Mapping[str, tuple[object, object]], *, still: bool) -> list[FieldProblem]:
    next_step = "Delete the object and create it again, or use a new name"
    problems = [
        FieldProblem(path=(name,), why="it cannot be changed, because the object is immutable", next_step=next_step)
        for name, (before, after) in fields.items()
        if before != after
    ]
    if not still:
        why = "it cannot be taken back once it is true"
        problems.append(FieldProblem(path=("immutable",), why=why, next_step=next_step))
    return problems


def _kind_problems(obj: KubernetesObject) -> Iterator[FieldProblem]:
    match obj:
        case Pod():
            yield from pod_problems(obj)
        case ConfigMap():
            yield from _config_map_problems(obj)
        case Secret():
            yield from _data_key_problems(("data",), obj.data)
            yield from _data_key_problems(("stringData",), obj.string_data)
            yield from _size_problems(all_data(obj).values())
            yield from type_problems(obj)
        case PersistentVolume():
            yield from volume_problems(obj)
        case PersistentVolumeClaim():
            yield from claim_problems(obj)
        case StorageClass():
            yield from class_problems(obj)
        case VolumeAttachment():
            yield from attachment_problems(obj)
        case CSIDriver():
            yield from driver_problems(obj)
        case ClusterTrustBundle():
            yield from bundle_problems(obj)


def _metadata_problems(obj: KubernetesObject) -> Iterator[FieldProblem]:
    meta, path = obj.metadata, ("metadata",)
    if not meta.name:
        generated = bool(meta.generate_name)
        why = "only an API server makes up names (generateName)" if generated else "it is required and missing"
        yield FieldProblem(path=(*path, "name"), why=why, next_step='Add "name:" with the name of the object')
    else:
        yield from _name_problems(obj, (*path, "name"))
    if meta.namespace and kind_of(obj).namespaced and (why := broken_label(meta.namespace)):
        yield FieldProblem(path=(*path, "namespace"), why=why)
    if meta.uid and (why := broken_path_element(meta.uid)):
        yield FieldProblem(path=(*path, "uid"), why=why, next_step="Leave the UID out, and one is made")
    yield from _label_problems(meta, path)


def _name_problems(obj: KubernetesObject, path: FieldPath) -> Iterator[FieldProblem]:
    name = obj.metadata.name
    match obj:
        case Namespace():
            rule = broken_label
        case CSIDriver():
            rule = broken_driver_name
        case ClusterTrustBundle():
            rule = broken_bundle_name
        case _:
            rule = broken_subdomain
    why = rule(name)
    if why:
        lower = name.lower().replace("_", "-")
        next_step = f"Write {quoted(lower)}" if not rule(lower) else ""
        yield FieldProblem(path=path, why=why, next_step=next_step)


def _label_problems(meta: ObjectMeta, path: FieldPath) -> Iterator[FieldProblem]:
    for key, value in meta.labels.items():
        why = broken_qualified_name(key) or broken_label_value(value)
        if why:
            yield FieldProblem(path=(*path, "labels", key), why=why)
    for key in meta.annotations:
        if why := broken_qualified_name(key.lower()):
            yield FieldProblem(path=(*path, "annotations", key), why=why)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in meta.annotations.items())
    if size > _MOST_ANNOTATIONS:
        why = f"the annotations have {size} bytes together, and {_MOST_ANNOTATIONS} are the most"
        yield FieldProblem(path=(*path, "annotations"), why=why)


def _config_map_problems(config_map: ConfigMap) -> Iterator[FieldProblem]:
    yield from _data_key_problems(("data",), config_map.data)
    yield from _data_key_problems(("binaryData",), config_map.binary_data)
    for key in config_map.binary_data:
        if key in config_map.data:
            yield FieldProblem(
                path=("binaryData", key),
                why=f'the key {quoted(key)} is also in "data"',
                next_step="Keep it in one of the two",
            )
    texts = (text.encode() for text in config_map.data.values())
    yield from _size_problems([*texts, *config_map.binary_data.values()])


def _data_key_problems(path: FieldPath, data: Mapping[str, object]) -> Iterator[FieldProblem]:
    for key in data:
        if why := broken_data_key(key):
            yield FieldProblem(path=(*path, key), why=why, next_step="Rename the key")


def _size_problems(values: Iterable[bytes]) -> Iterator[FieldProblem]:
    size = sum(map(len, values))
    if size > MOST_DATA:
        why = f"the values have {size} bytes together, and {MOST_DATA} (1 MiB) are the most"
        yield FieldProblem(path=("data",), why=why, next_step="Split it, or put the data into a volume")
