"""Tokens of service accounts, given out again until they should be replaced."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Protocol

from mooring.controllers.token_signer import SignedToken
from mooring.errors import MooringError, Refused
from mooring.plugins.interface import IssuedToken, TokenRequest
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

LONGEST_USE = 24 * 3600.0
"""Seconds after which a token is replaced, however long it is valid."""

_RESERVE = 0.2
"""The part of its lifetime that a token still has when it is replaced."""

_JITTER = 10
"""Up to so many whole seconds earlier, so that tokens made together are not replaced together."""

_RETRY = 60.0
"""Seconds until a refresh that failed is tried again, while the old token is valid."""

_COLLECT = 60.0
"""Seconds between two searches for tokens that have expired."""


class Issuer(Protocol):
    """Who makes tokens. Errors are `MooringError`s."""

    def issue(self, request: TokenRequest, now: float) -> SignedToken: ...


class TokenManager:
    """Keeps one token per request. It has no timer of its own: what has expired goes when somebody asks."""

    def __init__(self, issuer: Issuer, *, clock: Callable[[], float], random: Random) -> None:
        self._issuer = issuer
        self._clock = clock
        self._random = random
        self._tokens: dict[str, dict[TokenRequest, IssuedToken]] = {}  # by the UID of the pod
        self._collected_at = -math.inf

    def now(self) -> float:
        return self._clock()

    def token(self, request: TokenRequest) -> IssuedToken:
        now = self._clock()
        known = self._tokens.get(request.pod_uid, {}).get(request)
        if known is None or now >= known.refresh_at:
            known = self._replaced(request, known, now)
            self._tokens.setdefault(request.pod_uid, {})[request] = known
        self._collect(now)
        return known

    def forget_pod(self, uid: PodUid) -> None:
        self._tokens.pop(uid, None)

    def __len__(self) -> int:
        """How many tokens are kept."""
        return sum(map(len, self._tokens.values()))

    def _replaced(self, request: TokenRequest, known: IssuedToken | None, now: float) -> IssuedToken:
        """A new token, or the known one where that fails and it is still valid."""
        try:
            signed = self._issuer.issue(request, now)
        except MooringError as error:
            if known is None:
                raise
            account = f"{request.namespace}/{request.service_account}"
            if now >= known.expires_at:
                raise Refused(
                    f"cannot replace the token of service account {account!r}",
                    why=f"it has expired, and the refresh failed: {error.what}: {error.why}",
                    next_step=error.next_step,
                ) from error
            log.warning("the old token of service account %s stays in use, for no new one came: %s", account, error)
            return replace(known, refresh_at=min(now + _RETRY, known.expires_at))
        return IssuedToken(text=signed.text, expires_at=signed.expires_at, refresh_at=self._refresh_at(signed, request))

    def _refresh_at(self, signed: SignedToken, request: TokenRequest) -> float:
        """When a token is due: at four fifths of its lifetime, or after a day if that comes first."""
        if signed.lifetime is None:
            log.warning(
                "the issuer does not say how long the token of service account %s/%s lives; it is never replaced",
                request.namespace,
                request.service_account,
            )
            return math.inf
        issued_at = signed.expires_at - signed.lifetime
        due = min(issued_at + LONGEST_USE, signed.expires_at - _RESERVE * signed.lifetime)
        return due - self._random.randint(0, _JITTER)

    def _collect(self, now: float) -> None:
        if now - self._collected_at < _COLLECT:
            return
        self._collected_at = now
        for uid, tokens in list(self._tokens.items()):
            kept = {request: token for request, token in tokens.items() if token.expires_at > now}
            if kept:
                self._tokens[uid] = kept
            else:
                del self._tokens[uid]


class UnsignedTokens:
    """Stands in for a manager of tokens where nothing is written, as when planning: each token is empty."""

    def now(self) -> float:
        return 0.0

    def token(self, request: TokenRequest) -> IssuedToken:
        return IssuedToken(text="", expires_at=math.inf, refresh_at=math.inf)

    def forget_pod(self, uid: PodUid) -> None:
        return None
