"""downwardAPI: the values of files, down to the last escape."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import PluginBench

from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Container, Pod, PodSpec, ResourceRequirements, VolumeMount
from mooring.kube.objects.volumes import (
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    ObjectFieldSelector,
    ResourceFieldSelector,
    Volume,
)
from mooring.plugins.field_values import field_value, quote, resource_value
from mooring.plugins.interface import NodeFacts

META = ObjectMeta(
    name="web",
    namespace="shop",
    uid="uid-1",
    labels={"tier": "front", "app": "web", "App": "upper"},
    annotations={"note": "two\nlines", "Build.Example/Id": "7"},
)
POD = Pod(metadata=META)
NODE = NodeFacts(name="n", memory=16 * 2**30, cpu_milli=4000, ephemeral_storage=100 * 2**30)


def volume(*files: DownwardAPIVolumeFile) -> Volume:
    return Volume(name="v", downward_api=DownwardAPIVolumeSource(items=files))


def field_file(path: str, field: str) -> DownwardAPIVolumeFile:
    return DownwardAPIVolumeFile(path=path, field_ref=ObjectFieldSelector(field_path=field))


def pod_of(bench: PluginBench, chosen: Volume, metadata: ObjectMeta = META) -> Pod:
    return bench.pod(chosen, metadata=metadata)


# -- fields --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels", 'App="upper"\napp="web"\ntier="front"'),
        ("metadata.annotations", 'Build.Example/Id="7"\nnote="two\\nlines"'),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['something']", ""),
        ("metadata.annotations['note']", "two\nlines"),
        ("metadata.annotations['Build.Example/Id']", "7"),
    ],
)
def test_a_field_has_its_value(path: str, value: str) -> None:
    assert field_value(POD, path) == value


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("metadata.annotations['invalid~key']", "invalid key subscript"),
        ("metadata.labels['Www.k8s.io/test']", "invalid key subscript"),
        ("metadata.notexisting['x']", "fieldPath \"metadata.notexisting['x']\" does not support subscript"),
        ("metadata.whoops", "unsupported fieldPath: metadata.whoops"),
        ("spec.nodeName", "unsupported fieldPath: spec.nodeName"),
        ("status.podIP", "unsupported fieldPath: status.podIP"),
        ("metadata.labels['']", "invalid key subscript"),
    ],
)
def test_a_field_that_volumes_cannot_show_says_why(path: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        field_value(POD, path)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('a "word"', r'"a \"word\""'),
        ("back\\slash", r'"back\\slash"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("\x80\xa0", r'"\u0080\u00a0"'),
        ("größe 日本 ☸", '"größe 日本 ☸"'),
        ("\u200b\ufeff\u2028", r'"\u200b\ufeff\u2028"'),
        ("\U0001f680 \U000e0001", '"\U0001f680 \\U000e0001"'),
        ("it's", '"it\'s"'),
    ],
)
def test_values_are_quoted_as_go_quotes(text: str, quoted: str) -> None:
    assert quote(text) == quoted


# -- resources -----------------------------------------------------------------------------------------------------
def with_resources(*, limits: dict[str, str] | None = None, requests: dict[str, str] | None = None) -> Pod:
    resources = ResourceRequirements(limits=limits or {}, requests=requests or {})
    return Pod(
        spec=PodSpec(
            containers=(Container(name="main", resources=resources),),
            init_containers=(Container(name="first", resources=ResourceRequirements(limits={"cpu": "250m"})),),
        )
    )


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "4"),
        ("limits.cpu", "1m", "4000"),
        ("limits.memory", None, str(16 * 2**30)),
        ("limits.memory", "1Gi", "16"),
        ("limits.ephemeral-storage", "1Gi", "100"),
        ("limits.hugepages-2Mi", None, "0"),
        ("requests.cpu", None, "0"),
        ("requests.memory", "1Mi", "0"),
    ],
)
def test_an_unset_limit_is_all_the_node_has_and_an_unset_request_nothing(
    resource: str, divisor: str | None, value: str
) -> None:
    selector = ResourceFieldSelector(container_name="main", resource=resource, divisor=divisor)
    assert resource_value(with_resources(), selector, NODE) == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.memory", "1Mi", "65"),
        ("limits.memory", "1", str(64 * 2**20 + 1)),
        ("limits.memory", "1k", "67109"),
        ("limits.hugepages-2Mi", "2Mi", "3"),
        ("requests.cpu", "1m", "100"),
        ("requests.ephemeral-storage", "1Gi", "2"),
    ],
)
def test_an_amount_is_divided_and_rounded_up(resource: str, divisor: str, value: str) -> None:
    pod = with_resources(
        limits={"cpu": "1500m", "memory": str(64 * 2**20 + 1), "hugepages-2Mi": "6Mi"},
        requests={"cpu": "100m", "ephemeral-storage": "1100Mi"},
    )
    selector = ResourceFieldSelector(container_name="main", resource=resource, divisor=divisor)
    assert resource_value(pod, selector, NODE) == value


def test_a_limit_of_zero_counts_as_unset() -> None:
    selector = ResourceFieldSelector(container_name="main", resource="limits.cpu")
    assert resource_value(with_resources(limits={"cpu": "0"}), selector, NODE) == "4"


def test_init_containers_can_be_named_too() -> None:
    selector = ResourceFieldSelector(container_name="first", resource="limits.cpu", divisor="1m")
    assert resource_value(with_resources(), selector, NODE) == "250"


@pytest.mark.parametrize(
    ("container", "resource", "why"),
    [
        ("absent", "limits.cpu", "container 'absent' not found"),
        ("main", "limits.gpu", "unsupported container resource : limits.gpu"),
        ("main", "cpu", "unsupported container resource : cpu"),
    ],
)
def test_a_resource_that_cannot_be_shown_says_why(container: str, resource: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        resource_value(with_resources(), ResourceFieldSelector(container_name=container, resource=resource), NODE)


# -- the volume ----------------------------------------------------------------------------------------------------
def test_labels_follow_the_pod_and_an_unchanged_pod_writes_nothing(bench: PluginBench) -> None:
    chosen = volume(field_file("labels", "metadata.labels"))
    path = bench.set_up(chosen, pod=pod_of(bench, chosen))
    first = bench.data_directory(path)
    bench.set_up(chosen, pod=pod_of(bench, chosen), refresh=True)
    assert bench.data_directory(path) == first
    more = replace(META, labels={**META.labels, "new": "1"})
    bench.set_up(chosen, pod=pod_of(bench, chosen, more), refresh=True)
    assert bench.data_directory(path) != first
    assert 'new="1"' in bench.texts(path)["labels"]


def test_doubled_slashes_in_a_path_are_one(bench: PluginBench) -> None:
    chosen = volume(field_file("this//labels", "metadata.labels"))
    path = bench.set_up(chosen, pod=pod_of(bench, chosen))
    assert bench.host.read_file(f"{path}/this/labels").startswith(b"App=")


def test_all_wrong_items_are_told_at_once_and_nothing_is_made(bench: PluginBench) -> None:
    lost = DownwardAPIVolumeFile(
        path="c", resource_field_ref=ResourceFieldSelector(container_name="absent", resource="limits.cpu")
    )
    chosen = volume(
        field_file("a", "metadata.whoops"), field_file("b", "metadata.name"), lost, DownwardAPIVolumeFile(path="d")
    )
    with pytest.raises(Refused) as caught:
        bench.set_up(chosen, pod=pod_of(bench, chosen))
    assert caught.value.why == (
        "unsupported fieldPath: metadata.whoops; container 'absent' not found; "
        "the file 'd' names neither fieldRef nor resourceFieldRef"
    )
    assert bench.host.look(bench.path(chosen)) is None


def test_modes_and_users_are_those_of_the_item_or_of_the_volume(bench: PluginBench) -> None:
    own = replace(field_file("own", "metadata.name"), mode=0o400, user=1001)
    source = DownwardAPIVolumeSource(items=(own, field_file("usual", "metadata.name")), default_mode=0o640)
    chosen = Volume(name="v", downward_api=replace(source, default_user=1002))
    path = bench.set_up(chosen, pod=pod_of(bench, chosen))
    data = f"{path}/{bench.data_directory(path)}"
    assert (bench.mode(f"{data}/own"), bench.owner(f"{data}/own")) == (0o400, (1001, 0))
    assert (bench.mode(f"{data}/usual"), bench.owner(f"{data}/usual")) == (0o640, (1002, 0))


def test_a_file_of_a_containers_limits_ends_without_a_newline(bench: PluginBench) -> None:
    reference = ResourceFieldSelector(container_name="main", resource="limits.cpu", divisor="1m")
    chosen = volume(DownwardAPIVolumeFile(path="cpu", resource_field_ref=reference))
    main = Container(
        name="main",
        resources=ResourceRequirements(limits={"cpu": "0.5"}),
        volume_mounts=(VolumeMount(name="v", mount_path="/v"),),
    )
    assert bench.texts(bench.set_up(chosen, pod=bench.pod(chosen, main))) == {"cpu": "500"}
