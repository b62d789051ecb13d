"""What a volume plugin is: protocols, and the offer it makes for one volume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from mooring.errors import Refused
from mooring.host.interface import FileSystemUsage, Host
from mooring.host.ownership_calls import OwnershipWalk
from mooring.host.paths import Paths
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.pod import ConfigMap, Pod, Secret, ServiceAccount
from mooring.world.changes import Noticed
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec


class ObjectRef(msgspec.Struct, frozen=True):
    """An object that a volume's content comes from; its change is a reason to look at the volume again."""

    kind: str  # ConfigMap, Secret, …
    namespace: str
    name: str  # empty: any object of the kind in the namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What plugins may know of the node. Amounts are bytes and thousandths of processors."""

    name: str
    memory: int
    cpu_milli: int
    ephemeral_storage: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    selinux: bool = False  # whether the kernel has SELinux, and it is in use


class Objects(Protocol):
    """Where content comes from. All answer at once, from a cache; None when there is no such object."""

    def config_map(self, namespace: str, name: str) -> ConfigMap | None: ...

    def secret(self, namespace: str, name: str) -> Secret | None: ...

    def service_account(self, namespace: str, name: str) -> ServiceAccount | None: ...

    def cluster_trust_bundle(self, name: str) -> ClusterTrustBundle | None: ...

    def cluster_trust_bundles(self, signer_name: str) -> list[ClusterTrustBundle]:
        """All bundles of a signer."""
        ...

    def namespaces_with(self, kind: str, name: str) -> list[str]:
        """Other places where an object of this name exists: the most common reason why one is missing here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """Which token is wanted: for whom, for how long, and the objects that it is bound to."""

    namespace: str
    service_account: str
    expiration_seconds: int
    audiences: tuple[str, ...] = ()  # none: the issuer itself
    pod_name: str = ""
    pod_uid: str = ""
    secret_name: str = ""
    secret_uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token, and when it ends and should be replaced, in seconds since the epoch. Its repr does not show it."""

    text: str = field(repr=False)
    expires_at: float
    refresh_at: float


class Tokens(Protocol):
    """Who gives out tokens of service accounts."""

    def now(self) -> float:
        """The clock that the times of tokens are read on."""
        ...

    def check(self, request: TokenRequest) -> None:
        """Raise what is known to be in the way of a token, without asking for one."""
        ...

    async def token(self, request: TokenRequest) -> IssuedToken:
        """A token that is valid now: the one given out before as long as it need not be replaced."""
        ...

    def forget_pod(self, uid: PodUid) -> None:
        """Drop what was given out for a pod."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginContext:
    """What plugins work with."""

    host: Host
    paths: Paths
    objects: Objects
    node: Callable[[], NodeFacts]
    data_directory: Callable[[], str]  # a fresh name such as `..2026_11_17_12_00_00.123456789`
    tell: Callable[[Noticed], None]  # on the event loop only
    tokens: Tokens | None = None  # None: nobody issues tokens here
    allow_git_repo: bool = False
    project_quotas: str = "off"  # or account, or enforce: for directories on disk that have a limit
    attached_by_others: bool = False  # volumes of types that would be attached from here otherwise


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a set-up is told about the pod it is for."""

    pod: Pod
    uid: PodUid
    spec: VolumeSpec
    fs_user: int | None = None
    fs_group: int | None = None
    fs_group_policy: str | None = None
    idmapped: bool = False  # let the mount show the group, and change no file
    walk: OwnershipWalk | None = None  # where a walk over the files tells how far it is; None: nobody asks
    size_limit: int = 0
    stage_path: str = ""
    device_path: str = ""
    label: str = ""  # of SELinux, to mount it with; nothing: none
    refresh: bool = False  # it is mounted: a failure must not take away what the pod sees
    reconstructed: bool = False  # it was found on disk: a failure must not remove what teardown needs


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """How containers may treat the volume."""

    read_only: bool = False
    managed: bool = False  # mooring may change its ownership
    relabel: bool = False  # containers may relabel it


class Mounter(Protocol):
    """Makes a volume usable for one pod, and undoes it. Both may be called twice: the second finds the work done.

    `set_up` raises `Refused` or `NotYet` only when nothing was changed; anything else leaves doubt behind.
    """

    def path(self, uid: PodUid, spec: VolumeSpec) -> str: ...

    async def set_up(self, request: Setup) -> float | None:
        """Returns the seconds after which the volume wants to be set up again, if it does."""
        ...

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        """Undo, from the names alone: after a restart the spec is a skeleton."""
        ...


class StageWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod for which a device is staged first wants of it."""

    fs_group: int | None = None
    label: str = ""  # of SELinux; nothing: none


NO_WISHES = StageWishes()


class Stager(Protocol):
    """Mounts a device once for the node."""

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        """Returns the path of the stage."""
        ...

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None: ...


class Attacher(Protocol):
    async def attach(self, spec: VolumeSpec) -> str:
        """Returns the device path."""
        ...

    async def detach(self, spec: VolumeSpec) -> None: ...


class Growing(msgspec.Struct, frozen=True, kw_only=True):
    """A mounted volume that is to grow. Sizes are bytes."""

    spec: VolumeSpec
    uid: PodUid
    path: str  # where the pod has it
    stage_path: str
    device_path: str
    size: int
    before: int


class Expander(Protocol):
    """Lets a mounted volume, and what is on it, grow on this node. May be called twice."""

    async def expand(self, request: Growing) -> None:
        """Raises `Unsupported`, `InUse` or `Infeasible` where one is the reason, else as set-ups do."""
        ...


class Resizer(Protocol):
    """Changes the size of a mounted ephemeral volume in place."""

    async def resize(self, uid: PodUid, spec: VolumeSpec, size: int) -> None: ...


class Inspector(Protocol):
    """Asks whoever serves a mounted volume about it. `Unsupported` when they do not tell."""

    async def usage(self, uid: PodUid, spec: VolumeSpec) -> FileSystemUsage: ...

    async def complaints(self, uid: PodUid, spec: VolumeSpec) -> tuple[str, ...]:
        """What is wrong with the volume; nothing when all is well."""
        ...


class Checker(Protocol):
    """Looks ahead for `mooring plan`."""

    def check(self, request: Setup) -> None:
        """Raise what a set-up would refuse or wait for, as far as that shows without touching anything."""
        ...


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin does for one volume. A step that is None does not exist for it."""

    mounter: Mounter
    stager: Stager | None = None
    attacher: Attacher | None = None
    resizer: Resizer | None = None
    expander: Expander | None = None
    checker: Checker | None = None
    inspector: Inspector | None = None
    attributes: Attributes = Attributes()
    takes_mount_options: bool = False
    takes_labels: bool = False  # it can be mounted with an SELinux label
    refreshes: bool = False  # its content follows objects or the pod itself
    maps_devices: bool = False  # the mounter gives the pod a raw device, not a directory
    needs_attaching: bool = True  # as far as is known now; without it an attacher only detaches

    @property
    def attachable(self) -> bool:
        return self.attacher is not None and self.needs_attaching

    @property
    def leaves_traces_elsewhere(self) -> bool:
        """Whether its work would not all show below the pod's own directory, so that it is written down before."""
        return self.stager is not None or self.attacher is not None or self.maps_devices


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

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        """A spec, as far as the directory name tells, from which the volume can be torn down.

        `block` is set for what was found among a pod's raw devices; `Refused` when the plugin maps none.
        """
        ...


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin's own directories tell of a volume: it may be staged, and there for these pods."""

    spec: VolumeSpec
    pods: tuple[PodUid, ...] = ()


@runtime_checkable
class Traceable(Protocol):
    """A plugin that keeps things on the node which no pod's directory need show."""

    def traces(self) -> Iterable[Trace]:
        """Every volume of which something is or may be left, from names alone."""
        ...


@runtime_checkable
class KnownByPlace(Protocol):
    """A plugin whose places tell less of a volume than its name does, such as how somebody spelled an address."""

    def place_of(self, spec: VolumeSpec) -> str:
        """Where the node keeps a volume: one place, however it is spelled. `Refused` for what names none."""
        ...


@runtime_checkable
class PodwiseReconstruction(Protocol):
    """A plugin whose volumes are not told apart by their names: it looks where a pod has them."""

    def reconstruct_for(self, uid: PodUid, volume_name: str, *, block: bool) -> VolumeSpec:
        """As `reconstruct`, for a volume that was found in the directory of a pod."""
        ...


@runtime_checkable
class LabelKeeper(Protocol):
    """A plugin that writes down with which SELinux label a pod's volume is mounted, as a kubelet's does."""

    def label_of(self, uid: PodUid, volume_name: str) -> str:
        """The label of a volume found in the directory of a pod; nothing when it has none, or nobody can tell."""
        ...


def refuse_block(volume_name: str) -> Refused:
    """What a plugin without raw devices says when one of its volumes is found among them."""
    return Refused(f"cannot make sense of block volume {volume_name!r}", why="its type has no raw block volumes")
