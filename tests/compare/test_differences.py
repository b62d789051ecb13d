"""Facts of two sides, and the table of what may differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.compare.differences import Allowed, Difference, differences, judged, read_allowed
from bench.compare.seen import Fact, Stage

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


def fact(subject: str, field: str = "type", *, manifest: str = "area/one", stage: Stage = Stage.FIRST) -> Fact:
    return Fact(stage, manifest, subject, field)


def row(where: str, *, manifest: str = "*", kubelet: str = "*", mooring: str = "*") -> Allowed:
    return Allowed(manifest=manifest, where=where, kubelet=kubelet, mooring=mooring, reason="because")


MODE = Difference(fact=fact("a/b", "mode"), kubelet="0644", mooring="0600")


def test_equal_facts_are_no_difference() -> None:
    assert differences({fact("a"): "file"}, {fact("a"): "file"}) == []


def test_a_field_that_differs_is_told_with_both_values() -> None:
    assert differences({MODE.fact: "0644"}, {MODE.fact: "0600"}) == [MODE]


def test_of_a_path_that_one_side_does_not_have_only_its_type_is_told() -> None:
    there = {fact("a", "mode"): "0750", fact("a"): "directory", fact("a/b"): "file", fact("a/b/c", "mode"): "0644"}
    (found,) = differences(there, {})
    assert (found.fact, found.kubelet, found.mooring) == (fact("a"), "directory", "-")
    (found,) = differences({}, there)
    assert (found.kubelet, found.mooring) == ("-", "directory")


def test_of_a_pod_that_one_side_does_not_have_all_is_told() -> None:
    there = {fact("pod app", "ready"): "no", fact("pod app", "cause"): "it is broken"}
    assert len(differences(there, {})) == 2


def test_a_row_allows_what_all_of_its_columns_fit() -> None:
    assert row("a/* mode", kubelet="0644", mooring="06*").allows(MODE)
    assert not row("a/* mode", kubelet="0640").allows(MODE)
    assert not row("a/* type").allows(MODE)
    assert not row("a/* mode", manifest="other/*").allows(MODE)
    assert not row("a/. mode").allows(MODE), "only * stands for something else"


def test_what_is_left_in_the_end_is_another_thing() -> None:
    left = Difference(fact=fact("a/b", "mode", stage=Stage.LEFT), kubelet="0644", mooring="0600")
    assert not row("a/b mode").allows(left)
    assert row("left: a/b mode").allows(left)


def test_what_no_row_allows_is_unexpected_and_a_row_that_allows_nothing_is_told() -> None:
    other = Difference(fact=fact("c"), kubelet="file", mooring="link")
    verdict = judged([MODE, other], [row("a/b mode"), row("gone *"), row("a/b *")])
    assert verdict.allowed == [(row("a/b mode"), [MODE])]
    assert verdict.unexpected == [other]
    assert verdict.unused == [row("gone *"), row("a/b *")]


def test_every_row_of_the_page_has_a_reason() -> None:
    table = read_allowed(PAGE.read_text())
    assert table
    assert all(allowed.reason for allowed in table)


@pytest.mark.parametrize("line", ["| `a` | `b mode` | `x` | `y` |", "| `a` | `b mode` | `x` | `y` |  |"])
def test_a_row_without_a_reason_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="columns that say something"):
        read_allowed(f"\n## Trees, mounts and causes\n\n| a | b | c | d | e |\n|---|---|---|---|---|\n{line}\n")
