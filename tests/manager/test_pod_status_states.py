"""Pods of a cluster: whether containers of theirs may still be there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.pod import ContainerState, ContainerStatus, Pod, PodStatus
from mooring.manager.pod_status_states import PodStatusStates
from mooring.manager.pods import PodManager
from mooring.testing.sample_objects import pod
from mooring.world.names import PodUid

WEB = PodUid("uid-web")


RUNNING, WAITING = ContainerState(running={}), ContainerState(waiting={"reason": "PodInitializing"})
TERMINATED = ContainerState(terminated={"exitCode": 0})


def web(
    *states: ContainerState,
    phase: str = "Running",
    deleting: bool = False,
    init: tuple[ContainerState, ...] = (),
    ephemeral: tuple[ContainerState, ...] = (),
) -> Pod:
    made = pod("web")
    meta = replace(made.metadata, deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    status = PodStatus(
        phase=phase,
        container_statuses=_statuses(states),
        init_container_statuses=_statuses(init),
        ephemeral_container_statuses=_statuses(ephemeral),
    )
    return replace(made, metadata=meta, status=status)


def _statuses(states: tuple[ContainerState, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(ContainerStatus(name=f"c{at}", state=state) for at, state in enumerate(states))


def states_of(known: Pod | None, *, runtime_tells: bool = False) -> PodStatusStates:
    pods = PodManager()
    if known is not None:
        pods.put(known)
    return PodStatusStates(pods, runtime_tells=runtime_tells)


def test_a_pod_that_runs_keeps_its_volumes_and_may_gain_more() -> None:
    states = states_of(web())
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (False, False)


@pytest.mark.parametrize("known", [None, web(phase="Succeeded"), web(phase="Failed", deleting=True)])
def test_a_pod_that_has_ended_or_is_unknown_needs_no_volumes(known: Pod | None) -> None:
    states = states_of(known)
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (True, True)


@pytest.mark.parametrize(
    "known",
    [
        web(RUNNING, deleting=True),
        web(TERMINATED, RUNNING, deleting=True),
        web(WAITING, init=(RUNNING,), deleting=True),
        web(TERMINATED, ephemeral=(RUNNING,), deleting=True),
    ],
)
def test_a_pod_that_is_being_deleted_keeps_its_volumes_while_a_container_runs_and_gains_none(known: Pod) -> None:
    states = states_of(known)
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (True, False)


@pytest.mark.parametrize(
    "known",
    [web(deleting=True), web(TERMINATED, ContainerState(), init=(TERMINATED,), ephemeral=(WAITING,), deleting=True)],
)
def test_a_pod_that_is_being_deleted_lets_its_volumes_go_when_no_container_runs(known: Pod) -> None:
    states = states_of(known)
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (True, True)


def test_a_pod_whose_containers_wait_goes_on_unless_it_is_being_deleted() -> None:
    assert not states_of(web(WAITING)).runtime_removed(WEB)


@pytest.mark.parametrize("known", [None, web(phase="Succeeded"), web(deleting=True)])
def test_where_the_runtime_is_asked_its_word_counts(known: Pod | None) -> None:
    states = states_of(known, runtime_tells=True)
    states.with_containers.add(WEB)
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (True, False)
    states.with_containers.discard(WEB)
    assert states.runtime_removed(WEB)


def test_where_the_runtime_is_asked_a_pod_that_goes_on_keeps_its_volumes_without_containers() -> None:
    assert not states_of(web(), runtime_tells=True).runtime_removed(WEB)


def test_on_a_node_that_is_drained_every_pod_counts_as_gone_once_its_containers_have() -> None:
    states = states_of(web())
    states.draining = True
    states.with_containers.add(WEB)
    assert (states.containers_terminating(WEB), states.runtime_removed(WEB)) == (True, False)
    states.with_containers.clear()
    assert states.runtime_removed(WEB)
