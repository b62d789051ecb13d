"""What a pod is told whose volume another node has."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects.pod import Pod

NOBODY = "Volume is already exclusively attached to one node and can't be attached to another"


def message(volume: str, waiting: Pod, users: Iterable[Pod]) -> str:
    """The text of the event. Pods of other namespaces are counted, and never named."""
    near, far = [], 0
    for user in users:
        if user.metadata.namespace == waiting.metadata.namespace:
            near.append(user.metadata.name)
        else:
            far += 1
    return f'Multi-Attach error for volume "{volume}" {_who(sorted(near), far)}'


def _who(near: list[str], far: int) -> str:
    elsewhere = f"{far} pod(s) in different namespaces"
    if near:
        used = f"Volume is already used by pod(s) {', '.join(near)}"
        return f"{used} and {elsewhere}" if far else used
    return f"Volume is already used by {elsewhere}" if far else NOBODY
