"""What a kernel can do, and how less of it is pretended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.host import features
from mooring.host.features import KernelFeatures, Tier

EVERYTHING = KernelFeatures(
    unique_mount_ids=True,
    detached_mounts=True,
    mount_root_attribute=True,
    confined_open=True,
    chmod_without_following=True,
    tmpfs_without_swap=True,
    mount_events=True,
)


@pytest.mark.parametrize("tier", list(Tier))
def test_features_limited_to_a_tier_are_in_that_tier(tier: Tier) -> None:
    assert EVERYTHING.limited_to(tier).tier is tier


def test_a_limit_never_adds_a_feature() -> None:
    nothing = EVERYTHING.limited_to(Tier.CLASSIC)
    assert nothing.limited_to(Tier.IDENTIFIED) == nothing


def test_ids_without_detached_mounts_are_no_first_tier() -> None:
    assert replace(EVERYTHING, detached_mounts=False).tier is Tier.CLASSIC


def test_the_description_tells_tier_swap_and_how_changes_of_mounts_are_told() -> None:
    assert "fanotify tells" in EVERYTHING.description()
    assert "a poll tells" in replace(EVERYTHING, mount_events=False).description()
    assert EVERYTHING.description().startswith("tier 1 of 3: ")
    assert "may be swapped out" in replace(EVERYTHING, tmpfs_without_swap=False).description()


def test_probing_twice_gives_the_same_answer() -> None:
    assert features.probe() == features.probe()
