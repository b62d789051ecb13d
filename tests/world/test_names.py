"""Unique volume names (core.md 2.2)."""

from __future__ import annotations

import pytest

from mooring.world.names import (
    PluginName,
    PodUid,
    VolumeName,
    private_volume_name,
    shared_volume_name,
    split_volume_name,
)

PLUGIN = PluginName("kubernetes.io/csi")


def test_a_shared_volume_is_named_after_what_backs_it() -> None:
    """D04, D05."""
    assert shared_volume_name(PLUGIN, "driver^handle") == "kubernetes.io/csi/driver^handle"


def test_a_private_volume_is_named_after_its_pod_and_inner_name() -> None:
    """D03."""
    assert private_volume_name(PLUGIN, PodUid("u1"), "cache") == "kubernetes.io/csi/u1-cache"


def test_a_shared_volume_without_a_backing_name_is_refused() -> None:
    with pytest.raises(ValueError, match="gave no name"):
        shared_volume_name(PLUGIN, "")


@pytest.mark.parametrize("backing", ["driver^handle", "with/slash/es", "u1-cache"])
def test_a_unique_name_splits_into_plugin_and_backing_name(backing: str) -> None:
    assert split_volume_name(shared_volume_name(PLUGIN, backing)) == (PLUGIN, backing)


@pytest.mark.parametrize("name", ["", "plugin", "kubernetes.io/csi"])
def test_a_name_of_fewer_than_three_parts_is_no_unique_name(name: str) -> None:
    with pytest.raises(ValueError, match="fewer than three parts"):
        split_volume_name(VolumeName(name))
