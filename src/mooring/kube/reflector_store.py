"""What a reflector feeds: a queue in front of a cache, or whoever follows one object."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from mooring.kube.objects.meta import KubernetesObject

ObjectT_contra = TypeVar("ObjectT_contra", bound=KubernetesObject, contravariant=True)


class ReflectorStore(Protocol[ObjectT_contra]):
    """What a reflector feeds. Calls raise `MooringError` when they reject an object."""

    def add(self, obj: ObjectT_contra) -> None: ...

    def update(self, obj: ObjectT_contra) -> None: ...

    def delete(self, obj: ObjectT_contra) -> None: ...

    def replace(self, items: Sequence[ObjectT_contra], resource_version: str, unreadable: Collection[str] = ()) -> None:
        """Take these as all there are. Of those with unreadable keys, what is known stays as it is."""
        ...

    def bookmark(self, resource_version: str) -> None: ...

    def resync(self) -> None: ...

    @property
    def full(self) -> bool: ...

    async def wait_for_room(self) -> None: ...
