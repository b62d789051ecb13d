"""Signs service account tokens as a Kubernetes API server does, and publishes what is needed to verify them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.controllers.signing_key import SigningKey, base64url, load_or_make
from mooring.errors import Refused
from mooring.kube.defaults import stable_uid
from mooring.plugins.interface import Objects, TokenRequest
from mooring.plugins.payload import missing_object
from mooring.plugins.projected import DEFAULT_ACCOUNT

SHORTEST_LIFETIME = 600
"""Seconds; an API server gives out no shorter token either."""

KEY_SET_PATH = "/openid/v1/jwks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedToken:
    """A token as its issuer hands it over. Its repr does not show it."""

    text: str = field(repr=False)
    expires_at: float
    lifetime: float | None  # as the issuer says; None when it says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The node that tokens name beside their pod; without a Node object it has no UID."""

    name: str
    uid: str = ""


def _random_id() -> str:
    return str(uuid.uuid4())


class TokenSigner:
    """Issues tokens with the key in a file, which is read or made when the first one is asked for."""

    def __init__(
        self,
        key_file: str,
        *,
        issuer: str,
        node: Callable[[], NodeIdentity],
        accounts: Objects,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        self._key_file = key_file
        self._issuer = issuer
        self._node = node
        self._accounts = accounts
        self._new_id = new_id
        self._loaded: SigningKey | None = None

    def _key(self) -> SigningKey:
        if self._loaded is None:
            self._loaded = load_or_make(self._key_file)
        return self._loaded

    def account_uid(self, request: TokenRequest) -> str:
        """The UID of the account; `NotYet` when there is none."""
        return account_uid(self._accounts, request)

    async def issue(self, request: TokenRequest, now: float) -> SignedToken:
        """A new token that is valid from now on."""
        if request.expiration_seconds < SHORTEST_LIFETIME:
            raise Refused(
                f"cannot issue a token of {request.expiration_seconds} s",
                why=f"{SHORTEST_LIFETIME} s is the shortest",
                next_step="Write a larger expirationSeconds",
            )
        key, claims = self._key(), self._claims(request, int(now))
        head = _part({"alg": "RS256", "kid": key.key_id})
        signed = f"{head}.{_part(claims)}"
        signature = base64url(key.sign(signed.encode("ascii")))
        return SignedToken(
            text=f"{signed}.{signature}",
            expires_at=float(claims["exp"]),
            lifetime=float(request.expiration_seconds),
        )

    def _claims(self, request: TokenRequest, now: int) -> dict[str, Any]:
        return {
            "aud": list(request.audiences) or [self._issuer],
            "exp": now + request.expiration_seconds,
            "iat": now,
            "iss": self._issuer,
            "jti": self._new_id(),
            "kubernetes.io": self._about(request),
            "nbf": now,
            "sub": f"system:serviceaccount:{request.namespace}:{request.service_account}",
        }

    def _about(self, request: TokenRequest) -> dict[str, Any]:
        """The claim that says for what the token was made."""
        about: dict[str, Any] = {"namespace": request.namespace}
        if request.pod_name:
            node = self._node()
            about["node"] = {"name": node.name, "uid": node.uid} if node.uid else {"name": node.name}
            about["pod"] = {"name": request.pod_name, "uid": request.pod_uid}
        if request.secret_name:
            about["secret"] = {"name": request.secret_name, "uid": request.secret_uid}
        about["serviceaccount"] = {"name": request.service_account, "uid": self.account_uid(request)}
        return about

    # -- for those who verify ------------------------------------------------------------------------------------
    def key_set(self) -> dict[str, Any]:
        """The JSON Web Key Set with the public key."""
        return {"keys": [self._key().key_set_entry]}

    def configuration(self) -> dict[str, Any]:
        """The OpenID provider configuration, as far as an API server has one."""
        return {
            "issuer": self._issuer,
            "jwks_uri": f"{self._issuer.rstrip('/')}{KEY_SET_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }


def account_uid(accounts: Objects, request: TokenRequest) -> str:
    """The UID of the account that a token speaks for. The account `default` is in every namespace, written or not."""
    namespace, name = request.namespace, request.service_account
    found = accounts.service_account(namespace, name)
    if found is not None and found.metadata.uid:
        return found.metadata.uid
    if found is None and name != DEFAULT_ACCOUNT:
        raise missing_object(accounts, "ServiceAccount", namespace, name, "Create it, or correct serviceAccountName")
    return stable_uid(namespace, name, kind="ServiceAccount")


def default_issuer(node_name: str) -> str:
    """The issuer of an instance whose settings name none."""
    return f"https://mooring.local/{node_name}"


def _part(value: Mapping[str, Any]) -> str:
    return base64url(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
