"""Finding the plugin of a volume, and names that identify volumes."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import PluginBench

from mooring.errors import Refused
from mooring.host.paths import Paths
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    FCVolumeSource,
    GitRepoVolumeSource,
    HostPathVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
)
from mooring.plugins import builtin
from mooring.plugins.interface import Offer, PluginContext, VolumePlugin
from mooring.plugins.manager import VolumePluginManager
from mooring.world.names import PluginName
from mooring.world.spec import VolumeSpec

SOURCES = {
    "kubernetes.io/empty-dir": (Volume(name="v", empty_dir=EmptyDirVolumeSource()), "v"),
    "kubernetes.io/host-path": (Volume(name="v", host_path=HostPathVolumeSource(path="/srv")), "/srv"),
    "kubernetes.io/configmap": (Volume(name="v", config_map=ConfigMapVolumeSource(name="c")), "v/c"),
    "kubernetes.io/secret": (Volume(name="v", secret=SecretVolumeSource(secret_name="s")), "s"),
    "kubernetes.io/downward-api": (Volume(name="v", downward_api=DownwardAPIVolumeSource()), "v"),
    "kubernetes.io/projected": (Volume(name="v", projected=ProjectedVolumeSource()), "v"),
    "kubernetes.io/nfs": (Volume(name="v", nfs=NFSVolumeSource(server="s", path="/p")), "s//p"),
    "kubernetes.io/git-repo": (
        Volume(name="v", git_repo=GitRepoVolumeSource(repository="r", revision="1", directory="d")),
        "r:1:d",
    ),
}
DISKS = {
    "kubernetes.io/iscsi": (
        Volume(name="v", iscsi=ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn.2026.x:y", lun=3)),
        "10.0.0.1:iqn.2026.x:y:3",
    ),
    "kubernetes.io/fc": (Volume(name="v", fc=FCVolumeSource(target_wwns=("a1", "b2"), lun=2)), "[a1 b2]:2"),
}
BUILTIN = {*SOURCES, *DISKS, "kubernetes.io/local-volume", "kubernetes.io/image"}


class Named:
    """A plugin of any name, which supports what a given test says."""

    def __init__(self, name: str, *, supports: bool = True) -> None:
        self.name = PluginName(name)
        self._supports = supports

    def supports(self, spec: VolumeSpec) -> bool:
        return self._supports

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        raise NotImplementedError

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[()]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        raise NotImplementedError


@pytest.mark.parametrize("name", sorted({**SOURCES, **DISKS}))
def test_each_volume_type_has_its_plugin_and_volume_name(bench: PluginBench, name: str) -> None:
    volume, volume_name = {**SOURCES, **DISKS}[name]
    spec = VolumeSpec(volume=volume)
    plugin = bench.plugins.find_by_spec(spec)
    assert (plugin.name, plugin.volume_name(spec)) == (name, volume_name)
    assert bench.plugins.find_by_name(PluginName(name)) is plugin


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_volume_can_be_torn_down_from_its_name_alone(bench: PluginBench, name: str) -> None:
    plugin = bench.plugins.find_by_name(PluginName(name))
    spec = plugin.reconstruct("v")
    assert (plugin.supports(spec), spec.name) == (True, "v")


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_type_without_raw_devices_makes_no_sense_of_one(bench: PluginBench, name: str) -> None:
    with pytest.raises(Refused, match="no raw block volumes"):
        bench.plugins.find_by_name(PluginName(name)).reconstruct("v", block=True)


def test_a_host_path_in_a_persistent_volume_is_served_too(bench: PluginBench) -> None:
    source = HostPathVolumeSource(path="/srv")
    volume = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(host_path=source))
    plugin = bench.plugins.find_by_spec(VolumeSpec(persistent_volume=volume))
    assert plugin.name == "kubernetes.io/host-path"


@pytest.mark.parametrize(
    ("volume", "source"),
    [
        (Volume(name="v", ephemeral=EphemeralVolumeSource()), "the source ephemeral"),
        (Volume(name="v", csi=CSIVolumeSource(driver="d")), "the source csi"),
    ],
    ids=["ephemeral", "csi"],
)
def test_a_source_that_nobody_serves_is_named_with_those_that_are(
    bench: PluginBench, volume: Volume, source: str
) -> None:
    with pytest.raises(Refused, match=f"no volume plugin matched: mooring has none for {source}") as caught:
        bench.plugins.find_by_spec(VolumeSpec(volume=volume))
    assert "kubernetes.io/configmap, kubernetes.io/downward-api" in caught.value.next_step


def test_two_plugins_for_one_volume_are_an_error_that_names_both() -> None:
    manager = VolumePluginManager([Named("example.com/a"), Named("example.com/b")])
    with pytest.raises(Refused, match=r"multiple volume plugins matched: example\.com/a,example\.com/b"):
        manager.find_by_spec(VolumeSpec(volume=Volume(name="v")))


def test_an_unknown_name_is_an_error(bench: PluginBench) -> None:
    with pytest.raises(Refused, match=r"no volume plugin matched name: example\.com/none"):
        bench.plugins.find_by_name(PluginName("example.com/none"))


@pytest.mark.parametrize("name", ["", "/x", "a/", "a/b/c", "Upper.Case/x", "a/-x", "a/" + "x" * 64])
def test_a_plugin_with_a_bad_name_is_left_out_and_remembered(name: str) -> None:
    manager = VolumePluginManager([Named(name), Named("example.com/good")])
    assert set(manager.plugins) == {"example.com/good"}
    assert [problem.what for problem in manager.problems] == [f"volume plugin has invalid name: {name!r}"]


def test_of_two_plugins_with_one_name_the_first_stays() -> None:
    first = Named("example.com/x")
    manager = VolumePluginManager([first, Named("example.com/x", supports=False)])
    assert manager.find_by_name(PluginName("example.com/x")) is first
    assert "registered more than once" in manager.problems[0].what


def offer_entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Let this installation have one added plugin."""

    def points(*, group: str) -> list[EntryPoint]:
        assert group == "mooring.volume_plugins"
        return [EntryPoint(name="added", value=value, group=group)]

    monkeypatch.setattr(builtin, "entry_points", points)


