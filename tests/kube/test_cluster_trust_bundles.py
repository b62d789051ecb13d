"""ClusterTrustBundles in manifests: their versions, their rules, and the PEM in them."""

from __future__ import annotations

import json

import pytest

from mooring.kube.codec import decode, encode, read_manifests
from mooring.kube.defaults import apply_defaults
from mooring.kube.manifest import ManifestFile
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import CLUSTER_TRUST_BUNDLE
from mooring.kube.pem import certificates_in, to_pem

ONE, TWO = b"\x30\x03one", b"\x30\x03two"
LONG = b"\x30\x82\x01\x00" + bytes(256)


def read(
    text: str, *, name: str = "ca", signer: str = "", version: str = "certificates.k8s.io/v1beta1"
) -> ManifestFile:
    spec = {"trustBundle": text, **({"signerName": signer} if signer else {})}
    written = {"apiVersion": version, "kind": "ClusterTrustBundle", "metadata": {"name": name}, "spec": spec}
    return read_manifests(json.dumps(written).encode(), origin="ca.json")


def problem(file: ManifestFile) -> tuple[str, str]:
    (found,) = file.problems
    return found.field, found.why


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_of_it_is_read_and_stored_as_one(version: str) -> None:
    file = read(to_pem([ONE]), version=f"certificates.k8s.io/{version}")
    assert (file.problems, file.warnings) == ((), ())
    stored = apply_defaults(file.objects[0].object, node_name="here")
    assert isinstance(stored, ClusterTrustBundle)
    assert (stored.api_version, stored.metadata.namespace) == ("certificates.k8s.io/v1", "")
    assert decode(CLUSTER_TRUST_BUNDLE, encode(stored)) == stored


def test_a_version_nobody_knows_is_refused_with_the_right_one() -> None:
    (found,) = read(to_pem([ONE]), version="certificates.k8s.io/v7").problems
    assert found.next_step == 'Write "apiVersion: certificates.k8s.io/v1"'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is required and missing"),
        ("certificates", "it is not PEM"),
        (to_pem([ONE]) + "-----BEGIN CERTIFICATE-----\nMAN", "it has a PEM block without a beginning or an end"),
        (to_pem([ONE]) + "-----END CERTIFICATE-----", "it has a PEM block without a beginning or an end"),
        (
            to_pem([ONE]) + to_pem([TWO]).replace("CERTIFICATE", "PRIVATE KEY"),
            "PEM block 2 is a 'PRIVATE KEY', and only CERTIFICATE is allowed",
        ),
        (to_pem([ONE]).replace("-----\n", "-----\nKind: x\n\n", 1), "PEM block 1 has headers"),
        (to_pem([ONE]).replace("MAN", "!!!"), "PEM block 1 is not base64"),
        (to_pem([b"\x30\x04one"]), "PEM block 1 holds no certificate"),
        (to_pem([b"one"]), "PEM block 1 holds no certificate"),
        (to_pem([ONE, TWO, ONE]), "it has a certificate twice"),
        (to_pem([ONE]) + " " * 1024 * 1024, "it is longer than 1048576 bytes (1 MiB)"),
    ],
)
def test_only_certificates_may_be_in_it(text: str, why: str) -> None:
    assert problem(read(text)) == ("spec.trustBundle", why)


def test_notes_between_certificates_are_passed_over() -> None:
    text = f"ours\n{to_pem([ONE])}theirs\n{to_pem([TWO])}end"
    assert read(text).usable
    assert certificates_in(text) == [ONE, TWO]


def test_a_signer_is_part_of_the_name() -> None:
    signer = "example.com/x"
    assert read(to_pem([ONE]), name="example.com:x:ca", signer=signer).usable
    (found,) = read(to_pem([ONE]), signer=signer).problems
    assert (found.field, found.next_step) == ("metadata.name", 'Write "example.com:x:ca"')
    field, why = problem(read(to_pem([ONE]), name="example.com:x:ca"))
    assert (field, why) == ("metadata.name", "only the name of a bundle with a signerName has a colon")


@pytest.mark.parametrize("signer", ["x", "example.com/", "Example_com/x"])
def test_a_signer_has_a_domain_and_a_path(signer: str) -> None:
    assert problem(read(to_pem([ONE]), signer=signer))[0] == "spec.signerName"


def test_certificates_survive_the_way_through_pem() -> None:
    text = to_pem([ONE, LONG])
    assert certificates_in(text) == [ONE, LONG]
    assert certificates_in(text.replace("\n", "\r\n")) == [ONE, LONG]
    assert max(map(len, text.splitlines())) == 64


def test_a_selector_with_an_unknown_operator_is_a_problem() -> None:
    selector = "{matchExpressions: [{key: env, operator: Like}]}"
    source = f"clusterTrustBundle: {{path: ca.pem, signerName: example.com/x, labelSelector: {selector}}}"
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c}]\n"
        f"  volumes: [{{name: v, projected: {{sources: [{{{source}}}]}}}}]\n"
    )
    field, why = problem(read_manifests(text.encode(), origin="p.yaml"))
    assert field.endswith("labelSelector.matchExpressions[0].operator")
    assert why == '"Like" is not known'
