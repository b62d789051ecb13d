"""What every Kubernetes object carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all Kubernetes values: immutable, spelled in camelCase outside, unknown fields dropped."""


class OwnerReference(Value, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    generate_name: str = ""

    def is_controlled_by(self, uid: str) -> bool:
        """Whether it was made for the object with this UID, and goes with it."""
        return any(owner.controller and owner.uid == uid for owner in self.owner_references)


class KubernetesObject(Value, frozen=True, kw_only=True):
    """An object with an identity. Subclasses set `api_version` and `kind` to their own."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """`namespace/name`, or just `name` for cluster-scoped objects."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class LocalObjectReference(Value, frozen=True, kw_only=True):
    name: str = ""


class SecretReference(Value, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""


class ObjectReference(Value, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class LabelSelectorRequirement(Value, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True, kw_only=True):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Value, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


Unmodelled = Mapping[str, Any]
"""A part of an object that mooring passes through without looking inside."""
