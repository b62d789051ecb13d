"""The defaults of an API server."""

from __future__ import annotations

import hashlib

import pytest

from mooring.kube.codec import read_manifests
from mooring.kube.defaults import apply_defaults, stable_uid
from mooring.kube.objects.kinds import ALL_KINDS, Kind
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, ResourceRequirements, Secret
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.volumes import EmptyDirVolumeSource, ObjectFieldSelector, Volume


def default(obj: KubernetesObject) -> KubernetesObject:
    return apply_defaults(obj, node_name="node-a")


def default_pod(spec: PodSpec) -> PodSpec:
    return apply_defaults(Pod(metadata=ObjectMeta(name="web"), spec=spec), node_name="node-a").spec


def default_volume(written: str) -> Volume:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        f"spec: {{containers: [{{name: c}}], volumes: [{{name: v, {written}}}]}}\n"
    )
    file = read_manifests(text.encode(), origin="test")
    assert file.problems == ()
    pod = file.objects[0].object
    assert isinstance(pod, Pod)
    return default_pod(pod.spec).volumes[0]


def test_a_namespaced_object_lands_in_the_default_namespace() -> None:
    assert default(ConfigMap(metadata=ObjectMeta(name="c"))).metadata.namespace == "default"
    assert default(ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"))).metadata.namespace == "shop"


def test_a_cluster_scoped_object_loses_its_namespace() -> None:
    assert default(Node(metadata=ObjectMeta(name="n", namespace="shop"))).metadata.namespace == ""


def test_the_uid_of_a_pod_follows_from_its_namespace_and_name() -> None:
    digits = hashlib.sha256(b"default/web").hexdigest()
    uid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
    assert default(Pod(metadata=ObjectMeta(name="web"))).metadata.uid == uid == stable_uid("default", "web")
    assert len(uid) == 36


def test_the_uid_of_another_object_follows_from_its_kind_as_well() -> None:
    config_map = default(ConfigMap(metadata=ObjectMeta(name="web")))
    assert config_map.metadata.uid == stable_uid("default", "web", kind="ConfigMap")
    assert config_map.metadata.uid != stable_uid("default", "web")
    assert default(Node(metadata=ObjectMeta(name="n"))).metadata.uid == stable_uid("", "n", kind="Node")


def test_a_uid_that_was_given_stays() -> None:
    assert default(Pod(metadata=ObjectMeta(name="web", uid="mine"))).metadata.uid == "mine"


def test_the_texts_of_a_secret_join_its_data_and_win() -> None:
    secret = default(Secret(data={"a": b"1", "b": b"2"}, string_data={"b": "zwei", "ü": "ü"}))
    assert isinstance(secret, Secret)
    assert secret.data == {"a": b"1", "b": b"zwei", "ü": "ü".encode()}
    assert secret.string_data == {}


@pytest.mark.parametrize(
    "written", ["configMap: {name: c}", "secret: {secretName: s}", "downwardAPI: {}", "projected: {}"]
)
def test_files_get_the_mode_0644(written: str) -> None:
    volume = default_volume(written)
    source = volume.config_map or volume.secret or volume.downward_api or volume.projected
    assert source is not None
    assert source.default_mode == 0o644


def test_a_mode_of_zero_stays_zero() -> None:
    volume = default_volume("configMap: {name: c, defaultMode: 0}")
    assert volume.config_map is not None
    assert volume.config_map.default_mode == 0


def test_a_volume_without_a_source_becomes_an_empty_dir() -> None:
    assert default_pod(PodSpec(volumes=(Volume(name="v"),))).volumes == (
        Volume(name="v", empty_dir=EmptyDirVolumeSource()),
    )


def test_a_token_lasts_an_hour_and_a_certificate_a_day() -> None:
    volume = default_volume(
        "projected: {sources: [{serviceAccountToken: {path: t}}, "
        "{podCertificate: {signerName: a/b, keyType: ED25519, keyPath: k}}, "
        "{serviceAccountToken: {path: u, expirationSeconds: 7200}}]}"
    )
    assert volume.projected is not None
    token, certificate, other = volume.projected.sources
    assert token.service_account_token is not None
    assert token.service_account_token.expiration_seconds == 3600
    assert certificate.pod_certificate is not None
    assert certificate.pod_certificate.max_expiration_seconds == 86400
    assert other.service_account_token is not None
    assert other.service_account_token.expiration_seconds == 7200


def test_a_field_reference_has_the_version_v1() -> None:
    items = 'items: [{path: p, fieldRef: {apiVersion: "", fieldPath: metadata.name}}]'
    volume = default_volume(f"downwardAPI: {{{items}}}")
    assert volume.downward_api is not None
    assert volume.downward_api.items[0].field_ref == ObjectFieldSelector(field_path="metadata.name", api_version="v1")
    volume = default_volume(f"projected: {{sources: [{{downwardAPI: {{{items}}}}}]}}")
    assert volume.projected is not None
    projection = volume.projected.sources[0].downward_api
    assert projection is not None
    assert projection.items[0].field_ref == ObjectFieldSelector(field_path="metadata.name", api_version="v1")


def test_a_pod_without_a_node_is_for_this_node() -> None:
    assert default_pod(PodSpec()).node_name == "node-a"
    assert default_pod(PodSpec(node_name="node-b")).node_name == "node-b"


def test_the_service_account_is_default_unless_named_by_either_name() -> None:
    assert default_pod(PodSpec()).service_account_name == "default"
    assert default_pod(PodSpec(service_account="old")).service_account_name == "old"
    assert default_pod(PodSpec(service_account="old", service_account_name="new")).service_account_name == "new"


def test_requests_follow_from_limits_resource_by_resource() -> None:
    resources = ResourceRequirements(limits={"cpu": 2, "memory": "1Gi"}, requests={"cpu": 1})
    container = Container(name="c", resources=resources)
    spec = default_pod(PodSpec(containers=(container,), init_containers=(container,)))
    for defaulted in (*spec.containers, *spec.init_containers):
        assert defaulted.resources.requests == {"cpu": 1, "memory": "1Gi"}
        assert defaulted.resources.limits == {"cpu": 2, "memory": "1Gi"}


def test_volumes_and_claims_hold_a_file_system_and_volumes_are_retained() -> None:
    volume = default(PersistentVolume())
    claim = default(PersistentVolumeClaim())
    assert isinstance(volume, PersistentVolume)
    assert isinstance(claim, PersistentVolumeClaim)
    assert (volume.spec.volume_mode, claim.spec.volume_mode) == ("Filesystem", "Filesystem")
    assert volume.spec.persistent_volume_reclaim_policy == "Retain"


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_defaulting_twice_changes_nothing_more(kind: Kind[KubernetesObject]) -> None:
    obj = kind.type(metadata=ObjectMeta(name="x"))
    once = default(obj)
    assert default(once) == once
    assert obj == type(obj)(metadata=ObjectMeta(name="x"))
