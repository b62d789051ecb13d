"""Fibre Channel volumes: which device is theirs, mounts and maps, and how the device is let go."""

from __future__ import annotations

import pytest

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host.paths import Paths
from mooring.host.programs import ProgramFailed, ProgramResult
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import FCVolumeSource, Volume
from mooring.plugins.fc import FCPlugin
from mooring.plugins.fc_disks import FCDisk, disk_of, parse_directory
from mooring.plugins.interface import NodeFacts, PluginContext, Setup, StageWishes
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

ROOT = "/var/lib/mooring"
PLUGIN = f"{ROOT}/plugins/kubernetes.io/fc"
WWN, OTHER = "500a0982991b8dc5", "500a0982891b8dc5"
WWID = "3600508b400105e210000900000490000"
ONE = PodUid("uid-one")


class FCBench:
    """The plugin over a `MemoryHost` with disks on a Fibre Channel network."""

    def __init__(self, host: MemoryHost | None = None) -> None:
        self.host = host if host is not None else MemoryHost()
        for directory in ("/dev/disk/by-path", "/dev/disk/by-id", "/sys/block"):
            self.host.make_directories(directory, 0o755)
        for number in (0, 1):
            self.host.put_file(f"/sys/class/scsi_host/host{number}/scan")
        context = PluginContext(
            host=self.host,
            paths=Paths(ROOT),
            objects=ObjectTable(),
            node=lambda: NodeFacts(name="node", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=lambda _: None,
        )
        self.plugin = FCPlugin(context)

    def show(self, device: str, *links: str) -> None:
        """Let a disk be there, with its names in /dev/disk."""
        self.host.make_device(f"/dev/{device}", 64 * 2**20)
        self.host.put_file(f"/sys/block/{device}/device/delete")
        for link in links:
            self.host.make_link(f"/dev/{device}", f"/dev/disk/{link}")

    def join(self, parent: str, *paths: str) -> None:
        """Let devices be the paths of a multipath device."""
        self.host.make_device(f"/dev/{parent}", 64 * 2**20)
        for path in paths:
            self.host.make_directories(f"/sys/block/{parent}/slaves/{path}", 0o755)

    def stage(self, spec: VolumeSpec, label: str = "") -> str:
        stager = self.plugin.offer(spec).stager
        assert stager is not None
        return run_virtual(stager.stage(spec, "", StageWishes(label=label)))

    def unstage(self, spec: VolumeSpec) -> None:
        stager = self.plugin.offer(spec).stager
        assert stager is not None
        run_virtual(stager.unstage(spec, ""))

    def set_up(self, spec: VolumeSpec) -> str:
        mounter = self.plugin.offer(spec).mounter
        run_virtual(mounter.set_up(Setup(pod=pod("web"), uid=ONE, spec=spec, stage_path=self.stage(spec))))
        return mounter.path(ONE, spec)

    def tear_down(self, spec: VolumeSpec) -> None:
        run_virtual(self.plugin.offer(spec).mounter.tear_down(ONE, spec))

    def source_at(self, path: str) -> str:
        mounted = self.host.mount_at(path)
        assert mounted is not None
        return mounted.source

    def deleted(self, device: str) -> bool:
        return self.host.read_file(f"/sys/block/{device}/device/delete") == b"1"

    def left(self) -> list[str]:
        prefix = f"{PLUGIN}/"
        names = (path.removeprefix(prefix) for path in self.host.snapshot().entries if path.startswith(prefix))
        return [name for name in names if name != "volumeDevices"]


@pytest.fixture
def bench() -> FCBench:
    return FCBench()


def by_wwn(*wwns: str, lun: int = 1, name: str = "data") -> VolumeSpec:
    return VolumeSpec(volume=Volume(name=name, fc=FCVolumeSource(target_wwns=wwns or (WWN,), lun=lun)))


def by_wwid(*wwids: str) -> VolumeSpec:
    return VolumeSpec(volume=Volume(name="data", fc=FCVolumeSource(wwids=wwids or (WWID,))))


def raw() -> VolumeSpec:
    spec = PersistentVolumeSpec(fc=FCVolumeSource(target_wwns=(WWN,), lun=1), volume_mode="Block")
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


def path_name(wwn: str = WWN, lun: int = 1) -> str:
    return f"by-path/pci-0000:41:00.0-fc-0x{wwn}-lun-{lun}"


def test_a_disk_is_found_by_port_and_lun_and_mounted(bench: FCBench) -> None:
    bench.show("sda", path_name())
    stage = bench.stage(by_wwn())
    assert stage == f"{PLUGIN}/{WWN}-lun-1"
    assert bench.source_at(stage) == "/dev/sda"
    assert bench.host.read_file("/sys/class/scsi_host/host0/scan") == b"- - -"  # no multipath device was there


def test_a_label_is_an_option_of_the_mount(bench: FCBench) -> None:
    bench.show("sda", path_name())
    assert bench.plugin.offer(by_wwn()).takes_labels
    assert not bench.plugin.offer(raw()).takes_labels
    with pytest.raises(MooringError, match="Unknown parameter 'context'"):  # a kernel that has no SELinux tells so
        bench.stage(by_wwn(), "u:r:t:s0:c1,c2")


def test_only_the_whole_lun_counts(bench: FCBench) -> None:
    bench.show("sda", path_name(lun=12))
    bench.show("sdb", path_name(lun=1))
    assert bench.source_at(bench.stage(by_wwn(lun=1))) == "/dev/sdb"


@pytest.mark.parametrize("name", [f"fc-0x{WWN}-lun-1", f"pci-0000:41:00.0-fc-0x{WWN}-lun-1"])
def test_names_with_and_without_an_adapter_count(bench: FCBench, name: str) -> None:
    bench.show("sda", f"by-path/{name}")
    assert bench.source_at(bench.stage(by_wwn())) == "/dev/sda"


def test_a_name_with_something_else_before_it_does_not_count(bench: FCBench) -> None:
    bench.show("sda", f"by-path/abc-0000:41:00.0-fc-0x{WWN}-lun-1")
    with pytest.raises(Refused, match="no Fibre Channel disk found"):
        bench.stage(by_wwn())
    assert bench.left() == []


def test_a_disk_is_found_by_its_own_identifier(bench: FCBench) -> None:
    bench.show("sda", f"by-id/scsi-{WWID}")
    stage = bench.stage(by_wwid())
    assert (stage, bench.source_at(stage)) == (f"{PLUGIN}/{WWID}", "/dev/sda")


def test_the_multipath_device_over_a_disk_is_taken_instead(bench: FCBench) -> None:
    bench.show("sde", path_name(WWN))
    bench.show("sdf", path_name(OTHER))
    bench.join("dm-1", "sde", "sdf")
    assert bench.source_at(bench.stage(by_wwn(WWN, OTHER))) == "/dev/dm-1"
    assert bench.host.read_file("/sys/class/scsi_host/host0/scan") == b""


def test_a_later_port_that_shows_nothing_does_not_hide_an_earlier_hit(bench: FCBench) -> None:
    bench.show("sda", path_name(WWN))
    assert bench.source_at(bench.stage(by_wwn(WWN, OTHER))) == "/dev/sda"


def test_a_disk_that_appears_after_a_scan_is_found(bench: FCBench) -> None:
    def after(method: str, path: str) -> None:
        if method == "write_into" and path.endswith("host1/scan"):
            bench.show("sda", path_name())

    bench.host.after_call = after
    assert bench.source_at(bench.stage(by_wwn())) == "/dev/sda"


def test_unstaging_flushes_and_deletes_the_device(bench: FCBench) -> None:
    bench.show("sda", path_name())
    spec = by_wwn()
    bench.set_up(spec)
    bench.tear_down(spec)
    bench.unstage(spec)
    assert bench.host.programs_run[-1] == ("blockdev", "--flushbufs", "/dev/sda")
    assert bench.deleted("sda")
    assert bench.left() == []
    bench.unstage(spec)


def test_unstaging_takes_a_multipath_device_apart_with_all_its_paths(bench: FCBench) -> None:
    bench.show("sde", path_name(WWN))
    bench.show("sdf", path_name(OTHER))
    bench.join("dm-1", "sde", "sdf")
    bench.stage(by_wwn(WWN, OTHER))
    bench.unstage(by_wwn(WWN, OTHER))
    assert ("multipath", "-f", "/dev/dm-1") in bench.host.programs_run
    assert bench.deleted("sde")
    assert bench.deleted("sdf")


def test_a_multipath_device_that_cannot_be_taken_apart_is_tried_again(bench: FCBench) -> None:
    bench.show("sde", path_name(WWN))
    bench.join("dm-1", "sde")
    bench.stage(by_wwn())
    bench.host.program_result = lambda call: ProgramResult(status=1) if call[0] == "multipath" else None
    with pytest.raises(ProgramFailed):
        bench.unstage(by_wwn())
    assert not bench.deleted("sde")
    bench.host.program_result = None
    bench.unstage(by_wwn())
    assert bench.deleted("sde")
    assert bench.left() == []


def test_a_flush_that_fails_does_not_keep_the_device(bench: FCBench) -> None:
    bench.show("sda", path_name())
    bench.stage(by_wwn())
    bench.host.program_result = lambda call: ProgramResult(status=1)
    bench.unstage(by_wwn())
    assert bench.deleted("sda")


def test_a_device_that_somebody_still_uses_is_not_taken_away(bench: FCBench) -> None:
    bench.show("sda", path_name())
    bench.stage(by_wwn())
    bench.host.claim_device("/dev/sda")
    with pytest.raises(Doubtful, match="it is in use"):
        bench.unstage(by_wwn())
    assert not bench.deleted("sda")


def test_a_raw_disk_is_mapped_and_let_go(bench: FCBench) -> None:
    bench.show("sda", path_name())
    link = bench.set_up(raw())
    assert bench.host.read_link(link) == "/dev/sda"
    bench.tear_down(raw())
    bench.unstage(raw())
    assert bench.deleted("sda")
    assert bench.left() == []


def test_after_a_restart_a_mounted_volume_is_found_by_its_disk_and_torn_down(bench: FCBench) -> None:
    bench.show("sda", path_name())
    spec = by_wwn()
    bench.set_up(spec)
    later = FCBench(bench.host)
    found = later.plugin.reconstruct_for(ONE, "data", block=False)
    assert later.plugin.volume_name(found) == bench.plugin.volume_name(spec) == f"[{WWN}]:1"
    later.tear_down(found)
    later.unstage(found)
    assert bench.deleted("sda")


def test_after_a_restart_a_mapped_volume_is_found_and_torn_down(bench: FCBench) -> None:
    bench.show("sda", path_name())
    bench.set_up(raw())
    later = FCBench(bench.host)
    found = later.plugin.reconstruct_for(ONE, "pv", block=True)
    assert later.plugin.volume_name(found) == bench.plugin.volume_name(raw())
    later.tear_down(found)
    later.unstage(found)
    assert bench.left() == []


def test_a_stage_that_no_pod_shows_is_a_trace(bench: FCBench) -> None:
    bench.show("sda", path_name())
    bench.stage(by_wwn())
    (trace,) = FCBench(bench.host).plugin.traces()
    bench.unstage(trace.spec)
    assert bench.left() == []


def test_of_a_pod_directory_without_a_disk_only_the_name_is_known(bench: FCBench) -> None:
    bench.host.make_directories(f"{ROOT}/pods/{ONE}/volumes/kubernetes.io~fc/data", 0o750)
    found = bench.plugin.reconstruct_for(ONE, "data", block=False)
    assert bench.plugin.volume_name(found) == "data"
    bench.tear_down(found)
    bench.unstage(found)
    assert bench.host.look(f"{ROOT}/pods/{ONE}/volumes/kubernetes.io~fc/data") is None


@pytest.mark.parametrize(
    ("directory", "disk"),
    [
        (WWID, FCDisk(wwids=(WWID,))),
        ("a-b", FCDisk(wwids=("a", "b"))),
        (f"{WWN}-lun-0", FCDisk(wwns=(WWN,), lun=0)),
        (f"{WWN}-{OTHER}-lun-12", FCDisk(wwns=(WWN, OTHER), lun=12)),
        ("lun-0", None),
        ("-lun-x", None),
        ("", None),
    ],
)
def test_a_directory_tells_the_disk(directory: str, disk: FCDisk | None) -> None:
    assert parse_directory(directory) == disk
    if disk is not None:
        assert disk.directory == directory


@pytest.mark.parametrize(
    "source",
    [FCVolumeSource(), FCVolumeSource(target_wwns=(WWN,)), FCVolumeSource(lun=1), FCVolumeSource(wwids=("../x",))],
)
def test_a_volume_that_names_no_disk_is_refused(source: FCVolumeSource) -> None:
    with pytest.raises(Refused):
        disk_of(VolumeSpec(volume=Volume(name="v", fc=source)))


def test_a_volume_has_the_name_that_whoever_attaches_it_gives_it(bench: FCBench) -> None:
    """plugins.md 5: identifiers as they are written."""
    ports = FCVolumeSource(target_wwns=("0X50AA", "50bb"), lun=3, wwids=("w",))
    assert bench.plugin.volume_name(VolumeSpec(volume=Volume(name="v", fc=ports))) == "[0X50AA 50bb]:3"
    assert bench.plugin.volume_name(by_wwid("3600 508b")) == "[3600 508b]"


def test_spaces_in_an_identifier_are_underscores_in_names() -> None:
    assert disk_of(by_wwid("3600 508b")) == FCDisk(wwids=("3600_508b",))
