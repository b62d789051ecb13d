"""Label and field selectors, parsed once into predicates over objects."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from mooring.kube.api import Invalid, ListOptions, WatchOptions
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject, LabelSelector


class Operator(enum.Enum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One condition on the labels. As in Kubernetes, an object without the label is "not in" any set."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None


@dataclass(frozen=True, slots=True)
class LabelSelection:
    """A parsed label selector: all its requirements must hold. Without requirements it selects everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = LabelSelection()
NOTHING = LabelSelection((LabelRequirement("nothing", Operator.IN),))

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>{_KEY})
      | (?P<key>{_KEY})
        (?: \s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})
          | \s+(?P<set>in|notin)\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\)
        )?
    )\s*""",
    re.VERBOSE | re.ASCII,
)


def parse_label_selector(text: str) -> LabelSelection:
    """Parse `a=b,c!=d,e in (x,y),f notin (z),g,!h`; raises `Invalid` when it is malformed."""
    if not text.strip():
        return EVERYTHING
    # Commas inside parentheses belong to a set of values.
    return LabelSelection(tuple(_parse_requirement(part, text) for part in re.split(r",(?![^(]*\))", text)))


def _parse_requirement(part: str, text: str) -> LabelRequirement:
    found = _REQUIREMENT.fullmatch(part)
    if found is None:
        raise Invalid(
            f"cannot use label selector {text!r}",
            why=f"{part.strip()!r} is not a requirement",
            next_step="Write requirements such as 'a=b', 'a!=b', 'a in (b,c)', 'a notin (b)', 'a' or '!a'",
        )
    if found["absent"]:
        return LabelRequirement(found["absent_key"], Operator.ABSENT)
    if found["sign"]:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return LabelRequirement(found["key"], operator, frozenset({found["value"]}))
    if found["set"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return LabelRequirement(found["key"], Operator(found["set"]), values)
    return LabelRequirement(found["key"], Operator.EXISTS)


_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.ABSENT,
}


def select_labels(selector: LabelSelector | None) -> LabelSelection:
    """The selection of an object's `labelSelector`: none selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    exact = (LabelRequirement(k, Operator.IN, frozenset({value})) for k, value in selector.match_labels.items())
    sets = []
    for each in selector.match_expressions:
        operator = _OPERATORS.get(each.operator)
        if operator is None:
            raise Invalid(
                "cannot use a labelSelector",
                why=f"the operator {each.operator!r} is not known",
                next_step=f"Use one of {', '.join(_OPERATORS)}",
            )
        sets.append(LabelRequirement(each.key, operator, frozenset(each.values)))
    return LabelSelection((*exact, *sets))


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field that must be, or must not be, equal to a value."""

    read: Callable[[KubernetesObject], object]
    value: str
    equal: bool

    def matches(self, obj: KubernetesObject) -> bool:
        return (self.read(obj) == self.value) is self.equal


_FIELDS_OF_ALL = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
_FIELDS_OF_KIND: Mapping[str, Mapping[str, str]] = {
    "Pod": {
        "spec.nodeName": "spec.node_name",
        "spec.restartPolicy": "spec.restart_policy",
        "spec.serviceAccountName": "spec.service_account_name",
        "status.phase": "status.phase",
        "status.podIP": "status.pod_ip",
    },
    "PersistentVolume": {"status.phase": "status.phase"},
    "PersistentVolumeClaim": {"status.phase": "status.phase", "spec.volumeName": "spec.volume_name"},
    "Secret": {"type": "type"},
    "Event": {
        "involvedObject.apiVersion": "involved_object.api_version",
        "involvedObject.fieldPath": "involved_object.field_path",
        "involvedObject.kind": "involved_object.kind",
        "involvedObject.name": "involved_object.name",
        "involvedObject.namespace": "involved_object.namespace",
        "involvedObject.resourceVersion": "involved_object.resource_version",
        "involvedObject.uid": "involved_object.uid",
        "reason": "reason",
        "type": "type",
    },
}
_FIELD_TERM = re.compile(r"(?P<path>[\w.]+)(?P<sign>==|!=|=)(?P<value>(?:[^\\,=]|\\[\\,=])*)")


def parse_field_selector(kind: Kind[ObjectT], text: str) -> tuple[FieldRequirement, ...]:
    """Parse `metadata.name=a,spec.nodeName!=b` for one kind; raises `Invalid` when it cannot be used."""
    parts = (part.strip() for part in re.findall(r"(?:\\.|[^,])+", text))  # an escaped comma belongs to a value
    return tuple(_parse_field_term(kind, part, text) for part in parts if part)


def _parse_field_term(kind: Kind[ObjectT], part: str, text: str) -> FieldRequirement:
    found = _FIELD_TERM.fullmatch(part)
    if found is None:
        raise Invalid(
            f"cannot use field selector {text!r}",
            why=f"{part!r} is not a comparison",
            next_step="Write comparisons such as 'metadata.name=a' or 'spec.nodeName!=b'",
        )
    fields = {**_FIELDS_OF_ALL, **_FIELDS_OF_KIND.get(kind.name, {})}
    attribute = fields.get(found["path"])
    if attribute is None:
        raise Invalid(
            f"cannot use field selector {text!r}",
            why=f"{kind} cannot be selected by the field {found['path']!r}",
            next_step=f"Use one of {', '.join(sorted(fields))}",
        )
    value = re.sub(r"\\(.)", r"\1", found["value"])
    return FieldRequirement(attrgetter(attribute), value, found["sign"] != "!=")


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything a list or watch selects by: namespace, labels and fields."""

    namespace: str = ""
    labels: LabelSelection = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.namespace and not self.labels.requirements and not self.fields

    def matches(self, obj: KubernetesObject) -> bool:
        meta = obj.metadata
        if self.namespace and meta.namespace != self.namespace:
            return False
        return self.labels.matches(meta.labels) and all(field.matches(obj) for field in self.fields)


def select(kind: Kind[ObjectT], options: ListOptions | WatchOptions) -> Selection:
    """The selection that the options of a list or watch ask for; raises `Invalid`."""
    return Selection(
        namespace=options.namespace if kind.namespaced else "",
        labels=parse_label_selector(options.label_selector),
        fields=parse_field_selector(kind, options.field_selector),
    )
