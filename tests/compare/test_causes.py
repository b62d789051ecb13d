"""Texts of two programs, and the causes they stand for."""

from __future__ import annotations

import pytest
from bench.compare.causes import of_kubelet, of_mooring


@pytest.mark.parametrize(
    ("kubelet", "mooring", "cause"),
    [
        (
            'MountVolume.SetUp failed for volume "data" : configmap "settings" not found',
            "cannot read ConfigMap 'settings': configmap \"settings\" not found in namespace 'a', only in 'b'",
            "there is no configmap settings",
        ),
        (
            'MountVolume.SetUp failed for volume "data" : hostPath type check failed: /srv/www is not a socket file',
            "cannot set up volume 'data': hostPath type check failed: /srv/www is not a socket file (it is a file)",
            "/srv/www is not a socket file",
        ),
        (
            'MountVolume.MountDevice failed for volume "pv" : rpc error: code = NotFound desc = stat /a: no such file',
            "cannot stage volume 'pv': NOT_FOUND: stat /a: no such file",
            "the driver says notfound",
        ),
        (
            "error processing PVC space/data: PVC is not bound",
            "error processing PVC space/data: PVC is not bound: the volume 'later' that it names does not exist",
            "the claim is not bound",
        ),
        (
            'MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms',
            "cannot mount volume 'pv': no matching NodeSelectorTerms: the volume's node affinity does not admit it",
            "the volume is not for this node",
        ),
    ],
)
def test_the_words_of_both_sides_stand_for_one_cause(kubelet: str, mooring: str, cause: str) -> None:
    assert of_kubelet(kubelet) == of_mooring(mooring) == [cause]


def test_names_are_part_of_a_cause() -> None:
    assert of_kubelet('configmap "one" not found') != of_mooring('configmap "two" not found')


def test_several_causes_in_one_message_are_told_apart() -> None:
    both = ["there is no configmap a", "there is no secret b"]
    assert (
        of_kubelet('MountVolume.SetUp failed for volume "x" : [configmap "a" not found, secret "b" not found]') == both
    )
    said = "cannot set up volume 'x': cannot read ConfigMap 'a': configmap \"a\" not found in namespace 'n'"
    assert of_mooring(f"{said}; cannot read Secret 'b': secret \"b\" not found in namespace 'n'") == both


def test_words_that_nobody_knows_never_mean_the_same() -> None:
    assert of_kubelet("it is broken") == ["the kubelet says: it is broken"]
    assert of_mooring("it is broken") == ["mooring says: it is broken"]
