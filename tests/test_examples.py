"""The examples: good manifests whose volumes all would be set up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.daemon.command_line import run
from mooring.kube.codec import read_manifests

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: file.name)
def test_an_example_has_neither_mistakes_nor_warnings(file: Path) -> None:
    manifest = read_manifests(file.read_bytes(), origin=file.name)
    assert (manifest.problems, manifest.warnings) == ((), ())
    assert manifest.objects


def test_all_volumes_of_the_examples_can_be_set_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--root", str(tmp_path / "root"), "plan", str(EXAMPLES), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["waits"] == []
    plugins = {row["plugin"] for row in answer["operations"]}
    assert plugins == {
        "kubernetes.io/configmap",
        "kubernetes.io/downward-api",
        "kubernetes.io/empty-dir",
        "kubernetes.io/host-path",
        "kubernetes.io/projected",
        "kubernetes.io/secret",
    }
