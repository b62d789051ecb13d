"""Local volumes on a machine in memory, for several pods, handled by the plugin alone."""

from __future__ import annotations

from mooring.host.interface import Content, Signature
from mooring.host.paths import Paths
from mooring.kube.objects.storage import PersistentVolume
from mooring.plugins.interface import NodeFacts, Offer, PluginContext, Setup
from mooring.plugins.local import LocalPlugin
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import run_virtual
from mooring.world.changes import Noticed
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

ROOT = "/var/lib/mooring"
STAGE = f"{ROOT}/plugins/kubernetes.io/local-volume/mounts/pv-c"
MAPS = f"{ROOT}/plugins/kubernetes.io~local-volume/volumeDevices/pv-c"
ONE, TWO = PodUid("uid-one"), PodUid("uid-two")
DISK = "/dev/disk"
MEBIBYTE = 2**20
EXT4 = Signature(content=Content.FILE_SYSTEM, type="ext4")


class LocalBench:
    """The plugin over a `MemoryHost` that has an empty disk at `/dev/disk` and a directory at `/srv/data`."""

    def __init__(self) -> None:
        self.host = MemoryHost()
        self.notices: list[Noticed] = []
        context = PluginContext(
            host=self.host,
            paths=Paths(ROOT),
            objects=ObjectTable(),
            node=lambda: NodeFacts(name="node", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=self.notices.append,
        )
        self.plugin = LocalPlugin(context)
        self.host.make_directories("/dev", 0o755)
        self.host.make_device(DISK, 64 * MEBIBYTE)
        self.host.make_directories("/srv/data", 0o755)

    def spec(self, volume: PersistentVolume, *, read_only: bool = False) -> VolumeSpec:
        return VolumeSpec(persistent_volume=volume, read_only=read_only)

    def offer(self, spec: VolumeSpec) -> Offer:
        return self.plugin.offer(spec)

    def stage(self, spec: VolumeSpec) -> str:
        stager = self.offer(spec).stager
        assert stager is not None
        return run_virtual(stager.stage(spec, ""))

    def unstage(self, spec: VolumeSpec, stage_path: str = "") -> None:
        stager = self.offer(spec).stager
        assert stager is not None
        run_virtual(stager.unstage(spec, stage_path))

    def set_up(
        self, spec: VolumeSpec, uid: PodUid = ONE, *, group: int | None = None, policy: str | None = None
    ) -> str:
        """Stage a volume and set it up for a pod; return the path in the pod's directory."""
        self.mount(spec, uid, stage_path=self.stage(spec), group=group, policy=policy)
        return self.offer(spec).mounter.path(uid, spec)

    def mount(
        self,
        spec: VolumeSpec,
        uid: PodUid = ONE,
        *,
        stage_path: str,
        group: int | None = None,
        policy: str | None = None,
    ) -> None:
        """Set up for a pod what is staged already."""
        request = Setup(
            pod=pod(uid.removeprefix("uid-")),
            uid=uid,
            spec=spec,
            stage_path=stage_path,
            fs_group=group,
            fs_group_policy=policy,
        )
        run_virtual(self.offer(spec).mounter.set_up(request))

    def tear_down(self, spec: VolumeSpec, uid: PodUid = ONE) -> None:
        run_virtual(self.offer(spec).mounter.tear_down(uid, spec))

    # -- looking -------------------------------------------------------------------------------------------------
    def mounted(self) -> list[str]:
        return [mount.path for mount in self.host.mounts() if mount.path != "/"]

    def group(self, path: str) -> int:
        facts = self.host.look(path)
        assert facts is not None
        return facts.gid

    def options(self, path: str) -> tuple[str, ...]:
        mount = self.host.mount_at(path)
        assert mount is not None
        return tuple(mount.options)
