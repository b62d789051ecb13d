"""Tokens of service accounts, given out again until they should be replaced."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from mooring.controllers.token_signer import SignedToken, account_uid
from mooring.errors import MooringError, Refused
from mooring.plugins.interface import IssuedToken, Objects, TokenRequest
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

    def account_uid(self, request: TokenRequest) -> str:
        """What tells the account from another one that had its name before; nothing where that is not known here.

        Answers at once, and raises when it is known that there is no such account.
        """
        ...

    async def issue(self, request: TokenRequest, now: float) -> SignedToken: ...


@dataclass(frozen=True, slots=True)
class _Key:
    request: TokenRequest
    account_uid: str


class TokenManager:
    """Keeps one token per request. It has no timer of its own: what has expired goes when somebody asks.

    Those who ask for the same token at once wait for one answer. The first of them asks the issuer; when it is
    cancelled, the next one does.
    """

    def __init__(self, issuer: Issuer, *, clock: Callable[[], float], random: Random) -> None:
        self._issuer = issuer
        self._clock = clock
        self._random = random
        self._tokens: dict[str, dict[_Key, IssuedToken]] = {}  # by the UID of the pod
        self._under_way: dict[_Key, asyncio.Future[IssuedToken | MooringError]] = {}
        self._collected_at = -math.inf

    def now(self) -> float:
        return self._clock()

    def check(self, request: TokenRequest) -> None:
        self._issuer.account_uid(request)

    async def token(self, request: TokenRequest) -> IssuedToken:
        while True:
            now, key = self._clock(), _Key(request, self._issuer.account_uid(request))
            known = self._tokens.get(request.pod_uid, {}).get(key)
            if known is not None and now < known.refresh_at:
                self._collect(now)
                return known
            answer = self._under_way.get(key)
            if answer is None:
                return await self._ask(key, known)
            await asyncio.wait([answer])  # being cancelled here leaves the answer to the others
            if not answer.cancelled():
                return _given(answer.result())

    async def _ask(self, key: _Key, known: IssuedToken | None) -> IssuedToken:
        """Ask the issuer, for all who want this token now."""
        answer = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(await self._replaced(key.request, known))
        except MooringError as error:
            answer.set_result(error)
        finally:
            del self._under_way[key]
            answer.cancel()  # unless it is there
        given = _given(answer.result())
        self._tokens.setdefault(key.request.pod_uid, {})[key] = given
        self._collect(self._clock())
        return given

    def forget_pod(self, uid: PodUid) -> None:
        self._tokens.pop(uid, None)

    def __len__(self) -> int:
        """How many tokens are kept."""
        return sum(map(len, self._tokens.values()))

    async def _replaced(self, request: TokenRequest, known: IssuedToken | None) -> IssuedToken:
        """A new token, or the known one where that fails and it is still valid."""
        try:
            signed = await self._issuer.issue(request, self._clock())
        except MooringError as error:
            if known is None:
                raise
            now = self._clock()
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
            kept = {key: token for key, token in tokens.items() if token.expires_at > now}
            if kept:
                self._tokens[uid] = kept
            else:
                del self._tokens[uid]


def _given(answer: IssuedToken | MooringError) -> IssuedToken:
    if isinstance(answer, MooringError):
        raise answer
    return answer


class UnsignedTokens:
    """Stands in for a manager of tokens where nothing is written, as when planning: each token is empty."""

    def __init__(self, accounts: Objects) -> None:
        self._accounts = accounts

    def now(self) -> float:
        return 0.0

    def check(self, request: TokenRequest) -> None:
        account_uid(self._accounts, request)

    async def token(self, request: TokenRequest) -> IssuedToken:
        return IssuedToken(text="", expires_at=math.inf, refresh_at=math.inf)

    def forget_pod(self, uid: PodUid) -> None:
        return None
