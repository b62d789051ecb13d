"""The actual state of the world (core.md 3 and 9.3)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.kube.objects.volumes import Volume
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume, Failure
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

SPEC = VolumeSpec(volume=Volume(name="data"))
ONE, TWO = PodUid("uid-one"), PodUid("uid-two")
V, W = VolumeName("test/plugin/v"), VolumeName("test/plugin/w")
FAILURE = Failure(operation="volume_mount", what="w", why="y", next_step="", attempts=1, waiting=False)


def held(name: VolumeName = V, **mounts: Presence) -> ActualVolume:
    """A volume with mounts, pods given as one=…, two=…."""
    pods = {"one": ONE, "two": TWO}
    found = {pods[key]: ActualMount(pod=pods[key], presence=presence, spec=SPEC) for key, presence in mounts.items()}
    return ActualVolume(name=name, plugin=PluginName("test/plugin"), spec=SPEC, mounts=found)


@pytest.fixture
def changes() -> list[VolumeName]:
    return []


@pytest.fixture
def actual(changes: list[VolumeName]) -> ActualStateOfWorld:
    return ActualStateOfWorld(changes.append)


def test_a_mounted_volume_is_found_by_its_pod(actual: ActualStateOfWorld) -> None:
    """A04."""
    actual.put(held(one=Presence.PRESENT))
    assert actual.is_mounted(ONE, V)
    assert actual.may_hold(ONE)
    assert actual.pods() == {ONE}
    assert [name for name, _ in actual.mounts_of_pod(ONE)] == [V]


def test_putting_the_same_again_tells_nobody(actual: ActualStateOfWorld, changes: list[VolumeName]) -> None:
    """A05."""
    actual.put(held(one=Presence.PRESENT))
    actual.put(held(one=Presence.PRESENT))
    assert changes == [V]


def test_each_pod_of_a_shared_volume_has_its_own_mount(actual: ActualStateOfWorld) -> None:
    """A06."""
    actual.put(held(one=Presence.PRESENT, two=Presence.UNCERTAIN))
    assert actual.is_mounted(ONE, V)
    assert not actual.is_mounted(TWO, V)
    assert actual.pods() == {ONE, TWO}


def test_a_volume_that_is_not_known_to_be_gone_cannot_be_forgotten(actual: ActualStateOfWorld) -> None:
    """A07, I4."""
    actual.put(held(one=Presence.UNCERTAIN))
    with pytest.raises(RuntimeError, match="not known to be gone"):
        actual.drop(V)
    assert V in actual.volumes


@pytest.mark.parametrize("part", ["stage", "attachment"])
def test_doubt_about_the_device_keeps_a_volume_from_being_forgotten(actual: ActualStateOfWorld, part: str) -> None:
    """I4."""
    stage = Presence.UNCERTAIN if part == "stage" else Presence.ABSENT
    attachment = Presence.UNCERTAIN if part == "attachment" else Presence.ABSENT
    actual.put(replace(held(), stage=stage, attachment=attachment))
    with pytest.raises(RuntimeError):
        actual.drop(V)


def test_a_vacant_volume_can_be_forgotten(actual: ActualStateOfWorld, changes: list[VolumeName]) -> None:
    actual.put(held())
    actual.drop(V)
    actual.drop(V)
    assert actual.is_empty()
    assert changes == [V, V]


def test_nothing_is_mounted_of_a_volume_that_is_not_there(actual: ActualStateOfWorld) -> None:
    """A08."""
    assert actual.mount(ONE, V) is None
    assert not actual.is_mounted(ONE, V)
    assert not actual.may_hold(ONE)
    assert list(actual.mounts_of_pod(ONE)) == []


def test_doubt_is_not_mounted_and_yet_held(actual: ActualStateOfWorld) -> None:
    """A10, I18."""
    actual.put(held(one=Presence.UNCERTAIN))
    assert not actual.is_mounted(ONE, V)
    assert actual.may_hold(ONE)


def test_the_index_by_pod_follows_mounts_that_go(actual: ActualStateOfWorld) -> None:
    actual.put(held(one=Presence.PRESENT))
    actual.put(held(W, one=Presence.PRESENT))
    actual.put(held())
    assert [name for name, _ in actual.mounts_of_pod(ONE)] == list(actual.names_of_pod(ONE)) == [W]
    actual.put(held(W))
    assert not actual.may_hold(ONE)
    assert not actual.names_of_pod(ONE)


def test_a_failure_can_be_cleared_for_one_pod(actual: ActualStateOfWorld) -> None:
    actual.put(replace(held(), failures={ONE: FAILURE, TWO: FAILURE}))
    actual.clear_failure(V, ONE)
    assert actual.volumes[V].failures == {TWO: FAILURE}


def test_clearing_a_failure_that_is_not_there_changes_nothing(
    actual: ActualStateOfWorld, changes: list[VolumeName]
) -> None:
    actual.put(held())
    actual.clear_failure(V, ONE)
    actual.clear_failure(W, ONE)
    assert changes == [V]


def test_a_known_pod_directory_keeps_the_world_from_being_empty(actual: ActualStateOfWorld) -> None:
    actual.directories[ONE] = Presence.PRESENT
    assert not actual.is_empty()


def test_a_world_that_nobody_listens_to_works_all_the_same() -> None:
    silent = ActualStateOfWorld()
    silent.put(held(one=Presence.PRESENT))
    assert silent.may_hold(ONE)