def test_other_packages_add_plugins_by_an_entry_point(bench: PluginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    offer_entry_point(monkeypatch, f"{__name__}:make_added_plugin")
    made = builtin.make_plugins(context_of(bench))
    assert set(made.plugins) == {*BUILTIN, "example.com/added"}
    assert made.problems == []


@pytest.mark.parametrize("value", ["no_such_package:make", f"{__name__}:no_such_name", f"{__name__}:make_nothing"])
def test_an_added_plugin_that_cannot_be_loaded_costs_the_others_nothing(
    bench: PluginBench, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    offer_entry_point(monkeypatch, value)
    made = builtin.make_plugins(context_of(bench))
    assert set(made.plugins) == BUILTIN
    assert [problem.what for problem in made.problems] == ["cannot load volume plugin 'added'"]


def make_nothing(context: PluginContext) -> VolumePlugin:
    raise RuntimeError("it does not work")


def context_of(bench: PluginBench) -> PluginContext:
    return PluginContext(
        host=bench.host,
        paths=Paths("/var/lib/mooring"),
        objects=bench.objects,
        node=lambda: bench.facts,
        data_directory=lambda: "..x",
        tell=bench.notices.append,
    )


def make_added_plugin(context: PluginContext) -> VolumePlugin:
    return Named("example.com/added", supports=False)


def test_only_content_volumes_are_refreshed_and_read_only(bench: PluginBench) -> None:
    for name, (volume, _) in SOURCES.items():
        offer = bench.offer(volume)
        is_content = name.rpartition("/")[2] not in ("empty-dir", "host-path", "nfs", "git-repo")
        assert (offer.refreshes, offer.attributes.read_only) == (is_content, is_content), name


def test_a_volume_name_of_a_config_map_tells_apart_the_map_it_comes_from(bench: PluginBench) -> None:
    volume, _ = SOURCES["kubernetes.io/configmap"]
    other = replace(volume, config_map=ConfigMapVolumeSource(name="d"))
    plugin = bench.plugins.find_by_spec(VolumeSpec(volume=volume))
    assert plugin.volume_name(VolumeSpec(volume=volume)) != plugin.volume_name(VolumeSpec(volume=other))
