"""The environment of a container: literal values, fields, resources, and keys of ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from mooring.errors import MooringError, NotYet, Refused
from mooring.kube.objects.pod import (
    Container,
    EnvironmentFrom,
    EnvironmentSource,
    EnvironmentVariable,
    KeySelector,
    Pod,
)
from mooring.kube.objects.volumes import ResourceFieldSelector
from mooring.manager.expansion import expand_known
from mooring.plugins.field_values import field_value, resource_value
from mooring.plugins.interface import NodeFacts, Objects
from mooring.plugins.payload import missing_object

_ADVICE = "Create it, correct the name, or mark the source optional: true"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSources:
    """What values are taken from, beside the pod itself."""

    objects: Objects | None  # None: keys of objects count as missing
    node: NodeFacts
    address: str = ""  # of this machine; a pod that shares its network has the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The variables that could be worked out, and why others could not. No value is ever part of an error."""

    values: Mapping[str, str] = field(repr=False)
    problems: tuple[MooringError, ...] = ()


def work_out_environment(pod: Pod, container: Container, sources: EnvironmentSources) -> Environment:
    """The variables of a container: first whole objects, of equal names the last; then single ones, which win.

    The value of a single variable may refer to single ones above it; what is not defined there stays as it is written.
    """
    values: dict[str, str] = {}
    problems: list[MooringError] = []
    for source in container.env_from:
        try:
            values.update(dict(_all_keys(pod, source, sources)))
        except MooringError as error:
            problems.append(error)
    known: dict[str, str] = {}
    for variable in container.env:
        try:
            value = _value(pod, container, variable, known, sources)
        except MooringError as error:
            problems.append(error)
            value = None
        if value is None:  # it hides an earlier one of its name
            known.pop(variable.name, None)
            values.pop(variable.name, None)
        else:
            known[variable.name] = values[variable.name] = value
    return Environment(values=values, problems=tuple(problems))


def _value(
    pod: Pod,
    container: Container,
    variable: EnvironmentVariable,
    known: Mapping[str, str],
    sources: EnvironmentSources,
) -> str | None:
    """The value of one variable; None when what it comes from is optional and not there."""
    if variable.value_from is None:
        return expand_known(variable.value, known)
    match variable.value_from:
        case EnvironmentSource(field_ref=ref) if ref is not None:
            try:
                return _field(pod, ref.field_path, sources)
            except ValueError as error:
                raise _refusal(variable, str(error)) from error
        case EnvironmentSource(resource_field_ref=ref) if ref is not None:
            return _resource(pod, container, variable, ref, sources)
        case EnvironmentSource(config_map_key_ref=ref) if ref is not None:
            return _key(pod, variable, ref, "ConfigMap", sources)
        case EnvironmentSource(secret_key_ref=ref) if ref is not None:
            return _key(pod, variable, ref, "Secret", sources)
    raise _refusal(variable, "its source is not one that mooring knows")


def _refusal(variable: EnvironmentVariable, why: str) -> Refused:
    return Refused(f"cannot set variable {variable.name!r}", why=why)


def _field(pod: Pod, path: str, sources: EnvironmentSources) -> str:
    match path:
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.podIP" | "status.podIPs":
            return pod.status.pod_ip or sources.address
        case "status.hostIP" | "status.hostIPs":
            return sources.address
    return field_value(pod, path)


def _resource(
    pod: Pod,
    container: Container,
    variable: EnvironmentVariable,
    ref: ResourceFieldSelector,
    sources: EnvironmentSources,
) -> str:
    try:
        return resource_value(pod, replace(ref, container_name=ref.container_name or container.name), sources.node)
    except ValueError as error:
        raise _refusal(variable, str(error)) from error


# -- objects -----------------------------------------------------------------------------------------------------
def _key(
    pod: Pod, variable: EnvironmentVariable, ref: KeySelector, kind: str, sources: EnvironmentSources
) -> str | None:
    data = _data(pod, kind, ref.name, sources, optional=ref.optional)
    value = data.get(ref.key)
    if value is None:
        if ref.optional:
            return None
        keys = ", ".join(sorted(data)) or "none"
        why = f"{kind} {ref.name!r} has no key {ref.key!r}"
        raise NotYet(f"cannot set variable {variable.name!r}", why=why, next_step=f"Its keys are: {keys}")
    return _text(value, variable.name)


def _all_keys(pod: Pod, source: EnvironmentFrom, sources: EnvironmentSources) -> Iterator[tuple[str, str]]:
    """Every key that can be the name of a variable, with its value; as a kubelet, others are passed over."""
    for kind, ref in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
        if ref is not None:
            for key, value in _data(pod, kind, ref.name, sources, optional=ref.optional).items():
                name = f"{source.prefix}{key}"
                if "=" not in name:
                    yield name, _text(value, name)


def _data(
    pod: Pod, kind: str, name: str, sources: EnvironmentSources, *, optional: bool
) -> Mapping[str, str] | Mapping[str, bytes]:
    objects, namespace = sources.objects, pod.metadata.namespace
    if objects is None:
        if optional:
            return {}
        raise NotYet(f"cannot read {kind} {name!r}", why="objects cannot be looked up here")
    if kind == "ConfigMap":
        config_map = objects.config_map(namespace, name)
        found: Mapping[str, str] | Mapping[str, bytes] | None = config_map.data if config_map is not None else None
    else:
        secret = objects.secret(namespace, name)
        found = secret.data if secret is not None else None
    if found is not None:
        return found
    if optional:
        return {}
    raise missing_object(objects, kind, namespace, name, _ADVICE)


def _text(value: str | bytes, name: str) -> str:
    """A value as a variable can hold it; the error does not show it."""
    try:
        text = value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refused(f"cannot set variable {name!r}", why="its value is not a text", next_step="Use a volume instead")
    return text
