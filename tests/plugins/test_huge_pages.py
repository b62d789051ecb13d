"""emptyDir of huge pages: which pages it gets, and what is said when there are none."""

from __future__ import annotations

import pytest
from tests.plugins.conftest import UID, PluginBench

from mooring.errors import Doubtful, Refused
from mooring.host.interface import MountFacts
from mooring.kube.objects.pod import Container, ResourceRequirements
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.plugins import huge_pages

PATH = f"/var/lib/mooring/pods/{UID}/volumes/kubernetes.io~empty-dir/v"
TWO, GIGA = 2 * 2**20, 2**30


def volume(medium: str, *, mode: int | None = None) -> Volume:
    return Volume(name="v", empty_dir=EmptyDirVolumeSource(medium=medium, mode=mode))


def container(name: str, *sizes: str) -> Container:
    requests = {f"hugepages-{size}": "64Mi" for size in sizes}
    return Container(name=name, resources=ResourceRequirements(requests=requests))


def give_pages(bench: PluginBench, *, pages: int = 8) -> None:
    for size in (2048, 1048576):
        pool = f"/sys/kernel/mm/hugepages/hugepages-{size}kB"
        bench.host.put_file(f"{pool}/nr_hugepages", f"{pages}\n")
        bench.host.put_file(f"{pool}/nr_overcommit_hugepages", "0\n")


def set_up(bench: PluginBench, wanted: Volume, *containers: Container) -> MountFacts:
    path = bench.set_up(wanted, pod=bench.pod(wanted, *containers))
    mounted = bench.host.mount_at(path)
    assert mounted is not None
    return mounted


@pytest.mark.parametrize("medium", ["HugePages", "HugePages-2Mi"])
def test_requested_pages_are_mounted_once(bench: PluginBench, medium: str) -> None:
    give_pages(bench)
    set_up(bench, volume(medium), container("a", "2Mi"))
    mounted = set_up(bench, volume(medium), container("a", "2Mi"))
    assert (mounted.fs_type, mounted.source) == ("hugetlbfs", "nodev")
    assert "pagesize=2M" in mounted.options
    assert [mount.path for mount in bench.host.mounts()] == ["/", PATH]
    assert bench.mode(PATH) == 0o1777


def test_the_mode_of_the_volume_is_that_of_its_pages(bench: PluginBench) -> None:
    give_pages(bench)
    set_up(bench, volume("HugePages", mode=0o750), container("a", "2Mi"))
    assert bench.mode(PATH) == 0o750


def test_two_containers_may_request_the_same_size(bench: PluginBench) -> None:
    give_pages(bench)
    assert "pagesize=1024M" in set_up(bench, volume("HugePages"), container("a", "1Gi"), container("b", "1Gi")).options


def test_several_sizes_need_one_in_the_medium(bench: PluginBench) -> None:
    give_pages(bench)
    containers = container("a", "2Mi"), container("b", "1Gi")
    with pytest.raises(Refused, match=r"huge pages of several sizes: 2Mi, 1Gi\. Write the size in the medium"):
        set_up(bench, volume("HugePages"), *containers)
    assert "pagesize=2M" in set_up(bench, volume("HugePages-2Mi"), *containers).options


@pytest.mark.parametrize(
    ("medium", "sizes", "why"),
    [
        ("HugePages", (), "no container requests huge pages"),
        ("HugePages-2Mi", (), "no container requests huge pages"),
        ("HugePages-2Mi", ("1Gi",), "no container requests huge pages of that size"),
        ("HugePages-much", ("2Mi",), "unknown storage medium 'HugePages-much'"),
        ("HugePages-0", ("2Mi",), "unknown storage medium 'HugePages-0'"),
    ],
)
def test_a_medium_that_no_request_fits_is_refused(
    bench: PluginBench, medium: str, sizes: tuple[str, ...], why: str
) -> None:
    give_pages(bench)
    with pytest.raises(Refused, match=why):
        set_up(bench, volume(medium), container("a", *sizes))
    assert bench.host.look(PATH) is None


def test_pages_that_are_not_set_aside_are_refused_with_the_file_to_write(bench: PluginBench) -> None:
    give_pages(bench, pages=0)
    with pytest.raises(Refused, match="nr_hugepages is 0") as caught:
        set_up(bench, volume("HugePages"), container("a", "2Mi"))
    assert "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages" in caught.value.next_step


def test_pages_of_a_size_that_the_machine_does_not_have_are_refused(bench: PluginBench) -> None:
    with pytest.raises(Refused, match="this machine has no huge pages of 2Mi"):
        set_up(bench, volume("HugePages"), container("a", "2Mi"))


def mounted_with(bench: PluginBench, page_size: int) -> None:
    give_pages(bench)
    bench.host.make_directories(PATH, 0o777)
    bench.host.mount_huge_pages(PATH, page_size=page_size)


@pytest.mark.parametrize("medium", ["HugePages-2Mi", "HugePages"])
def test_pages_that_are_mounted_already_stay(bench: PluginBench, medium: str) -> None:
    mounted_with(bench, TWO)
    set_up(bench, volume(medium), container("a", "2Mi"))
    assert [mount.path for mount in bench.host.mounts()] == ["/", PATH]


def test_without_a_stated_size_any_mounted_pages_will_do(bench: PluginBench) -> None:
    mounted_with(bench, GIGA)
    assert "pagesize=1024M" in set_up(bench, volume("HugePages"), container("a", "2Mi")).options


def test_mounted_pages_of_another_size_than_stated_leave_doubt(bench: PluginBench) -> None:
    mounted_with(bench, TWO)
    with pytest.raises(Doubtful, match="other pages than those of 1Gi"):
        set_up(bench, volume("HugePages-1Gi"), container("a", "1Gi"))


def test_tear_down_does_not_need_to_know_the_page_size(bench: PluginBench) -> None:
    mounted_with(bench, TWO)
    bench.tear_down(volume(""))
    assert bench.host.look(PATH) is None


@pytest.mark.parametrize(
    ("options", "size"), [(("rw", "pagesize=2M"), TWO), (("pagesize=1024M",), GIGA), (("pagesize=2Mi",), TWO)]
)
def test_the_page_size_of_a_mount_is_read_from_its_options(options: tuple[str, ...], size: int) -> None:
    assert huge_pages.mounted_page_size(facts(options)) == size


@pytest.mark.parametrize("options", [(), ("rw",), ("pagesize=NN",)])
def test_a_mount_that_does_not_tell_its_page_size_is_an_error(options: tuple[str, ...]) -> None:
    with pytest.raises(Refused, match="do not name one"):
        huge_pages.mounted_page_size(facts(options))


def facts(options: tuple[str, ...]) -> MountFacts:
    return MountFacts(
        id=1, parent_id=0, path="/m", root="/", device=1, fs_type="hugetlbfs", source="nodev", options=options
    )
