"""The rules of the API server for objects, pods and storage, and what they leave to run time."""

from __future__ import annotations

import pytest

from mooring.kube.codec import ManifestFile, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Pod, Secret
from mooring.kube.validation import advise, validate, validate_update


def read(kind: str, fields: str, *, version: str = "v1", name: str = "x") -> ManifestFile:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n{fields}\n"
    return read_manifests(text.encode(), origin="test.yaml")


def read_pod(container: str, spec: str = "") -> ManifestFile:
    """A pod with a container that has these fields, two empty volumes `v` and `w` and one claim `b`."""
    volumes = "volumes: [{name: v}, {name: w}, {name: b, persistentVolumeClaim: {claimName: x}}]"
    return read("Pod", f"spec: {{containers: [{{name: c, {container}}}], {volumes}, {spec}}}")


def expect_one_problem(file: ManifestFile, field: str, why: str) -> None:
    (problem,) = file.problems
    assert problem.field == field
    assert why in problem.why


@pytest.mark.parametrize(
    "container",
    [
        "volumeDevices: [{name: b, devicePath: /dev/x}]",
        "volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b, subPath: x}]",
        "volumeMounts: [{name: v, mountPath: relative}]",
        "volumeMounts: [{name: v, mountPath: /a, subPathExpr: $(POD)}]",
        "volumeMounts: [{name: v, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled}]",
        "securityContext: {privileged: yes}, volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]",
        "resources: {limits: {cpu: 1.5, memory: 1e9, hugepages-2Mi: 4Mi, example.com/gpu: 1}}",
        "imagePullPolicy: Never, env: [{name: a.b, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]",
        "env: [{name: F, valueFrom: {fileKeyRef: {path: p, key: k, volumeName: v}}}]",
        "envFrom: [{prefix: P_, configMapRef: {name: c}}, {secretRef: {name: s, optional: true}}]",
    ],
)
def test_a_container_that_the_api_server_accepts_is_accepted(container: str) -> None:
    file = read_pod(container)
    assert file.problems == ()
    assert validate(apply_defaults(file.objects[0].object, node_name="node-a")) == []


@pytest.mark.parametrize(
    ("container", "field", "why"),
    [
        (
            "volumeMounts: [{name: v, mountPath: /a, subPath: x, subPathExpr: y}]",
            "volumeMounts[0].subPathExpr",
            "exclude",
        ),
        ("imagePullPolicy: Sometimes", "imagePullPolicy", '"Sometimes" is not known'),
        ("env: [{name: a=b}]", "env[0].name", "cannot be the name of a variable"),
        (
            "env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "env[0].valueFrom",
            "exclude",
        ),
        ("volumeMounts: [{name: v, mountPath: /a, subPathExpr: ../y}]", "volumeMounts[0].subPathExpr", 'contains ".."'),
        (
            "volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]",
            "volumeMounts[0].mountPropagation",
            "privileged",
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: Enabled}]",
            "volumeMounts[0].recursiveReadOnly",
            "not readOnly",
        ),
        ("volumeMounts: [{name: v, mountPath: ''}]", "volumeMounts[0].mountPath", "required"),
        ("volumeMounts: [{name: '', mountPath: /a}]", "volumeMounts[0].name", "required"),
        ("volumeDevices: [{name: v, devicePath: /dev/x}]", "volumeDevices[0].name", "cannot be a block device"),
        ("volumeDevices: [{name: zz, devicePath: /dev/x}]", "volumeDevices[0].name", "no volume called"),
        ("volumeDevices: [{name: b, devicePath: /dev/../x}]", "volumeDevices[0].devicePath", 'contains ".."'),
        (
            "volumeMounts: [{name: b, mountPath: /b}], volumeDevices: [{name: b, devicePath: /dev/x}]",
            "volumeDevices[0].name",
            "also in volumeMounts",
        ),
        (
            "volumeMounts: [{name: v, mountPath: /b}], volumeDevices: [{name: b, devicePath: /b}]",
            "volumeDevices[0].devicePath",
            'volumeMounts[0] already uses "/b"',
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a, readOnly: yes, recursiveReadOnly: Enabled, "
            "mountPropagation: HostToContainer}]",
            "volumeMounts[0].recursiveReadOnly",
            "excludes mountPropagation",
        ),
        ("resources: {limits: {a b: 1}}", 'resources.limits["a b"]', "may only have letters"),
        ("securityContext: {runAsUser: 2147483648}", "securityContext.runAsUser", "not an ID"),
        ("resources: {limits: {memory: 1gb}}", "resources.limits.memory", "not a quantity"),
        ("resources: {limits: {cpu: -1}}", "resources.limits.cpu", "negative"),
    ],
)
def test_a_container_that_the_api_server_refuses_is_refused(container: str, field: str, why: str) -> None:
    expect_one_problem(read_pod(container), f"spec.containers[0].{field}", why)


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ("initContainers: [{name: c}]", "containers[0].name", 'initContainers[0] is also called "c"'),
        ("ephemeralContainers: [{name: C}]", "ephemeralContainers[0].name", "may only have lower-case letters"),
        ("securityContext: {supplementalGroups: [1, -1]}", "securityContext.supplementalGroups[1]", "not an ID"),
        ("securityContext: {fsGroup: 2147483648}", "securityContext.fsGroup", "not an ID"),
        ("securityContext: {fsGroupChangePolicy: Never}", "securityContext.fsGroupChangePolicy", "not known"),
        ("nodeName: Node_A", "nodeName", "may only have lower-case letters"),
        ("restartPolicy: Sometimes", "restartPolicy", '"Sometimes" is not known'),
        ("terminationGracePeriodSeconds: -1", "terminationGracePeriodSeconds", "-1 is less than 0"),
        ("resources: {requests: {cpu: x}}", "resources.requests.cpu", "not a quantity"),
    ],
)
def test_a_pod_that_the_api_server_refuses_is_refused(spec: str, field: str, why: str) -> None:
    expect_one_problem(read_pod("", spec), f"spec.{field}", why)


