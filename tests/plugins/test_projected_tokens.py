"""projected: service account tokens, their files and their requests (plugins.md 13.1, T8 and T9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import UID, PluginBench

from mooring.controllers.token_manager import TokenManager
from mooring.errors import NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod, ServiceAccount
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from mooring.plugins.interface import TokenRequest
from mooring.testing.numbered_tokens import NoJitter, NumberedIssuer

GROUP = 2000
CLERK = ServiceAccount(metadata=ObjectMeta(name="clerk", namespace="shop", uid="uid-clerk"))


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def issuer() -> NumberedIssuer:
    return NumberedIssuer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(issuer: NumberedIssuer, clock: Clock) -> TokenManager:
    return TokenManager(issuer, clock=clock, random=NoJitter())


@pytest.fixture
def bench(tokens: TokenManager, issuer: NumberedIssuer) -> PluginBench:
    bench = PluginBench(tokens)
    issuer.accounts = bench.objects
    return bench


def source(
    path: str = "token", *, audience: str = "", seconds: int | None = None, user: int | None = None
) -> VolumeProjection:
    token = ServiceAccountTokenProjection(path=path, audience=audience, expiration_seconds=seconds, user=user)
    return VolumeProjection(service_account_token=token)


def projected(*sources: VolumeProjection, default_mode: int | None = None, default_user: int | None = None) -> Volume:
    return Volume(
        name="v",
        projected=ProjectedVolumeSource(sources=sources, default_mode=default_mode, default_user=default_user),
    )


def run_as(bench: PluginBench, volume: Volume, account: str) -> Pod:
    pod = bench.pod(volume)
    return replace(pod, spec=replace(pod.spec, service_account_name=account))


def test_a_token_is_a_file(bench: PluginBench) -> None:
    assert bench.texts(bench.set_up(projected(source()))) == {"token": "token-1"}


def test_the_request_names_pod_and_account_and_asks_for_an_hour_and_no_audience(
    bench: PluginBench, issuer: NumberedIssuer
) -> None:
    """T9."""
    bench.set_up(projected(source()))
    assert issuer.asked == [
        TokenRequest(
            namespace="shop",
            service_account="default",
            audiences=(),
            expiration_seconds=3600,
            pod_name="web",
            pod_uid=UID,
        )
    ]


def test_audience_and_lifetime_are_asked_for_as_written(bench: PluginBench, issuer: NumberedIssuer) -> None:
    bench.set_up(projected(source(audience="vault", seconds=7200)))
    (asked,) = issuer.asked
    assert (asked.audiences, asked.expiration_seconds) == (("vault",), 7200)


@pytest.mark.parametrize(
    ("fs_user", "fs_group", "default_user", "user", "mode", "owner"),
    [
        (None, None, None, None, 0o444, (0, 0)),
        (1000, None, None, None, 0o600, (1000, 0)),
        (None, GROUP, None, None, 0o640, (0, GROUP)),
        (1000, GROUP, None, None, 0o640, (1000, GROUP)),
        (1000, None, 1001, None, 0o600, (1001, 0)),
        (1000, None, 1001, 1002, 0o600, (1002, 0)),
        (None, None, None, 1002, 0o600, (1002, 0)),
        (0, None, None, None, 0o600, (0, 0)),
    ],
)
def test_who_may_read_a_token(
    bench: PluginBench,
    fs_user: int | None,
    fs_group: int | None,
    default_user: int | None,
    user: int | None,
    mode: int,
    owner: tuple[int, int],
) -> None:
    """T8, and the table of plugins.md 11.3: a group widens 0600 to 0640."""
    volume = projected(source(user=user), default_mode=0o444, default_user=default_user)
    path = bench.set_up(volume, fs_user=fs_user, fs_group=fs_group)
    file = f"{path}/{bench.data_directory(path)}/token"
    assert (bench.mode(file), bench.owner(file)) == (mode, owner)


def test_other_files_keep_their_modes_beside_a_token(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    other = VolumeProjection(config_map=ConfigMapProjection(name="c"))
    path = bench.set_up(projected(other, source()), fs_user=1000)
    data = f"{path}/{bench.data_directory(path)}"
    assert (bench.mode(f"{data}/a"), bench.owner(f"{data}/a")) == (0o644, (0, 0))


def test_an_account_that_does_not_exist_is_waited_for(bench: PluginBench, issuer: NumberedIssuer) -> None:
    volume = projected(source())
    with pytest.raises(NotYet) as caught:
        bench.set_up(volume, pod=run_as(bench, volume, "clerk"))
    assert caught.value.why == (
        "cannot read ServiceAccount 'clerk': serviceaccount \"clerk\" not found in namespace 'shop'"
    )
    assert issuer.asked == []
    bench.put(CLERK)
    bench.set_up(volume, pod=run_as(bench, volume, "clerk"))
    assert [asked.service_account for asked in issuer.asked] == ["clerk"]


def test_an_account_of_another_namespace_is_told(bench: PluginBench) -> None:
    bench.put(ServiceAccount(metadata=ObjectMeta(name="clerk", namespace="bank")))
    volume = projected(source())
    with pytest.raises(NotYet, match="not found in namespace 'shop', only in 'bank'"):
        bench.set_up(volume, pod=run_as(bench, volume, "clerk"))


def test_the_volume_wants_to_be_looked_at_when_the_token_is_due(bench: PluginBench, clock: Clock) -> None:
    volume = projected(source(seconds=1000))
    bench.set_up(volume)
    assert bench.look_again_after == 800
    clock.time += 300
    bench.set_up(volume, refresh=True)
    assert bench.look_again_after == 500


def test_of_several_tokens_the_earliest_counts(bench: PluginBench) -> None:
    path = bench.set_up(projected(source("a", seconds=7200), source("b", seconds=1000), source("c", seconds=3600)))
    assert bench.texts(path) == {"a": "token-1", "b": "token-2", "c": "token-3"}
    assert bench.look_again_after == 800


def test_a_volume_without_a_token_need_not_be_looked_at_again(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    bench.set_up(projected(VolumeProjection(config_map=ConfigMapProjection(name="c"))))
    assert bench.look_again_after is None


def test_a_refresh_before_the_token_is_due_changes_nothing(bench: PluginBench, clock: Clock) -> None:
    volume = projected(source())
    path = bench.set_up(volume)
    before = bench.data_directory(path)
    clock.time += 2879
    bench.set_up(volume, refresh=True)
    assert bench.data_directory(path) == before
    clock.time += 1
    bench.set_up(volume, refresh=True)
    assert bench.texts(path) == {"token": "token-2"}


def test_an_issuer_that_fails_refuses_the_volume_and_leaves_nothing(bench: PluginBench, issuer: NumberedIssuer) -> None:
    issuer.failure = Refused("cannot sign service account tokens", why="the key is broken")
    volume = projected(source())
    with pytest.raises(Refused, match="the key is broken"):
        bench.set_up(volume)
    assert bench.host.look(bench.path(volume)) is None


def test_tokens_are_forgotten_when_the_volume_is_torn_down(bench: PluginBench, tokens: TokenManager) -> None:
    volume = projected(source())
    bench.set_up(volume)
    assert len(tokens) == 1
    bench.tear_down(volume)
    assert len(tokens) == 0
