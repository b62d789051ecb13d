"""Owner references: who lives on whose account, and who goes when the last owner has gone."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects.meta import KubernetesObject

FullKey = tuple[str, str, str]
"""Kind name, namespace and name: the address of an object in a store."""


class Owners:
    """Which UIDs exist, and which objects name them as owner."""

    def __init__(self) -> None:
        self._holders: dict[str, set[FullKey]] = {}
        self._dependents: dict[str, set[FullKey]] = {}

    def change(self, key: FullKey, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        """Follow one change of the object at `key`."""
        if before is not None:
            _discard(self._holders, before.metadata.uid, key)
            for reference in before.metadata.owner_references:
                _discard(self._dependents, reference.uid, key)
        if after is not None:
            self._holders.setdefault(after.metadata.uid, set()).add(key)
            for reference in after.metadata.owner_references:
                self._dependents.setdefault(reference.uid, set()).add(key)

    def dependents(self, uids: Iterable[str]) -> list[FullKey]:
        """The objects that name one of these UIDs as owner, in the order of their keys."""
        return sorted({key for uid in uids for key in self._dependents.get(uid, ())})

    def has_live_owner(self, obj: KubernetesObject) -> bool:
        return any(reference.uid in self._holders for reference in obj.metadata.owner_references)


def _discard(index: dict[str, set[FullKey]], uid: str, key: FullKey) -> None:
    keys = index.get(uid)
    if keys is None:
        return
    keys.discard(key)
    if not keys:
        del index[uid]
