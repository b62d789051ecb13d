"""What is told of volumes that no pod uses and that cannot be taken away."""

from __future__ import annotations

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume
from mooring.world.actual import ActualMount, ActualVolume, Failure
from mooring.world.findings import Finding
from mooring.world.leftovers import leftovers
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

SPEC = VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="data")))
FAILED = Failure(
    operation="unmount_device", what="cannot unstage", why="no driver", next_step="Start it", attempts=3, waiting=True
)


def held(name: str = "p/data", *, stage: Presence = Presence.UNCERTAIN, is_mounted: bool = False) -> ActualVolume:
    mount = ActualMount(pod=PodUid("web"), presence=Presence.PRESENT, spec=SPEC)
    return ActualVolume(
        name=VolumeName(name),
        plugin=PluginName("p"),
        spec=SPEC,
        attachment=Presence.PRESENT,
        stage=stage,
        stage_path="/stage" if stage is not Presence.ABSENT else "",
        mounts={PodUid("web"): mount} if is_mounted else {},
        failures={None: FAILED},
    )


def test_a_stage_that_cannot_be_taken_away_is_found_with_its_cause() -> None:
    assert list(leftovers([held()])) == [
        Finding(
            kind="volume",
            where="/stage",
            what="volume 'data' is still staged, although no pod uses it: cannot unstage: no driver",
            next_step="Start it",
        )
    ]


def test_a_volume_that_is_attached_only_is_called_so_and_named() -> None:
    (found,) = leftovers([held(stage=Presence.ABSENT)])
    assert found.where == "p/data"
    assert found.what.startswith("volume 'data' is still attached, ")


def test_what_a_pod_has_and_what_goes_well_is_not_found() -> None:
    well = ActualVolume(name=VolumeName("p/well"), plugin=PluginName("p"), spec=SPEC, stage=Presence.PRESENT)
    assert list(leftovers([held(is_mounted=True), well])) == []


def test_findings_are_sorted_by_the_names_of_the_volumes() -> None:
    found = leftovers([held("p/b", stage=Presence.ABSENT), held("p/a", stage=Presence.ABSENT)])
    assert [each.where for each in found] == ["p/a", "p/b"]
