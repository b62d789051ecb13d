"""Plain data from YAML events, built without recursion and within limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from mooring.kube.field_errors import FieldPath, quoted
from mooring.kube.yaml_scalars import resolve_plain
from mooring.kube.yaml_syntax import YamlFault

DEEPEST_NESTING: Final = 100
MOST_ALIASES: Final = 1000
MOST_NODES_FROM_ALIASES: Final = 100_000
MOST_FAULTS: Final = 100
_LONGEST_PATH: Final = 12  # the rest of a path too deep to read

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")
_MAP_TAGS = (None, "!", "tag:yaml.org,2002:map")
_LIST_TAGS = (None, "!", "tag:yaml.org,2002:seq")
_TYPED_TAGS: dict[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (float, int),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:null": (type(None),),
}


class Lines:
    """Where the entries of one map or list stand: a line for each, and the same again for what lies inside."""

    __slots__ = ("inside", "of")

    def __init__(self) -> None:
        self.of: dict[str | int, int] = {}
        self.inside: dict[str | int, Lines] = {}

    def follow(self, path: FieldPath, *, otherwise: int) -> tuple[int, Lines | None]:
        """The line of what a path leads to, and what is known of its inside.

        Where the path leaves the file it is the line of the last thing on the way, at first `otherwise`.
        """
        line, lines = otherwise, self
        for part in path:
            if part not in lines.of:
                return line, None
            line = lines.of[part]
            if part not in lines.inside:
                return line, None
            lines = lines.inside[part]
        return line, lines


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: plain data (maps, lists, texts, numbers, booleans, None) and its lines."""

    number: int
    line: int
    data: Any
    lines: Lines | None

    def line_of(self, path: FieldPath) -> int:
        """The line of a field, or of the nearest thing around it that is written in the file."""
        return self.line if self.lines is None else self.lines.follow(path, otherwise=self.line)[0]


class Hopeless(Exception):
    """The file cannot be read any further."""

    def __init__(self, fault: YamlFault) -> None:
        self.fault = fault
        super().__init__(fault.why)


@dataclass(slots=True)
class _Node:
    """A finished value, on its way to the map or list it belongs to or kept for its aliases."""

    value: Any
    line: int
    lines: Lines | None = None
    size: int = 1  # nodes in it, aliases counted as what they stand for
    height: int = 0  # levels of nesting in it


# What a collection waits for when it is not the value of an ordinary key.
_AN_ITEM: Final = object()
_A_KEY: Final = object()
_A_MERGE: Final = object()
_A_VALUE_TO_DROP: Final = object()


class _Collection:
    """A map or list that is being built."""

    __slots__ = ("anchor", "awaited", "height", "key_line", "line", "lines", "merged", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], line: int, anchor: str | None) -> None:
        self.value, self.line, self.anchor = value, line, anchor
        self.lines = Lines()
        self.awaited: object = _A_KEY if isinstance(value, dict) else _AN_ITEM
        self.key_line = line
        self.merged: list[tuple[dict[str, Any], Lines]] = []
        self.size, self.height = 1, 0

    def finish(self) -> _Node:
        if self.merged and isinstance(self.value, dict):
            self._merge(self.value)
        return _Node(self.value, self.line, self.lines, self.size, self.height + 1)

    def _merge(self, value: dict[str, Any]) -> None:
        for source, lines in self.merged:
            for key in source.keys() - value.keys():
                self.lines.of[key] = lines.of[key]
                if key in lines.inside:
                    self.lines.inside[key] = lines.inside[key]
            self.value = value = {**source, **value}


