"""Tokens that an API server gives out: what it is asked for, and what its refusals become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mooring.controllers.api_tokens import ApiTokens, token_spec
from mooring.errors import Refused
from mooring.kube.api import ApiError, ConnectionRefused, Forbidden, InternalError, NotFound
from mooring.kube.wire import GivenToken, read_token
from mooring.plugins.interface import TokenRequest
from mooring.testing.virtual_time import run_virtual

REQUEST = TokenRequest(
    namespace="shop", service_account="clerk", expiration_seconds=3600, pod_name="web", pod_uid="uid-web"
)


class Desk:
    """A server that gives out one answer."""

    def __init__(self, answer: GivenToken | ApiError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []

    async def request_token(self, namespace: str, account: str, spec: Mapping[str, Any]) -> GivenToken:
        self.asked.append((namespace, account, spec))
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


def test_a_token_is_bound_to_its_pod_and_lives_as_long_as_the_server_says() -> None:
    desk = Desk(GivenToken(text="hidden", expires_at=9000.0, lifetime=600.0))
    issued = run_virtual(ApiTokens(desk).issue(REQUEST, 0.0))
    assert (issued.text, issued.expires_at, issued.lifetime) == ("hidden", 9000.0, 600.0)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web"}
    assert desk.asked == [("shop", "clerk", {"expirationSeconds": 3600, "boundObjectRef": bound})]
    assert "hidden" not in repr(desk.answer) + repr(issued)


def test_audiences_are_named_and_a_secret_can_be_bound() -> None:
    request = replace(REQUEST, audiences=("vault",), pod_name="", pod_uid="", secret_name="safe", secret_uid="uid-safe")
    assert token_spec(request) == {
        "expirationSeconds": 3600,
        "audiences": ["vault"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "safe", "uid": "uid-safe"},
    }


def test_a_request_without_an_object_is_bound_to_none() -> None:
    assert token_spec(replace(REQUEST, pod_name="")) == {"expirationSeconds": 3600}


@pytest.mark.parametrize(
    ("kind", "advice"),
    [(NotFound, "Create ServiceAccount 'shop/clerk'"), (Forbidden, "bound to it"), (ConnectionRefused, "")],
)
def test_a_refusal_says_what_to_do(kind: type[ApiError], advice: str) -> None:
    desk = Desk(kind("cannot get a token", why="the server says so"))
    with pytest.raises(Refused) as caught:
        run_virtual(ApiTokens(desk).issue(REQUEST, 0.0))
    assert (caught.value.what, caught.value.why) == ("cannot get a token", "the server says so")
    assert advice in caught.value.next_step


def test_an_answer_is_read_as_the_server_wrote_it() -> None:
    body = b'{"spec":{"expirationSeconds":601},"status":{"token":"t","expirationTimestamp":"1970-01-01T01:00:00Z"}}'
    assert read_token(body, "cannot") == GivenToken(text="t", expires_at=3600.0, lifetime=601)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"status":{"token":"hidden"}}',
        b'{"status":{"token":"hidden","expirationTimestamp":"hidden"}}',
        b'{"status":{"token":["hidden"]}}',
        b"hidden",
    ],
)
def test_an_answer_that_makes_no_sense_is_told_without_the_token(body: bytes) -> None:
    with pytest.raises(InternalError) as caught:
        read_token(body, "cannot get a token")
    assert "hidden" not in str(caught.value)
