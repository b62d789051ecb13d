"""Certificates that a cluster trusts."""

from __future__ import annotations

from mooring.kube.objects.meta import KubernetesObject, Value


class ClusterTrustBundleSpec(Value, frozen=True, kw_only=True):
    signer_name: str = ""
    trust_bundle: str = ""  # PEM, certificates only


class ClusterTrustBundle(KubernetesObject, frozen=True, kw_only=True):
    """Trust anchors that pods may have as a file; with a signer, all bundles of that signer belong together."""

    api_version: str = "certificates.k8s.io/v1"
    kind: str = "ClusterTrustBundle"
    spec: ClusterTrustBundleSpec = ClusterTrustBundleSpec()
