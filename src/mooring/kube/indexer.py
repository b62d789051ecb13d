"""Indexer: a cache of objects by key, with indices; and the listers that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic

from mooring.errors import MooringError
from mooring.kube.api import not_found
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.selectors import EVERYTHING, LabelSelection

NAMESPACE_INDEX = "namespace"

IndexFunction = Callable[[ObjectT], Iterable[str]]
"""Maps an object to the values it is found under. It must be total: an error in it is a bug and is raised."""


def namespace_of(obj: KubernetesObject) -> tuple[str]:
    """The standard index: the namespace, empty for cluster-scoped objects."""
    return (obj.metadata.namespace,)


class IndexConflict(MooringError):
    """An index of that name exists already; none was added."""


class UnknownIndex(MooringError):
    """There is no index of that name."""


class Indexer(Generic[ObjectT]):
    """Objects by key. All reads return the shared objects themselves, which are immutable."""

    def __init__(self, indexers: Mapping[str, IndexFunction[ObjectT]] | None = None) -> None:
        self._objects: dict[str, ObjectT] = {}
        self._functions: dict[str, IndexFunction[ObjectT]] = {}
        self._indices: dict[str, dict[str, dict[str, ObjectT]]] = {}  # index, value, key
        self.resource_version = ""  # of the last write, replacement or bookmark
        self.add_indexers(indexers or {})

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, obj: ObjectT) -> ObjectT | None:
        """Add or update an object; returns the version it replaces."""
        key = obj.key
        before = self._objects.get(key)
        self._objects[key] = obj
        self.resource_version = obj.metadata.resource_version or self.resource_version
        for name, function in self._functions.items():
            self._reindex(name, function, key, before, obj)
        return before

    update = add

    def delete(self, obj: ObjectT) -> ObjectT | None:
        """Remove an object if it is there; returns the version that was held."""
        before = self._objects.pop(obj.key, None)
        self.resource_version = obj.metadata.resource_version or self.resource_version
        if before is not None:
            for name, function in self._functions.items():
                self._reindex(name, function, obj.key, before, None)
        return before

    def replace(self, items: Sequence[ObjectT], resource_version: str) -> Mapping[str, ObjectT]:
        """Swap the whole content and rebuild all indices; returns the old content by key."""
        before, self._objects = self._objects, {obj.key: obj for obj in items}
        self.resource_version = resource_version
        self._indices = {name: self._build(function) for name, function in self._functions.items()}
        return before

    def get(self, obj: ObjectT) -> ObjectT | None:
        return self._objects.get(obj.key)

    def get_by_key(self, key: str) -> ObjectT | None:
        return self._objects.get(key)

    def list(self) -> list[ObjectT]:
        return [*self._objects.values()]

    def list_keys(self) -> Sequence[str]:
        return [*self._objects]

    def add_indexers(self, indexers: Mapping[str, IndexFunction[ObjectT]]) -> None:
        """Add indices, also to a filled store. A name that is taken adds nothing at all."""
        clash = sorted(indexers.keys() & self._functions.keys())
        if clash:
            raise IndexConflict(f"cannot add the index {clash[0]!r}", why="an index of that name exists")
        built = {name: self._build(function) for name, function in indexers.items()}
        self._functions.update(indexers)
        self._indices.update(built)

    def has_index(self, name: str) -> bool:
        return name in self._functions

    def index(self, name: str, obj: ObjectT) -> Sequence[ObjectT]:
        """All objects that share at least one value of an index with `obj`."""
        index = self._index(name)
        found: dict[str, ObjectT] = {}
        for value in self._functions[name](obj):
            found.update(index.get(value, {}))
        return [*found.values()]

    def by_index(self, name: str, value: str) -> Sequence[ObjectT]:
        return [*self._index(name).get(value, {}).values()]

    def index_keys(self, name: str, value: str) -> Sequence[str]:
        return sorted(self._index(name).get(value, {}))

    def index_values(self, name: str) -> Sequence[str]:
        """All values that at least one object is found under."""
        return sorted(self._index(name))

    def _index(self, name: str) -> dict[str, dict[str, ObjectT]]:
        index = self._indices.get(name)
        if index is None:
            raise UnknownIndex(f"cannot look up by {name!r}", why="there is no index of that name")
        return index

    def _build(self, function: IndexFunction[ObjectT]) -> dict[str, dict[str, ObjectT]]:
        index: dict[str, dict[str, ObjectT]] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = obj
        return index

    def _reindex(
        self, name: str, function: IndexFunction[ObjectT], key: str, before: ObjectT | None, after: ObjectT | None
    ) -> None:
        index = self._indices[name]
        new = () if after is None else tuple(function(after))
        for value in () if before is None else function(before):
            if value not in new and value in index:
                index[value].pop(key, None)
                if not index[value]:
                    del index[value]
        if after is not None:
            for value in new:
                index.setdefault(value, {})[key] = after


class Lister(Generic[ObjectT]):
    """Reads of a cache by label and name, in all namespaces or, after `by_namespace`, in one."""

    def __init__(self, kind: Kind[ObjectT], indexer: Indexer[ObjectT], namespace: str | None = None) -> None:
        self._kind = kind
        self._indexer = indexer
        self._namespace = namespace

    def by_namespace(self, namespace: str) -> Lister[ObjectT]:
        return Lister(self._kind, self._indexer, namespace)

    def list(self, selection: LabelSelection = EVERYTHING) -> Sequence[ObjectT]:
        """The objects whose labels match."""
        objects = self._all()
        if not selection.requirements:
            return objects
        return [obj for obj in objects if selection.matches(obj.metadata.labels)]

    def get(self, name: str) -> ObjectT:
        """The object of that name; raises `NotFound`."""
        obj = self._indexer.get_by_key(f"{self._namespace}/{name}" if self._namespace else name)
        if obj is None:
            raise not_found(self._kind, self._namespace or "", name)
        return obj

    def _all(self) -> Sequence[ObjectT]:
        if self._namespace is None:
            return self._indexer.list()
        if self._indexer.has_index(NAMESPACE_INDEX):
            return self._indexer.by_index(NAMESPACE_INDEX, self._namespace)
        return [obj for obj in self._indexer.list() if obj.metadata.namespace == self._namespace]
