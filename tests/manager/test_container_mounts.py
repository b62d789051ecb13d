"""What each container should see, worked out from the pod alone (plugins.md 22.2, M1 to M3, B1)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from mooring.errors import Refused
from mooring.host.paths import Paths
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import (
    Container,
    EnvironmentFrom,
    EnvironmentSource,
    EnvironmentVariable,
    KeySelector,
    ObjectSelector,
    Pod,
    PodSpec,
    Secret,
    VolumeDevice,
    VolumeMount,
)
from mooring.kube.objects.volumes import ImageVolumeSource, ObjectFieldSelector, Volume
from mooring.manager.container_mounts import (
    ContainerMount,
    ContainerView,
    MountedVolume,
    Propagation,
    SubPath,
    work_out,
)
from mooring.manager.environment import EnvironmentSources
from mooring.plugins.interface import Attributes, NodeFacts, Setup
from mooring.sources.object_table import ObjectTable
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.spec import VolumeSpec

PATHS = Paths("/root")
UID = "uid-web"
OBJECTS = ObjectTable()
OBJECTS.put(Secret(metadata=ObjectMeta(name="s", namespace="shop"), data={"k": b"anna"}))
SOURCES = EnvironmentSources(objects=OBJECTS, node=NodeFacts(name="here", memory=1 << 30, cpu_milli=1000))


class _Mounter:
    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return f"/volumes/{spec.name}"

    async def set_up(self, request: Setup) -> None: ...

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None: ...


DATA = MountedVolume(
    name=VolumeName("test/data"),
    inner_name="pv-data",
    plugin=PluginName("test/disk"),
    path="/volumes/data",
    mounter=_Mounter(),
    attributes=Attributes(managed=True, relabel=True),
    read_only=False,
)
BLOCK = replace(DATA, is_block=True)


def pod_of(*containers: Container, init: tuple[Container, ...] = (), volumes: tuple[Volume, ...] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid=UID, labels={"app": "till"}),
        spec=PodSpec(containers=containers, init_containers=init, volumes=volumes, node_name="here"),
    )


def using(mount: VolumeMount, **env: str) -> Container:
    variables = tuple(EnvironmentVariable(name=name, value=value) for name, value in env.items())
    return Container(name="main", volume_mounts=(mount,), env=variables)


def views(pod: Pod, volume: MountedVolume = DATA, *, supported: bool = True) -> list[ContainerView]:
    return work_out(pod, {"data": volume}, PATHS, SOURCES, recursive_read_only=supported)


def seen(mount: VolumeMount, volume: MountedVolume = DATA, *, supported: bool = True, **env: str) -> ContainerMount:
    [view] = views(pod_of(using(mount, **env)), volume, supported=supported)
    return view.mounts[0]


def refusal(mount: VolumeMount, volume: MountedVolume = DATA, *, supported: bool = True, **env: str) -> str:
    with pytest.raises(Refused) as caught:
        seen(mount, volume, supported=supported, **env)
    assert caught.value.what == f"cannot show volume {mount.name!r} to container 'main'"
    return caught.value.why


def test_a_volume_is_seen_at_its_path() -> None:
    assert seen(VolumeMount(name="data", mount_path="/data")) == ContainerMount(
        container="main",
        name="data",
        host_path="/volumes/data",
        container_path="/data",
        read_only=False,
        recursive_read_only=False,
        propagation=Propagation.PRIVATE,
        selinux_relabel=True,
    )


def test_containers_come_in_the_order_they_start_and_mounts_as_declared() -> None:
    mounts = tuple(VolumeMount(name="data", mount_path=path) for path in ("/b", "/a"))
    pod = pod_of(Container(name="main", volume_mounts=mounts), init=(Container(name="first", volume_mounts=mounts),))
    found = [(view.container, [mount.container_path for mount in view.mounts]) for view in views(pod)]
    assert found == [("first", ["/b", "/a"]), ("main", ["/b", "/a"])]


@pytest.mark.parametrize("path", ["data", "/data/", "//data", "/x/../data", "./data"])
def test_the_path_in_the_container_is_absolute_and_clean(path: str) -> None:
    assert seen(VolumeMount(name="data", mount_path=path)).container_path == "/data"


def test_read_only_is_what_the_mount_or_the_volume_says() -> None:
    fixed = replace(DATA, attributes=Attributes(read_only=True))
    assert seen(VolumeMount(name="data", mount_path="/data", read_only=True)).read_only
    assert seen(VolumeMount(name="data", mount_path="/data"), fixed).read_only


@pytest.mark.parametrize(
    ("managed", "relabel", "wanted"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_only_managed_volumes_are_relabelled(managed: bool, relabel: bool, wanted: bool) -> None:
    volume = replace(DATA, attributes=Attributes(managed=managed, relabel=relabel))
    assert seen(VolumeMount(name="data", mount_path="/data"), volume).selinux_relabel is wanted


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (None, Propagation.PRIVATE),
        ("None", Propagation.PRIVATE),
        ("HostToContainer", Propagation.RSLAVE),
        ("Bidirectional", Propagation.RSHARED),
    ],
)
def test_propagation_has_its_kernel_name(written: str | None, wanted: Propagation) -> None:
    assert seen(VolumeMount(name="data", mount_path="/d", mount_propagation=written)).propagation is wanted


def test_an_unknown_propagation_is_refused() -> None:
    why = refusal(VolumeMount(name="data", mount_path="/d", mount_propagation="Sideways"))
    assert why == "invalid mountPropagation mode: 'Sideways'"


class TestWhatIsNotThere:
    """M1."""

    def test_a_volume_that_is_not_mounted_is_named_with_its_container(self) -> None:
        assert refusal(VolumeMount(name="other", mount_path="/other")) == "it is not mounted"

    def test_a_volume_without_a_path_is_refused(self) -> None:
        why = refusal(VolumeMount(name="data", mount_path="/data"), replace(DATA, path=""))
        assert why == "it has no path on this machine"

    def test_a_block_volume_is_no_directory(self) -> None:
        assert refusal(VolumeMount(name="data", mount_path="/data"), BLOCK) == "it is a block device"


class TestSubPaths:
    def test_a_sub_path_has_a_place_of_its_own_named_by_the_inner_volume(self) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path="a/b")
        first = VolumeMount(name="data", mount_path="/first")
        [view] = views(pod_of(Container(name="main", volume_mounts=(first, mount))))
        target = "/root/pods/uid-web/volume-subpaths/pv-data/main/1"
        assert view.mounts[1].host_path == target
        assert view.mounts[1].sub_path == SubPath(root="/volumes/data", relative="a/b", target=target)

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("/etc", "sub-path '/etc' must not be an absolute path"),
            ("..", "sub-path '..' must not contain '..'"),
            ("a/../../b", "sub-path 'a/../../b' must not contain '..'"),
        ],
    )
    def test_what_leads_out_is_refused_as_it_is_written(self, path: str, why: str) -> None:
        assert refusal(VolumeMount(name="data", mount_path="/data", sub_path=path)) == why
        assert refusal(VolumeMount(name="data", mount_path="/data", sub_path_expr="$(P)"), P=path) == why

    def test_names_that_begin_with_dots_are_fine(self) -> None:
        found = seen(VolumeMount(name="data", mount_path="/data", sub_path="..data/...")).sub_path
        assert found is not None
        assert found.relative == "..data/..."

    @pytest.mark.parametrize(
        ("expression", "relative"),
        [
            ("$(A)/$(B)", "one/two-one"),
            ("plain", "plain"),
            ("$$(A)", "$(A)"),
            ("$A/$(", "$A/$("),
            ("x$(A)y", "xoney"),
        ],
    )
    def test_variables_are_expanded(self, expression: str, relative: str) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path_expr=expression)
        found = seen(mount, A="one", B="two-$(A)").sub_path
        assert found is not None
        assert found.relative == relative

    def test_missing_and_empty_variables_are_all_named(self) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path_expr="$(C)/$(A)/$(B)/$(D)")
        assert refusal(mount, A="", D="there") == "missing value for A, B, C"

    def test_a_value_that_refers_to_nothing_stays_as_it_is_written(self) -> None:
        found = seen(VolumeMount(name="data", mount_path="/d", sub_path_expr="$(A)"), A="$(LATER)", LATER="x").sub_path
        assert found is not None
        assert found.relative == "$(LATER)"

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", UID),
            ("metadata.labels['app']", "till"),
            ("spec.nodeName", "here"),
        ],
    )
    def test_fields_of_the_pod_are_values(self, path: str, value: str) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path_expr="$(F)")
        variable = EnvironmentVariable(
            name="F", value_from=EnvironmentSource(field_ref=ObjectFieldSelector(field_path=path))
        )
        [view] = views(pod_of(Container(name="main", volume_mounts=(mount,), env=(variable,))))
        found = view.mounts[0].sub_path
        assert found is not None
        assert found.relative == value

    @pytest.mark.parametrize(
        "source",
        [
            EnvironmentSource(field_ref=ObjectFieldSelector(field_path="metadata.labels['none']")),
            EnvironmentSource(field_ref=ObjectFieldSelector(field_path="status.phase")),
            EnvironmentSource(field_ref=ObjectFieldSelector(field_path="status.podIP")),
            EnvironmentSource(),
            EnvironmentSource(secret_key_ref=KeySelector(name="s", key="none")),
            EnvironmentSource(secret_key_ref=KeySelector(name="none", key="k")),
        ],
    )
    def test_a_value_that_nobody_tells_is_missing(self, source: EnvironmentSource) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path_expr="$(F)")
        env = (EnvironmentVariable(name="F", value="hidden"), EnvironmentVariable(name="F", value_from=source))
        with pytest.raises(Refused, match="missing value for F"):
            views(pod_of(Container(name="main", volume_mounts=(mount,), env=env)))

    def test_keys_of_objects_are_values(self) -> None:
        mount = VolumeMount(name="data", mount_path="/data", sub_path_expr="$(USER)/$(ALL_k)")
        variable = EnvironmentVariable(
            name="USER", value_from=EnvironmentSource(secret_key_ref=KeySelector(name="s", key="k"))
        )
        every = EnvironmentFrom(prefix="ALL_", secret_ref=ObjectSelector(name="s"))
        [view] = views(pod_of(Container(name="main", volume_mounts=(mount,), env=(variable,), env_from=(every,))))
        found = view.mounts[0].sub_path
        assert found is not None
        assert found.relative == "anna/anna"


class TestRecursiveReadOnly:
    """M2: mode, the mount's own readOnly, and what the runtime can do."""

    @pytest.mark.parametrize("supported", [True, False])
    @pytest.mark.parametrize("read_only", [True, False])
    @pytest.mark.parametrize("mode", [None, "Disabled", "IfPossible", "Enabled"])
    def test_each_combination_is_decided(self, mode: str | None, read_only: bool, supported: bool) -> None:
        mount = VolumeMount(name="data", mount_path="/d", read_only=read_only, recursive_read_only=mode)
        match mode, read_only, supported:
            case ((None | "Disabled"), _, _):
                assert seen(mount, supported=supported).recursive_read_only is False
            case _, False, _:
                assert refusal(mount, supported=supported) == "recursiveReadOnly needs readOnly"
            case "Enabled", _, False:
                why = "the container runtime cannot make mounts recursively read-only"
                assert refusal(mount, supported=supported) == why
            case _:
                assert seen(mount, supported=supported).recursive_read_only is supported

    @pytest.mark.parametrize("mode", ["IfPossible", "Enabled"])
    @pytest.mark.parametrize("propagation", ["HostToContainer", "Bidirectional"])
    def test_it_excludes_propagation(self, mode: str, propagation: str) -> None:
        mount = VolumeMount(
            name="data", mount_path="/d", read_only=True, recursive_read_only=mode, mount_propagation=propagation
        )
        assert refusal(mount) == f"recursiveReadOnly excludes mountPropagation {propagation!r}"

    def test_an_unknown_mode_is_refused(self) -> None:
        mount = VolumeMount(name="data", mount_path="/d", read_only=True, recursive_read_only="Maybe")
        assert refusal(mount) == "unknown recursiveReadOnly mode 'Maybe'"


