"""What a FlexVolume driver is told of a volume and its pod: one JSON object of texts."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping

from mooring.errors import NotYet, Refused
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import FlexVolumeSource
from mooring.plugins.interface import ObjectRef, Objects, Setup
from mooring.world.spec import VolumeSpec

log = logging.getLogger(__name__)

_PREFIX = "kubernetes.io/"


def source_of(spec: VolumeSpec) -> FlexVolumeSource | None:
    holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
    return holder.flex_volume if holder is not None else None


def is_read_only(spec: VolumeSpec) -> bool:
    source = source_of(spec)
    return spec.read_only or (source is not None and source.read_only)


def options_of(spec: VolumeSpec, **more: str) -> str:
    """The options of a volume as JSON. What its author wrote comes last, and so may replace all the rest."""
    source = source_of(spec)
    assert source is not None
    options = {
        f"{_PREFIX}fsType": source.fs_type,
        f"{_PREFIX}readwrite": "ro" if is_read_only(spec) else "rw",
        f"{_PREFIX}pvOrVolumeName": spec.name,
        **more,
    }
    replaced = sorted(options.keys() & source.options.keys())
    if replaced:
        log.warning("volume %s: its own options replace %s", spec.name, ", ".join(replaced))
    return json.dumps({**options, **source.options}, sort_keys=True)


def mount_options_of(request: Setup, objects: Objects, driver: str) -> str:
    """The options for a mount: also of the pod, its group, and the Secret of the volume."""
    meta, spec = request.pod.metadata, request.pod.spec
    more = {
        f"{_PREFIX}pod.name": meta.name,
        f"{_PREFIX}pod.namespace": meta.namespace,
        f"{_PREFIX}pod.uid": request.uid,
        f"{_PREFIX}serviceAccount.name": spec.service_account_name,
    }
    if request.fs_group is not None:
        more[f"{_PREFIX}mounterArgs.FsGroup"] = str(request.fs_group)
    for key, data in secret_of(request.spec, request.pod, objects, driver).items():
        more[f"{_PREFIX}secret/{key}"] = base64.b64encode(data).decode()
    return options_of(request.spec, **more)


def secret_reference(spec: VolumeSpec, pod: Pod) -> ObjectRef | None:
    source = source_of(spec)
    if source is None or source.secret_ref is None or not source.secret_ref.name:
        return None
    stated = source.secret_ref.namespace if spec.persistent_volume is not None else ""
    return ObjectRef("Secret", stated or pod.metadata.namespace, source.secret_ref.name)


def secret_of(spec: VolumeSpec, pod: Pod, objects: Objects, driver: str) -> Mapping[str, bytes]:
    """The content of a volume's Secret; nothing when it names none. Its type must be the name of the driver."""
    reference = secret_reference(spec, pod)
    if reference is None:
        return {}
    title, what = f"'{reference.namespace}/{reference.name}'", f"cannot mount volume {spec.name!r}"
    secret = objects.secret(reference.namespace, reference.name)
    if secret is None:
        raise NotYet(what, why=f"its Secret {title} does not exist", next_step="Create it; the volume is mounted then")
    if secret.type != driver:
        next_step = f"Give the Secret the type {driver!r}"
        raise Refused(what, why=f"its Secret {title} is of type {secret.type!r}", next_step=next_step)
    return secret.data
