"""Intent records: before anything is done to a volume that a pod's own directory would not show, it is written down.

There is one record for the node's part of a volume (attached, staged) and one for each pod's. A record says that
something is or may be there, and holds what is needed to undo it; it goes when that is proven to be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from mooring.errors import Refused
from mooring.host.interface import Host, Risk
from mooring.host.records import Damage, Records, record_name
from mooring.kube.objects.storage import PersistentVolume
from mooring.kube.objects.volumes import Volume
from mooring.world.actual import ActualVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach, Mount, Stage, VolumeOperation, pod_of
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

Key = tuple[VolumeName, PodUid | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """That something of a volume is, or is about to be, on this node: of the node's own part, or of one pod's."""

    volume: VolumeName
    plugin: PluginName
    spec: VolumeSpec
    pod: PodUid | None = None
    operation: str = ""  # the kubelet's name of what was begun
    path: str = ""  # where it was to appear
    device_path: str = ""
    owner: str = ""  # `namespace/name` of the pod, for people
    boot: str = ""  # the run of the machine in which it was written
    label: str = ""  # of SELinux, that it was to be mounted with; nothing: none

    @property
    def key(self) -> Key:
        return self.volume, self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentsFound:
    """What the records tell after a start."""

    intents: tuple[Intent, ...] = ()
    damaged: tuple[Damage, ...] = ()


class Intents:
    """The intent records of one instance. Those that are asked for at the same time are written together."""

    def __init__(self, host: Host, directory: str) -> None:
        self._host = host
        self._records = Records(host, directory)
        self._boot = host.boot_id()
        self._on_disk: dict[Key, Intent] = {}
        self._unread: set[str] = set()  # names of records of which nobody knows what they told
        self._waiting: dict[Key, Intent] = {}
        self._turn = asyncio.Lock()

    def sweep(self) -> None:
        """Remove what earlier processes left half written."""
        self._records.sweep()

    def read(self) -> IntentsFound:
        """All that earlier processes wrote down and did not prove to be gone.

        `Refused` when it cannot even be told which records there are: nothing may be begun then.
        """
        reading = self._records.read()
        for damage in reading.damaged:
            if damage.path == self._records.directory:
                why = f"the records in {damage.path} cannot be read: {damage.why}"
                next_step = "Make the directory readable, and start again"
                raise Refused("cannot find out what is on this node", why=why, next_step=next_step)
        found: list[Intent] = []
        damaged = list(reading.damaged)
        for record in reading.records:
            try:
                intent = _from_body(record.body)
                if record.name != _name(intent.key):
                    raise ValueError("it is about another volume than its name says")
            except (ValueError, TypeError) as error:  # msgspec's errors are ValueErrors
                damaged.append(Damage(path=self._records.path(record.name), why=f"it makes no sense: {error}"))
            else:
                found.append(intent)
                self._on_disk[intent.key] = intent
        self._unread = {self._records.name(damage.path) for damage in damaged}
        return IntentsFound(intents=tuple(found), damaged=tuple(damaged))

    async def note(self, intent: Intent) -> None:
        """Return when the record is on disk. OSError when it cannot be written: then nothing may be begun."""
        intent = replace(intent, boot=self._boot)
        if self._on_disk.get(intent.key) == intent:
            return
        self._waiting[intent.key] = intent
        async with self._turn:
            if intent.key in self._waiting:  # else whoever had the turn before wrote it along
                await self._write_waiting(intent.key)

    async def _write_waiting(self, mine: Key) -> None:
        batch, self._waiting = self._waiting, {}
        bodies = {_name(key): _to_body(intent) for key, intent in batch.items()}
        try:
            await self._host.run(lambda: self._records.write(bodies), risk=Risk.BULKY, what="write intent records")
        except BaseException:
            del batch[mine]
            self._waiting = batch | self._waiting  # the others try for themselves
            raise
        self._on_disk |= batch

    def settle(self, operation: VolumeOperation, held: ActualVolume | None) -> None:
        """After an operation: forget the record of its part if that is proven to be gone."""
        part = pod_of(operation)
        key = operation.volume, part
        if key not in self._on_disk or _is_held(held, part):
            return
        if _name(key) in self._unread and isinstance(operation, Attach | Stage | Mount):
            return  # a set-up that failed says nothing of what a record told that could not be read
        self.forget(key)

    def forget(self, key: Key) -> None:
        self._on_disk.pop(key, None)
        self._unread.discard(_name(key))
        self._records.remove([_name(key)])

    def of_this_boot(self) -> frozenset[VolumeName]:
        """The volumes of which something was begun in this run of the machine, and is not proven to be gone."""
        return frozenset(each.volume for each in self._on_disk.values() if each.boot == self._boot)

    def __len__(self) -> int:
        return len(self._on_disk)


def _is_held(held: ActualVolume | None, part: PodUid | None) -> bool:
    if held is None:
        return False
    if part is not None:
        return part in held.mounts
    return Presence.ABSENT is not held.attachment or Presence.ABSENT is not held.stage


def _name(key: Key) -> str:
    volume, pod = key
    return record_name(f"{volume} {pod or ''}")


def _to_body(intent: Intent) -> dict[str, object]:
    spec = intent.spec
    labelled = {"label": intent.label} if intent.label else {}  # versions of mooring that know no labels read the rest
    return labelled | {
        "volume": intent.volume,
        "plugin": intent.plugin,
        "pod": intent.pod,
        "operation": intent.operation,
        "path": intent.path,
        "device_path": intent.device_path,
        "owner": intent.owner,
        "boot": intent.boot,
        "spec": {
            "volume": msgspec.to_builtins(spec.volume),
            "persistent_volume": msgspec.to_builtins(spec.persistent_volume),
            "read_only": spec.read_only,
            "namespace": spec.namespace,
            "migrated": spec.migrated,
            "written_in_pod": spec.written_in_pod,
        },
    }


def _from_body(body: Mapping[str, object]) -> Intent:
    """ValueError for what no version of mooring wrote."""
    written = msgspec.convert(body, _Body)
    spec = written.spec
    if (spec.volume is None) is (spec.persistent_volume is None):
        raise ValueError("it names no volume, or two")
    return Intent(
        volume=VolumeName(written.volume),
        plugin=PluginName(written.plugin),
        pod=PodUid(written.pod) if written.pod is not None else None,
        operation=written.operation,
        path=written.path,
        device_path=written.device_path,
        owner=written.owner,
        boot=written.boot,
        label=written.label,
        spec=VolumeSpec(
            volume=spec.volume,
            persistent_volume=spec.persistent_volume,
            read_only=spec.read_only,
            namespace=spec.namespace,
            migrated=spec.migrated,
            written_in_pod=spec.written_in_pod,
        ),
    )


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    volume: Volume | None
    persistent_volume: PersistentVolume | None
    read_only: bool
    namespace: str
    migrated: bool = False
    written_in_pod: bool = False


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    volume: str
    plugin: str
    pod: str | None
    operation: str
    path: str
    device_path: str
    owner: str
    boot: str
    spec: _Spec
    label: str = ""
