"""Tokens that outlive a restart: while the API server is away, a pod gets the one again that it had."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict

from mooring.controllers.token_manager import Issuer
from mooring.controllers.token_signer import SignedToken
from mooring.errors import MooringError
from mooring.kube.api import UNANSWERED
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import Secret
from mooring.plugins.interface import TokenRequest
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

TYPE = "mooring.dev/issued-token"
"""The type of the Secrets that tokens are kept as. They exist in the node's own view only, sealed like all secrets."""

_POD = "mooring.dev/pod-uid"

Place = tuple[str, str]
"""Namespace and name of such a Secret."""


class KeptTokens:
    """An issuer that notes what another one gives, and falls back on it when that one does not answer.

    `note` and `forget` are told of what is to be kept and what is not; a token that has expired is never given.
    """

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._tokens: dict[Place, Secret] = {}
        self.note: Callable[[Secret], None] = lambda secret: None
        self.forget: Callable[[Place], None] = lambda place: None

    def begin_with(self, known: Iterable[KubernetesObject]) -> list[KubernetesObject]:
        """Take the tokens out of what was known before a start; the rest."""
        others: list[KubernetesObject] = []
        for each in known:
            if isinstance(each, Secret) and each.type == TYPE:
                self._tokens[each.metadata.namespace, each.metadata.name] = each
            else:
                others.append(each)
        return others

    def kept(self) -> set[Place]:
        return set(self._tokens)

    def account_uid(self, request: TokenRequest) -> str:
        return self._issuer.account_uid(request)

    async def issue(self, request: TokenRequest, now: float) -> SignedToken:
        try:
            given = await self._issuer.issue(request, now)
        except MooringError as error:
            known = self._known(request)
            if known is None or known.expires_at <= now or not isinstance(error.__cause__, UNANSWERED):
                raise
            account = f"{request.namespace}/{request.service_account}"
            log.warning("the last token of service account %s is used again, for no new one came: %s", account, error)
            return known
        self._keep(request, given)
        return given

    def _known(self, request: TokenRequest) -> SignedToken | None:
        kept = self._tokens.get(_place(request))
        if kept is None:
            return None
        facts = {key: value.decode() for key, value in kept.data.items()}
        lifetime = float(facts["lifetime"]) if facts.get("lifetime") else None
        return SignedToken(text=facts["token"], expires_at=float(facts["expires_at"]), lifetime=lifetime)

    def _keep(self, request: TokenRequest, given: SignedToken) -> None:
        place = _place(request)
        lifetime = "" if given.lifetime is None else repr(given.lifetime)
        facts = {"token": given.text, "expires_at": repr(given.expires_at), "lifetime": lifetime}
        # The version changes with the token: only what has a new one is written.
        version = hashlib.sha256(given.text.encode()).hexdigest()
        metadata = ObjectMeta(
            namespace=place[0], name=place[1], annotations={_POD: request.pod_uid}, resource_version=version
        )
        self._tokens[place] = Secret(
            metadata=metadata, type=TYPE, data={key: value.encode() for key, value in facts.items()}
        )
        self.note(self._tokens[place])

    def keep_only(self, is_known: Callable[[PodUid], bool]) -> None:
        """Forget the tokens of pods that are not known any more."""
        for place, kept in list(self._tokens.items()):
            if not is_known(PodUid(kept.metadata.annotations.get(_POD, ""))):
                del self._tokens[place]
                self.forget(place)


def _place(request: TokenRequest) -> Place:
    """Where the token for just this request is kept; no Secret of a cluster has a colon in its name."""
    asked = json.dumps(asdict(request), sort_keys=True)
    return request.namespace, f"token:{hashlib.sha256(asked.encode()).hexdigest()}"
