"""What a volume plugin is: protocols, and the offer it makes for one volume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.kube.objects.pod import ConfigMap, Pod, Secret
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that a volume's content comes from; its change is a reason to look at the volume again."""

    kind: str  # ConfigMap, Secret, …
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What plugins may know of the node. Amounts are bytes and thousandths of processors."""

    name: str
    memory: int
    cpu_milli: int
    ephemeral_storage: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


class Objects(Protocol):
    """Where content comes from. All answer at once, from a cache; None when there is no such object."""

    def config_map(self, namespace: str, name: str) -> ConfigMap | None: ...

    def secret(self, namespace: str, name: str) -> Secret | None: ...

    def namespaces_with(self, kind: str, name: str) -> list[str]:
        """Other places where an object of this name exists: the most common reason why one is missing here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginContext:
    """What plugins work with."""

    host: Host
    paths: Paths
    objects: Objects
    node: Callable[[], NodeFacts]
    data_directory: Callable[[], str]  # a fresh name such as `..2026_11_17_12_00_00.123456789`


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a set-up is told about the pod it is for."""

    pod: Pod
    uid: PodUid
    spec: VolumeSpec
    fs_user: int | None = None
    fs_group: int | None = None
    fs_group_policy: str | None = None
    size_limit: int = 0
    stage_path: str = ""
    device_path: str = ""
    refresh: bool = False  # it is mounted: a failure must not take away what the pod sees
    reconstructed: bool = False  # it was found on disk: a failure must not remove what teardown needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """How containers may treat the volume."""

    read_only: bool = False
    managed: bool = False  # mooring may change its ownership
    relabel: bool = False  # containers may relabel it


class Mounter(Protocol):
    """Makes a volume usable for one pod, and undoes it. Both may be called twice: the second finds the work done.

    `set_up` raises `Refused` or `NotYet` only when nothing was changed; anything else leaves doubt behind.
    """

    def path(self, uid: PodUid, spec: VolumeSpec) -> str: ...

    async def set_up(self, request: Setup) -> None: ...

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        """Undo, from the names alone: after a restart the spec is a skeleton."""
        ...


class Stager(Protocol):
    """Mounts a device once for the node."""

    async def stage(self, spec: VolumeSpec, device_path: str) -> str:
        """Returns the path of the stage."""
        ...

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None: ...


class Attacher(Protocol):
    async def attach(self, spec: VolumeSpec) -> str:
        """Returns the device path."""
        ...

    async def detach(self, spec: VolumeSpec) -> None: ...


class Resizer(Protocol):
    """Changes the size of a mounted ephemeral volume in place."""

    async def resize(self, uid: PodUid, spec: VolumeSpec, size: int) -> None: ...


class Checker(Protocol):
    """Looks ahead for `mooring plan`."""

    def check(self, request: Setup) -> None:
        """Raise what a set-up would refuse or wait for, as far as that shows without touching anything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a plugin does for one volume. A step that is None does not exist for it."""

    mounter: Mounter
    stager: Stager | None = None
    attacher: Attacher | None = None
    resizer: Resizer | None = None
    checker: Checker | None = None
    attributes: Attributes = Attributes()
    takes_mount_options: bool = False
    refreshes: bool = False  # its content follows objects or the pod itself


class VolumePlugin(Protocol):
    """A volume type."""

    @property
    def name(self) -> PluginName: ...

    def supports(self, spec: VolumeSpec) -> bool: ...

    def volume_name(self, spec: VolumeSpec) -> str:
        """What backs the volume; unique within the plugin for volumes that pods share."""
        ...

    def offer(self, spec: VolumeSpec) -> Offer: ...

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        """The objects its content comes from."""
        ...

    def reconstruct(self, volume_name: str) -> VolumeSpec:
        """A spec, as far as the directory name tells, from which the volume can be torn down."""
        ...
