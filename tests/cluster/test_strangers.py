"""The programs that others wrote: pinned to the same release, and running."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.cluster.conftest import Strangers

_REPOSITORY = Path(__file__).parents[2]


def test_the_kubelet_the_mock_driver_and_the_control_plane_are_of_one_release() -> None:
    modules = ("strangers", "strangers/control-plane", "bench/kubelet-peer")
    texts = {each: (_REPOSITORY / each / "go.mod").read_text() for each in modules}
    pins = {each: set(re.findall(r"k8s\.io/kubernetes (v\S+)", text)) for each, text in texts.items()}
    assert len(set().union(*pins.values())) == 1, pins
    assert all(pins.values()), pins


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("csi-sanity", "csi.endpoint"),
        ("etcd", "--data-dir"),
        ("kube-apiserver", "--authorization-mode"),
        ("kube-controller-manager", "--controllers"),
        ("kubectl", "describe"),
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
