"""Reads service account tokens as those do who receive them: with nothing but the published key set."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey


def verified_claims(token: str, key_set: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of a token; `cryptography.exceptions.InvalidSignature` unless the published key signed it."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - only where tokens are read
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415 - as above

    head, body, signature = token.split(".")
    header = json.loads(from_base64url(head))
    if header["alg"] != "RS256":
        raise ValueError(f"the token is signed with {header['alg']}")
    key = published_key(key_set, header["kid"])
    key.verify(from_base64url(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    claims: dict[str, Any] = json.loads(from_base64url(body))
    return claims


def published_key(key_set: Mapping[str, Any], key_id: str) -> RSAPublicKey:
    """The key of this id in a JSON Web Key Set."""
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - as above

    (entry,) = (each for each in key_set["keys"] if each["kid"] == key_id)
    n, e = (int.from_bytes(from_base64url(entry[name]), "big") for name in ("n", "e"))
    return rsa.RSAPublicNumbers(e, n).public_key()


def from_base64url(text: str) -> bytes:
    """The bytes of base64 for URLs without its padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
