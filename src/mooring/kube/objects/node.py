"""Node and Event: what mooring says about the machine and about what happened on it."""

from __future__ import annotations

import msgspec

from mooring.kube.objects.meta import KubernetesObject, ObjectReference, Unmodelled, Value
from mooring.kube.objects.pod import Quantities


class NodeSpec(Value, frozen=True, kw_only=True):
    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: tuple[Unmodelled, ...] = ()


class AttachedVolume(Value, frozen=True, kw_only=True):
    name: str
    device_path: str = ""


class NodeStatus(Value, frozen=True, kw_only=True):
    capacity: Quantities = {}
    allocatable: Quantities = {}
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    conditions: tuple[Unmodelled, ...] = ()
    addresses: tuple[Unmodelled, ...] = ()
    node_info: Unmodelled = {}


class Node(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class EventSource(Value, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Event"
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
