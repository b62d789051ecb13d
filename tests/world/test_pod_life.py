"""Whether containers of a pod may run, as far as its object tells (attachdetach.md 4.4)."""

from __future__ import annotations

import pytest

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ContainerState, ContainerStatus, Pod, PodStatus
from mooring.world.pod_life import has_ended, may_run_containers

RUNNING = ContainerStatus(name="main", state=ContainerState(running={}))
WAITING = ContainerStatus(name="main", state=ContainerState(waiting={"reason": "PodInitializing"}))
TERMINATED = ContainerStatus(name="main", state=ContainerState(terminated={"exitCode": 0}))


def pod(*, phase: str = "Running", deleting: bool = False, status: PodStatus | None = None) -> Pod:
    meta = ObjectMeta(name="web", deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    return Pod(metadata=meta, status=status if status is not None else PodStatus(phase=phase))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_runs_nothing(phase: str) -> None:
    assert has_ended(pod(phase=phase))
    assert not may_run_containers(pod(phase=phase))


@pytest.mark.parametrize("status", [PodStatus(), PodStatus(container_statuses=(WAITING,))])
def test_a_pod_that_lives_may_start_containers(status: PodStatus) -> None:
    assert not has_ended(pod(status=status))
    assert may_run_containers(pod(status=status))


@pytest.mark.parametrize(
    "status",
    [
        PodStatus(container_statuses=(TERMINATED, RUNNING)),
        PodStatus(init_container_statuses=(RUNNING,), container_statuses=(WAITING,)),
        PodStatus(container_statuses=(TERMINATED,), ephemeral_container_statuses=(RUNNING,)),
    ],
)
def test_a_container_of_any_kind_that_runs_counts_while_a_pod_is_being_deleted(status: PodStatus) -> None:
    assert may_run_containers(pod(deleting=True, status=status))


@pytest.mark.parametrize(
    "status",
    [PodStatus(), PodStatus(container_statuses=(WAITING, TERMINATED), init_container_statuses=(TERMINATED,))],
)
def test_a_pod_that_is_being_deleted_starts_none_any_more(status: PodStatus) -> None:
    assert not may_run_containers(pod(deleting=True, status=status))