def _line_of(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


class Builder:
    """Takes the events of one file in order, gives its documents and collects its faults."""

    def __init__(self, faults: list[YamlFault]) -> None:
        self.faults = faults
        self.number = 0
        self._open: list[_Collection] = []
        self._root: _Node | None = None
        self._anchors: dict[str, _Node] = {}
        self._aliases = self._nodes_from_aliases = 0

    def take(self, event: Event) -> Document | None:
        """Build on by one event; a document when it is whole. Raises Hopeless when the file breaks a limit."""
        if isinstance(event, ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, CollectionEndEvent):
            collection = self._open.pop()
            node = collection.finish()
            if collection.anchor is not None:
                self._anchors[collection.anchor] = node
            self._add(node)
        elif isinstance(event, AliasEvent):
            self._add(self._follow(event))
        elif isinstance(event, DocumentStartEvent):
            self.number += 1
        elif isinstance(event, DocumentEndEvent):
            root, self._root, self._anchors = self._root, None, {}
            if root is not None and root.value is not None:
                return Document(self.number, root.line, root.value, root.lines)
        return None

    def _take_scalar(self, event: ScalarEvent) -> None:
        line = _line_of(event)
        plain, quoted_or_plain = event.implicit
        value: Any = event.value
        merges = False
        if plain and event.tag is None:
            merges = value == "<<"
            value = resolve_plain(value)
        elif not quoted_or_plain and event.tag not in _TEXT_TAGS:
            value = self._typed(value, event.tag or "", line)
        elif not value.isascii() and _HALF_CHARACTER.search(value):  # only the parser in Python lets it pass
            self._fault(line, "an escape sequence stands for half a character", "Write the character itself")
            value = _HALF_CHARACTER.sub("\ufffd", value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Node(value, line)
        parent = self._open[-1] if self._open else None
        if parent is None:
            self._root = _Node(value, line)
        elif parent.awaited is _A_KEY:
            parent.size += 1
            self._take_key(parent, value, line, merges=merges)
        else:
            self._add_to(parent, value, line, None)

    def _typed(self, text: str, tag: str, line: int) -> Any:
        value = resolve_plain(text)
        if tag not in _TYPED_TAGS:
            self._fault(line, "a tag is used that no manifest needs", "Remove the tag")
        elif type(value) not in _TYPED_TAGS[tag]:
            self._fault(line, "a value does not fit its tag", "Remove the tag")
        return value

    def _begin(self, event: CollectionStartEvent) -> None:
        line = _line_of(event)
        self._check_depth(len(self._open) + 1, line)
        is_map = isinstance(event, MappingStartEvent)
        if event.tag not in (_MAP_TAGS if is_map else _LIST_TAGS):
            self._fault(line, "a tag is used that no manifest needs", "Remove the tag")
        self._open.append(_Collection({} if is_map else [], line, event.anchor))

    def _follow(self, event: AliasEvent) -> _Node:
        line = _line_of(event)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            inside_itself = any(collection.anchor == event.anchor for collection in self._open)
            why = "an alias stands inside what it stands for" if inside_itself else "an alias has no anchor before it"
            self._stop(line, why, "Put a value that begins with an asterisk in quotes")
        self._aliases += 1
        self._nodes_from_aliases += node.size
        if self._aliases > MOST_ALIASES:
            self._stop(line, f"there are more than {MOST_ALIASES} aliases", "Write the values out")
        if self._nodes_from_aliases > MOST_NODES_FROM_ALIASES:
            why = f"its aliases stand for more than {MOST_NODES_FROM_ALIASES} values"
            self._stop(line, why, "Write the values out, or split the file")
        self._check_depth(len(self._open) + node.height, line)
        return _Node(node.value, line, node.lines, node.size, node.height)

    def _add(self, node: _Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        parent.size += node.size - 1
        parent.height = max(parent.height, node.height)
        if parent.awaited is _A_KEY:
            self._take_key(parent, node.value, node.line)
        else:
            self._add_to(parent, node.value, node.line, node.lines)

    def _take_key(self, parent: _Collection, value: Any, line: int, *, merges: bool = False) -> None:
        parent.key_line = line
        if merges:
            parent.awaited = _A_MERGE
        elif type(value) is not str:
            parent.awaited = _A_VALUE_TO_DROP
            self._fault(line, "a key is not a text", "Put the key in quotes")
        elif value in parent.lines.of:
            parent.awaited = _A_VALUE_TO_DROP
            why = f"the key {quoted(value)} is already set in line {parent.lines.of[value]}"
            self._fault(line, why, "Keep one of the two", value)
        else:
            parent.awaited = value

    def _add_to(self, parent: _Collection, value: Any, line: int, lines: Lines | None) -> None:
        """Add an entry to a list, or to a map whose key is known."""
        parent.size += 1
        entries, key = parent.value, parent.awaited
        if isinstance(entries, list):
            position = len(entries)
            entries.append(value)
            parent.lines.of[position] = line
            if lines is not None:
                parent.lines.inside[position] = lines
            return
        parent.awaited = _A_KEY
        if isinstance(key, str):
            entries[key] = value
            parent.lines.of[key] = parent.key_line
            if lines is not None:
                parent.lines.inside[key] = lines
        elif key is _A_MERGE:
            self._take_merge(parent, value, line, lines)

    def _take_merge(self, parent: _Collection, value: Any, line: int, lines: Lines | None) -> None:
        if isinstance(value, dict) and lines is not None:
            parent.merged.append((value, lines))
        elif isinstance(value, list) and lines is not None and all(isinstance(item, dict) for item in value):
            parent.merged.extend((item, lines.inside[position]) for position, item in enumerate(value))
        else:
            self._fault(line, 'what "<<" merges is not a map', "Merge an alias of a map")

    def _check_depth(self, depth: int, line: int) -> None:
        if depth > DEEPEST_NESTING:
            self._stop(line, f"it is nested more than {DEEPEST_NESTING} levels deep", "Write it flatter")

    def _path(self) -> FieldPath:
        path: list[str | int] = []
        for collection in self._open:
            if isinstance(collection.value, list):
                path.append(len(collection.value))
            elif isinstance(collection.awaited, str):
                path.append(collection.awaited)
        return tuple(path)

    def _fault(self, line: int, why: str, next_step: str, *deeper: str) -> None:
        path = (*self._path(), *deeper)
        self.faults.append(YamlFault(line=line, why=why, next_step=next_step, document=self.number, path=path))
        if len(self.faults) == MOST_FAULTS:
            self._stop(line, f"it has {MOST_FAULTS} problems, and the rest of it is not looked at", "")

    def _stop(self, line: int, why: str, next_step: str) -> NoReturn:
        path = self._path()[:_LONGEST_PATH]
        raise Hopeless(YamlFault(line=line, why=why, next_step=next_step, document=self.number, path=path))
