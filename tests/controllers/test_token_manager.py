"""Tokens are given out again until they are due (plugins.md 13.1, T1 to T7)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mooring.controllers.token_manager import TokenManager, UnsignedTokens
from mooring.errors import Refused
from mooring.plugins.interface import TokenRequest
from mooring.testing.numbered_tokens import NoJitter, NumberedIssuer
from mooring.world.names import PodUid

HOUR = 3600
MINUTE = 60
REQUEST = TokenRequest(
    namespace="shop",
    service_account="clerk",
    service_account_uid="uid-clerk",
    expiration_seconds=HOUR,
    pod_name="web",
    pod_uid="uid-1",
)
BROKEN = Refused("cannot sign", why="the key is gone", next_step="Bring it back")


class Desk:
    """A manager of tokens, its issuer, and the clock of both."""

    def __init__(self, random: Random) -> None:
        self.time = 1_800_000_000.0
        self.issuer = NumberedIssuer()
        self.manager = TokenManager(self.issuer, clock=lambda: self.time, random=random)

    def ask(self, request: TokenRequest = REQUEST) -> str:
        return self.manager.token(request).text


@pytest.fixture
def desk() -> Desk:
    return Desk(NoJitter())


@pytest.mark.parametrize(("minutes", "text"), [(10, "token-1"), (47, "token-1"), (48, "token-2"), (50, "token-2")])
def test_a_token_is_replaced_at_four_fifths_of_its_lifetime(desk: Desk, minutes: int, text: str) -> None:
    """T1."""
    desk.ask()
    desk.time += minutes * MINUTE
    assert desk.ask() == text


@pytest.mark.parametrize(("hours", "text"), [(23, "token-1"), (24, "token-2"), (25, "token-2")])
def test_a_token_is_replaced_after_a_day_however_long_it_is_valid(desk: Desk, hours: int, text: str) -> None:
    """T2."""
    request = replace(REQUEST, expiration_seconds=40 * HOUR)
    desk.ask(request)
    desk.time += hours * HOUR
    assert desk.ask(request) == text


def test_a_failing_refresh_leaves_a_valid_token_in_use_and_is_tried_again_after_a_minute(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """T3."""
    desk.ask()
    desk.time += 50 * MINUTE
    desk.issuer.failure = BROKEN
    again = desk.manager.token(REQUEST)
    assert (again.text, again.refresh_at) == ("token-1", desk.time + MINUTE)
    assert "shop/clerk" in caplog.text
    assert "token-1" not in caplog.text
    desk.time += MINUTE - 1
    assert (desk.ask(), len(desk.issuer.asked)) == ("token-1", 2)
    desk.issuer.failure = None
    desk.time += 1
    assert desk.ask() == "token-2"


def test_a_failing_refresh_of_an_expired_token_is_an_error(desk: Desk) -> None:
    desk.ask()
    desk.time += HOUR
    desk.issuer.failure = BROKEN
    with pytest.raises(Refused) as caught:
        desk.ask()
    assert caught.value.why == "it has expired, and the refresh failed: cannot sign: the key is gone"
    assert caught.value.next_step == "Bring it back"
    assert "token-1" not in str(caught.value)


def test_a_token_of_unknown_lifetime_is_never_due(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """T4."""
    desk.issuer.tells_lifetime = False
    desk.ask()
    desk.time += 59 * MINUTE
    assert desk.ask() == "token-1"
    assert "never replaced" in caplog.text


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, expiration_seconds=2 * HOUR),
        replace(REQUEST, pod_name="other"),
        replace(REQUEST, pod_uid="uid-2"),
        replace(REQUEST, service_account_uid="uid-another-clerk"),
        replace(REQUEST, audiences=("vault",)),
        replace(REQUEST, secret_name="safe"),
    ],
    ids=["lifetime", "pod name", "pod", "account", "audience", "secret"],
)
def test_one_request_is_issued_once_and_another_one_by_itself(desk: Desk, other: TokenRequest) -> None:
    """T5."""
    assert [desk.ask(), desk.ask(), desk.ask(other), desk.ask(other), desk.ask()] == [
        "token-1",
        "token-1",
        "token-2",
        "token-2",
        "token-1",
    ]
    assert desk.issuer.asked == [REQUEST, other]


def test_only_the_tokens_of_a_forgotten_pod_go(desk: Desk) -> None:
    """T6."""
    other = replace(REQUEST, pod_uid="uid-2")
    desk.ask()
    desk.ask(replace(REQUEST, audiences=("vault",)))
    desk.ask(other)
    desk.manager.forget_pod(PodUid("uid-1"))
    desk.manager.forget_pod(PodUid("nobody"))
    assert len(desk.manager) == 1
    assert (desk.ask(other), desk.ask()) == ("token-3", "token-4")


def test_a_request_that_failed_is_not_remembered(desk: Desk) -> None:
    """T6."""
    desk.issuer.failure = BROKEN
    with pytest.raises(Refused, match="cannot sign: the key is gone"):
        desk.ask()
    assert len(desk.manager) == 0
    desk.issuer.failure = None
    assert desk.ask() == "token-1"


def test_expired_tokens_go_when_somebody_asks_and_others_stay(desk: Desk) -> None:
    """T7."""
    long = replace(REQUEST, pod_uid="uid-2", expiration_seconds=3 * HOUR)
    last = replace(REQUEST, pod_uid="uid-3")
    desk.ask()
    desk.ask(long)
    desk.time += HOUR - 1
    desk.ask(last)
    assert len(desk.manager) == 3
    desk.time += MINUTE
    desk.ask(last)
    assert len(desk.manager) == 2
    assert desk.ask(long) == "token-2"


def test_jitter_makes_a_token_due_up_to_ten_seconds_earlier() -> None:
    desk = Desk(Random(7))
    due = desk.time + HOUR * 4 / 5
    early = {due - desk.manager.token(replace(REQUEST, pod_uid=f"uid-{number}")).refresh_at for number in range(200)}
    assert early == set(range(11))


def test_a_token_is_not_shown_by_the_value_that_carries_it(desk: Desk) -> None:
    assert "token-1" not in repr(desk.manager.token(REQUEST))


def test_for_a_plan_nothing_is_signed() -> None:
    assert UnsignedTokens().token(REQUEST).text == ""
