"""Tokens of service accounts from a Kubernetes API server, which makes them for the pods of this node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mooring.controllers.token_signer import SignedToken
from mooring.errors import Refused
from mooring.kube.api import ApiError, Forbidden, NotFound
from mooring.kube.wire import GivenToken
from mooring.plugins.interface import TokenRequest


class TokenEndpoint(Protocol):
    """Who answers a TokenRequest: an API server. Raises `ApiError` and nothing else on purpose."""

    async def request_token(self, namespace: str, account: str, spec: Mapping[str, Any]) -> GivenToken: ...


class ApiTokens:
    """Issues what the server gives out. No ServiceAccount is read for it: a node may not read them."""

    def __init__(self, server: TokenEndpoint) -> None:
        self._server = server

    def account_uid(self, request: TokenRequest) -> str:
        """Nothing: only the server knows."""
        return ""

    async def issue(self, request: TokenRequest, now: float) -> SignedToken:
        try:
            given = await self._server.request_token(request.namespace, request.service_account, token_spec(request))
        except ApiError as error:
            raise Refused(error.what, why=error.why, next_step=_advice(error, request)) from error
        return SignedToken(text=given.text, expires_at=given.expires_at, lifetime=given.lifetime)


def token_spec(request: TokenRequest) -> dict[str, Any]:
    """The spec of the TokenRequest. Without an audience the server takes its own."""
    spec: dict[str, Any] = {"expirationSeconds": request.expiration_seconds}
    if request.audiences:
        spec["audiences"] = list(request.audiences)
    if request.pod_name:
        spec["boundObjectRef"] = _bound("Pod", request.pod_name, request.pod_uid)
    elif request.secret_name:
        spec["boundObjectRef"] = _bound("Secret", request.secret_name, request.secret_uid)
    return spec


def _bound(kind: str, name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}


def _advice(error: ApiError, request: TokenRequest) -> str:
    match error:
        case NotFound():
            account = f"{request.namespace}/{request.service_account}"
            return f"Create ServiceAccount {account!r}, or correct serviceAccountName; it is tried again by itself"
        case Forbidden():
            return (
                "A node may ask for tokens of pods that are bound to it, for the audiences that their volumes or "
                "CSIDrivers name: check with which identity mooring runs, and its --node"
            )
        case _:
            return error.next_step
