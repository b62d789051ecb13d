"""The files of configMap, secret, downwardAPI and projected volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.name_rules import broken_qualified_name, broken_subdomain
from mooring.kube.objects.volumes import (
    ClusterTrustBundleProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    PodCertificateProjection,
    ProjectedVolumeSource,
    ResourceFieldSelector,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from mooring.kube.quantity import Quantity, parse_quantity
from mooring.kube.value_rules import check_choice, check_file_path, check_id, check_mode, check_required, read_quantity

_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]", re.DOTALL)
_RESOURCE = re.compile(r"(?:limits|requests)\.(?:cpu|memory|ephemeral-storage|hugepages-.+)")
_DIVISORS = frozenset(parse_quantity(f"1{unit}") for unit in ("", *"kMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
_CPU_DIVISORS = frozenset(map(parse_quantity, ("1", "1m")))
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 2**32
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SHORTEST_CERTIFICATE, _LONGEST_CERTIFICATE = 3600, 7862400
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_items(items: tuple[KeyToPath, ...], path: FieldPath) -> Iterator[FieldProblem]:
    """The keys that a configMap or secret source picks, and the files they become."""
    for position, item in enumerate(items):
        at = (*path, "items", position)
        yield from check_required(item.key, (*at, "key"))
        yield from check_file_path(item.path, (*at, "path"))
        yield from check_mode(item.mode, (*at, "mode"))
        yield from check_id(item.user, (*at, "user"))


def check_downward_files(files: tuple[DownwardAPIVolumeFile, ...], path: FieldPath) -> Iterator[FieldProblem]:
    for position, file in enumerate(files):
        at = (*path, "items", position)
        yield from check_file_path(file.path, (*at, "path"))
        yield from check_mode(file.mode, (*at, "mode"))
        yield from check_id(file.user, (*at, "user"))
        if file.field_ref is not None and file.resource_field_ref is not None:
            why = "it has both fieldRef and resourceFieldRef"
            yield FieldProblem(path=at, why=why, next_step="Keep one of the two")
        elif file.field_ref is not None:
            yield from _field_problems(file.field_ref, (*at, "fieldRef"))
        elif file.resource_field_ref is not None:
            yield from _resource_problems(file.resource_field_ref, (*at, "resourceFieldRef"))
        else:
            why = "it says neither fieldRef nor resourceFieldRef"
            yield FieldProblem(path=at, why=why, next_step="Say what the file shall contain")


def _field_problems(selector: ObjectFieldSelector, path: FieldPath) -> Iterator[FieldProblem]:
    field, at = selector.field_path, (*path, "fieldPath")
    subscript = _SUBSCRIPT.fullmatch(field)
    if selector.api_version not in ("", "v1"):
        why = f"{quoted(selector.api_version)} is not known"
        yield FieldProblem(path=(*path, "apiVersion"), why=why, next_step='Write "v1", or leave it out')
    if not field:
        yield from check_required(field, at)
    elif subscript is not None:
        key = subscript[2].lower() if subscript[1] == "metadata.annotations" else subscript[2]
        if why := broken_qualified_name(key):
            yield FieldProblem(path=at, why=why)
    elif field not in _FIELDS:
        why = f"a volume cannot show {quoted(field)}"
        listed = ", ".join(_FIELDS)
        next_step = f"Write one of {listed}, metadata.labels['KEY'] or metadata.annotations['KEY']"
        yield FieldProblem(path=at, why=why, next_step=next_step)


def _resource_problems(selector: ResourceFieldSelector, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(selector.container_name, (*path, "containerName"))
    if not selector.resource:
        yield from check_required(selector.resource, (*path, "resource"))
    elif not _RESOURCE.fullmatch(selector.resource):
        why = f"a volume cannot show {quoted(selector.resource)}"
        next_step = "Write limits. or requests. and then cpu, memory, ephemeral-storage or hugepages-SIZE"
        yield FieldProblem(path=(*path, "resource"), why=why, next_step=next_step)
    elif selector.divisor is not None:
        yield from _divisor_problems(selector.divisor, selector.resource, (*path, "divisor"))


def _divisor_problems(written: str | int | float, resource: str, path: FieldPath) -> Iterator[FieldProblem]:
    divisor = read_quantity(written)
    allowed = _CPU_DIVISORS if resource.endswith(".cpu") else _DIVISORS
    if not isinstance(divisor, Quantity):
        yield FieldProblem(path=path, why=divisor)
    elif divisor.nano != 0 and divisor not in allowed:
        listed = "1 or 1m" if allowed is _CPU_DIVISORS else "1 or one unit such as 1k, 1M, 1Ki or 1Mi"
        yield FieldProblem(path=path, why=f"{written} does not divide {resource}", next_step=f"Write {listed}")


def check_projected(projected: ProjectedVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_mode(projected.default_mode, (*path, "defaultMode"))
    yield from check_id(projected.default_user, (*path, "defaultUser"))
    for position, source in enumerate(projected.sources):
        at = (*path, "sources", position)
        if len(names := source.source_names) > 1:
            why = f"it has several sources: {' and '.join(names)}"
            yield FieldProblem(path=at, why=why, next_step="Make each of them an entry of its own")
        yield from _projection_problems(source, at)
    yield from _conflicting_paths(projected, path)


def _projection_problems(source: VolumeProjection, path: FieldPath) -> Iterator[FieldProblem]:
    if source.config_map is not None:
        yield from check_required(source.config_map.name, (*path, "configMap", "name"))
        yield from check_items(source.config_map.items, (*path, "configMap"))
    if source.secret is not None:
        yield from check_required(source.secret.name, (*path, "secret", "name"))
        yield from check_items(source.secret.items, (*path, "secret"))
    if source.downward_api is not None:
        yield from check_downward_files(source.downward_api.items, (*path, "downwardAPI"))
    if source.service_account_token is not None:
        yield from _token_problems(source.service_account_token, (*path, "serviceAccountToken"))
    if source.cluster_trust_bundle is not None:
        yield from _trust_bundle_problems(source.cluster_trust_bundle, (*path, "clusterTrustBundle"))
    if source.pod_certificate is not None:
        yield from _certificate_problems(source.pod_certificate, (*path, "podCertificate"))


def _conflicting_paths(projected: ProjectedVolumeSource, path: FieldPath) -> Iterator[FieldProblem]:
    """Two sources that write one file. Tokens are left out of this rule, as Kubernetes leaves them out."""
    first: dict[str, int] = {}
    for position, source in enumerate(projected.sources):
        for at, file in _written_files(source):
            if file and file in first:
                why = f"conflicting duplicate paths: sources[{first[file]}] also writes {quoted(file)}"
                yield FieldProblem(path=(*path, "sources", position, *at), why=why, next_step="Give it another path")
            first.setdefault(file, position)


def _written_files(source: VolumeProjection) -> Iterator[tuple[FieldPath, str]]:
    if source.secret is not None:
        yield from ((("secret", "items", n, "path"), item.path) for n, item in enumerate(source.secret.items))
    if source.config_map is not None:
        yield from ((("configMap", "items", n, "path"), item.path) for n, item in enumerate(source.config_map.items))
    if source.downward_api is not None:
        files = source.downward_api.items
        yield from ((("downwardAPI", "items", n, "path"), item.path) for n, item in enumerate(files))
    if source.cluster_trust_bundle is not None:
        yield ("clusterTrustBundle", "path"), source.cluster_trust_bundle.path
    if source.pod_certificate is not None:
        for name, file in _certificate_files(source.pod_certificate).items():
            yield ("podCertificate", name), file


def _certificate_files(certificate: PodCertificateProjection) -> dict[str, str]:
    files = {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
    return {name: file for name, file in files.items() if file}


def _token_problems(token: ServiceAccountTokenProjection, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_file_path(token.path, (*path, "path"))
    yield from check_id(token.user, (*path, "user"))
    seconds = token.expiration_seconds
    yield from _check_seconds(seconds, (*path, "expirationSeconds"), _SHORTEST_TOKEN, _LONGEST_TOKEN)


def _trust_bundle_problems(bundle: ClusterTrustBundleProjection, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_file_path(bundle.path, (*path, "path"))
    yield from check_id(bundle.user, (*path, "user"))
    if (bundle.name is None) == (bundle.signer_name is None):
        yield FieldProblem(path=path, why="it needs either name or signerName", next_step="Write one of the two")
    if bundle.name is not None:
        if why := broken_subdomain(bundle.name.replace(":", ".")):
            yield FieldProblem(path=(*path, "name"), why=why)
        if bundle.label_selector is not None:
            why = "a bundle that is named is not selected by labels"
            yield FieldProblem(path=(*path, "labelSelector"), why=why, next_step="Remove it")
    elif bundle.label_selector is not None:
        for position, each in enumerate(bundle.label_selector.match_expressions):
            at = (*path, "labelSelector", "matchExpressions", position, "operator")
            yield from check_choice(each.operator, at, _LABEL_OPERATORS)


def _certificate_problems(certificate: PodCertificateProjection, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_required(certificate.signer_name, (*path, "signerName"))
    yield from check_choice(certificate.key_type, (*path, "keyType"), _KEY_TYPES)
    yield from check_id(certificate.user, (*path, "user"))
    files = _certificate_files(certificate)
    if not files:
        next_step = "Add credentialBundlePath, or keyPath and certificateChainPath"
        yield FieldProblem(path=path, why="it names no file to write", next_step=next_step)
    for name, file in files.items():
        yield from check_file_path(file, (*path, name))
    seconds, at = certificate.max_expiration_seconds, (*path, "maxExpirationSeconds")
    yield from _check_seconds(seconds, at, _SHORTEST_CERTIFICATE, _LONGEST_CERTIFICATE)


def _check_seconds(seconds: int | None, path: FieldPath, least: int, most: int) -> Iterator[FieldProblem]:
    if seconds is not None and not least <= seconds <= most:
        why = f"{seconds} seconds are not between {least} and {most}"
        yield FieldProblem(path=path, why=why)
