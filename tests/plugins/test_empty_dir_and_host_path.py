"""emptyDir and hostPath, by the scenarios of the kubelet."""

from __future__ import annotations

import pytest
from tests.plugins.conftest import PluginBench

from mooring.errors import NotYet, Refused
from mooring.host.interface import FileKind
from mooring.host.ownership_calls import Ownership, OwnershipReport
from mooring.kube.objects.pod import Container, ResourceRequirements, VolumeMount
from mooring.kube.objects.volumes import EmptyDirVolumeSource, HostPathVolumeSource, Volume
from mooring.plugins import empty_dir
from mooring.plugins.interface import Resizer, Setup
from mooring.testing.memory_host import MemoryHost
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

GIBIBYTE = 2**30
DISK = Volume(name="v", empty_dir=EmptyDirVolumeSource())
MEMORY = Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory"))
READY = "/var/lib/mooring/pods/uid-1/plugins/kubernetes.io~empty-dir/v/ready"


# -- emptyDir ------------------------------------------------------------------------------------------------------
def test_an_empty_dir_on_disk_is_a_directory_with_a_ready_mark_and_no_mount(bench: PluginBench) -> None:
    path = bench.set_up(DISK)
    assert bench.host.mount_at(path) is None
    assert bench.facts_of(READY).kind is FileKind.FILE
    bench.tear_down(DISK)
    assert (bench.host.look(path), bench.host.look(READY)) == (None, None)


def test_an_empty_dir_in_memory_is_one_tmpfs_that_teardown_unmounts_once(bench: PluginBench) -> None:
    calls: list[str] = []
    bench.host.before_call = lambda method, _: calls.append(method)
    path = bench.set_up(MEMORY)
    bench.set_up(MEMORY)
    bench.tear_down(MEMORY)
    assert (calls.count("mount_tmpfs"), calls.count("unmount")) == (1, 1)
    assert bench.host.look(path) is None


def test_setting_up_again_keeps_what_containers_wrote(bench: PluginBench) -> None:
    for volume in (DISK, Volume(name="m", empty_dir=EmptyDirVolumeSource(medium="Memory"))):
        path = bench.set_up(volume)
        bench.host.create_file(f"{path}/work", 0o644)
        bench.set_up(volume)
        assert bench.host.look(f"{path}/work") is not None


def test_a_ready_mark_without_its_directory_means_starting_anew(bench: PluginBench) -> None:
    path = bench.set_up(DISK)
    bench.host.remove_tree(path)
    bench.set_up(DISK)
    assert bench.mode(path) == 0o777


def test_a_volume_on_disk_that_holds_data_is_not_covered_with_a_memory_file_system(bench: PluginBench) -> None:
    path = bench.set_up(DISK)
    bench.host.create_file(f"{path}/work", 0o644)
    in_memory = Volume(name=DISK.name, empty_dir=EmptyDirVolumeSource(medium="Memory"))
    with pytest.raises(Refused, match="holds data on disk"):
        bench.set_up(in_memory)
    assert bench.host.look(f"{path}/work") is not None
    assert bench.host.mount_at(path) is None


def test_a_memory_volume_after_a_reboot_is_mounted_again(bench: PluginBench) -> None:
    path = bench.set_up(MEMORY)
    bench.host.reboot()
    bench.set_up(MEMORY)
    assert bench.host.mount_at(path) is not None


