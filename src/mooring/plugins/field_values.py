"""The values that downwardAPI files show: fields of the pod, and resources of its containers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from mooring.kube.objects.pod import Container, Pod
from mooring.kube.objects.volumes import ResourceFieldSelector
from mooring.kube.quantity import parse_quantity
from mooring.plugins.interface import NodeFacts
from mooring.world.pod_facts import containers_by_name

_SUBSCRIPT = re.compile(r"(?P<path>[^\[\]]*)\['(?P<key>.*)'\]")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def field_value(pod: Pod, path: str) -> str:
    """The value of a field of the pod; ValueError when volumes cannot show it."""
    found = _SUBSCRIPT.fullmatch(path)
    if found is not None:
        return _subscripted(pod, path, found["path"], found["key"])
    match path:
        case "metadata.name":
            return pod.metadata.name
        case "metadata.namespace":
            return pod.metadata.namespace
        case "metadata.uid":
            return pod.metadata.uid
        case "metadata.labels":
            return _lines(pod.metadata.labels)
        case "metadata.annotations":
            return _lines(pod.metadata.annotations)
    raise ValueError(f"unsupported fieldPath: {path}")


def _subscripted(pod: Pod, whole: str, path: str, key: str) -> str:
    if path == "metadata.labels":
        _check_key(whole, key, key)
        return pod.metadata.labels.get(key, "")
    if path == "metadata.annotations":
        _check_key(whole, key, key.lower())
        return pod.metadata.annotations.get(key, "")
    raise ValueError(f'fieldPath "{whole}" does not support subscript')


def _check_key(whole: str, key: str, checked: str) -> None:
    prefix, slash, name = checked.rpartition("/")
    valid = len(name) <= 63 and _NAME_PART.fullmatch(name) is not None
    if slash:
        valid = valid and len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None
    if not valid:
        raise ValueError(f'invalid key subscript in "{whole}": {key!r} is not a qualified name')


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={quote(values[key])}" for key in sorted(values))


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}


def quote(text: str) -> str:
    """A text in double quotes with Go's escapes, as the kubelet writes labels and annotations."""
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(pod: Pod, selector: ResourceFieldSelector, node: NodeFacts) -> str:
    """A container's request or limit, divided and rounded up; ValueError when it cannot be shown."""
    container = containers_by_name(pod).get(selector.container_name)
    if container is None:
        raise ValueError(f"container {selector.container_name!r} not found")
    side, _, resource = selector.resource.partition(".")
    if side not in ("limits", "requests") or not _is_known(resource):
        raise ValueError(f"unsupported container resource : {selector.resource}")
    divisor = parse_quantity(selector.divisor if selector.divisor is not None else 1)
    amount = _amount(container, side, resource, node)
    if resource == "cpu":
        return str(math.ceil(Fraction(amount, divisor.milli or 1000)))
    return str(math.ceil(Fraction(amount, divisor.value or 1)))


def _is_known(resource: str) -> bool:
    return resource in ("cpu", "memory", "ephemeral-storage") or resource.startswith("hugepages-")


def _amount(container: Container, side: str, resource: str, node: NodeFacts) -> int:
    """In bytes, or for cpu in thousandths. A limit that is not set is all the node has; huge pages never are."""
    quantities = container.resources.limits if side == "limits" else container.resources.requests
    written = quantities.get(resource)
    own = parse_quantity(written) if written is not None else None
    amount = 0 if own is None else (own.milli if resource == "cpu" else own.value)
    if amount == 0 and side == "limits":
        whole = {"cpu": node.cpu_milli, "memory": node.memory, "ephemeral-storage": node.ephemeral_storage}
        return whole.get(resource, 0)
    return amount
