"""Trust bundles of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.kube.field_errors import FieldProblem, quoted
from mooring.kube.name_rules import broken_subdomain
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.pem import certificates_in

_MOST_BYTES = 1024 * 1024


def broken_bundle_name(text: str) -> str:
    """Why a bundle cannot have this name; the colons that follow a signer in it are allowed."""
    return broken_subdomain(text.replace(":", "."))


def bundle_problems(bundle: ClusterTrustBundle) -> Iterator[FieldProblem]:
    yield from _signer_problems(bundle)
    path, text = ("spec", "trustBundle"), bundle.spec.trust_bundle
    if not text.strip():
        next_step = "Add the certificates as PEM"
        yield FieldProblem(path=path, why="it is required and missing", next_step=next_step)
        return
    if len(text.encode()) > _MOST_BYTES:
        yield FieldProblem(path=path, why=f"it is longer than {_MOST_BYTES} bytes (1 MiB)")
        return
    try:
        certificates = certificates_in(text)
    except ValueError as error:
        yield FieldProblem(path=path, why=str(error), next_step="Keep nothing but CERTIFICATE blocks in it")
        return
    if len(set(certificates)) != len(certificates):
        yield FieldProblem(path=path, why="it has a certificate twice", next_step="Keep one of them")


def _signer_problems(bundle: ClusterTrustBundle) -> Iterator[FieldProblem]:
    name, signer = bundle.metadata.name, bundle.spec.signer_name
    if signer:
        domain, slash, rest = signer.partition("/")
        if not slash or broken_subdomain(domain) or not rest:
            next_step = 'Write it like "example.com/my-signer"'
            yield FieldProblem(path=("spec", "signerName"), why="it is no domain and path", next_step=next_step)
            return
        prefix = f"{signer.replace('/', ':')}:"
        if not name.startswith(prefix):
            why = f"the name of a bundle of this signer starts with {quoted(prefix)}"
            yield FieldProblem(path=("metadata", "name"), why=why, next_step=f"Write {quoted(prefix + name)}")
    elif ":" in name:
        why = "only the name of a bundle with a signerName has a colon"
        yield FieldProblem(path=("metadata", "name"), why=why, next_step="Add spec.signerName, or rename it")
