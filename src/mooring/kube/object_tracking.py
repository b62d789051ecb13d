"""What it means to keep up with a single object: which one, how, and what an answer of the server changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mooring.kube.api import ApiError, Forbidden, object_title
from mooring.kube.objects.kinds import Kind
from mooring.kube.objects.meta import KubernetesObject

FIRST_RETRY, LONGEST_RETRY = 0.5, 15.0
FIRST_RETRY_WHEN_FORBIDDEN = 0.1  # a node may read an object a moment after it may read the pod that names it
RETRY_JITTER = 0.5


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Which object. The namespace is empty for kinds that live in none."""

    kind: Kind[Any]
    namespace: str
    name: str

    def __str__(self) -> str:
        return object_title(self.kind, self.namespace, self.name)

    @property
    def field_selector(self) -> str:
        """Selects this object and no other in its namespace, whatever its name is made of."""
        escaped = "".join(f"\\{letter}" if letter in "\\,=" else letter for letter in self.name)
        return f"metadata.name={escaped}"


@dataclass(frozen=True, slots=True)
class Watch:
    """Follow each object with a watch of its own. One that says it is immutable is watched no further once read."""

    shortest_timeout: float = 1800.0  # seconds; each watch lasts up to twice as long, and another follows it


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read each object at once, and again after the seconds that `again` gives.

    `again` is told the object, or None when there is none, and how many answers in a row have said so since it
    changed or was asked to be looked at again. None: not before it is.
    """

    again: Callable[[Any, int], float | None]


Strategy = Watch | Fetch


def replaces(new: KubernetesObject | None, old: KubernetesObject | None, *, is_newest: bool = False) -> bool:
    """Whether an answer is news: not the same version, and not an older one of the same object.

    Of an answer that is known to be the newest an older version is news too: the server's data were restored.
    """
    if new is None or old is None:
        return new is not old
    was, now = old.metadata, new.metadata
    if not is_newest and was.uid == now.uid and was.resource_version.isdigit() and now.resource_version.isdigit():
        return int(now.resource_version) > int(was.resource_version)
    return (was.uid, was.resource_version) != (now.uid, now.resource_version)


def went_back(version: str, known: KubernetesObject | None) -> bool:
    """Whether a list is older than what is known already.

    None is asked for that may be, so only a server whose data were restored from a backup answers with one.
    """
    before = known.metadata.resource_version if known is not None else ""
    return version.isdigit() and before.isdigit() and int(version) < int(before)


def retry_delay(error: ApiError, failures: int) -> float:
    """Seconds until the next try after so many failures in a row, before jitter."""
    first = FIRST_RETRY_WHEN_FORBIDDEN if isinstance(error, Forbidden) else FIRST_RETRY
    return max(min(first * 2.0 ** min(failures - 1, 16), LONGEST_RETRY), error.retry_after)
