"""An issuer of tokens in memory: they are numbered, and it fails when it is told to."""

from __future__ import annotations

from random import Random

from mooring.controllers.token_signer import SignedToken
from mooring.errors import MooringError
from mooring.plugins.interface import TokenRequest


class NumberedIssuer:
    """Issues `token-1`, `token-2`, … and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[TokenRequest] = []
        self.failure: MooringError | None = None
        self.tells_lifetime = True
        self._issued = 0

    def issue(self, request: TokenRequest, now: float) -> SignedToken:
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        self._issued += 1
        return SignedToken(
            text=f"token-{self._issued}",
            expires_at=now + request.expiration_seconds,
            lifetime=float(request.expiration_seconds) if self.tells_lifetime else None,
        )


class NoJitter(Random):
    """Always draws the smallest number, so that times can be asserted exactly."""

    def randint(self, a: int, b: int) -> int:
        return a
