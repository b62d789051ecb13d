"""Tokens from a real API server, asked for with a node's identity."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from rig.control_plane import ControlPlane
from tests.cluster.conftest import kubectl

from mooring.controllers.api_tokens import ApiTokens
from mooring.controllers.token_manager import TokenManager
from mooring.errors import Refused
from mooring.kube import kubeconfig
from mooring.kube.api_server import ApiServer
from mooring.plugins.interface import TokenRequest
from mooring.testing.verified_tokens import from_base64url

pytestmark = pytest.mark.cluster

NODE = "token-node"
OBJECTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: default}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: {node}
  serviceAccountName: {name}
  containers: [{{name: main, image: none}}]
  volumes:
  - name: token
    projected: {{sources: [{{serviceAccountToken: {{path: token, audience: vault, expirationSeconds: 7200}}}}]}}
"""


@pytest.fixture
async def node(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    """The server as a node sees it."""
    async with ApiServer(kubeconfig.load(str(plane.node_kubeconfig(NODE))), agent="mooring-test") as made:
        yield made


def request_for(plane: ControlPlane, node: str = NODE) -> TokenRequest:
    """What a volume of a new pod on a node asks for."""
    name = f"pod-{uuid.uuid4().hex[:8]}"
    kubectl(plane, "apply", "-f", "-", given=OBJECTS.format(name=name, node=node))
    uid = kubectl(plane, "get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    return TokenRequest(
        namespace="default",
        service_account=name,
        expiration_seconds=7200,
        audiences=("vault",),
        pod_name=name,
        pod_uid=uid,
    )


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(from_base64url(token.split(".")[1]))
    return found


async def test_a_node_gets_a_token_for_a_pod_that_is_bound_to_it(plane: ControlPlane, node: ApiServer) -> None:
    request = request_for(plane)
    manager = TokenManager(ApiTokens(node), clock=time.time, random=Random(1))
    issued = await manager.token(request)
    found = claims(issued.text)
    about = found["kubernetes.io"]
    assert found["aud"] == ["vault"]
    assert found["sub"] == f"system:serviceaccount:default:{request.service_account}"
    assert about["pod"] == {"name": request.pod_name, "uid": request.pod_uid}
    assert issued.expires_at == found["exp"]
    assert manager.now() < issued.refresh_at < issued.expires_at
    assert (await manager.token(request)).text == issued.text


async def test_a_node_gets_no_token_for_a_pod_elsewhere(plane: ControlPlane, node: ApiServer) -> None:
    request = request_for(plane, "another-node")
    with pytest.raises(Refused) as caught:
        await ApiTokens(node).issue(request, time.time())
    assert request.service_account in caught.value.what
    assert "bound to it" in caught.value.next_step


async def test_a_node_gets_no_token_for_a_namesake_that_came_later(plane: ControlPlane, node: ApiServer) -> None:
    request = replace(request_for(plane), pod_uid=str(uuid.uuid4()))
    with pytest.raises(Refused, match="UID"):
        await ApiTokens(node).issue(request, time.time())


async def test_an_account_that_is_gone_is_named(plane: ControlPlane, node: ApiServer) -> None:
    request = request_for(plane)
    kubectl(plane, "delete", "serviceaccount", request.service_account)
    with pytest.raises(Refused) as caught:
        await ApiTokens(node).issue(request, time.time())
    assert f"Create ServiceAccount 'default/{request.service_account}'" in caught.value.next_step


async def test_a_lifetime_that_is_too_short_is_refused_with_the_servers_words(
    plane: ControlPlane, node: ApiServer
) -> None:
    request = replace(request_for(plane), expiration_seconds=60)
    with pytest.raises(Refused, match="10 minutes"):
        await ApiTokens(node).issue(request, time.time())
