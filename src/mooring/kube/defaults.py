"""The defaults an API server writes into objects, as pure functions on frozen values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import CLUSTER_TRUST_BUNDLE, ObjectT, kind_of
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import Container, Pod, PodSpec, Secret
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.volumes import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)

DEFAULT_NAMESPACE = "default"
DEFAULT_FILE_MODE = 0o644
DEFAULT_TOKEN_SECONDS = 3600
DEFAULT_CERTIFICATE_SECONDS = 86400


def stable_uid(namespace: str, name: str, *, kind: str = "") -> str:
    """The UID of an object that was given none: the same for the same name, in the shape of a UUID.

    A pod's is made of `namespace/name`; that of any other object also of its kind.
    """
    seed = f"{kind}/{namespace}/{name}" if kind else f"{namespace}/{name}"
    digits = hashlib.sha256(seed.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def apply_defaults(obj: ObjectT, *, node_name: str) -> ObjectT:
    """The object as an API server would store it for a pod or its surroundings on this node."""
    obj = replace(obj, metadata=_default_metadata(obj))
    defaulted: KubernetesObject = obj
    match obj:
        case Pod():
            defaulted = replace(obj, spec=_default_pod_spec(obj.spec, node_name))
        case Secret() if obj.string_data:
            written = {key: text.encode() for key, text in obj.string_data.items()}
            defaulted = replace(obj, data={**obj.data, **written}, string_data={})
        case PersistentVolume():
            policy = obj.spec.persistent_volume_reclaim_policy or "Retain"
            mode = obj.spec.volume_mode or "Filesystem"
            defaulted = replace(obj, spec=replace(obj.spec, persistent_volume_reclaim_policy=policy, volume_mode=mode))
        case PersistentVolumeClaim():
            defaulted = replace(obj, spec=replace(obj.spec, volume_mode=obj.spec.volume_mode or "Filesystem"))
        case ClusterTrustBundle():
            defaulted = replace(obj, api_version=CLUSTER_TRUST_BUNDLE.api_version)
    assert isinstance(defaulted, type(obj))
    return defaulted


def _default_metadata(obj: KubernetesObject) -> ObjectMeta:
    meta, kind = obj.metadata, kind_of(obj)
    namespace = (meta.namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""
    uid = meta.uid or stable_uid(namespace, meta.name, kind="" if isinstance(obj, Pod) else kind.name)
    return replace(meta, namespace=namespace, uid=uid)


def _default_pod_spec(spec: PodSpec, node_name: str) -> PodSpec:
    return replace(
        spec,
        node_name=spec.node_name or node_name,
        service_account_name=spec.service_account_name or spec.service_account or "default",
        service_account="",
        volumes=tuple(map(_default_volume, spec.volumes)),
        containers=tuple(map(_default_container, spec.containers)),
        init_containers=tuple(map(_default_container, spec.init_containers)),
    )


def _default_container(container: Container) -> Container:
    """Requests follow from limits, resource by resource."""
    resources = container.resources
    if resources.limits.keys() <= resources.requests.keys():
        return container
    requests: Mapping[str, str | int | float] = {**resources.limits, **resources.requests}
    return replace(container, resources=replace(resources, requests=requests))


def _default_volume(volume: Volume) -> Volume:
    match volume:
        case Volume(config_map=ConfigMapVolumeSource() as config_map):
            return replace(volume, config_map=replace(config_map, default_mode=_mode(config_map)))
        case Volume(secret=SecretVolumeSource() as secret):
            return replace(volume, secret=replace(secret, default_mode=_mode(secret)))
        case Volume(downward_api=DownwardAPIVolumeSource() as downward):
            items = tuple(map(_default_file, downward.items))
            return replace(volume, downward_api=replace(downward, default_mode=_mode(downward), items=items))
        case Volume(projected=ProjectedVolumeSource() as projected):
            sources = tuple(map(_default_projection, projected.sources))
            return replace(volume, projected=replace(projected, default_mode=_mode(projected), sources=sources))
        case _ if not volume.source_names:
            return replace(volume, empty_dir=EmptyDirVolumeSource())
        case _:
            return volume


def _mode(
    source: ConfigMapVolumeSource | SecretVolumeSource | DownwardAPIVolumeSource | ProjectedVolumeSource,
) -> int:
    return DEFAULT_FILE_MODE if source.default_mode is None else source.default_mode


def _default_projection(source: VolumeProjection) -> VolumeProjection:
    token, certificate, downward = source.service_account_token, source.pod_certificate, source.downward_api
    if token is not None and token.expiration_seconds is None:
        token = replace(token, expiration_seconds=DEFAULT_TOKEN_SECONDS)
    if certificate is not None and certificate.max_expiration_seconds is None:
        certificate = replace(certificate, max_expiration_seconds=DEFAULT_CERTIFICATE_SECONDS)
    if downward is not None:
        downward = replace(downward, items=tuple(map(_default_file, downward.items)))
    return replace(source, service_account_token=token, pod_certificate=certificate, downward_api=downward)


def _default_file(file: DownwardAPIVolumeFile) -> DownwardAPIVolumeFile:
    if file.field_ref is None or file.field_ref.api_version:
        return file
    return replace(file, field_ref=replace(file.field_ref, api_version="v1"))
