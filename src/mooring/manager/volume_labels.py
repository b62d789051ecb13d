"""The SELinux labels of wanted volumes, and the pods that are kept from a volume by the label it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec.structs import replace

from mooring.errors import Refused
from mooring.plugins.interface import NodeFacts
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Labelled, Listener
from mooring.world.desired import DesiredMount, DesiredStateOfWorld, DesiredVolume
from mooring.world.names import PodUid, VolumeName
from mooring.world.selinux import Held, LabelledUse, Rule, decide


class Conflict(Refused):
    """A pod does not get a volume, because others have it with another SELinux label."""


class VolumeLabels:
    """Applies the rules on a machine that has SELinux; on any other nothing here is ever asked or kept."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        *,
        node: Callable[[], NodeFacts],
        any_access_mode: bool,
        tell: Listener,
    ) -> None:
        self._desired = desired
        self._actual = actual
        self._node = node
        self._any_access_mode = any_access_mode
        self._tell = tell
        self._kept_out: dict[PodUid, set[VolumeName]] = {}

    @cached_property
    def in_use(self) -> bool:
        """Whether this machine has SELinux, which does not change while it runs."""
        return self._node().selinux

    def labelled(self, volume: DesiredVolume, mount: DesiredMount, *, supported: bool, at_start: bool) -> DesiredVolume:
        """A volume with the label it gets when a pod wants it so; `Refused` when the pod cannot have it.

        `supported` says whether its plugin can mount it with a label. Until every source of pods has been heard, what
        was found on disk counts as wanted: its pods may be running, and keep what they have.
        """
        uid = PodUid(mount.pod.metadata.uid)
        known = self._desired.mount(uid, volume.name)
        use = LabelledUse(
            pod=mount.pod,
            names={*mount.outer_names, *(known.outer_names if known is not None else ())},
            spec=mount.spec,
            supported=supported,
            any_access_mode=self._any_access_mode,
        )
        decision = decide(use, self._wanted(volume.name) or (self._found(volume.name) if at_start else None))
        if decision.breaches or decision.admitted:
            self._tell(Labelled(decision=decision, plugin=volume.plugin, spec=mount.spec))
        refusal = decision.refusal
        if refusal is None:
            return replace(volume, label=decision.label, original_label=decision.original)
        what = f"cannot use volume {mount.spec.name!r}"
        if refusal.rule is not Rule.VOLUME:
            raise Refused(what, why=refusal.why, next_step=refusal.next_step)
        self._kept_out.setdefault(uid, set()).add(volume.name)
        raise Conflict(what, why=refusal.why, next_step=refusal.next_step)

    def _wanted(self, name: VolumeName) -> Held | None:
        volume = self._desired.volumes.get(name)
        if volume is None:
            return None
        return Held(label=volume.label or "", original=volume.original_label, pods=volume.mounts)

    def _found(self, name: VolumeName) -> Held | None:
        volume = self._actual.volumes.get(name)
        if volume is None or volume.label is None:
            return None
        return Held(label=volume.label, original=volume.label, pods=volume.mounts, found=True)

    def forget(self, uid: PodUid) -> None:
        """A pod is gone, or is being worked out again."""
        self._kept_out.pop(uid, None)

    def free_again(self) -> list[PodUid]:
        """The pods, to be worked out again, that were kept from a volume which no pod wants any more."""
        if not self._kept_out:
            return []
        wanted = self._desired.volumes
        free = [uid for uid, names in self._kept_out.items() if not all(name in wanted for name in names)]
        for uid in free:
            del self._kept_out[uid]
        return free

    def is_empty(self) -> bool:
        return not self._kept_out