CLAIM = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
VOLUME = "accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("PersistentVolumeClaim", CLAIM),
        ("PersistentVolumeClaim", CLAIM + ", storageClassName: ''"),
        ("PersistentVolume", VOLUME + ", local: {path: /x}, nodeAffinity: {required: {}}"),
        ("PersistentVolume", VOLUME + ", csi: {driver: d.example.com, volumeHandle: h}"),
        ("PersistentVolume", VOLUME + ", gcePersistentDisk: {pdName: p}"),
        ("PersistentVolume", VOLUME + ", iscsi: {targetPortal: p, iqn: iqn.2026-01.a}"),
    ],
)
def test_storage_that_the_api_server_accepts_is_accepted(kind: str, spec: str) -> None:
    file = read(kind, f"spec: {{{spec}}}")
    assert file.problems == ()
    assert validate(apply_defaults(file.objects[0].object, node_name="node-a")) == []


@pytest.mark.parametrize(
    ("kind", "spec", "field", "why"),
    [
        ("PersistentVolumeClaim", CLAIM.replace("[ReadWriteOnce]", "[]"), "spec.accessModes", "required"),
        ("PersistentVolumeClaim", CLAIM.replace("Once", "Some"), "spec.accessModes[0]", "not known"),
        ("PersistentVolumeClaim", CLAIM.replace("Once", "OncePod, ReadWriteMany"), "spec.accessModes", "no other"),
        ("PersistentVolumeClaim", CLAIM.replace("storage: 1Gi", ""), "spec.resources.requests.storage", "required"),
        ("PersistentVolumeClaim", CLAIM.replace("1Gi", "0"), "spec.resources.requests.storage", "zero"),
        ("PersistentVolumeClaim", CLAIM + ", volumeMode: File", "spec.volumeMode", "not known"),
        ("PersistentVolumeClaim", CLAIM + ", storageClassName: A", "spec.storageClassName", "may only have"),
        ("PersistentVolume", VOLUME, "spec", "no source"),
        (
            "PersistentVolume",
            VOLUME + ", hostPath: {path: /x}, nfs: {server: s, path: /}",
            "spec.nfs",
            "hostPath and nfs",
        ),
        ("PersistentVolume", VOLUME + ", local: {path: /x}", "spec.nodeAffinity", "on which node"),
        ("PersistentVolume", VOLUME + ", csi: {driver: d, volumeHandle: ''}", "spec.csi.volumeHandle", "required"),
        ("PersistentVolume", "accessModes: [ReadWriteOnce], hostPath: {path: /x}", "spec.capacity.storage", "required"),
    ],
)
def test_storage_that_the_api_server_refuses_is_refused(kind: str, spec: str, field: str, why: str) -> None:
    expect_one_problem(read(kind, f"spec: {{{spec}}}"), field, why)


@pytest.mark.parametrize(
    ("kind", "fields", "field", "why"),
    [
        ("StorageClass", "", "provisioner", "required"),
        ("StorageClass", "provisioner: p\nvolumeBindingMode: Later", "volumeBindingMode", "not known"),
        ("VolumeAttachment", "spec: {attacher: a, nodeName: n}", "spec.source", "either"),
        ("CSIDriver", "spec: {fsGroupPolicy: Some}", "spec.fsGroupPolicy", "not known"),
        ("CSIDriver", "spec: {volumeLifecycleModes: [Forever]}", "spec.volumeLifecycleModes[0]", "not known"),
    ],
)
def test_objects_of_the_storage_group_are_checked(kind: str, fields: str, field: str, why: str) -> None:
    expect_one_problem(read(kind, fields, version="storage.k8s.io/v1"), field, why)


def test_a_namespace_is_a_dns_label_and_a_driver_a_short_dns_name_in_either_case() -> None:
    expect_one_problem(read("Namespace", "", name="a.b"), "metadata.name", "may only have lower-case letters")
    assert read("CSIDriver", "", version="storage.k8s.io/v1", name="Example.com").problems == ()
    expect_one_problem(
        read("CSIDriver", "", version="storage.k8s.io/v1", name="x" * 64), "metadata.name", "63 are the most"
    )


