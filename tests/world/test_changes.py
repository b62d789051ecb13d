"""Changes and findings are values: they compare, and nobody can alter what was told."""

from __future__ import annotations

import copy

import pytest

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.world.changes import Change, Finished, Labelled, ProblemArose, Reconstructed, Started
from mooring.world.findings import Finding
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result
from mooring.world.selinux import Decision
from mooring.world.spec import VolumeSpec

ATTACH = Attach(VolumeName("test/plugin/v"))


@pytest.mark.parametrize(
    "told",
    [
        Started(operation=ATTACH, at=1.0),
        Finished(operation=ATTACH, outcome=Outcome(result=Result.DONE), at=2.0, seconds=1.0),
        Reconstructed(pod=PodUid("u"), plugin=PluginName("test/plugin"), inner_name="data", volume=None),
        ProblemArose(pod=Pod(), volume="data", why="PVC is not bound"),
        Labelled(
            decision=Decision(label="a"), plugin=PluginName("test/plugin"), spec=VolumeSpec(volume=Volume(name="data"))
        ),
        Finding(kind="leftover", where="/somewhere", what="a directory"),
    ],
)
def test_what_was_told_compares_by_content_and_cannot_be_altered(told: Change | Finding) -> None:
    assert copy.copy(told) == told
    field = next(iter(type(told).__annotations__))
    with pytest.raises(AttributeError):
        setattr(told, field, "something else")
