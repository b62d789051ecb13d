"""The environment of a container: where values come from, who wins, and what is said of those that are missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, PodStatus, Secret
from mooring.manager.environment import Environment, EnvironmentSources, work_out_environment
from mooring.plugins.interface import NodeFacts
from mooring.sources.object_table import ObjectTable

OBJECTS = ObjectTable()
OBJECTS.put(ConfigMap(metadata=ObjectMeta(name="c", namespace="shop"), data={"color": "red", "a=b": "x", "A": "c"}))
OBJECTS.put(
    Secret(metadata=ObjectMeta(name="s", namespace="shop"), data={"password": b"hunter2", "raw": b"hunter2\xff"})
)
OBJECTS.put(Secret(metadata=ObjectMeta(name="far", namespace="away"), data={"k": b"hunter2"}))
SOURCES = EnvironmentSources(
    objects=OBJECTS, node=NodeFacts(name="here", memory=1 << 30, cpu_milli=4000), address="192.0.2.7"
)


def environment(env: list[Any], env_from: list[Any] | None = None, *, pod_ip: str = "") -> Environment:
    """What a container written like this sees."""
    written = {
        "name": "main",
        "env": env,
        "envFrom": env_from or [],
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}},
    }
    container = msgspec.convert(written, Container)
    pod = Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web", labels={"app": "till"}),
        spec=PodSpec(containers=(container,), node_name="here", service_account_name="robot"),
        status=PodStatus(pod_ip=pod_ip),
    )
    return work_out_environment(pod, container, SOURCES)


def value_of(source: dict[str, Any]) -> str | None:
    found = environment([{"name": "X", "valueFrom": source}])
    assert found.problems == ()
    return found.values.get("X")


def problem_of(source: dict[str, Any]) -> str:
    found = environment([{"name": "X", "value": "hidden"}, {"name": "X", "valueFrom": source}])
    assert found.values == {}
    [problem] = found.problems
    assert "hunter2" not in str(problem)
    return str(problem)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "uid-web"),
        ("metadata.labels['app']", "till"),
        ("spec.nodeName", "here"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "192.0.2.7"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7"),
    ],
)
def test_a_field_of_the_pod_is_a_value(path: str, wanted: str) -> None:
    assert value_of({"fieldRef": {"fieldPath": path}}) == wanted


def test_the_address_that_a_pod_has_is_its_own() -> None:
    found = environment([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}], pod_ip="10.0.0.1")
    assert found.values == {"X": "10.0.0.1"}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "limits.cpu"}, "4"),
        ({"resource": "requests.cpu", "containerName": "main", "divisor": "1m"}, "250"),
    ],
)
def test_a_resource_of_the_container_is_a_value(source: dict[str, Any], wanted: str) -> None:
    assert value_of({"resourceFieldRef": source}) == wanted


def test_keys_of_objects_are_values() -> None:
    assert value_of({"configMapKeyRef": {"name": "c", "key": "color"}}) == "red"
    assert value_of({"secretKeyRef": {"name": "s", "key": "password"}}) == "hunter2"


@pytest.mark.parametrize("name", ["s", "none"])
def test_an_optional_key_that_is_missing_sets_nothing(name: str) -> None:
    assert value_of({"secretKeyRef": {"name": name, "key": "none", "optional": True}}) is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"secretKeyRef": {"name": "s", "key": "none"}}, "Secret 's' has no key 'none'. Its keys are: password, raw"),
        ({"secretKeyRef": {"name": "s", "key": "raw"}}, "cannot set variable 'X': its value is not a text"),
        ({"secretKeyRef": {"name": "far", "key": "k"}}, "not found in namespace 'shop', only in 'away'"),
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"fieldRef": {"fieldPath": "status.phase"}}, "unsupported fieldPath: status.phase"),
        ({"resourceFieldRef": {"resource": "limits.gold"}}, "unsupported container resource"),
        ({}, "its source is not one that mooring knows"),
    ],
)
def test_a_value_that_cannot_be_had_is_a_problem_and_hides_an_earlier_one(source: dict[str, Any], words: str) -> None:
    assert words in problem_of(source)


def test_values_refer_to_variables_above_them() -> None:
    found = environment(
        [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(C)-$$(A)"},
            {"name": "C", "value": "3"},
            {"name": "A", "value": "$(A)$(A)"},
        ]
    )
    assert found.values == {"A": "11", "B": "1-$(C)-$(A)", "C": "3"}


def test_whole_objects_come_first_and_single_variables_win() -> None:
    found = environment(
        [{"name": "A", "value": "own"}, {"name": "B", "value": "$(color)"}],
        [{"configMapRef": {"name": "c"}}, {"prefix": "DB_", "secretRef": {"name": "s", "optional": True}}],
    )
    assert found.values["A"] == "own"
    assert found.values["color"] == "red"
    assert found.values["B"] == "$(color)"  # as in Kubernetes only single variables are referred to
    assert "a=b" not in found.values


def test_of_objects_with_the_same_key_the_last_wins() -> None:
    found = environment([], [{"prefix": "X_", "configMapRef": {"name": "c"}}, {"configMapRef": {"name": "c"}}])
    assert found.values == {"X_color": "red", "X_A": "c", "color": "red", "A": "c"}


def test_a_whole_object_that_is_missing_is_a_problem_unless_it_is_optional() -> None:
    assert environment([], [{"configMapRef": {"name": "none", "optional": True}}]) == Environment(values={})
    [problem] = environment([], [{"secretRef": {"name": "none"}}]).problems
    assert 'secret "none" not found' in str(problem)


def test_no_value_is_part_of_what_is_shown_of_an_environment() -> None:
    assert "hunter2" not in repr(environment([{"name": "A", "value": "hunter2"}]))
