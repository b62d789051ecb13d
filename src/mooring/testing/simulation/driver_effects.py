"""What simulated drivers are asked for, and what it does to the machine."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Literal

from mooring.host.interface import FileKind
from mooring.testing.memory_host import MemoryHost
from mooring.testing.simulation.disks import DISKS, unique_name
from mooring.world.names import PluginName

STORE = "/disks"
"""Where what is on the disks is kept, whatever happens to the machine."""


class Verb(enum.Enum):
    ATTACH = "attach"
    STAGE = "stage"
    PUBLISH = "publish"
    UNPUBLISH = "unpublish"
    UNSTAGE = "unstage"
    DETACH = "detach"
    EXPAND = "expand"

    @property
    def sets_up(self) -> bool:
        return self in _OPPOSITE

    @property
    def takes_down(self) -> bool:
        return self in _OPPOSITE.values()


_OPPOSITE = {Verb.ATTACH: Verb.DETACH, Verb.STAGE: Verb.UNSTAGE, Verb.PUBLISH: Verb.UNPUBLISH}


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """Something that a driver can have on a machine."""

    kind: Literal["attached", "staged", "published"]
    driver: PluginName
    disk: str
    pod: str = ""  # the UID, of what is published

    def __str__(self) -> str:
        return f"{self.disk} {self.kind}" + (f" for {self.pod}" if self.pod else "")

    @property
    def inline(self) -> bool:
        """Whether it is a volume of the pod itself, with no disk behind it."""
        return self.disk not in DISKS

    @property
    def block(self) -> bool:
        return not self.inline and DISKS[self.disk].block

    @property
    def volume(self) -> str:
        """The unique name of the volume it belongs to."""
        return unique_name(self.driver, self.disk, self.pod)

    @property
    def part(self) -> str | None:
        """The pod whose part of the volume it is; None for the node's own."""
        return self.pod or None

    def place(self, root: str) -> str:
        """Where it is to be seen below mooring's root directory."""
        if self.kind != "published":
            return stage_path(root, self.driver, self.disk)
        kind = "volumeDevices" if self.block else "volumes"
        return f"{root}/pods/{self.pod}/{kind}/{self.driver.replace('/', '~')}/{self.disk}"

    def hinders(self, other: Thing) -> bool:
        """Whether work on this keeps a driver from working on the other: pods do not hinder each other."""
        same = self.driver == other.driver and self.disk == other.disk
        return same and (not self.pod or not other.pod or self.pod == other.pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    verb: Verb
    thing: Thing
    place: str = ""  # where it appears, or has appeared
    source: str = ""  # what a stage or a publish shows
    device_path: str = ""  # as the sender knows it
    size: int = 0  # that a volume is to grow to

    def undoing(self) -> Request:
        """What undoes a set-up."""
        return replace(self, verb=_OPPOSITE[self.verb])


def stage_path(root: str, driver: str, disk: str) -> str:
    return f"{root}/plugins/{driver}/stages/{disk}"


def device_path(disk: str) -> str:
    return f"/dev/{disk}"


def apply_effect(host: MemoryHost, request: Request, *, there: bool) -> bool:
    """Do what is asked for, unless it is done; whether it is done then."""
    if request.verb.sets_up and there:
        return True
    try:
        match request.verb:
            case Verb.STAGE:
                _stage(host, request)
            case Verb.PUBLISH:
                _publish(host, request)
            case Verb.UNPUBLISH | Verb.UNSTAGE:
                _take_away(host, request)
            case Verb.ATTACH | Verb.DETACH | Verb.EXPAND:
                pass
    except OSError:
        return False
    return True


def _stage(host: MemoryHost, request: Request) -> None:
    host.make_directories(request.place, 0o750)
    if not request.thing.block:
        _bind_disk(host, request)


def _publish(host: MemoryHost, request: Request) -> None:
    if request.thing.block:
        if host.look(request.place) is None:
            host.make_link(device_path(request.thing.disk), request.place)
    elif request.thing.inline:
        host.mount_tmpfs(request.place)
    else:
        _bind_disk(host, request)


def _bind_disk(host: MemoryHost, request: Request) -> None:
    disk = f"{STORE}/{request.thing.disk}"
    host.make_directories(disk, 0o755)
    host.bind(request.source or disk, request.place)


def _take_away(host: MemoryHost, request: Request) -> None:
    if host.mount_at(request.place) is not None:
        host.unmount(request.place)
    facts = host.look(request.place)
    if facts is not None and facts.kind is FileKind.LINK:
        host.remove_file(request.place)
    elif facts is not None and request.verb is Verb.UNSTAGE:
        host.remove_directory(request.place)


def thing_is_shown(host: MemoryHost, thing: Thing, place: str) -> bool:
    """Whether a pod finds what was published for it."""
    if thing.block:
        return host.read_link(place) == device_path(thing.disk)
    return host.mount_at(place) is not None
