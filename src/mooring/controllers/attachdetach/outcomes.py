"""What an operation's end means for the worlds of the cluster, for the pods that wait and for the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol, assert_never

from mooring.controllers.attachdetach import multi_attach
from mooring.controllers.attachdetach.actual import ActualStateOfWorld
from mooring.controllers.attachdetach.attachers import DanglingAttachment
from mooring.controllers.attachdetach.caches import version_of
from mooring.controllers.attachdetach.desired import DesiredStateOfWorld
from mooring.controllers.attachdetach.operations import Operation, Outcome, WriteReport, kind_of
from mooring.controllers.attachdetach.planner import Attach, Detach, Restore, TellMultiAttach, Withdraw
from mooring.controllers.attachdetach.pod_volumes import plugin_label
from mooring.errors import InUse
from mooring.kube.objects.pod import Pod
from mooring.world.names import VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

log = logging.getLogger(__name__)

Teller = Callable[[Pod, str, str, bool], None]
"""Tells a pod something: reason, message, and whether it is a warning."""


class Watcher(Protocol):
    """Who counts what was done."""

    def finished(self, plugin: str, operation: str, *, succeeded: bool, migrated: bool, seconds: float) -> None: ...

    def forced(self, reason: str) -> None: ...


class Outcomes:
    """Applies outcomes. `apply` returns false for what has to rest before it is tried again."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        tell: Teller,
        watcher: Watcher,
        *,
        touch: Callable[[VolumeName, bool], None],
        touch_node: Callable[[str], None],
    ) -> None:
        self._desired, self._actual = desired, actual
        self._tell, self._watcher = tell, watcher
        self._touch, self._touch_node = touch, touch_node

    def apply(self, operation: Operation, outcome: Outcome) -> bool:
        if outcome.node is not None:
            self._actual.hear_node(operation.node, outcome.node.status.volumes_in_use, version_of(outcome.node))
        match operation:
            case Attach():
                self._attached(operation, outcome)
            case Detach():
                self._detached(operation, outcome)
            case Withdraw():
                self._actual.remove_from_report(operation.volume, operation.node)
            case Restore():
                self._actual.add_to_report(operation.volume, operation.node)
            case TellMultiAttach():
                self._tell_multi_attach(operation)
            case WriteReport():
                self._report_written(operation, outcome)
                return outcome.error is None
            case _:
                assert_never(operation)
        self._touch_node(operation.node)
        return outcome.error is None

    def _attached(self, operation: Attach, outcome: Outcome) -> None:
        self._count(operation, operation.spec, outcome)
        label, error = operation.spec.name, outcome.error
        if error is None:
            path = outcome.device_path
            self._actual.mark(operation.volume, operation.spec, operation.node, Presence.PRESENT, device_path=path)
            log.info("attached volume %s to node %s", operation.volume, operation.node)
            message = f'AttachVolume.Attach succeeded for volume "{label}" '
            self._tell_pods(operation.volume, operation.node, "SuccessfulAttachVolume", message, warning=False)
            return
        doubtful = error.node if isinstance(error, DanglingAttachment) else operation.node
        self._actual.mark(operation.volume, operation.spec, doubtful, Presence.UNCERTAIN)
        self._touch_node(doubtful)
        log.warning("%s", error)
        message = f'AttachVolume.Attach failed for volume "{label}" : {error.why}'
        self._tell_pods(operation.volume, operation.node, "FailedAttachVolume", message, warning=True)

    def _detached(self, operation: Detach, outcome: Outcome) -> None:
        self._count(operation, operation.spec, outcome)
        if outcome.asked and operation.forced is not None:
            self._watcher.forced(operation.forced.value)
        error = outcome.error
        if error is None:
            self._actual.mark(operation.volume, None, operation.node, Presence.ABSENT)
            log.info("detached volume %s from node %s", operation.volume, operation.node)
            return
        log.warning("%s", error)
        if outcome.asked:
            self._actual.mark(operation.volume, None, operation.node, Presence.UNCERTAIN)
            self._actual.note_kept(operation.volume, operation.node)
        elif isinstance(error, InUse):
            self._actual.add_to_report(operation.volume, operation.node)  # nothing was done, and the node needs it

    def _tell_multi_attach(self, operation: TellMultiAttach) -> None:
        wanted = self._desired.get(operation.volume, operation.node)
        if wanted is None:
            return
        others = [self._desired.get(operation.volume, node) for node in operation.others]
        users = [pod for each in others if each is not None for pod in each.pods.values()]
        for pod in _sorted(wanted.pods.values()):
            self._tell(pod, "FailedAttachVolume", multi_attach.message(wanted.spec.name, pod, users), True)
        self._desired.note_multi_attach(operation.volume, operation.node)

    def _report_written(self, operation: WriteReport, outcome: Outcome) -> None:
        if outcome.error is None:
            version = version_of(outcome.node) if outcome.node is not None else 0
            self._actual.report_written(operation.node, operation.report, version)
        else:
            log.warning("cannot tell node %s what is attached to it: %s", operation.node, outcome.error.why)
            self._actual.report_failed(operation.node)
        for name in self._actual.on_node(operation.node):
            self._touch(name, False)

    def _tell_pods(self, name: VolumeName, node: str, reason: str, message: str, *, warning: bool) -> None:
        wanted = self._desired.get(name, node)
        for pod in _sorted(wanted.pods.values() if wanted is not None else ()):
            self._tell(pod, reason, message, warning)

    def _count(self, operation: Attach | Detach, spec: VolumeSpec | None, outcome: Outcome) -> None:
        self._watcher.finished(
            plugin_label(operation.volume, spec),
            kind_of(operation),
            succeeded=outcome.error is None,
            migrated=spec is not None and spec.migrated,
            seconds=outcome.seconds,
        )


def _sorted(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: pod.key)
