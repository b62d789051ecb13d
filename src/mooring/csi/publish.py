"""What a driver is asked when a volume is published for a pod: pure functions, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from mooring.csi.access_modes import READ_WRITE_ONCE, READ_WRITE_ONCE_POD
from mooring.csi.drivers import Capabilities
from mooring.csi.names import identity_of, inline_source, persistent_source
from mooring.csi.redaction import TOKENS_KEY
from mooring.csi.stage import capability
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import CSIDriver
from mooring.plugins.interface import IssuedToken
from mooring.rpc import csi
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

_PREFIX = "csi.storage.k8s.io/"


def pod_keys(pod: Pod, *, ephemeral: bool) -> dict[str, str]:
    """What a driver is told of the pod, if its CSIDriver object asks for that."""
    return {
        f"{_PREFIX}pod.name": pod.metadata.name,
        f"{_PREFIX}pod.namespace": pod.metadata.namespace,
        f"{_PREFIX}pod.uid": pod.metadata.uid,
        f"{_PREFIX}serviceAccount.name": pod.spec.service_account_name,
        f"{_PREFIX}ephemeral": "true" if ephemeral else "false",
    }


def token_entry(tokens: Mapping[str, IssuedToken]) -> dict[str, str]:
    """Tokens by audience, as the one entry that drivers expect; nothing when there are none."""
    if not tokens:
        return {}
    shown = {
        audience: {"token": token.text, "expirationTimestamp": _timestamp(token.expires_at)}
        for audience, token in sorted(tokens.items())
    }
    return {TOKENS_KEY: json.dumps(shown, separators=(",", ":"))}


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def publish_request(
    spec: VolumeSpec,
    pod: Pod,
    abilities: Capabilities,
    target: str,
    stage: str,
    *,
    secrets: Mapping[str, str],
    publish_context: Mapping[str, str],
    tokens: Mapping[str, IssuedToken],
    driver: CSIDriver | None = None,
    mount_group: int | None = None,
    label: str = "",
) -> csi.NodePublishVolumeRequest:
    """The request that publishes a volume for a pod. What is told of the pod wins over the volume's attributes."""
    inline = inline_source(spec)
    source = inline if inline is not None else persistent_source(spec)
    context = dict(source.volume_attributes)
    if driver is not None and driver.spec.pod_info_on_mount:
        context |= pod_keys(pod, ephemeral=inline is not None)
    hidden = dict(secrets)
    in_secrets = driver is not None and driver.spec.service_account_token_in_secrets
    (hidden if in_secrets else context).update(token_entry(tokens))
    return csi.NodePublishVolumeRequest(
        volume_id=identity_of(spec, PodUid(pod.metadata.uid)).handle,
        publish_context=publish_context,
        staging_target_path=stage,
        target_path=target,
        volume_capability=capability(spec, abilities, source.fs_type or "", mount_group, label),
        readonly=inline.read_only if inline is not None else spec.read_only,
        secrets=hidden,
        volume_context=context,
    )


def gives_to_group(spec: VolumeSpec, policy: str) -> bool:
    """Whether the node itself gives the files of a volume to a pod's group, by the policy of its driver."""
    inline = inline_source(spec)
    if inline.read_only if inline is not None else spec.read_only:
        return False
    if policy != "ReadWriteOnceWithFSType":
        return policy == "File"
    if inline is not None:
        return bool(inline.fs_type)
    volume = spec.persistent_volume
    modes = volume.spec.access_modes if volume is not None else ()
    return bool(persistent_source(spec).fs_type) and bool({READ_WRITE_ONCE, READ_WRITE_ONCE_POD} & set(modes))
