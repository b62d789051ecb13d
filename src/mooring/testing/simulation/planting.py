"""How bugs are planted: a name is given another meaning for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FunctionType


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    says: str
    plant: Callable[[], AbstractContextManager[None]]


@contextmanager
def swapped(owner: object, name: str, value: object) -> Iterator[None]:
    """Let an attribute of a module or a class be something else as long as the context lasts.

    A function goes by the name of the one that it stands in for: a chore is known by its name.
    """
    original = getattr(owner, name)
    if isinstance(original, FunctionType) and isinstance(value, FunctionType):
        value.__module__, value.__qualname__ = original.__module__, original.__qualname__
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