@pytest.mark.parametrize("key", [".", "..", "..data", "a/b", "ä", "x" * 254])
def test_a_key_that_is_no_file_name_is_refused(key: str) -> None:
    (problem,) = validate(Secret(metadata=ObjectMeta(name="s"), string_data={key: "x"}))
    assert problem.path == ("stringData", key)


def test_the_size_of_a_secret_counts_data_and_texts_together() -> None:
    half = 600 * 1024
    secret = Secret(metadata=ObjectMeta(name="s"), data={"a": b"x" * half}, string_data={"b": "x" * half})
    assert [problem.field for problem in validate(secret)] == ["data"]


@pytest.mark.parametrize(
    ("kind", "data", "fields"),
    [
        ("Opaque", {}, []),
        ("example.com/own", {}, []),
        ("kubernetes.io/tls", {"tls.crt": ""}, ['data["tls.key"]']),
        ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""}, []),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data.ssh-privatekey"]),
        ("kubernetes.io/basic-auth", {"other": "x"}, ["data.username", "data.password"]),
        ("kubernetes.io/basic-auth", {"password": ""}, []),
        ("kubernetes.io/dockercfg", {}, ['data[".dockercfg"]']),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{"}, ['data[".dockerconfigjson"]']),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "[]"}, ['data[".dockerconfigjson"]']),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{}"}, []),
        (
            "kubernetes.io/service-account-token",
            {},
            ['metadata.annotations["kubernetes.io/service-account.name"]'],
        ),
    ],
)
def test_a_secret_holds_what_its_type_asks_for(kind: str, data: dict[str, str], fields: list[str]) -> None:
    secret = Secret(metadata=ObjectMeta(name="s"), type=kind, string_data=data)
    assert [problem.field for problem in validate(secret)] == fields


LONG = "x" * 64


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        (ObjectMeta(name="c", namespace=LONG), "metadata.namespace"),
        (ObjectMeta(name="c", uid="x" * 254), "metadata.uid"),
        (ObjectMeta(name="c", uid="a\nb"), "metadata.uid"),
        (ObjectMeta(name="c", labels={"a": LONG}), "metadata.labels.a"),
        (ObjectMeta(name="c", labels={LONG: "a"}), f"metadata.labels.{LONG}"),
        (ObjectMeta(name="c", labels={'say "hi"\n': "a"}), 'metadata.labels["say \\"hi\\"\\n"]'),
    ],
)
def test_metadata_that_the_api_server_refuses_is_refused(meta: ObjectMeta, field: str) -> None:
    assert [problem.field for problem in validate(ConfigMap(metadata=meta))] == [field]


def test_a_name_that_only_needs_lower_case_is_suggested() -> None:
    (problem,) = validate(ConfigMap(metadata=ObjectMeta(name="My_Config")))
    assert problem.next_step == 'Write "my-config"'


def test_annotations_have_a_limit() -> None:
    (problem,) = validate(ConfigMap(metadata=ObjectMeta(name="c", annotations={"a": "x" * 256 * 1024})))
    assert problem.field == "metadata.annotations"


def test_a_mount_path_with_a_colon_is_advised_against() -> None:
    (manifest,) = read_pod("volumeMounts: [{name: v, mountPath: '/a:b'}]").objects
    assert [advice.field for advice in advise(manifest.object)] == ["spec.containers[0].volumeMounts[0].mountPath"]


IMMUTABLE_MAP = ConfigMap(data={"a": "1"}, binary_data={"b": b"1"}, immutable=True)
IMMUTABLE_SECRET = Secret(data={"a": b"1"}, immutable=True)


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        (IMMUTABLE_MAP, ConfigMap(data={"a": "2"}, binary_data={"b": b"1"}, immutable=True), ["data"]),
        (IMMUTABLE_MAP, ConfigMap(data={"a": "1"}, immutable=True), ["binaryData"]),
        (IMMUTABLE_MAP, ConfigMap(data={"a": "1"}, binary_data={"b": b"1"}), ["immutable"]),
        (IMMUTABLE_MAP, IMMUTABLE_MAP, []),
        (IMMUTABLE_SECRET, Secret(data={"a": b"2"}, immutable=True), ["data"]),
        (IMMUTABLE_SECRET, Secret(data={"a": b"2"}), ["data", "immutable"]),
        (IMMUTABLE_SECRET, Secret(string_data={"a": "1"}, immutable=True), []),
        (ConfigMap(data={"a": "1"}), ConfigMap(data={"a": "2"}, immutable=True), []),
        (Pod(), Pod(), []),
    ],
)
def test_only_the_data_of_immutable_objects_is_fixed(
    old: KubernetesObject, new: KubernetesObject, fields: list[str]
) -> None:
    assert [problem.field for problem in validate_update(old, new)] == fields
