"""The SELinux label that a volume is mounted with, instead of each of its files being labelled. Pure.

The first pod that wants a volume decides; it keeps that label until no pod wants it any more.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mooring.kube.objects.pod import Pod, SELinuxOptions
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

_USER, _FILE_ROLE, _FILE_TYPE, _LEVEL = "system_u", "object_r", "container_file_t", "s0"
_IS_USER = re.compile(r"[a-zA-Z0-9_.-]+").fullmatch
_IS_LEVEL = re.compile(r"[a-zA-Z0-9_.,:-]+").fullmatch
_ACCESS_MODES = {"ReadWriteMany": "RWX", "ReadOnlyMany": "ROX", "ReadWriteOnce": "RWO", "ReadWriteOncePod": "RWOP"}
"""The kubelet's short names, the widest first."""


class Rule(enum.Enum):
    """What must hold before a volume is mounted with a label, in the words of the kubelet's metrics."""

    CONTAINERS = "container"  # what containers ask for makes a label
    POD = "pod_context_mismatch"  # the containers of a pod that have the volume agree
    VOLUME = "volume_context_mismatch"  # the pods that want the volume agree


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A rule that does not hold, and why."""

    rule: Rule
    why: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledUse:
    """All of a pod's use of a volume that decides about its label."""

    pod: Pod
    names: Collection[str]  # that the volume has in the pod
    spec: VolumeSpec
    supported: bool  # its plugin can mount it with a label
    any_access_mode: bool  # else only a volume that a single pod can use is mounted with one

    @property
    def is_strict(self) -> bool:
        """Whether the volume is one to be mounted with a label: a pod that breaks a rule does not get it then."""
        return self.spec.persistent_volume is not None and (self.any_access_mode or self.spec.is_exclusive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The label that a volume has already, and the pods for which it does."""

    label: str
    original: str
    pods: Collection[PodUid]
    found: bool = False  # on disk, after a start, and no pod has been heard to want it yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The label of a volume once a pod wants it too, and the rules that the pod breaks."""

    label: str = ""  # to mount it with; nothing: without one
    original: str = ""  # that it would have, were it one to be mounted with a label
    breaches: tuple[Breach, ...] = ()
    is_strict: bool = False
    admitted: bool = False  # the pod is its first, and brought a label

    @property
    def refusal(self) -> Breach | None:
        """Why the pod does not get the volume."""
        return self.breaches[0] if self.is_strict and self.breaches else None


def decide(use: LabelledUse, held: Held | None) -> Decision:
    """Decide about a pod's use of a volume, which others may have already."""
    labels = sorted({file_label(options) for options in _options(use.pod, use.names)})
    breach = _breach_in_pod(labels)
    if breach is not None and use.is_strict:
        return Decision(breaches=(breach,), is_strict=True)
    supported = use.supported and (breach is None or breach.rule is not Rule.POD)
    own = labels[0] if labels and breach is None and supported and not _opts_out(use.pod) else ""
    breaches = (breach,) if breach is not None else ()
    if held is None:
        label = own if use.is_strict else ""
        return Decision(label=label, original=own, breaches=breaches, is_strict=use.is_strict, admitted=bool(own))
    if supported and PodUid(use.pod.metadata.uid) not in held.pods and own != held.original:
        breaches = (*breaches, _conflict(own, held.original))
    return Decision(
        label=held.label,
        original=held.original,
        breaches=breaches,
        is_strict=use.is_strict,
        admitted=bool(own) and held.found and not breaches,
    )


def file_label(options: SELinuxOptions) -> str:
    """The label of files for containers with these options; nothing when none can be made of them.

    Role and type are those of a process: all policies for containers have the same ones for its files.
    """
    user, level = options.user or _USER, options.level or _LEVEL
    if not _IS_USER(user) or not _IS_LEVEL(level):  # a quote, for one, would let a pod choose mount options
        return ""
    return f"{user}:{_FILE_ROLE}:{_FILE_TYPE}:{level}"


def access_mode(spec: VolumeSpec) -> str:
    """The widest access mode of a volume, as the kubelet's metrics have it."""
    volume = spec.persistent_volume
    if volume is None:
        return "inline"
    return next((short for mode, short in _ACCESS_MODES.items() if mode in volume.spec.access_modes), "")


def _options(pod: Pod, names: Collection[str]) -> Iterator[SELinuxOptions]:
    """What the containers ask for that have the volume as a directory. Options in which nothing is set are none."""
    context = pod.spec.security_context
    default = context.se_linux_options if context is not None else None
    for container in pod.spec.all_containers():
        if any(mount.name in names for mount in container.volume_mounts):
            own = container.security_context.se_linux_options if container.security_context is not None else None
            chosen = own if own is not None else default
            if chosen is not None and chosen != SELinuxOptions():
                yield chosen


def _opts_out(pod: Pod) -> bool:
    """Whether a pod wants its files labelled one by one."""
    context = pod.spec.security_context
    return context is not None and context.se_linux_change_policy == "Recursive"


def _breach_in_pod(labels: list[str]) -> Breach | None:
    if "" in labels:
        return Breach(
            rule=Rule.CONTAINERS,
            why="the seLinuxOptions of its containers make no SELinux label",
            next_step="Write a user and a level that the policy of this machine has",
        )
    if len(labels) > 1:
        return Breach(
            rule=Rule.POD,
            why=f"its containers ask for several SELinux labels: {', '.join(labels)}",
            next_step="Give all containers that have the volume the same seLinuxOptions",
        )
    return None


def _conflict(own: str, held: str) -> Breach:
    return Breach(
        rule=Rule.VOLUME,
        why=f"conflicting SELinux labels: other pods have it with {held or 'none'}, this pod asks for {own or 'none'}",
        next_step="It goes on when no other pod wants the volume any more, or give all its pods the same seLinuxOptions"
        " and seLinuxChangePolicy",
    )