def test_an_image_is_left_to_the_runtime() -> None:
    """M3."""
    volume = Volume(name="data", image=ImageVolumeSource(reference="registry/model:1"))
    mount = VolumeMount(name="data", mount_path="/model", sub_path="weights")
    [view] = views(pod_of(using(mount), volumes=(volume,)), replace(DATA, path=""))
    found = view.mounts[0]
    assert (found.host_path, found.sub_path, found.read_only) == (None, None, True)
    assert (found.image, found.image_sub_path) == ("registry/model:1", "weights")


class TestDevices:
    """B1."""

    def of(self, device_path: str, volume: MountedVolume, name: str = "data") -> ContainerView:
        device = VolumeDevice(name=name, device_path=device_path)
        [view] = views(pod_of(Container(name="main", volume_devices=(device,))), volume)
        return view

    def test_a_block_volume_is_a_device_behind_the_pods_link(self) -> None:
        [device] = self.of("/dev/xvda", BLOCK).devices
        assert device.host_path == "/root/pods/uid-web/volumeDevices/test~disk/pv-data"
        assert (device.container_path, device.permissions) == ("/dev/xvda", "mrw")

    def test_a_read_only_claim_may_only_be_read(self) -> None:
        assert self.of("/dev/xvda", replace(BLOCK, read_only=True)).devices[0].permissions == "r"

    def test_a_relative_path_an_unknown_volume_and_a_directory_are_refused(self) -> None:
        for path, volume, name, why in (
            ("dev/xvda", BLOCK, "data", "device path 'dev/xvda' must be an absolute path"),
            ("/dev/xvda", BLOCK, "other", "it is not mounted"),
            ("/dev/xvda", DATA, "data", "it is not a block device"),
        ):
            with pytest.raises(Refused) as caught:
                self.of(path, volume, name)
            assert caught.value.what == f"cannot show volume {name!r} to container 'main'"
            assert caught.value.why == why


def test_ephemeral_containers_come_last() -> None:
    mount = VolumeMount(name="data", mount_path="/data")
    pod = pod_of(using(mount))
    spec = msgspec.structs.replace(pod.spec, ephemeral_containers=(Container(name="debug", volume_mounts=(mount,)),))
    assert [view.container for view in views(msgspec.structs.replace(pod, spec=spec))] == ["main", "debug"]
