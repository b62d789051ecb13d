"""The cache, its indices, and the listers."""

from __future__ import annotations

import pytest

from mooring.kube.api import NotFound
from mooring.kube.indexer import NAMESPACE_INDEX, IndexConflict, Indexer, Lister, UnknownIndex, namespace_of
from mooring.kube.objects import ObjectMeta, Pod
from mooring.kube.objects.kinds import POD
from mooring.kube.selectors import NOTHING, parse_label_selector


def pod(name: str, *, namespace: str = "ns", version: int = 1, **labels: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, resource_version=str(version), labels=labels))


def by_values(obj: Pod) -> list[str]:
    """The values of all labels: an object may have none, one or more."""
    return list(obj.metadata.labels.values())


def indexer_of(*pods: Pod) -> Indexer[Pod]:
    indexer: Indexer[Pod] = Indexer({"values": by_values})
    for obj in pods:
        indexer.add(obj)
    return indexer


def test_s1_a_value_without_members_disappears_from_the_index() -> None:
    indexer = indexer_of(pod("a", color="red"), pod("b", color="blue"))
    indexer.delete(pod("a"))
    assert indexer.index_values("values") == ["blue"]
    assert indexer.by_index("values", "red") == []


def test_s2_an_update_takes_the_key_away_only_from_the_values_it_lost() -> None:
    indexer = indexer_of(pod("x", first="a", second="b"), pod("y", first="a"))
    changed = pod("x", second="b", version=2)
    assert indexer.update(changed) == pod("x", first="a", second="b")
    assert indexer.index_keys("values", "a") == ["ns/y"]
    assert indexer.by_index("values", "b") == [changed]


def test_s3_an_index_added_to_a_filled_cache_works_at_once() -> None:
    indexer = indexer_of(pod("a", namespace="n1"), pod("b", namespace="n2"), pod("c", namespace="n2"))
    indexer.add_indexers({NAMESPACE_INDEX: namespace_of})
    assert indexer.index_keys(NAMESPACE_INDEX, "n2") == ["n2/b", "n2/c"]


def test_s4_replacing_the_content_rebuilds_the_indices_and_sets_the_version() -> None:
    indexer = indexer_of(pod("a", color="red"))
    before = indexer.replace([pod("b", color="blue")], "77")
    assert list(before) == ["ns/a"]
    assert indexer.index_values("values") == ["blue"]
    assert indexer.list_keys() == ["ns/b"]
    assert indexer.resource_version == "77"


def test_the_version_follows_the_last_write_or_deletion() -> None:
    indexer = indexer_of(pod("a", version=5))
    indexer.delete(pod("a", version=6))
    assert indexer.resource_version == "6"
    indexer.add(Pod(metadata=ObjectMeta(name="without version")))
    assert indexer.resource_version == "6"


def test_an_index_name_that_is_taken_adds_no_index_at_all() -> None:
    indexer = indexer_of()
    with pytest.raises(IndexConflict, match="'values'"):
        indexer.add_indexers({"new": by_values, "values": by_values})
    with pytest.raises(UnknownIndex, match="'new'"):
        indexer.by_index("new", "a")


def test_objects_that_share_several_values_are_found_once() -> None:
    indexer = indexer_of(pod("x", first="a", second="b"), pod("y", first="a", second="b"), pod("z", first="c"))
    found = indexer.index("values", pod("anything", first="a", second="b"))
    assert [obj.metadata.name for obj in found] == ["x", "y"]


def test_deleting_what_is_not_there_does_nothing() -> None:
    indexer = indexer_of(pod("a"))
    assert indexer.delete(pod("b")) is None
    assert len(indexer) == 1


def test_an_error_in_an_index_function_is_raised() -> None:
    def partial_function(obj: Pod) -> list[str]:
        return [obj.metadata.labels["missing"]]

    indexer: Indexer[Pod] = Indexer({"broken": partial_function})
    with pytest.raises(KeyError):
        indexer.add(pod("a"))


def test_a_lister_selects_by_label_and_namespace() -> None:
    indexer = indexer_of(
        pod("a", namespace="n1", app="web"), pod("b", namespace="n2", app="web"), pod("c", namespace="n2")
    )
    lister = Lister(POD, indexer)
    web = parse_label_selector("app=web")
    assert [obj.metadata.name for obj in lister.list(web)] == ["a", "b"]
    assert lister.list(NOTHING) == []
    for extra in ({}, {NAMESPACE_INDEX: namespace_of}):
        indexer.add_indexers(extra)
        assert [obj.metadata.name for obj in lister.by_namespace("n2").list()] == ["b", "c"]
        assert [obj.metadata.name for obj in lister.by_namespace("n2").list(web)] == ["b"]


def test_a_lister_gets_by_name_or_says_what_is_missing() -> None:
    lister = Lister(POD, indexer_of(pod("a", namespace="n1")))
    assert lister.by_namespace("n1").get("a").metadata.name == "a"
    with pytest.raises(NotFound, match="cannot find Pod 'n2/a'"):
        lister.by_namespace("n2").get("a")
