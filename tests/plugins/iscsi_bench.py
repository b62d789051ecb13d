"""iSCSI volumes on a machine in memory, with targets on a network and an iscsiadm that reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from mooring.host.paths import Paths
from mooring.host.programs import ProgramResult
from mooring.kube.objects.meta import ObjectMeta, ObjectReference, SecretReference
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import ISCSIVolumeSource, Volume
from mooring.plugins.interface import NodeFacts, Offer, PluginContext, Setup, StageWishes
from mooring.plugins.iscsi import ISCSIPlugin
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

ROOT = "/var/lib/mooring"
PLUGIN = f"{ROOT}/plugins/kubernetes.io/iscsi"
IQN = "iqn.2026-01.example:disks"
ONE, TWO = PodUid("uid-one"), PodUid("uid-two")
MEBIBYTE = 2**20
A, B = "10.0.0.1:3260", "10.0.0.2:3260"
DEFAULT_INTERFACE = """\
# BEGIN RECORD 2.1
iface.iscsi_ifacename = default
iface.net_ifacename = <empty>
iface.transport_name = tcp
iface.initiatorname = <empty>
# END RECORD"""


class IscsiNetwork:
    """Targets behind portals. What the kernel would show of sessions appears below /sys and /dev of the machine."""

    def __init__(self, host: MemoryHost) -> None:
        self.host = host
        self.sessions: dict[str, int] = {}  # by portal, the number of the SCSI host
        self.answers: dict[tuple[str, ...], ProgramResult] = {}  # by words that a call must contain
        self.interface = DEFAULT_INTERFACE
        self.without_disk: set[str] = set()  # portals that show no LUN
        self.multipath = False
        self.login_status = 0
        host.program_result = self._run
        host.after_call = self._after
        host.make_directories("/dev/disk/by-path", 0o755)

    def calls(self) -> list[str]:
        """What iscsiadm and multipath were asked to do."""
        return [" ".join(call) for call in self.host.programs_run]

    def _run(self, arguments: Sequence[str]) -> ProgramResult | None:
        for words, result in self.answers.items():
            if set(words) <= set(arguments):
                return result
        if "show" in arguments:
            return ProgramResult(status=0, output=self.interface)
        if "--login" in arguments:
            self._log_in(arguments[arguments.index("-p") + 1])
            return ProgramResult(status=self.login_status)
        if "--logout" in arguments and self.sessions.pop(arguments[arguments.index("-p") + 1], None) is None:
            return ProgramResult(status=21, output="No matching sessions found")
        return None

    def _log_in(self, portal: str) -> None:
        number = self.sessions[portal] = 3 + len(self.sessions)
        address, _, port = portal.rpartition(":")
        session = f"/sys/class/iscsi_host/host{number}/device/session{number}"
        connection = f"{session}/connection{number}:0/iscsi_connection/connection{number}:0"
        self.host.put_file(f"{session}/iscsi_session/session{number}/targetname", f"{IQN}\n")
        for prefix in ("", "persistent_"):
            self.host.put_file(f"{connection}/{prefix}address", address.strip("[]"))
            self.host.put_file(f"{connection}/{prefix}port", port)
        self.host.put_file(f"/sys/class/scsi_host/host{number}/scan")

    def _after(self, method: str, path: str) -> None:
        if method == "write_into" and path.endswith("/scan"):
            number = int(path.split("/")[4].removeprefix("host"))
            lun = int(self.host.read_file(path).split()[2])
            portal = next(each for each, host in self.sessions.items() if host == number)
            if portal not in self.without_disk:
                self._show_disk(number, lun, portal)

    def _show_disk(self, number: int, lun: int, portal: str) -> None:
        name = f"sd{'abcdefgh'[number]}{lun}"
        with suppress(FileExistsError):
            self.host.make_device(f"/dev/{name}", 64 * MEBIBYTE)
        block = f"/sys/class/iscsi_host/host{number}/device/session{number}/target{number}:0:0/{number}:0:0:{lun}/block"
        self.host.make_directories(f"{block}/{name}", 0o755)
        self.host.put_file(f"/sys/block/{name}/device/delete")
        link = f"/dev/disk/by-path/ip-{portal.replace('[', '').replace(']', '')}-iscsi-{IQN}-lun-{lun}"
        if self.host.look(link) is None:
            self.host.make_link(f"/dev/{name}", link)
        if self.multipath:
            self.host.make_directories(f"/sys/block/dm-1/slaves/{name}", 0o755)
            with suppress(FileExistsError):
                self.host.make_device("/dev/dm-1", 64 * MEBIBYTE)

    def deleted(self) -> list[str]:
        """Devices that the kernel was told to forget."""
        found = []
        for name in self.host.names_in("/sys/block"):
            path = f"/sys/block/{name}/device/delete"
            if self.host.look(path) is not None and self.host.read_file(path) == b"1":
                found.append(name)
        return found


