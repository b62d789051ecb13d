"""Changes and findings are values: they compare, and nobody can alter what was told."""

from __future__ import annotations

import dataclasses

import pytest

from mooring.kube.objects.pod import Pod
from mooring.world.changes import Change, Finished, ProblemArose, Reconstructed, Started
from mooring.world.findings import Finding
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Attach
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result

ATTACH = Attach(VolumeName("test/plugin/v"))


@pytest.mark.parametrize(
    "told",
    [
        Started(operation=ATTACH, at=1.0),
        Finished(operation=ATTACH, outcome=Outcome(result=Result.DONE), at=2.0, seconds=1.0),
        Reconstructed(pod=PodUid("u"), plugin=PluginName("test/plugin"), inner_name="data", volume=None),
        ProblemArose(pod=Pod(), volume="data", why="PVC is not bound"),
        Finding(kind="leftover", where="/somewhere", what="a directory"),
    ],
)
def test_what_was_told_compares_by_content_and_cannot_be_altered(told: Change | Finding) -> None:
    assert dataclasses.replace(told) == told
    field = dataclasses.fields(told)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(told, field, "something else")
