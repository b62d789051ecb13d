"""Tokens as a Kubernetes API server writes them, verified with nothing but the published key."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from mooring.controllers.token_signer import NodeIdentity, TokenSigner, default_issuer
from mooring.errors import NotYet, Refused
from mooring.kube.defaults import stable_uid
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ServiceAccount
from mooring.plugins.interface import TokenRequest
from mooring.sources.object_table import ObjectTable
from mooring.testing.verified_tokens import from_base64url, published_key, verified_claims
from mooring.testing.virtual_time import run_virtual

NOW = 1_800_000_000.75
ISSUER = "https://tokens.example.com"
REQUEST = TokenRequest(
    namespace="shop",
    service_account="clerk",
    audiences=("vault", "bank"),
    expiration_seconds=3600,
    pod_name="web",
    pod_uid="uid-web",
)


def accounts() -> ObjectTable:
    """The objects of a node where one account is written."""
    objects = ObjectTable()
    objects.put(ServiceAccount(metadata=ObjectMeta(name="clerk", namespace="shop", uid="uid-clerk")))
    return objects


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("key") / "service-account.key"


@pytest.fixture
def signer(key_file: Path) -> TokenSigner:
    return TokenSigner(
        str(key_file), issuer=ISSUER, node=lambda: NodeIdentity(name="here", uid="uid-here"), accounts=accounts()
    )


def claims(signer: TokenSigner, request: TokenRequest = REQUEST) -> dict[str, Any]:
    return verified_claims(run_virtual(signer.issue(request, NOW)).text, signer.key_set())


def test_a_token_that_was_changed_does_not_verify(signer: TokenSigner) -> None:
    head, body, signature = run_virtual(signer.issue(REQUEST, NOW)).text.split(".")
    other = json.dumps({**json.loads(from_base64url(body)), "sub": "system:serviceaccount:shop:boss"}).encode()
    forged = base64.urlsafe_b64encode(other).rstrip(b"=").decode()
    with pytest.raises(InvalidSignature):
        verified_claims(f"{head}.{forged}.{signature}", signer.key_set())


def test_the_published_key_verifies_a_token_and_its_claims_are_those_of_an_api_server(signer: TokenSigner) -> None:
    issued = run_virtual(signer.issue(REQUEST, NOW))
    found = verified_claims(issued.text, signer.key_set())
    uuid.UUID(found.pop("jti"))
    assert found == {
        "aud": ["vault", "bank"],
        "exp": 1_800_003_600,
        "iat": 1_800_000_000,
        "nbf": 1_800_000_000,
        "iss": ISSUER,
        "sub": "system:serviceaccount:shop:clerk",
        "kubernetes.io": {
            "namespace": "shop",
            "node": {"name": "here", "uid": "uid-here"},
            "pod": {"name": "web", "uid": "uid-web"},
            "serviceaccount": {"name": "clerk", "uid": "uid-clerk"},
        },
    }
    assert (issued.expires_at, issued.lifetime) == (1_800_003_600, 3600)


def test_without_an_audience_the_issuer_is_the_audience(signer: TokenSigner) -> None:
    request = TokenRequest(namespace="shop", service_account="clerk", expiration_seconds=600)
    found = claims(signer, request)
    assert found["aud"] == [ISSUER]
    assert found["kubernetes.io"] == {"namespace": "shop", "serviceaccount": {"name": "clerk", "uid": "uid-clerk"}}


def test_a_token_can_be_bound_to_a_secret(signer: TokenSigner) -> None:
    request = TokenRequest(
        namespace="shop",
        service_account="clerk",
        expiration_seconds=600,
        secret_name="safe",
        secret_uid="uid-safe",
    )
    about = claims(signer, request)["kubernetes.io"]
    assert about["secret"] == {"name": "safe", "uid": "uid-safe"}


def test_a_node_without_an_object_has_no_uid_in_the_claims(key_file: Path) -> None:
    signer = TokenSigner(str(key_file), issuer=ISSUER, node=lambda: NodeIdentity(name="here"), accounts=accounts())
    assert claims(signer)["kubernetes.io"]["node"] == {"name": "here"}


def test_each_token_has_an_id_of_its_own(signer: TokenSigner) -> None:
    assert claims(signer)["jti"] != claims(signer)["jti"]


def test_a_token_of_less_than_ten_minutes_is_refused(signer: TokenSigner) -> None:
    request = TokenRequest(namespace="shop", service_account="clerk", expiration_seconds=599)
    with pytest.raises(Refused, match="cannot issue a token of 599 s: 600 s is the shortest"):
        run_virtual(signer.issue(request, NOW))


def test_the_key_id_is_the_hash_of_the_public_key(signer: TokenSigner) -> None:
    (entry,) = signer.key_set()["keys"]
    key = published_key(signer.key_set(), entry["kid"])
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert from_base64url(entry["kid"]) == hashlib.sha256(der).digest()
    assert {name: entry[name] for name in ("use", "kty", "alg", "e")} == {
        "use": "sig",
        "kty": "RSA",
        "alg": "RS256",
        "e": "AQAB",
    }
    assert key.key_size == 2048


def test_only_the_public_half_is_published(signer: TokenSigner) -> None:
    (entry,) = signer.key_set()["keys"]
    assert set(entry) == {"use", "kty", "kid", "alg", "n", "e"}


def test_the_configuration_leads_to_the_key_set(signer: TokenSigner) -> None:
    found = signer.configuration()
    assert (found["issuer"], found["jwks_uri"]) == (ISSUER, f"{ISSUER}/openid/v1/jwks")
    assert found["id_token_signing_alg_values_supported"] == ["RS256"]


def test_a_token_is_not_shown_by_the_value_that_carries_it(signer: TokenSigner) -> None:
    issued = run_virtual(signer.issue(REQUEST, NOW))
    assert issued.text not in repr(issued)


def test_an_instance_without_an_issuer_is_named_after_its_node() -> None:
    assert default_issuer("here") == "https://mooring.local/here"


def test_the_default_account_has_a_uid_though_nobody_wrote_it(signer: TokenSigner) -> None:
    request = TokenRequest(namespace="shop", service_account="default", expiration_seconds=600)
    uid = stable_uid("shop", "default", kind="ServiceAccount")
    assert claims(signer, request)["kubernetes.io"]["serviceaccount"] == {"name": "default", "uid": uid}


def test_there_is_no_token_for_an_account_that_does_not_exist(signer: TokenSigner) -> None:
    request = TokenRequest(namespace="shop", service_account="ghost", expiration_seconds=600)
    with pytest.raises(NotYet, match="serviceaccount \"ghost\" not found in namespace 'shop'"):
        run_virtual(signer.issue(request, NOW))