def test_an_unknown_medium_is_refused_by_name(bench: PluginBench) -> None:
    with pytest.raises(Refused, match="unknown storage medium 'Disk'"):
        bench.set_up(Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Disk")))


@pytest.mark.parametrize(
    ("limits", "size_limit", "expected"),
    [
        (("10Gi",), "1Gi", 1 * GIBIBYTE),
        (("10Gi",), 0, 10 * GIBIBYTE),
        (("10Gi",), None, 10 * GIBIBYTE),
        (("4Gi", "2Gi"), None, 6 * GIBIBYTE),
        (("4Gi", None), None, 16 * GIBIBYTE),
        ((None,), None, 16 * GIBIBYTE),
        ((None,), "1Gi", 1 * GIBIBYTE),
        (("10Gi",), "12Gi", 10 * GIBIBYTE),
        (("64Gi",), None, 16 * GIBIBYTE),
    ],
)
def test_a_memory_volume_is_as_large_as_the_smallest_limit(
    bench: PluginBench, limits: tuple[str | None, ...], size_limit: str | int | None, expected: int
) -> None:
    containers = [
        Container(
            name=f"c{number}",
            resources=ResourceRequirements(limits={"memory": limit} if limit else {}, requests={"memory": "1Mi"}),
            volume_mounts=(VolumeMount(name="v", mount_path="/v"),),
        )
        for number, limit in enumerate(limits)
    ]
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit=size_limit))
    mount = bench.host.mount_at(bench.set_up(volume, pod=bench.pod(volume, *containers)))
    assert mount is not None
    assert f"size={expected // 1024}k" in mount.options


def test_a_group_that_a_user_namespace_does_not_map_is_said_to_be_missing_there() -> None:
    class NamespacedHost(MemoryHost):
        def set_ownership(self, path: str, ownership: Ownership) -> OwnershipReport:
            return OwnershipReport(visited=1, changed=0, failed=1, errors=(f"{path}: Invalid argument",))

    with pytest.raises(OSError, match="the group does not exist in this user namespace"):
        empty_dir.own(NamespacedHost(), "/v", empty_dir.read_write(7))


def test_an_entry_that_cannot_be_given_to_the_group_is_an_error_that_names_it() -> None:
    class StubbornHost(MemoryHost):
        def set_ownership(self, path: str, ownership: Ownership) -> OwnershipReport:
            return OwnershipReport(visited=2, changed=1, failed=1, errors=(f"{path}/x: Operation not permitted",))

    with pytest.raises(OSError, match="1 entries could not be given to group 7: /v/x: Operation not permitted"):
        empty_dir.own(StubbornHost(), "/v", empty_dir.read_write(7))


# -- resizing ------------------------------------------------------------------------------------------------------
def resizer(bench: PluginBench, volume: Volume) -> Resizer:
    found = bench.offer(volume).resizer
    assert found is not None
    return found


def resize(bench: PluginBench, volume: Volume, size: int) -> None:
    run_virtual(resizer(bench, volume).resize(PodUid("uid-1"), VolumeSpec(volume=volume), size))


def test_a_mounted_memory_volume_is_resized_in_place(bench: PluginBench) -> None:
    path = bench.set_up(MEMORY)
    calls: list[str] = []
    bench.host.before_call = lambda method, _: calls.append(method)
    resize(bench, MEMORY, 200 * 2**20)
    mount = bench.host.mount_at(path)
    assert mount is not None
    assert (calls, "size=204800k" in mount.options) == (["resize_tmpfs"], True)


def test_a_volume_on_disk_cannot_be_resized(bench: PluginBench) -> None:
    bench.set_up(DISK)
    with pytest.raises(Refused, match="only memory-backed"):
        resize(bench, DISK, GIBIBYTE)


def test_a_size_of_nothing_is_refused(bench: PluginBench) -> None:
    bench.set_up(MEMORY)
    with pytest.raises(Refused, match="size limit is not supported"):
        resize(bench, MEMORY, 0)


def test_resizing_before_the_mount_is_put_off(bench: PluginBench) -> None:
    with pytest.raises(NotYet, match="not yet mounted"):
        resize(bench, MEMORY, GIBIBYTE)


# -- hostPath ------------------------------------------------------------------------------------------------------
TYPES = ("Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice")
FITTING = {
    "directory": {"Directory", "DirectoryOrCreate"},
    "file": {"File", "FileOrCreate"},
    "socket": {"Socket"},
    "character device": {"CharDevice"},
    "block device": {"BlockDevice"},
    "fifo": set(),
    "nothing": {"DirectoryOrCreate", "FileOrCreate"},
}


