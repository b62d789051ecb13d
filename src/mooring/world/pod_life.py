"""How far a pod has come, as its object tells: whether containers of it may run."""

from __future__ import annotations

from mooring.kube.objects.pod import Pod

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Pod) -> bool:
    """Whether a pod has run to its end, or was ended for good."""
    return pod.status.phase in _ENDED_PHASES


def may_run_containers(pod: Pod) -> bool:
    """Whether a container of a pod may run or start, as far as its status tells.

    In a pod that is being deleted none is started any more, so that those which wait or have terminated are no concern.
    """
    if has_ended(pod):
        return False
    if pod.metadata.deletion_timestamp is None:
        return True
    return any(status.state.running is not None for status in pod.status.all_container_statuses())
