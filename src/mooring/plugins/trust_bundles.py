"""Cluster trust bundles as one file: which bundles are meant, and their certificates in a steady order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from mooring.errors import NotYet, Refused
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.volumes import ClusterTrustBundleProjection
from mooring.kube.pem import certificates_in, to_pem
from mooring.kube.selectors import select_labels
from mooring.plugins.interface import ObjectRef, Objects

KIND = "ClusterTrustBundle"


def bundle_reference(source: ClusterTrustBundleProjection) -> ObjectRef:
    """What the file depends on: the bundle of its name, or any bundle at all where a signer is named."""
    return ObjectRef(KIND, "", source.name or "")


def trust_anchors(objects: Objects, source: ClusterTrustBundleProjection) -> bytes:
    """The file that a source asks for; an optional one without any bundle is empty."""
    bundles = _chosen(objects, source)
    if not bundles and not source.optional:
        raise _missing(source)
    return normalised(bundles).encode()


def _chosen(objects: Objects, source: ClusterTrustBundleProjection) -> list[ClusterTrustBundle]:
    if source.name:
        named = objects.cluster_trust_bundle(source.name)
        return [named] if named is not None else []
    if not source.signer_name:
        raise Refused(
            f"cannot project a cluster trust bundle ({source.path!r})",
            why="it names neither a bundle nor a signer",
            next_step="Write name or signerName",
        )
    labels = select_labels(source.label_selector)
    of_signer = objects.cluster_trust_bundles(source.signer_name)
    return [bundle for bundle in of_signer if labels.matches(bundle.metadata.labels)]


def _missing(source: ClusterTrustBundleProjection) -> NotYet:
    if source.name:
        what, why = f"cannot read {KIND} {source.name!r}", f'clustertrustbundle "{source.name}" not found'
        next_step = "Create it, correct the name, or mark the source optional: true"
    else:
        what = f"cannot read the {KIND}s of signer {source.signer_name!r}"
        if source.label_selector is None:
            why, next_step = "without a labelSelector no bundle is selected", "Write labelSelector: {} to select all"
        else:
            why, next_step = "the labelSelector selects none", "Create one, or mark the source optional: true"
    return NotYet(what, why=why, next_step=next_step)


def normalised(bundles: Iterable[ClusterTrustBundle]) -> str:
    """All certificates once, in an order that follows from them alone.

    The order is that of no bundle, so that nobody comes to rely on one; yet the same certificates always give the same
    file, so that only a change of them is a change of the file.
    """
    found = sorted({der for bundle in bundles for der in _certificates(bundle)})
    seed = hashlib.sha256(b"".join(hashlib.sha256(der).digest() for der in found)).digest()
    return to_pem(sorted(found, key=lambda der: hashlib.sha256(seed + der).digest()))


def _certificates(bundle: ClusterTrustBundle) -> list[bytes]:
    try:
        return certificates_in(bundle.spec.trust_bundle)
    except ValueError as error:
        raise Refused(
            f"cannot read {KIND} {bundle.key!r}",
            why=str(error),
            next_step="Keep nothing but CERTIFICATE blocks in its trustBundle",
        ) from error
