"""An issuer of tokens in memory: they are numbered, and it fails when it is told to."""

from __future__ import annotations

from random import Random

from mooring.controllers.token_signer import SignedToken, account_uid
from mooring.errors import MooringError
from mooring.plugins.interface import Objects, TokenRequest


class NumberedIssuer:
    """Issues `token-1`, `token-2`, … and remembers what it was asked for. Without objects every account exists."""

    def __init__(self, accounts: Objects | None = None) -> None:
        self.accounts = accounts
        self.asked: list[TokenRequest] = []
        self.failure: MooringError | None = None
        self.tells_lifetime = True
        self._issued = 0

    def account_uid(self, request: TokenRequest) -> str:
        return account_uid(self.accounts, request) if self.accounts is not None else ""

    async def issue(self, request: TokenRequest, now: float) -> SignedToken:
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
