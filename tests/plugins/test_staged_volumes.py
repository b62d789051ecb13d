"""What volume types with a device of their own mount their stage with."""

from __future__ import annotations

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.plugins.staged_volumes import stage_options
from mooring.world.spec import VolumeSpec

SPEC = VolumeSpec(
    persistent_volume=PersistentVolume(
        metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(mount_options=("noatime", "discard", "noatime"))
    )
)


def test_options_are_sorted_and_once_each() -> None:
    assert stage_options(SPEC, read_only=False, label="") == ["discard", "noatime"]
    assert stage_options(SPEC, read_only=True, label="") == ["discard", "noatime", "ro"]


def test_a_label_comes_last_and_is_quoted_for_its_commas() -> None:
    options = stage_options(SPEC, read_only=False, label="u:r:t:s0:c1,c2")
    assert options == ["discard", "noatime", 'context="u:r:t:s0:c1,c2"']
