"""The table of modes and owners that containers rely on, with and without a group for the pod."""

from __future__ import annotations

import pytest
from tests.plugins.conftest import PluginBench

from mooring.kube.objects.pod import Container, Pod, VolumeMount
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    KeyToPath,
    ObjectFieldSelector,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)

ITEMS = (
    KeyToPath(key="a", path="sub/default"),
    KeyToPath(key="a", path="private", mode=0o400),
    KeyToPath(key="a", path="writable", mode=0o600),
)
FIELDS = tuple(
    DownwardAPIVolumeFile(path=item.path, mode=item.mode, field_ref=ObjectFieldSelector(field_path="metadata.name"))
    for item in ITEMS
)
CONTENT = {
    "configMap": Volume(name="v", config_map=ConfigMapVolumeSource(name="c", items=ITEMS)),
    "secret": Volume(name="v", secret=SecretVolumeSource(secret_name="s", items=ITEMS)),
    "downwardAPI": Volume(name="v", downward_api=DownwardAPIVolumeSource(items=FIELDS)),
    "projected": Volume(
        name="v",
        projected=ProjectedVolumeSource(
            sources=(VolumeProjection(config_map=ConfigMapProjection(name="c", items=ITEMS)),)
        ),
    ),
}
GROUP = 2000


@pytest.fixture(params=sorted(CONTENT))
def content(request: pytest.FixtureRequest, bench: PluginBench) -> Volume:
    bench.config_map("c", a="1")
    bench.secret("s", a="1")
    return CONTENT[request.param]


def nesting(bench: PluginBench, volume: Volume) -> Pod:
    """A pod that mounts another volume inside this one."""
    mounts = (VolumeMount(name="v", mount_path="/v"), VolumeMount(name="w", mount_path="/v/inner"))
    return bench.pod(volume, Container(name="main", volume_mounts=mounts))


def modes(bench: PluginBench, path: str) -> dict[str, int]:
    data = f"{path}/{bench.data_directory(path)}"
    places = {
        "data directory": data,
        "sub-directory": f"{data}/sub",
        "nested mount point": f"{path}/inner",
        "file": f"{data}/sub/default",
        "file 0400": f"{data}/private",
        "file 0600": f"{data}/writable",
    }
    return {name: bench.mode(place) for name, place in places.items()}


def test_without_a_group_modes_are_as_written_and_root_owns_everything(bench: PluginBench, content: Volume) -> None:
    path = bench.set_up(content, pod=nesting(bench, content))
    assert modes(bench, path) == {
        "data directory": 0o755,
        "sub-directory": 0o755,
        "nested mount point": 0o755,
        "file": 0o644,
        "file 0400": 0o400,
        "file 0600": 0o600,
    }
    assert bench.mode(path) == (0o777 if content.config_map else 0o1777)
    assert {bench.owner(place) for place in everything(bench, path)} == {(0, 0)}


def test_with_a_group_it_may_read_everything_and_new_entries_inherit_it(bench: PluginBench, content: Volume) -> None:
    path = bench.set_up(content, pod=nesting(bench, content), fs_group=GROUP)
    assert modes(bench, path) == {
        "data directory": 0o2755,
        "sub-directory": 0o2755,
        "nested mount point": 0o2755,
        "file": 0o644,
        "file 0400": 0o440,
        "file 0600": 0o640,
    }
    assert bench.mode(path) == (0o2777 if content.config_map else 0o3777)
    assert {bench.owner(place) for place in everything(bench, path)} == {(0, GROUP)}


def everything(bench: PluginBench, path: str) -> list[str]:
    """Every entry of a volume, links included."""
    return list(bench.host.snapshot(path).entries)


@pytest.mark.parametrize(("medium", "plain"), [("", 0o777), ("Memory", 0o1777)], ids=["disk", "memory"])
def test_an_empty_dir_is_open_to_all_and_with_a_group_inherits_it(bench: PluginBench, medium: str, plain: int) -> None:
    for name, group in (("a", None), ("b", GROUP)):
        volume = Volume(name=name, empty_dir=EmptyDirVolumeSource(medium=medium))
        path = bench.set_up(volume, fs_group=group)
        assert bench.mode(path) == (plain if group is None else plain | 0o2000)
        assert bench.owner(path) == (0, group or 0)


@pytest.mark.parametrize("medium", ["", "Memory"], ids=["disk", "memory"])
@pytest.mark.parametrize("mode", [0o750, 0o1777, 0o700])
def test_an_empty_dir_has_exactly_the_mode_asked_for(bench: PluginBench, medium: str, mode: int) -> None:
    path = bench.set_up(Volume(name="v", empty_dir=EmptyDirVolumeSource(medium=medium, mode=mode)))
    assert bench.mode(path) == mode


def test_what_containers_wrote_into_an_empty_dir_is_given_to_the_group_at_set_up(bench: PluginBench) -> None:
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource())
    path = bench.path(volume)
    bench.host.make_directories(f"{path}/sub", 0o700)
    bench.host.create_file(f"{path}/sub/file", 0o600)
    bench.set_up(volume, fs_group=GROUP)
    assert (bench.mode(f"{path}/sub"), bench.owner(f"{path}/sub")) == (0o2770, (0, GROUP))
    assert (bench.mode(f"{path}/sub/file"), bench.owner(f"{path}/sub/file")) == (0o660, (0, GROUP))
