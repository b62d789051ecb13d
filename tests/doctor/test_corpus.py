"""Every broken root directory of the corpus: no byte is lost, what is empty goes, and all else is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.doctor import node_corpus
from tests.doctor.conftest import examine
from tests.doctor.corpus import CORPUS, Broken, fingerprints


def built(root: Path, name: str) -> Broken:
    made = Broken(root)
    CORPUS[name](made)
    return made


def everything(top: Path) -> set[str]:
    return {os.path.join(above, name) for above, below, files in os.walk(top) for name in [*below, *files]}


@pytest.mark.parametrize("name", CORPUS)
def test_an_examination_changes_nothing(root: Path, name: str) -> None:
    built(root, name)
    before = everything(root.parent), fingerprints(root.parent)
    assert examine(root).status == 1
    assert (everything(root.parent), fingerprints(root.parent)) == before


@pytest.mark.parametrize("name", CORPUS)
def test_an_examination_tells_of_everything(root: Path, name: str) -> None:
    made = built(root, name)
    told = examine(root).places()
    assert {str(root / path) for path in made.named | made.gone} <= told


@pytest.mark.parametrize("name", CORPUS)
def test_a_repair_loses_no_byte(root: Path, name: str) -> None:
    built(root, name)
    before = fingerprints(root.parent)
    examine(root, "--repair")
    assert fingerprints(root.parent) == before


@pytest.mark.parametrize("name", CORPUS)
def test_a_repair_clears_what_is_empty_and_tells_of_the_rest(root: Path, name: str) -> None:
    made = built(root, name)
    report = examine(root, "--repair")
    assert [path for path in sorted(made.gone) if os.path.lexists(root / path)] == []
    assert {str(root / path) for path in made.gone} <= report.places("repaired")
    assert {str(root / path) for path in made.named} <= report.places("found")
    assert report.status == (1 if made.named else 0)


@pytest.mark.parametrize("name", CORPUS)
def test_a_second_repair_finds_nothing_to_do(root: Path, name: str) -> None:
    built(root, name)
    first = examine(root, "--repair")
    before = everything(root.parent)
    second = examine(root, "--repair")
    assert everything(root.parent) == before
    assert second.places("repaired") == set()
    assert second.places("found") == first.places("found")


@pytest.mark.parametrize("name", CORPUS)
def test_a_repair_changes_nothing_outside_of_the_root_directory(root: Path, name: str) -> None:
    built(root, name)
    outside = {path for path in everything(root.parent) if not path.startswith(f"{root}/")}
    examine(root, "--repair")
    assert {path for path in everything(root.parent) if not path.startswith(f"{root}/")} == outside


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 30
    assert node_corpus.stale_sockets in CORPUS.values()