def host_path(type_: str, path: str = "/srv/thing") -> Volume:
    return Volume(name="v", host_path=HostPathVolumeSource(path=path, type=type_))


def put_there(host: MemoryHost, kind: str, path: str) -> None:
    host.make_directories("/srv", 0o755)
    if kind == "directory":
        host.make_directory(path, 0o755)
    elif kind == "file":
        host.create_file(path, 0o644)
    elif kind != "nothing":
        host.make_special_file(path, FileKind(kind))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("kind", sorted(FITTING))
@pytest.mark.parametrize("path", ["/srv/thing", "/srv/link"])
def test_each_type_accepts_its_own_kind_and_no_other(bench: PluginBench, kind: str, type_: str, path: str) -> None:
    put_there(bench.host, kind, "/srv/thing")
    if kind != "nothing":
        bench.host.make_link("/srv/thing", "/srv/link")
    if type_ in FITTING[kind]:
        assert bench.set_up(host_path(type_, path)) == path
    else:
        with pytest.raises(Refused, match=f"hostPath type check failed: {path} is not a"):
            bench.set_up(host_path(type_, path))


def test_what_is_created_has_the_kubelets_modes(bench: PluginBench) -> None:
    bench.host.make_directories("/srv", 0o755)
    assert bench.mode(bench.set_up(host_path("DirectoryOrCreate", "/srv/a/b"))) == 0o755
    assert bench.mode(bench.set_up(host_path("FileOrCreate", "/srv/file"))) == 0o644


def test_a_file_is_not_created_in_a_directory_that_is_missing(bench: PluginBench) -> None:
    with pytest.raises(Refused, match="the directory it belongs into does not exist"):
        bench.set_up(host_path("FileOrCreate", "/missing/file"))
    assert bench.host.look("/missing") is None


@pytest.mark.parametrize("type_", ["DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_created_where_a_link_to_nothing_stands(bench: PluginBench, type_: str) -> None:
    bench.host.make_directories("/srv", 0o755)
    bench.host.make_link("nothing", "/srv/link")
    with pytest.raises(Refused, match="a link to nothing stands there"):
        bench.set_up(host_path(type_, "/srv/link"))
    assert bench.host.look("/srv/nothing") is None


def test_without_a_type_nothing_is_checked_or_made(bench: PluginBench) -> None:
    assert bench.set_up(host_path("", "/nowhere")) == "/nowhere"
    assert bench.host.look("/nowhere") is None


def test_backsteps_are_refused_whatever_the_type(bench: PluginBench) -> None:
    for type_ in ("", "Directory"):
        with pytest.raises(Refused, match=r"invalid HostPath `/no/backsteps/allowed/..`: must not contain '..'"):
            bench.set_up(host_path(type_, "/no/backsteps/allowed/.."))


def test_an_unknown_type_is_refused_with_the_known_ones(bench: PluginBench) -> None:
    with pytest.raises(Refused, match=r"Folder is an invalid volume type\. Known types are Directory,"):
        bench.set_up(host_path("Folder"))


def test_a_wrong_kind_is_named_with_what_is_there(bench: PluginBench) -> None:
    put_there(bench.host, "file", "/srv/thing")
    with pytest.raises(Refused, match=r"/srv/thing is not a directory \(it is a file\)"):
        bench.set_up(host_path("Directory"))


def test_tear_down_leaves_the_machine_alone(bench: PluginBench) -> None:
    put_there(bench.host, "directory", "/srv/thing")
    before = bench.host.snapshot()
    bench.set_up(host_path("Directory"))
    bench.tear_down(host_path("Directory"))
    assert bench.host.snapshot() == before


def test_looking_ahead_creates_nothing(bench: PluginBench) -> None:
    volume = host_path("DirectoryOrCreate")
    checker = bench.offer(volume).checker
    assert checker is not None
    checker.check(Setup(pod=bench.pod(volume), uid=PodUid("uid-1"), spec=VolumeSpec(volume=volume)))
    assert bench.host.look("/srv/thing") is None
