"""What a node says of itself in its Node object, worked out from facts about the machine. Nothing here asks anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.kube.objects.meta import ObjectMeta, Unmodelled
from mooring.kube.objects.node import Node, NodeSpec, NodeStatus
from mooring.kube.objects.pod import Quantities
from mooring.kube.quantity import Notation, Quantity, parse_quantity

KUBERNETES_VERSION = "1.36.3"
"""Of the kubelet whose ways this node has."""

_BILLION = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What there is to share out: thousandths of processors, bytes, and a number of pods."""

    cpu_milli: int
    memory: int
    ephemeral_storage: int
    pods: int = 110

    def quantities(self) -> dict[str, str]:
        return {
            "cpu": str(Quantity(self.cpu_milli * 10**6)),
            "memory": _bytes(self.memory),
            "ephemeral-storage": _bytes(self.ephemeral_storage),
            "pods": str(self.pods),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """A machine as it is. Texts that cannot be found out are empty."""

    name: str  # of the node
    hostname: str
    address: str  # that other machines of the cluster reach it at
    capacity: Amounts
    allocatable: Amounts  # what is left of it for pods
    version: str  # of mooring
    architecture: str  # as Go names it: amd64, arm64
    operating_system: str = "linux"
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    runtime_version: str = ""  # of what runs containers, such as `containerd://2.1.4`


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Keeps pods away that do not tolerate it."""

    key: str
    effect: str  # NoSchedule, PreferNoSchedule, NoExecute
    value: str = ""


def node_version(facts: MachineFacts) -> str:
    """What stands for the kubelet's version: Kubernetes' own, with ours as build metadata.

    By the rules of semantic versions it compares as equal to the kubelet's then. A suffix with a hyphen would be a
    version before it, and a number of our own would look ancient to whoever checks how far apart node and server are.
    """
    return f"v{KUBERNETES_VERSION}+mooring.{facts.version}"


def default_labels(facts: MachineFacts) -> dict[str, str]:
    """Labels that are kept right for as long as a node registers itself."""
    return {
        "beta.kubernetes.io/arch": facts.architecture,
        "beta.kubernetes.io/os": facts.operating_system,
        "kubernetes.io/arch": facts.architecture,
        "kubernetes.io/hostname": facts.hostname,
        "kubernetes.io/os": facts.operating_system,
    }


def new_node(
    facts: MachineFacts, *, labels: Mapping[str, str], taints: Sequence[Taint], not_ready: str, now: str
) -> Node:
    """The Node to create. Labels that are kept right win over given ones; given taints count only now."""
    wanted = tuple({"key": each.key, "value": each.value, "effect": each.effect} for each in taints)
    return Node(
        metadata=ObjectMeta(name=facts.name, labels={**labels, **default_labels(facts)}),
        spec=NodeSpec(taints=wanted),
        status=_status(Node(), facts, not_ready, now),
    )


def label_patch(node: Node, facts: MachineFacts) -> dict[str, Any] | None:
    """What has to change in the labels of a Node; None when nothing has."""
    has = node.metadata.labels
    wrong = {key: value for key, value in default_labels(facts).items() if has.get(key) != value}
    return {"metadata": {"labels": wrong}} if wrong else None


def status_patch(
    node: Node, facts: MachineFacts, *, not_ready: str, now: str, is_due: bool = False
) -> dict[str, Any] | None:
    """A strategic merge patch of the status; None when only times would change, unless they are due.

    It names what is ours alone: volumes in use and attached, conditions of other types and resources of other names
    stay as they are. Addresses are replaced as a whole, so that one that is gone does not linger.
    """
    wanted = _status(node, facts, not_ready, now)
    if not is_due and _is_said(node.status, wanted):
        return None
    status: dict[str, Any] = msgspec.to_builtins(wanted)
    status["addresses"] = [{"$patch": "replace"}, *status.get("addresses", ())]
    return {"status": status}


def _status(node: Node, facts: MachineFacts, not_ready: str, now: str) -> NodeStatus:
    addresses = [{"type": "InternalIP", "address": facts.address}] if facts.address else []
    return NodeStatus(
        capacity=facts.capacity.quantities(),
        allocatable=facts.allocatable.quantities(),
        conditions=tuple(_conditions(node.status.conditions, not_ready, now)),
        addresses=(*addresses, {"type": "Hostname", "address": facts.hostname}),
        node_info=_node_info(facts),
    )


def _node_info(facts: MachineFacts) -> Unmodelled:
    return {
        "architecture": facts.architecture,
        "bootID": facts.boot_id,
        "containerRuntimeVersion": facts.runtime_version,
        "kernelVersion": facts.kernel_version,
        "kubeProxyVersion": "",
        "kubeletVersion": node_version(facts),
        "machineID": facts.machine_id,
        "operatingSystem": facts.operating_system,
        "osImage": facts.os_image,
        "systemUUID": facts.system_uuid,
    }


_NO_PRESSURE = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "no pod has to go for want of memory"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "no pod has to go for want of disk space"),
    ("PIDPressure", "KubeletHasSufficientPID", "no pod has to go for want of process IDs"),
)
"""Nothing here measures how scarce they are: the node says that nothing is done about it, under the usual reasons."""


def _conditions(before: Sequence[Unmodelled], not_ready: str, now: str) -> list[Unmodelled]:
    """Our four, each with the time at which its status last became another one."""
    ready = ("Ready", "False" if not_ready else "True", "KubeletNotReady" if not_ready else "KubeletReady",
             not_ready or "mooring looks after the volumes of this node")  # fmt: skip
    wanted = [*((kind, "False", reason, message) for kind, reason, message in _NO_PRESSURE), ready]
    known = {each.get("type"): each for each in before}
    made: list[Unmodelled] = []
    for kind, status, reason, message in wanted:
        old = known.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        made.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        )
    return made


def _is_said(has: NodeStatus, wanted: NodeStatus) -> bool:
    """Whether a status says all that it should, heartbeats aside."""
    return (
        _offers(has.capacity, wanted.capacity)
        and _offers(has.allocatable, wanted.allocatable)
        and all(has.node_info.get(key, "") == value for key, value in wanted.node_info.items())
        and [(each.get("type"), each.get("address")) for each in has.addresses]
        == [(each["type"], each["address"]) for each in wanted.addresses]
        and {_gist(each) for each in wanted.conditions} <= {_gist(each) for each in has.conditions}
    )


def _gist(condition: Unmodelled) -> tuple[str, ...]:
    return tuple(str(condition.get(name, "")) for name in ("type", "status", "reason", "message"))


def _offers(has: Quantities, wanted: Quantities) -> bool:
    """By amount: a server may write a quantity in another form."""
    return all(name in has and parse_quantity(has[name]) == parse_quantity(amount) for name, amount in wanted.items())


def _bytes(amount: int) -> str:
    return str(Quantity(amount // 1024 * 1024 * _BILLION, Notation.BINARY))
