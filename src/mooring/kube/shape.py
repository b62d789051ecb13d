"""The shape that plain data must have to become a Kubernetes value, and every way in which it does not."""

from __future__ import annotations

import base64
import enum
import functools
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import inspect

from mooring.kube.field_errors import FieldPath, FieldProblem, closest, quoted
from mooring.kube.objects.meta import KubernetesObject, Value
from mooring.kube.unmodelled import UNMODELLED

MOST_PROBLEMS: Final = 100
"""No more problems are worded for one object."""


class Scalar(enum.Enum):
    """The kinds of single values, in the words used for them."""

    TEXT = "a text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    BYTES = "a text in base64"
    QUANTITY = "a quantity"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class ListShape:
    item: Shape


@dataclass(frozen=True, slots=True)
class MapShape:
    value: Shape


@dataclass(frozen=True, slots=True)
class StructShape:
    fields: dict[str, Shape]
    required: tuple[str, ...]
    unmodelled: frozenset[str]


Shape = Scalar | ListShape | MapShape | StructShape

_SCALARS: dict[type[inspect.Type], Scalar] = {
    inspect.StrType: Scalar.TEXT,
    inspect.IntType: Scalar.INTEGER,
    inspect.FloatType: Scalar.NUMBER,
    inspect.BoolType: Scalar.BOOLEAN,
    inspect.BytesType: Scalar.BYTES,
    inspect.AnyType: Scalar.ANYTHING,
}
_QUANTITY = {Scalar.TEXT, Scalar.INTEGER, Scalar.NUMBER}


@functools.cache
def shape_of(owner: type[Value]) -> StructShape:
    """The shape of one of the frozen values."""
    shape = _compile(inspect.type_info(owner))
    assert isinstance(shape, StructShape)
    return shape


def _compile(info: inspect.Type) -> Shape:
    match info:
        case inspect.StructType():
            return StructShape(
                {field.encode_name: _compile(field.type) for field in info.fields},
                tuple(field.encode_name for field in info.fields if field.required),
                UNMODELLED.get(info.cls, frozenset()),
            )
        case inspect.VarTupleType():
            return ListShape(_compile(info.item_type))
        case inspect.DictType():
            return MapShape(_compile(info.value_type))
        case inspect.UnionType():
            return _compile_union([part for part in info.types if not isinstance(part, inspect.NoneType)])
        case _:
            return _SCALARS[type(info)]


def _compile_union(parts: list[inspect.Type]) -> Shape:
    shapes = [_compile(part) for part in parts]
    if len(shapes) == 1:
        return shapes[0]
    if set(map(type, shapes)) == {Scalar} and set(shapes) == _QUANTITY:
        return Scalar.QUANTITY
    raise TypeError(f"no shape for a union of {shapes}")


