"""Mount points that a read-only volume must bring along."""

from __future__ import annotations

import pytest
from tests.plugins.conftest import PluginBench

from mooring.errors import Refused
from mooring.kube.objects.pod import Container, Pod, PodSpec, VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, Volume
from mooring.plugins.nested_mounts import nested_directories


def container(name: str, own: tuple[str, ...], others: tuple[str, ...]) -> Container:
    mounts = [VolumeMount(name="v", mount_path=path) for path in own]
    mounts += [VolumeMount(name="other", mount_path=path) for path in others]
    return Container(name=name, volume_mounts=tuple(mounts))


def nested(*containers: Container) -> list[str]:
    return nested_directories(Pod(spec=PodSpec(containers=containers)), "v")


def test_only_the_outermost_mount_points_are_made() -> None:
    others = ("/dir/nested/double", "/dir/nested", "/dir/nested-vol", "/dir/nested.vol", "/dir/nested2")
    found = nested(container("main", ("/dir",), (*others, "/dir/nested2/double")))
    assert found == ["nested", "nested-vol", "nested.vol", "nested2"]


def test_mount_points_below_every_place_of_the_volume_are_made() -> None:
    assert nested(container("main", ("/dir", "/other"), ("/dir/one", "/other/two"))) == ["one", "two"]


def test_all_containers_count_whatever_their_kind() -> None:
    pod = Pod(
        spec=PodSpec(
            init_containers=(container("first", ("/a",), ("/a/init",)),),
            containers=(container("main", ("/a",), ("/a/main",)),),
            ephemeral_containers=(container("debug", ("/a",), ("/a/debug",)),),
        )
    )
    assert nested_directories(pod, "v") == ["debug", "init", "main"]


def test_a_mount_in_another_container_is_not_nested() -> None:
    assert nested(container("one", ("/dir",), ()), container("two", (), ("/dir/nested",))) == []


def test_a_deep_mount_point_is_made_with_its_parents() -> None:
    assert nested(container("main", ("/",), ("/a/b/c",))) == ["a/b/c"]


def test_neighbours_and_the_volume_itself_are_not_below_it() -> None:
    assert nested(container("main", ("/dir",), ("/directory", "/dir/", "/"))) == []


def test_a_mount_path_that_leads_out_of_the_container_is_refused_before_anything_is_made(bench: PluginBench) -> None:
    bench.config_map("c", a="1")
    volume = Volume(name="v", config_map=ConfigMapVolumeSource(name="c"))
    pod = bench.pod(volume, container("main", ("/dir",), ("foo/../../dir",)))
    with pytest.raises(Refused, match=r"invalid container mount point foo/\.\./\.\./dir"):
        bench.set_up(volume, pod=pod)
    assert bench.host.look(bench.path(volume)) is None


def test_what_is_mounted_over_a_file_hides_it(bench: PluginBench) -> None:
    bench.config_map("c", a="1", b="2")
    volume = Volume(name="v", config_map=ConfigMapVolumeSource(name="c"))
    path = bench.set_up(volume, pod=bench.pod(volume, container("main", ("/dir",), ("/dir/a",))))
    assert bench.mode(f"{path}/a") == 0o755
    assert bench.host.read_file(f"{path}/b") == b"2"
