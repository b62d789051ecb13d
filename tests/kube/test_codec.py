"""Reading manifests, warning about what is not understood, and the JSON of the store."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InvalidInput
from mooring.kube.codec import ManifestFile, decode, encode, read_manifests, to_manifest
from mooring.kube.objects.kinds import ALL_KINDS, POD, SECRET, kind_of
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta, Value
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.kube.shape import StructShape, shape_of
from mooring.kube.unmodelled import UNMODELLED

POD_TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: nginx
  volumes:
  - name: cache
    emptyDir:
      medium: Memory
"""


def read(text: str) -> ManifestFile:
    return read_manifests(text.encode(), origin="pods.yaml", keep_lines=True)


def read_one(text: str) -> KubernetesObject:
    file = read(text)
    assert file.problems == ()
    (manifest,) = file.objects
    return manifest.object


def test_a_pod_becomes_its_value() -> None:
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource(medium="Memory"))
    spec = PodSpec(containers=(Container(name="main", image="nginx"),), volumes=(volume,))
    assert read_one(POD_TEXT) == Pod(metadata=ObjectMeta(name="web"), spec=spec)


def test_objects_know_their_file_document_and_lines() -> None:
    file = read(f"# comment\n---\n{POD_TEXT}---\n{POD_TEXT}")
    assert [(item.origin, item.document, item.line) for item in file.objects] == [
        ("pods.yaml", 1, 3),
        ("pods.yaml", 2, 16),
    ]
    assert file.objects[1].line_of(("spec", "volumes", 0, "emptyDir", "medium")) == 27


def test_json_is_a_manifest_as_well() -> None:
    text = json.dumps(yaml.safe_load(POD_TEXT), indent=2)
    assert read_one(text) == read_one(POD_TEXT)


def test_lists_are_read_item_by_item() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
        "- {apiVersion: v1, kind: SecretList, items: [{metadata: {name: b}}, {metadata: {name: c}}]}\n"
    )
    file = read(text)
    assert file.problems == ()
    assert [(type(item.object), item.object.metadata.name, item.line) for item in file.objects] == [
        (ConfigMap, "a", 4),
        (Secret, "b", 5),
        (Secret, "c", 5),
    ]
    assert file.objects[1].line_of(("metadata", "name")) == 5


def test_an_empty_list_and_an_empty_file_hold_nothing() -> None:
    for text in ("", "# only a comment\n", "---\n", "apiVersion: v1\nkind: PodList\nitems:\n"):
        file = read(text)
        assert (file.objects, file.problems, file.warnings) == ((), (), ())


def test_null_is_the_same_as_not_written() -> None:
    text = POD_TEXT.replace("    image: nginx", "    image:\n    env: null\n    resources:").replace(
        "emptyDir:\n      medium: Memory", "emptyDir:"
    )
    assert read_one(text) == Pod(
        metadata=ObjectMeta(name="web"),
        spec=PodSpec(containers=(Container(name="main"),), volumes=(Volume(name="cache"),)),
    )
    empty_value = read_one("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {key: }\nbinaryData: {raw: }\n")
    assert empty_value == ConfigMap(metadata=ObjectMeta(name="c"), data={"key": ""}, binary_data={"raw": b""})


def test_base64_may_be_folded_into_lines() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  word: |\n    aHVu\n    dGVyMg==\n"
    assert read_one(text) == Secret(metadata=ObjectMeta(name="s"), data={"word": b"hunter2"})


def test_anchors_and_merges_work_in_manifests() -> None:
    text = POD_TEXT.replace(
        "  - name: main\n    image: nginx", "  - &main {name: main, image: nginx}\n  - {<<: *main, name: second}"
    )
    pod = read_one(text)
    assert isinstance(pod, Pod)
    assert [(container.name, container.image) for container in pod.spec.containers] == [
        ("main", "nginx"),
        ("second", "nginx"),
    ]


def test_timestamps_and_times_of_day_stay_texts() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, creationTimestamp: 2026-01-01T00:00:00Z}\n"
        "data: {a: 12:30:45, b: 2026-01-01}\n"
    )
    config_map = read_one(text)
    assert isinstance(config_map, ConfigMap)
    assert config_map.data == {"a": "12:30:45", "b": "2026-01-01"}
    assert config_map.metadata.creation_timestamp == "2026-01-01T00:00:00Z"


