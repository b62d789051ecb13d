"""Leases: how processes show that they live, and agree on one of them."""

from __future__ import annotations

from mooring.kube.objects.meta import KubernetesObject, Value


class LeaseSpec(Value, frozen=True, kw_only=True):
    """Times have microseconds, as Kubernetes writes them here."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = LeaseSpec()
