"""Tokens of a whole instance: anybody on the control socket can verify them, and nobody is shown one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.observe.conftest import Observed, observed, pod

from mooring.observe.shapes import ROUTES, SHAPES
from mooring.testing.verified_tokens import verified_claims

TOKEN = "projected: {sources: [{serviceAccountToken: {path: token, audience: vault}}]}"
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: clerk}\n---\n"
BUNDLE = """\
apiVersion: certificates.k8s.io/v1alpha1
kind: ClusterTrustBundle
metadata: {name: 'example.com:x:ca'}
spec:
  signerName: example.com/x
  trustBundle: |
    -----BEGIN CERTIFICATE-----
    MANvbmU=
    -----END CERTIFICATE-----
---
"""
ANCHORS = "projected: {sources: [{clusterTrustBundle: {path: ca.pem, signerName: example.com/x, labelSelector: {}}}]}"


async def read(node: Observed, name: str) -> str:
    (row,) = await node.get("/v1/volumes")
    return node.host.read_file(f"{row['path']}/{name}").decode()


async def test_a_token_is_verified_with_the_published_key(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", TOKEN))
    async with observed(manifests) as node:
        await node.mounted("web")
        claims = verified_claims(await read(node, "token"), await node.get("/openid/v1/jwks"))
        configuration = await node.get("/.well-known/openid-configuration")
        assert claims["iss"] == configuration["issuer"] == "https://mooring.local/here"
        assert configuration["jwks_uri"] == "https://mooring.local/here/openid/v1/jwks"
        assert claims["aud"] == ["vault"]
        assert claims["sub"] == "system:serviceaccount:default:default"
        (row,) = await node.get("/v1/pods")
        assert claims["kubernetes.io"]["pod"] == {"name": "web", "uid": row["uid"]}
        assert claims["kubernetes.io"]["node"] == {"name": "here"}


async def test_the_answers_are_as_documented(manifests: Path) -> None:
    async with observed(manifests) as node:
        keys = await node.get("/openid/v1/jwks")
        assert set(keys) == set(SHAPES["key set (`GET /openid/v1/jwks`)"])
        found = await node.get("/.well-known/openid-configuration")
        assert set(found) == set(SHAPES["OpenID configuration (`GET /.well-known/openid-configuration`)"])


async def test_the_issuer_can_be_set(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", TOKEN))
    async with observed(manifests, issuer="https://tokens.example.com") as node:
        await node.mounted("web")
        claims = verified_claims(await read(node, "token"), await node.get("/openid/v1/jwks"))
        assert claims["iss"] == "https://tokens.example.com"


async def test_the_key_outlives_the_instance(manifests: Path) -> None:
    async with observed(manifests) as node:
        before = await node.get("/openid/v1/jwks")
    async with observed(manifests) as node:
        assert await node.get("/openid/v1/jwks") == before


async def test_a_key_that_cannot_be_used_is_told_by_the_volume_and_by_the_route(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", TOKEN))
    root = manifests.with_name("root")
    root.mkdir()
    key = root / "service-account.key"
    key.write_text("nonsense")
    key.chmod(0o600)
    async with observed(manifests) as node:
        answer = await node.post("/v1/wait", pod="web", **{"for": "mounted", "timeout": "0.2"})
        assert "it is not a private key in PEM" in answer["cause"]
        assert "it is not a private key in PEM" in (await node.get("/openid/v1/jwks"))["error"]
    assert key.read_text() == "nonsense"


async def test_a_pod_waits_for_its_service_account_and_is_woken_by_it(manifests: Path) -> None:
    text = pod("web", TOKEN).replace("spec:\n", "spec:\n  serviceAccountName: clerk\n")
    (manifests / "a.yaml").write_text(text)
    async with observed(manifests) as node:
        answer = await node.post("/v1/wait", pod="web", **{"for": "mounted", "timeout": "0.2"})
        assert "serviceaccount \"clerk\" not found in namespace 'default'" in answer["cause"]
        await node.post("/v1/apply", ACCOUNT)
        await node.mounted("web")
        claims = verified_claims(await read(node, "token"), await node.get("/openid/v1/jwks"))
        assert claims["sub"] == "system:serviceaccount:default:clerk"
        assert claims["kubernetes.io"]["serviceaccount"]["uid"]


async def test_a_pod_waits_for_a_bundle_and_follows_it(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", ANCHORS))
    async with observed(manifests) as node:
        answer = await node.post("/v1/wait", pod="web", **{"for": "mounted", "timeout": "0.2"})
        assert "the labelSelector selects none" in answer["cause"]
        await node.post("/v1/apply", BUNDLE)
        await node.mounted("web")
        assert "MANvbmU=" in await read(node, "ca.pem")
        await node.post("/v1/apply", BUNDLE.replace("MANvbmU=", "MAN0d28="))

        async def changed() -> bool:
            return "MAN0d28=" in await read(node, "ca.pem")

        await node.until(changed)


async def test_no_token_and_no_key_leaves_by_any_route_or_log(
    manifests: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    (manifests / "a.yaml").write_text(pod("web", TOKEN))
    async with observed(manifests) as node:
        await node.mounted("web")
        token = await read(node, "token")
        root = manifests.with_name("root")
        private = (root / "service-account.key").read_text().splitlines()[1]
        said = [caplog.text, (root / "history.jsonl").read_text()]
        for route in (route.partition(" ")[2] for route in ROUTES if route.startswith("GET")):
            path = route.partition("?")[0].partition("[")[0]
            said.append(await node.text(f"{path}?pod=web&kind=pod&name=web"))
        text = "\n".join(said)
        assert "web" in text
        assert token.split(".")[2] not in text
        assert token.split(".")[1] not in text
        assert private not in text