def test_an_exponent_is_a_whole_number_and_a_quantity() -> None:
    text = POD_TEXT.replace("medium: Memory", "sizeLimit: 1e9\n      mode: 7e1")
    pod = read_one(text)
    assert isinstance(pod, Pod)
    assert pod.spec.volumes[0].empty_dir == EmptyDirVolumeSource(size_limit=1e9, mode=70)


def test_an_unknown_kind_is_skipped_with_a_warning() -> None:
    file = read(f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\n---\n{POD_TEXT}")
    assert len(file.objects) == 1
    (warning,) = file.warnings
    assert str(warning) == 'pods.yaml:2: kind: skipped "Deployment": mooring has no use for "apps/v1" "Deployment".'


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "next_step"),
    [
        (
            "    image: nginx",
            "    volumeMount: []",
            8,
            "spec.containers[0].volumeMount",
            'Perhaps "volumeMounts" is meant',
        ),
        ("medium:", "Medium:", 12, "spec.volumes[0].emptyDir.Medium", 'Perhaps "medium" is meant'),
        ("spec:", "colour: blue\nspec:", 5, "colour", "Remove it, or check where it belongs"),
        ("  name: web", "  name: web\n  label: {a: b}", 5, "metadata.label", 'Perhaps "labels" is meant'),
    ],
)
def test_a_misspelling_is_a_warning_with_a_suggestion(
    old: str, new: str, line: int, field: str, next_step: str
) -> None:
    file = read(POD_TEXT.replace(old, new, 1))
    assert file.problems == ()
    (warning,) = file.warnings
    assert (warning.line, warning.field, warning.next_step) == (line, field, next_step)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "next_step"),
    [
        ("kind: Pod", "kind: pod", 2, "kind", 'Perhaps "Pod" is meant'),
        ("kind: Pod", "kind: Pood", 2, "kind", 'Perhaps "Pod" is meant'),
        ("apiVersion: v1", "apiVersion: v2", 1, "apiVersion", 'Write "apiVersion: v1"'),
    ],
)
def test_a_misspelt_kind_makes_the_file_unusable_for_else_its_running_pod_would_be_taken_away(
    old: str, new: str, line: int, field: str, next_step: str
) -> None:
    file = read(POD_TEXT.replace(old, new, 1))
    (problem,) = file.problems
    assert (problem.line, problem.field, problem.next_step) == (line, field, next_step)
    assert file.objects == ()


@pytest.mark.parametrize("kind", ["Service", "Endpoints", "PodTemplate", "ReplicationController", "LimitRange"])
def test_real_kinds_of_the_core_group_that_mooring_has_no_use_for_are_skipped(kind: str) -> None:
    file = read(POD_TEXT.replace("kind: Pod", f"kind: {kind}", 1))
    assert file.problems == ()
    assert len(file.warnings) == 1


def test_fields_that_mooring_has_no_use_for_are_read_over_in_silence() -> None:
    extras = {owner: {name: {"anything": [1]} for name in names} for owner, names in UNMODELLED.items()}
    pod = yaml.safe_load(POD_TEXT)
    pod["metadata"].update(extras[ObjectMeta])
    pod["spec"].update(extras[PodSpec])
    pod["spec"]["containers"][0].update(extras[Container])
    file = read(json.dumps(pod))
    assert (file.problems, file.warnings) == ((), ())
    assert file.objects[0].object == read_one(POD_TEXT)


def test_no_field_is_both_modelled_and_unmodelled() -> None:
    for owner, names in UNMODELLED.items():
        assert issubclass(owner, Value)
        assert not names & shape_of(owner).fields.keys()


def test_what_will_not_work_is_a_warning_and_no_problem() -> None:
    file = read(POD_TEXT.replace("Memory", "memory"))
    assert len(file.objects) == 1
    (warning,) = file.warnings
    assert (warning.line, warning.field) == (12, "spec.volumes[0].emptyDir.medium")
    assert warning.what == 'Pod "web" will not work'


@pytest.mark.parametrize(
    "text", [POD_TEXT + "".join(f"x{n}: 1\n" for n in range(500)), "---\nkind: A\napiVersion: b\n" * 500]
)
def test_the_number_of_warnings_is_limited(text: str) -> None:
    assert len(read(text).warnings) == 100


def test_every_kind_has_a_shape() -> None:
    for kind in ALL_KINDS:
        assert isinstance(shape_of(kind.type), StructShape)


def test_a_manifest_has_its_kind_first_and_no_defaults() -> None:
    manifest = to_manifest(read_one(POD_TEXT))
    assert list(manifest) == ["apiVersion", "kind", "metadata", "spec"]
    assert manifest == yaml.safe_load(POD_TEXT)


