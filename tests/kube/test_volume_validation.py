"""The rules for the volumes of a pod, and what they leave to run time."""

from __future__ import annotations

import pytest

from mooring.kube.codec import ManifestFile, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.validation import advise, validate


def read(source: str) -> ManifestFile:
    """A pod with one volume that has this source."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        f"spec: {{containers: [{{name: c}}], volumes: [{{name: v, {source}}}]}}\n"
    )
    return read_manifests(text.encode(), origin="test.yaml")


def problems_of(source: str) -> list[tuple[str, str]]:
    return [(problem.field.removeprefix("spec.volumes[0]."), problem.why) for problem in read(source).problems]


@pytest.mark.parametrize(
    "source",
    [
        "configMap: {name: any, defaultMode: 0777, items: [{key: a, path: b/c, mode: 0, user: 5}]}",
        "configMap: {name: c, items: [{key: a, path: .hidden/...x}]}",
        "secret: {secretName: absent, items: [{key: absent, path: x}]}",
        "secret: {secretName: s, items: [{key: a, path: x}, {key: b, path: x}]}",
        "hostPath: {path: some/where}",
        "nfs: {server: s, path: /p, readOnly: true}",
        "iscsi: {targetPortal: p, iqn: 'iqn.2026-01.com.example:disk-1', lun: 255, portals: [q]}",
        "iscsi: {targetPortal: p, iqn: eui.02004567A425678D, chapAuthSession: true, secretRef: {name: s}}",
        "fc: {targetWWNs: [500a0982991b8dc5], lun: 0}",
        "fc: {wwids: [3600508b400105e210000900000490000]}",
        "flexVolume: {driver: example.com/nbd, options: {example.com/x: y, plain: z}}",
        "emptyDir: {medium: HugePages-2Mi}",
        "emptyDir: {sizeLimit: 0, mode: 01777}",
        "awsElasticBlockStore: {volumeID: vol-1}",
        "csi: {driver: Driver.Example.com}",
        "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: \"metadata.labels['app.example/x']\"}}]}",
        "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: \"metadata.annotations['Example.com/X']\"}}]}",
        "downwardAPI: {items: [{path: a, resourceFieldRef: {containerName: nobody, resource: limits.hugepages-2Mi}}]}",
        "downwardAPI: {items: [{path: a, resourceFieldRef: {containerName: c, resource: requests.cpu, divisor: 1m}}]}",
        "downwardAPI: {items: [{path: a, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 0}}]}",
        "projected: {sources: [{}]}",
        "projected: {sources: [{serviceAccountToken: {path: t}}, {secret: {name: s, items: [{key: a, path: t}]}}]}",
        "projected: {sources: [{clusterTrustBundle: {name: 'example.com:a:b', path: p}}]}",
    ],
)
def test_what_the_api_server_accepts_is_accepted_before_and_after_defaulting(source: str) -> None:
    file = read(source)
    assert file.problems == ()
    assert validate(apply_defaults(file.objects[0].object, node_name="node-a")) == []


@pytest.mark.parametrize(
    ("source", "field", "why"),
    [
        ("gitRepo: {repository: r, directory: ../x}", "gitRepo.directory", 'contains ".."'),
        ("hostPath: {path: /a/../b}", "hostPath.path", 'contains ".."'),
        ("image: {}", "image.reference", "required"),
        ("nfs: {server: s, path: x}", "nfs.path", "is not an absolute path"),
        ("iscsi: {targetPortal: p, iqn: x}", "iscsi.iqn", "does not begin with iqn"),
        ("iscsi: {targetPortal: p, iqn: ''}", "iscsi.iqn", "required"),
        ("iscsi: {targetPortal: p, iqn: iqn.x}", "iscsi.iqn", "is no iqn name"),
        ("iscsi: {targetPortal: p, iqn: eui.123}", "iscsi.iqn", "is no eui name"),
        ("iscsi: {targetPortal: p, iqn: 'iqn.2026-01.a:x y'}", "iscsi.iqn", "is no iqn name"),
        ("iscsi: {targetPortal: p, iqn: iqn.2026-01.a, lun: 256}", "iscsi.lun", "256 is not between 0 and 255"),
        ("iscsi: {targetPortal: p, iqn: iqn.2026-01.a, chapAuthSession: true}", "iscsi.secretRef", "CHAP is wanted"),
        ("iscsi: {targetPortal: p, iqn: iqn.2026-01.a, initiatorName: me}", "iscsi.initiatorName", "does not begin"),
        ("fc: {lun: 1}", "fc", "names no disk"),
        ("fc: {targetWWNs: [a]}", "fc.lun", "required with targetWWNs"),
        ("fc: {targetWWNs: [a], lun: 300}", "fc.lun", "300 is not between 0 and 255"),
        ("fc: {targetWWNs: [a], lun: 1, wwids: [b]}", "fc.wwids", "two ways"),
        ("flexVolume: {driver: a/b, options: {kubernetes.io/x: y}}", 'flexVolume.options["kubernetes.io/x"]', "keeps"),
        ("flexVolume: {driver: a/b, options: {x.K8S.io/y: z}}", 'flexVolume.options["x.K8S.io/y"]', "keeps"),
        ("csi: {driver: a_b}", "csi.driver", "may only have lower-case letters"),
        ("csi: {driver: ''}", "csi.driver", "required"),
        ("flexVolume: {driver: ''}", "flexVolume.driver", "required"),
        ("ephemeral: {}", "ephemeral.volumeClaimTemplate", "required"),
        ("secret: {secretName: s, defaultUser: -1}", "secret.defaultUser", "-1 is not an ID"),
        ("downwardAPI: {defaultMode: 512}", "downwardAPI.defaultMode", "512 is not a mode"),
        ("projected: {defaultMode: 512}", "projected.defaultMode", "512 is not a mode"),
    ],
)
def test_what_the_api_server_refuses_is_refused(source: str, field: str, why: str) -> None:
    ((found_field, found_why),) = problems_of(source)
    assert found_field == field
    assert why in found_why


@pytest.mark.parametrize(
    ("item", "field", "why"),
    [
        ("path: p", "", "neither fieldRef nor resourceFieldRef"),
        ("path: p, fieldRef: {fieldPath: metadata.name}, resourceFieldRef: {resource: limits.cpu}", "", "it has both"),
        ("path: p, fieldRef: {fieldPath: status.podIP}", ".fieldRef.fieldPath", "cannot show"),
        ("path: p, fieldRef: {fieldPath: \"metadata.name['a']\"}", ".fieldRef.fieldPath", "cannot show"),
        ("path: p, fieldRef: {fieldPath: \"metadata.labels['a b']\"}", ".fieldRef.fieldPath", "may only have"),
        ("path: p, fieldRef: {fieldPath: ''}", ".fieldRef.fieldPath", "required"),
        ("path: p, fieldRef: {fieldPath: metadata.name, apiVersion: v2}", ".fieldRef.apiVersion", "not known"),
        ("path: p, resourceFieldRef: {resource: limits.cpu}", ".resourceFieldRef.containerName", "required"),
        ("path: p, resourceFieldRef: {containerName: c, resource: cpu}", ".resourceFieldRef.resource", "cannot show"),
        (
            "path: p, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1k}",
            ".resourceFieldRef.divisor",
            "1k does not divide limits.cpu",
        ),
        (
            "path: p, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: x}",
            ".resourceFieldRef.divisor",
            "not a quantity",
        ),
        ("path: /p, fieldRef: {fieldPath: metadata.name}", ".path", "is absolute"),
        ("path: p, mode: 01000, fieldRef: {fieldPath: metadata.name}", ".mode", "512 is not a mode"),
    ],
)
@pytest.mark.parametrize("frame", ["downwardAPI", "projected.sources[0].downwardAPI"])
def test_a_file_of_the_downward_api_is_checked_wherever_it_stands(frame: str, item: str, field: str, why: str) -> None:
    source = f"downwardAPI: {{items: [{{{item}}}]}}"
    if frame != "downwardAPI":
        source = f"projected: {{sources: [{{{source}}}]}}"
    ((found_field, found_why),) = problems_of(source)
    assert found_field == f"{frame}.items[0]{field}"
    assert why in found_why


def test_an_unknown_field_path_is_answered_with_the_ones_that_exist() -> None:
    (problem,) = read("downwardAPI: {items: [{path: p, fieldRef: {fieldPath: spec.nodeName}}]}").problems
    assert problem.next_step == (
        "Write one of metadata.name, metadata.namespace, metadata.uid, metadata.labels, metadata.annotations, "
        "metadata.labels['KEY'] or metadata.annotations['KEY']"
    )


CERTIFICATE = "podCertificate: {signerName: example.com/a, keyType: ED25519"


@pytest.mark.parametrize(
    ("projection", "field", "why"),
    [
        ("secret: {name: s}, configMap: {name: c}", "", "several sources: configMap and secret"),
        ("secret: {}", ".secret.name", "required"),
        ("configMap: {name: c, items: [{key: a, path: ../b}]}", ".configMap.items[0].path", 'contains ".."'),
        ("serviceAccountToken: {path: t, expirationSeconds: 599}", ".serviceAccountToken.expirationSeconds", "599 "),
        ("serviceAccountToken: {path: ''}", ".serviceAccountToken.path", "required"),
        ("clusterTrustBundle: {path: p}", ".clusterTrustBundle", "either name or signerName"),
        ("clusterTrustBundle: {path: p, name: A}", ".clusterTrustBundle.name", "may only have lower-case letters"),
        ("clusterTrustBundle: {path: p, name: a, labelSelector: {}}", ".clusterTrustBundle.labelSelector", "named"),
        (CERTIFICATE.replace("ED25519", "RSA1") + ", keyPath: k}", ".podCertificate.keyType", "not known"),
        (CERTIFICATE + "}", ".podCertificate", "no file"),
        (CERTIFICATE + ", keyPath: k, maxExpirationSeconds: 60}", ".podCertificate.maxExpirationSeconds", "60 seconds"),
        (CERTIFICATE + ", keyPath: /k}", ".podCertificate.keyPath", "is absolute"),
    ],
)
def test_each_source_of_a_projected_volume_is_checked(projection: str, field: str, why: str) -> None:
    ((found_field, found_why),) = problems_of(f"projected: {{sources: [{{{projection}}}]}}")
    assert found_field == f"projected.sources[0]{field}"
    assert why in found_why


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ("secret: {name: s, items: [{key: a, path: x}]}", "secret.items[0].path"),
        ("downwardAPI: {items: [{path: x, fieldRef: {fieldPath: metadata.name}}]}", "downwardAPI.items[0].path"),
        ("clusterTrustBundle: {name: a, path: x}", "clusterTrustBundle.path"),
        (CERTIFICATE + ", keyPath: x}", "podCertificate.keyPath"),
    ],
)
def test_two_sources_may_not_write_one_file(second: str, field: str) -> None:
    first = "configMap: {name: c, items: [{key: a, path: x}]}"
    assert problems_of(f"projected: {{sources: [{{{first}}}, {{{second}}}]}}") == [
        (f"projected.sources[1].{field}", 'conflicting duplicate paths: sources[0] also writes "x"')
    ]


@pytest.mark.parametrize("medium", ["", "Memory", "HugePages", "HugePages-2Mi"])
def test_known_media_need_no_advice(medium: str) -> None:
    assert advise(read(f"emptyDir: {{medium: '{medium}'}}").objects[0].object) == []


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ("emptyDir: {medium: memory}", "emptyDir.medium"),
        ("emptyDir: {medium: HugePages-big}", "emptyDir.medium"),
        ("configMap: {name: c, items: [{key: a b, path: x}]}", "configMap.items[0].key"),
        ("secret: {secretName: s, items: [{key: a b, path: x}]}", "secret.items[0].key"),
        (
            "projected: {sources: [{secret: {name: s, items: [{key: a/b, path: x}]}}]}",
            "projected.sources[0].secret.items[0].key",
        ),
        ("projected: {sources: [{}]}", "projected.sources[0]"),
    ],
)
def test_what_is_valid_but_cannot_work_is_advised_against(source: str, field: str) -> None:
    (manifest,) = read(source).objects
    assert [advice.field for advice in advise(manifest.object)] == [f"spec.volumes[0].{field}"]
