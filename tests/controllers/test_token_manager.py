"""Tokens are given out again until they are due (plugins.md 13.1, T1 to T7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from mooring.controllers.token_manager import TokenManager, UnsignedTokens
from mooring.controllers.token_signer import SignedToken
from mooring.errors import NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ServiceAccount
from mooring.plugins.interface import IssuedToken, TokenRequest
from mooring.sources.object_table import ObjectTable
from mooring.testing.numbered_tokens import NoJitter, NumberedIssuer
from mooring.testing.virtual_time import in_virtual_time, run_virtual
from mooring.world.names import PodUid

HOUR = 3600
MINUTE = 60
REQUEST = TokenRequest(
    namespace="shop",
    service_account="clerk",
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
        return self.given(request).text

    def given(self, request: TokenRequest = REQUEST) -> IssuedToken:
        return run_virtual(self.manager.token(request))


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
    again = desk.given()
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
        replace(REQUEST, audiences=("vault",)),
        replace(REQUEST, secret_name="safe"),
    ],
    ids=["lifetime", "pod name", "pod", "audience", "secret"],
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
    early = {due - desk.given(replace(REQUEST, pod_uid=f"uid-{number}")).refresh_at for number in range(200)}
    assert early == set(range(11))


def test_a_token_is_not_shown_by_the_value_that_carries_it(desk: Desk) -> None:
    assert "token-1" not in repr(desk.given())


def clerk(uid: str) -> ServiceAccount:
    return ServiceAccount(metadata=ObjectMeta(name="clerk", namespace="shop", uid=uid))


def test_an_account_made_anew_gets_a_token_of_its_own(desk: Desk) -> None:
    """T5."""
    desk.issuer.accounts = accounts = ObjectTable()
    with pytest.raises(NotYet, match="clerk"):
        desk.manager.check(REQUEST)
    accounts.put(clerk("uid-first"))
    desk.manager.check(REQUEST)
    assert desk.ask() == desk.ask() == "token-1"
    accounts.put(clerk("uid-second"))
    assert desk.ask() == "token-2"


def test_for_a_plan_nothing_is_signed_and_a_missing_account_is_told() -> None:
    accounts = ObjectTable()
    tokens = UnsignedTokens(accounts)
    assert run_virtual(tokens.token(REQUEST)).text == ""
    with pytest.raises(NotYet, match="clerk"):
        tokens.check(REQUEST)
    accounts.put(clerk("uid-clerk"))
    tokens.check(REQUEST)


# -- several at once ---------------------------------------------------------------------------------------------------
class SlowIssuer(NumberedIssuer):
    """An issuer that takes a second."""

    async def issue(self, request: TokenRequest, now: float) -> SignedToken:
        answer = await super().issue(request, now) if self.failure is None else None
        await asyncio.sleep(1)
        if answer is None:
            self.asked.append(request)
            raise self.failure or BROKEN
        return answer


def slow() -> tuple[SlowIssuer, TokenManager]:
    issuer = SlowIssuer()
    return issuer, TokenManager(issuer, clock=asyncio.get_running_loop().time, random=NoJitter())


@in_virtual_time
async def test_those_who_ask_at_once_share_one_request() -> None:
    issuer, manager = slow()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(manager.token(REQUEST)) for _ in range(5)]
        other = tasks.create_task(manager.token(replace(REQUEST, audiences=("vault",))))
    assert {each.result().text for each in asking} == {"token-1"}
    assert other.result().text == "token-2"
    assert len(issuer.asked) == 2
    assert asyncio.get_running_loop().time() == 1.0


@in_virtual_time
async def test_those_who_ask_at_once_share_a_failure_and_the_next_one_asks_anew() -> None:
    issuer, manager = slow()
    issuer.failure = BROKEN
    answers = await asyncio.gather(*(manager.token(REQUEST) for _ in range(5)), return_exceptions=True)
    assert answers == [BROKEN] * 5
    assert len(issuer.asked) == 1
    issuer.failure = None
    assert (await manager.token(REQUEST)).text == "token-1"


@in_virtual_time
@pytest.mark.parametrize("who", [0, 1, 2])
async def test_whoever_is_cancelled_the_others_get_their_token(who: int) -> None:
    _, manager = slow()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(manager.token(REQUEST)) for _ in range(3)]
        await asyncio.sleep(0.5)
        asking.pop(who).cancel()
    texts = {each.result().text for each in asking}
    assert texts == {"token-2" if who == 0 else "token-1"}
    assert len(manager) == 1