def test_bytes_are_base64_in_a_manifest() -> None:
    secret = Secret(metadata=ObjectMeta(name="s"), data={"word": b"hunter2"})
    assert to_manifest(secret)["data"] == {"word": "aHVudGVyMg=="}


def test_an_empty_source_is_kept_in_a_manifest() -> None:
    pod = Pod(spec=PodSpec(volumes=(Volume(name="v", empty_dir=EmptyDirVolumeSource()),)))
    assert to_manifest(pod)["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_broken_json_in_the_store_is_an_error_that_shows_no_value() -> None:
    for data in (b'{"data": {"word": "hunter2!"}}', b'{"data": "hunter2"}', b'{"data": hunter2'):
        with pytest.raises(InvalidInput, match="cannot read a stored Secret") as caught:
            decode(SECRET, data)
        assert "hunter2" not in str(caught.value)


def test_the_repr_of_a_secret_shows_no_value() -> None:
    secret = read_one("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {word: hunter2}\n")
    assert "hunter2" not in repr(secret)
    assert "hunter2" not in repr(
        read("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {word: hunter2}\n")
    )


names = st.text("abcxyz", min_size=1, max_size=8)
pods = st.builds(
    Pod,
    metadata=st.builds(ObjectMeta, name=names, labels=st.dictionaries(names, names, max_size=3)),
    spec=st.builds(
        PodSpec,
        containers=st.builds(Container, name=names, args=st.lists(st.text()).map(tuple)).map(lambda value: (value,)),
        volumes=st.lists(
            st.builds(
                Volume,
                name=names,
                empty_dir=st.builds(
                    EmptyDirVolumeSource,
                    size_limit=st.none() | st.integers(0, 2**62) | st.floats(0, 1e18) | st.sampled_from(["1Gi"]),
                ),
            ),
            max_size=3,
            unique_by=lambda volume: volume.name,
        ).map(tuple),
    ),
)
config_maps = st.builds(
    ConfigMap,
    metadata=st.builds(ObjectMeta, name=names),
    data=st.dictionaries(names, st.text()),
    binary_data=st.dictionaries(st.text("ABC", min_size=1), st.binary()),
    immutable=st.booleans(),
)


@given(pods | config_maps)
def test_the_store_gives_back_what_it_was_given(obj: Pod | ConfigMap) -> None:
    assert decode(kind_of(obj), encode(obj)) == obj


@given(pods | config_maps)
def test_a_manifest_that_is_written_reads_as_the_same_object(obj: Pod | ConfigMap) -> None:
    assert read_one(json.dumps(to_manifest(obj))) == obj
    assert kind_of(obj).name == to_manifest(obj)["kind"]


@settings(max_examples=300)
@given(st.binary(max_size=300) | st.text("{}[]:-,&*!|>'\"#%@ \n\tab01.~<").map(str.encode))
def test_arbitrary_bytes_end_in_objects_problems_or_warnings(text: bytes) -> None:
    file = read_manifests(text, origin="fuzz.yaml")
    for problem in file.problems:
        assert str(problem).startswith("fuzz.yaml:")
        assert 1 <= problem.line <= len(text) + 1
        assert "\n" not in str(problem)


def fuzzed(owner: type[Value]) -> st.SearchStrategy[dict[str, Any]]:
    """Data with the field names of a value and anything at all in them."""
    return st.dictionaries(st.sampled_from(sorted(shape_of(owner).fields)), anything, max_size=4)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.sampled_from(ALL_KINDS), st.data())
def test_arbitrary_fields_end_in_an_object_or_in_problems(kind: Any, data: st.DataObject) -> None:
    written = data.draw(fuzzed(kind.type)) | {"apiVersion": kind.api_version, "kind": kind.name}
    written["metadata"] = data.draw(fuzzed(ObjectMeta))
    if "spec" in shape_of(kind.type).fields:
        spec = next(field.type for field in msgspec.structs.fields(kind.type) if field.name == "spec")
        written["spec"] = data.draw(fuzzed(spec))
        if kind is POD:
            written["spec"]["volumes"] = data.draw(st.lists(fuzzed(Volume), max_size=2))
            written["spec"]["containers"] = data.draw(st.lists(fuzzed(Container), max_size=2))
    file = read_manifests(json.dumps(written).encode(), origin="fuzz.json")
    assert file.problems or len(file.objects) == 1
