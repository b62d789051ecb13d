"""`$(NAME)` in the texts of a container, and the environment it is expanded from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mooring.kube.objects.pod import Container, EnvironmentVariable, Pod
from mooring.plugins.field_values import field_value

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def expand(text: str, value_of: Callable[[str], str]) -> str:
    """The text with every `$(NAME)` replaced by its value, and `$$` by a dollar sign."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else value_of(found[1]), text)


def environment(pod: Pod, container: Container) -> Mapping[str, str]:
    """The variables of a container whose values follow from the pod alone: literal ones, and fields of the pod.

    A value may refer to variables above it; what is not defined there stays as it is written.
    """
    known: dict[str, str] = {}
    for variable in container.env:
        value = _field(pod, variable) if variable.value_from is not None else _literal(variable, known)
        if value is None:
            known.pop(variable.name, None)  # it hides an earlier one of its name
        else:
            known[variable.name] = value
    return known


def _literal(variable: EnvironmentVariable, known: Mapping[str, str]) -> str:
    return expand(variable.value, lambda name: known.get(name, f"$({name})"))


def _field(pod: Pod, variable: EnvironmentVariable) -> str | None:
    source = (variable.value_from or {}).get("fieldRef")
    path = source.get("fieldPath") if isinstance(source, Mapping) else None
    match path:
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.podIP":
            return pod.status.pod_ip
        case str():
            try:
                return field_value(pod, path)
            except ValueError:
                return None
        case _:
            return None


def expand_completely(text: str, variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """The expanded text, and the names, sorted, that it refers to and that have no value or an empty one."""
    missing: set[str] = set()

    def value_of(name: str) -> str:
        value = variables.get(name, "")
        if not value:
            missing.add(name)
        return value

    return expand(text, value_of), sorted(missing)
