"""Strategic merge patches, case by case."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mooring.kube.strategic_merge import strategic_merge

POD = {
    "spec": {
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/b"}}],
        "containers": [{"name": "main", "image": "one", "env": [{"name": "A", "value": "1"}], "args": ["x"]}],
        "tolerations": [{"key": "a"}],
    }
}


def merged(patch: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = strategic_merge("Pod", POD, {"spec": patch})["spec"]
    return spec


def test_items_are_merged_by_their_key_and_new_ones_come_last() -> None:
    spec = merged({"volumes": [{"name": "c", "emptyDir": {}}, {"name": "b", "hostPath": {"type": "Directory"}}]})
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "hostPath": {"path": "/b", "type": "Directory"}},
        {"name": "c", "emptyDir": {}},
    ]


def test_lists_within_items_are_merged_as_well() -> None:
    spec = merged({"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}], "args": ["y"]}]})
    (main,) = spec["containers"]
    assert main["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert (main["image"], main["args"]) == ("one", ["y"])


def test_a_list_without_a_key_is_one_value() -> None:
    assert merged({"tolerations": [{"key": "b"}]})["tolerations"] == [{"key": "b"}]


def test_retained_keys_are_all_that_stays_of_an_item() -> None:
    patch = {"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/a"}}
    assert merged({"volumes": [patch]})["volumes"][0] == {"name": "a", "hostPath": {"path": "/a"}}


def test_an_object_can_be_deleted_or_replaced_as_a_whole() -> None:
    assert strategic_merge("ConfigMap", {"data": {"a": "1"}}, {"data": {"$patch": "delete"}}) == {"data": {}}
    replaced = strategic_merge("ConfigMap", {"data": {"a": "1"}}, {"data": {"$patch": "replace", "b": "2"}})
    assert replaced == {"data": {"b": "2"}}


def test_null_removes_and_what_was_patched_stays_as_it_was() -> None:
    before = {"data": {"a": "1"}}
    assert strategic_merge("ConfigMap", before, {"data": {"a": None, "b": None}}) == {"data": {}}
    assert before == {"data": {"a": "1"}}


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"volumes": [{"emptyDir": {}}]}, "'spec.volumes' has no 'name'"),
        ({"volumes": ["a"]}, "'spec.volumes' is no object"),
        ({"volumes": [{"name": "a", "$patch": "hide"}]}, "'hide'"),
        ({"$what": []}, "'spec' has '$what'"),
    ],
)
def test_a_patch_that_makes_no_sense_is_told(patch: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        merged(patch)
