"""What the HTTP API needs of the daemon behind it: files that are sent, tokens that are verified, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.observe.status import Row
from mooring.observe.usage import Key, VolumeUsage


class SentFile(msgspec.Struct, frozen=True):
    """A manifest file that a caller sends: where it comes from, and what it says."""

    origin: str
    text: str


class OpenId(Protocol):
    """What those need who verify service account tokens: the public key, and where it is found."""

    def key_set(self) -> Row: ...

    def configuration(self) -> Row: ...


class Control(Protocol):
    """What a caller may have done. Errors are `MooringError`s; `InvalidInput` means the caller's input is at fault."""

    @property
    def openid(self) -> OpenId: ...

    def find_pod(self, name: str) -> Pod: ...

    def former_pod(self, name: str) -> str:
        """The UID of a pod by `name` or `namespace/name`, also of one that is gone."""
        ...

    def ready(self) -> bool: ...

    def claims(self) -> Sequence[PersistentVolumeClaim]:
        """The claims that this node knows."""
        ...

    async def heard(self) -> None:
        """Return when every source of pods has been heard."""
        ...

    async def apply(self, files: Sequence[SentFile]) -> Row: ...

    async def delete(self, files: Sequence[SentFile]) -> Row: ...

    async def mounts(self, pod: str, *, recursive_read_only: bool) -> list[Row]: ...

    async def begin_run(self, pod: str, body: bytes, client: int) -> Row:
        """The plan for the containers of a pod, which the process `client` is going to start."""
        ...

    async def end_run(self, uid: str, run: str) -> Row: ...

    async def wait(self, pod: str, wanted: str, timeout: float) -> Row: ...

    async def down(self, timeout: float) -> Row: ...

    async def usage(self) -> Mapping[Key, VolumeUsage]:
        """How full the mounted volumes are."""
        ...