class ShapeReader:
    """Reads one object and collects what is wrong with it. Messages never repeat a value: it may be a secret."""

    def __init__(self, *, most_warnings: int) -> None:
        self._most_warnings = most_warnings  # a suggestion for each of a million unknown fields would take hours
        self.problems: list[FieldProblem] = []
        self.warnings: list[FieldProblem] = []

    def read(self, data: Any, owner: type[KubernetesObject], at: FieldPath = ()) -> KubernetesObject | None:
        """The object that the data describes, or None when there are problems."""
        cleaned = self._read(data, shape_of(owner), at)
        if self.problems:
            return None
        return msgspec.convert(cleaned, owner, builtin_types=(bytes,))

    def _read(self, data: Any, shape: Shape, path: FieldPath) -> Any:
        if isinstance(shape, Scalar):
            return self._read_scalar(data, shape, path)
        if isinstance(shape, StructShape):
            return self._read_struct(data, shape, path)
        if isinstance(shape, ListShape):
            if type(data) is not list:
                return self._expect("a list", data, path, 'Begin each entry of it with "- "')
            return [self._read(item, shape.item, (*path, position)) for position, item in enumerate(data)]
        if type(data) is not dict:
            return self._expect("a map", data, path, 'Write "key: value" lines below it')
        return {key: self._read(_or_empty(item, shape.value), shape.value, (*path, key)) for key, item in data.items()}

    def _read_struct(self, data: Any, shape: StructShape, path: FieldPath) -> Any:
        if type(data) is not dict:
            return self._expect("a map", data, path, 'Write "field: value" lines below it')
        cleaned = {}
        for key, item in data.items():
            inner = shape.fields.get(key)
            if inner is None:
                if key not in shape.unmodelled:
                    self._warn_of_unknown(key, shape, path)
            elif item is not None:  # as in Kubernetes, null is the same as not written
                cleaned[key] = self._read(item, inner, (*path, key))
        for name in shape.required:
            if name not in cleaned:
                self._report((*path, name), "it is required and missing", f"Add {quoted(name)} here")
        return cleaned

    def _warn_of_unknown(self, key: str, shape: StructShape, path: FieldPath) -> None:
        if len(self.warnings) >= self._most_warnings:
            return
        meant = closest(key, [*shape.fields, *sorted(shape.unmodelled)])
        next_step = f"Perhaps {quoted(meant)} is meant" if meant else "Remove it, or check where it belongs"
        why = "Kubernetes has no such field here, and it is ignored"
        self.warnings.append(FieldProblem(path=(*path, key), why=why, next_step=next_step))

    def _expect(self, expected: str, data: Any, path: FieldPath, next_step: str) -> Any:
        """Report data of the wrong type; None stands in for it until the object is given up."""
        self._report(path, f"expected {expected}, got {_name_type(data)}", next_step)
        return None

    def _report(self, path: FieldPath, why: str, next_step: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(FieldProblem(path=path, why=why, next_step=next_step))

    def _read_scalar(self, data: Any, shape: Scalar, path: FieldPath) -> Any:
        if shape is Scalar.ANYTHING:
            return data
        if type(data) in _ACCEPTED[shape]:
            return self._read_base64(data, path) if shape is Scalar.BYTES else data
        if shape is Scalar.INTEGER and type(data) is float and data.is_integer() and abs(data) < 2**63:
            return int(data)  # 1e3
        next_step = _NEXT_STEPS[shape]
        if shape is Scalar.INTEGER and path and str(path[-1]).lower().endswith("mode"):
            next_step = "Write the mode without quotes, for example 0644"
        return self._expect(shape.value, data, path, next_step)

    def _read_base64(self, text: str, path: FieldPath) -> bytes | None:
        try:
            return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:
            plain = "stringData" if path[-2:-1] == ("data",) else "data"
            next_step = f"Encode the value with `base64 -w0`, or move the key to {quoted(plain)} and write it as it is"
            self._report(path, "the value is not base64", next_step)
            return None


_ACCEPTED: dict[Scalar, tuple[type, ...]] = {
    Scalar.TEXT: (str,),
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (float, int),
    Scalar.BOOLEAN: (bool,),
    Scalar.BYTES: (str,),
    Scalar.QUANTITY: (str, int, float),
}
_NEXT_STEPS: dict[Scalar, str] = {
    Scalar.TEXT: "Write a text, in quotes if it looks like a number or like true or false",
    Scalar.INTEGER: "Write a whole number without quotes",
    Scalar.NUMBER: "Write a number without quotes",
    Scalar.BOOLEAN: "Write true or false without quotes",
    Scalar.BYTES: "Encode the value with `base64 -w0`",
    Scalar.QUANTITY: "Write a number with a unit, for example 500m or 10Gi",
}
_EMPTY: dict[Scalar, str | int] = {Scalar.TEXT: "", Scalar.BYTES: "", Scalar.QUANTITY: 0}


def _or_empty(item: Any, shape: Shape) -> Any:
    """What Kubernetes makes of an entry without a value: `key:` in a ConfigMap is an empty text."""
    if item is None and isinstance(shape, Scalar):
        return _EMPTY.get(shape)
    return item


def _name_type(data: Any) -> str:
    match data:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a map"