class IscsiBench:
    """The plugin over a `MemoryHost` in an `IscsiNetwork`."""

    def __init__(self, host: MemoryHost | None = None, network: IscsiNetwork | None = None) -> None:
        self.host = host if host is not None else MemoryHost()
        self.network = network if network is not None else IscsiNetwork(self.host)
        self.objects = ObjectTable()
        context = PluginContext(
            host=self.host,
            paths=Paths(ROOT),
            objects=self.objects,
            node=lambda: NodeFacts(name="node", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=lambda _: None,
        )
        self.plugin = ISCSIPlugin(context)

    def restarted(self) -> IscsiBench:
        """A plugin of a new process on the same machine."""
        return IscsiBench(self.host, self.network)

    def inline(
        self,
        name: str = "data",
        *,
        portals: tuple[str, ...] = (A,),
        lun: int = 0,
        secret: str = "",
        initiator: str | None = None,
        read_only: bool = False,
    ) -> VolumeSpec:
        source = _source(portals, lun, secret, initiator, read_only)
        return VolumeSpec(volume=Volume(name=name, iscsi=source), namespace="shop")

    def persistent(
        self, name: str = "pv", *, lun: int = 0, block: bool = False, portals: tuple[str, ...] = (A,), secret: str = ""
    ) -> VolumeSpec:
        mode = "Block" if block else "Filesystem"
        claim = ObjectReference(namespace="shop", name="claim")
        source = _source(portals, lun, secret, None, False)
        spec = PersistentVolumeSpec(iscsi=source, volume_mode=mode, claim_ref=claim)
        return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))

    def offer(self, spec: VolumeSpec) -> Offer:
        return self.plugin.offer(spec)

    def stage(self, spec: VolumeSpec, label: str = "") -> str:
        stager = self.offer(spec).stager
        assert stager is not None
        return run_virtual(stager.stage(spec, "", StageWishes(label=label)))

    def unstage(self, spec: VolumeSpec) -> None:
        stager = self.offer(spec).stager
        assert stager is not None
        run_virtual(stager.unstage(spec, ""))

    def set_up(self, spec: VolumeSpec, uid: PodUid = ONE, *, group: int | None = None) -> str:
        """Stage a volume and set it up for a pod; return the path in the pod's directory."""
        request = Setup(pod=pod("web"), uid=uid, spec=spec, stage_path=self.stage(spec), fs_group=group)
        run_virtual(self.offer(spec).mounter.set_up(request))
        return self.offer(spec).mounter.path(uid, spec)

    def tear_down(self, spec: VolumeSpec, uid: PodUid = ONE) -> None:
        run_virtual(self.offer(spec).mounter.tear_down(uid, spec))

    def mounted(self) -> list[str]:
        return [mount.path for mount in self.host.mounts() if mount.path != "/"]

    def left(self) -> list[str]:
        """What the plugin has in its own directory."""
        prefix = f"{PLUGIN}/"
        return [path for path in self.host.snapshot().entries if path.startswith(prefix) and "iface-" in path]


def _source(
    portals: tuple[str, ...], lun: int, secret: str, initiator: str | None, read_only: bool
) -> ISCSIVolumeSource:
    return ISCSIVolumeSource(
        target_portal=portals[0],
        portals=portals[1:],
        iqn=IQN,
        lun=lun,
        read_only=read_only,
        chap_auth_discovery=bool(secret),
        chap_auth_session=bool(secret),
        secret_ref=SecretReference(name=secret) if secret else None,
        initiator_name=initiator,
    )
