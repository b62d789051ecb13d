"""Finds what lies at or below a path, without looking at everything there is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class PathIndex(Generic[T]):
    """Things by their paths, in order."""

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        ordered = sorted(items, key=lambda item: item[0])
        self._paths = [path for path, _ in ordered]
        self._items = [item for _, item in ordered]

    def at_or_below(self, path: str) -> Iterator[T]:
        """What is at a path, then what is below it."""
        for start, prefix in ((path, ""), (f"{path}/", f"{path}/")):
            at = bisect_left(self._paths, start)
            while at < len(self._paths):
                found = self._paths[at]
                if not (found.startswith(prefix) if prefix else found == path):
                    break
                yield self._items[at]
                at += 1
