"""The corpus of manifests: each says what it shows, and they do not get in each other's way."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from bench.compare.corpus import in_namespace, read_corpus, write_manifests

MANIFESTS = read_corpus()


def objects(text: str) -> list[dict[str, object]]:
    return [each for each in yaml.safe_load_all(text) if each]


def names(text: str) -> list[tuple[str, str, str]]:
    metas = [(str(each["kind"]), each["metadata"]) for each in objects(text)]
    return [(kind, meta.get("namespace", ""), meta["name"]) for kind, meta in metas if isinstance(meta, dict)]


def test_each_manifest_says_what_it_shows_and_has_an_object() -> None:
    for manifest in MANIFESTS:
        assert manifest.says.endswith("."), manifest
        assert objects(manifest.text), manifest


def test_no_two_manifests_speak_of_one_object() -> None:
    owners: dict[tuple[str, str, str], str] = {}
    for manifest in MANIFESTS:
        for name in names(in_namespace(manifest.text, manifest.namespace)):
            assert owners.setdefault(name, str(manifest)) == str(manifest), name


def test_objects_get_the_namespace_of_their_manifest_unless_they_have_none() -> None:
    text = "kind: Pod\nmetadata:\n  name: a\n---\nkind: PersistentVolume\nmetadata:\n  name: b\n"
    assert names(in_namespace(text, "here")) == [("Pod", "here", "a"), ("PersistentVolume", "", "b")]


def test_an_object_that_cannot_be_placed_is_an_error() -> None:
    with pytest.raises(ValueError, match="no line 'metadata:'"):
        in_namespace("kind: Pod\nmetadata: {name: a}\n", "here")


def test_an_edited_manifest_replaces_the_first_one_and_others_stay(tmp_path: Path) -> None:
    edited = next(manifest for manifest in MANIFESTS if manifest.edited is not None)
    still = next(manifest for manifest in MANIFESTS if manifest.edited is None)
    write_manifests([edited, still], tmp_path, edited=False)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    write_manifests([edited, still], tmp_path, edited=True)
    assert edited.edited is not None
    after = (tmp_path / f"{edited.namespace}.yaml").read_text()
    assert after == in_namespace(edited.edited, edited.namespace)
    assert (tmp_path / f"{still.namespace}.yaml").stat().st_mtime_ns == before[f"{still.namespace}.yaml"]
