"""Why volumes that a node awaits are not attached: what their VolumeAttachments say, looked at while it takes long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mooring.csi.attachments import Verdict, error_words, is_limit_exceeded, name_of, verdict
from mooring.kube.api import ApiError, Forbidden, NotFound, Reader
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.kube.objects.storage import VolumeAttachment
from mooring.world.names import VolumeName
from mooring.world.spec import VolumeSpec

log = logging.getLogger(__name__)

_FIRST_LOOK, _LONGEST_PAUSE = 15.0, 120.0
"""Seconds that a volume waits before anybody looks, and between two looks at most."""


class AwaitedVolumes(Protocol):
    """Who knows which volumes wait to be attached by others, and is told what is known of them."""

    def awaited_attachments(self) -> Mapping[VolumeName, VolumeSpec]: ...

    def attachments_failed(self, why: Mapping[VolumeName, str]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    pause: float  # until the one after it


class AttachmentLooks:
    """Reads the VolumeAttachment of a volume now and then for as long as the volume waits.

    That of a volume which nobody has begun to attach is not there, and a node may not even ask for it: then nothing
    is known. Call `wake` when other volumes may be waiting.
    """

    def __init__(
        self, api: Reader, node_name: str, volumes: AwaitedVolumes, *, limit_reached: Callable[[str], None]
    ) -> None:
        self._api, self._node_name, self._volumes = api, node_name, volumes
        self._limit_reached = limit_reached
        self._changed = asyncio.Event()
        self._due: dict[VolumeName, _Look] = {}
        self._why: dict[VolumeName, str] = {}

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            awaited = self._plan(clock())
            try:
                async with asyncio.timeout_at(min((each.at for each in self._due.values()), default=None)):
                    await self._changed.wait()
            except TimeoutError:
                for name in [name for name, look in self._due.items() if look.at <= clock()]:
                    await self._look(name, awaited[name], clock)

    def _plan(self, now: float) -> dict[VolumeName, VolumeSpec]:
        """The volumes of CSI drivers that wait; of others nothing is written down anywhere."""
        awaited = {
            name: spec
            for name, spec in self._volumes.awaited_attachments().items()
            if spec.csi_driver and spec.persistent_volume is not None
        }
        self._due = {name: self._due.get(name, _Look(now + _FIRST_LOOK, _FIRST_LOOK)) for name in awaited}
        self._tell({name: why for name, why in self._why.items() if name in awaited})
        return awaited

    async def _look(self, name: VolumeName, spec: VolumeSpec, clock: Callable[[], float]) -> None:
        pause = min(self._due[name].pause * 2, _LONGEST_PAUSE)
        try:
            found = await self._api.get(VOLUME_ATTACHMENT, "", name_of(spec, self._node_name))
        except (NotFound, Forbidden):
            self._learn(name, None)
        except ApiError as error:
            log.debug("what becomes of volume %s is not known: %s", name, error)
        else:
            self._learn(name, found)
        self._due[name] = _Look(clock() + pause, pause)

    def _learn(self, name: VolumeName, found: VolumeAttachment | None) -> None:
        why = {each: words for each, words in self._why.items() if each != name}
        if found is not None and verdict(found) is Verdict.FAILED:
            why[name] = error_words(found)
            if is_limit_exceeded(found):
                self._limit_reached(found.spec.attacher)
        self._tell(why)

    def _tell(self, why: dict[VolumeName, str]) -> None:
        if why != self._why:
            self._why = why
            self._volumes.attachments_failed(why)
