"""The programs that others wrote: pinned to the same release, and running."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.cluster.conftest import Strangers

_REPOSITORY = Path(__file__).parents[2]


def test_the_kubelet_and_the_mock_driver_are_of_one_release() -> None:
    modules = [_REPOSITORY / "strangers" / "go.mod", _REPOSITORY / "bench" / "kubelet-peer" / "go.mod"]
    pins = [set(re.findall(r"k8s\.io/kubernetes (v\S+)", module.read_text())) for module in modules]
    assert pins[0] == pins[1]
    assert len(pins[0]) == 1


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("csi-sanity", "csi.endpoint"),
        ("kubelet-peer", "csi-stub"),
        ("mock-driver", "rules"),
        ("plugin-example", "deaf"),
    ],
)
def test_each_program_is_built_and_says_how_to_use_it(strangers: Strangers, name: str, flag: str) -> None:
    ended = subprocess.run([strangers(name), "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert flag in ended.stdout + ended.stderr


@pytest.mark.cluster
def test_what_is_up_to_date_is_not_built_again(strangers: Strangers) -> None:
    built = strangers("mock-driver")
    before = built.stat().st_mtime_ns
    subprocess.run([_REPOSITORY / "tools" / "build-strangers", "mock-driver"], check=True)
    assert built.stat().st_mtime_ns == before


@pytest.mark.cluster
def test_a_program_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    command = [str(_REPOSITORY / "tools" / "build-strangers"), "toaster"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "mock-driver" in ended.stderr
