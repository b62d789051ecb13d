"""From a pod's volume to a volume spec (core.md 4.4, P17 to P26)."""

from __future__ import annotations

import msgspec
import pytest

from mooring.errors import MooringError, NotYet, Refused
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.volumes import EphemeralVolumeSource, Volume
from mooring.manager.claims import build_spec, claim_name, claim_references
from mooring.plugins.interface import ObjectRef
from mooring.sources.object_table import ObjectTable
from mooring.testing.sample_objects import claim, claimed, empty_dir, persistent_volume, pod
from mooring.world.pod_facts import VolumeUse
from mooring.world.spec import VolumeSpec

AS_MOUNT = VolumeUse(frozenset({"data"}), frozenset())
AS_DEVICE = VolumeUse(frozenset(), frozenset({"data"}))
DATA = claimed("data", "c")
EPHEMERAL = Volume(name="data", ephemeral=EphemeralVolumeSource())
OWNER = pod("web", EPHEMERAL)


def table(*objects: PersistentVolumeClaim | PersistentVolume) -> ObjectTable:
    found = ObjectTable()
    for each in objects:
        found.put(each)
    return found


def spec_of(*objects: PersistentVolumeClaim | PersistentVolume, use: VolumeUse = AS_MOUNT) -> VolumeSpec:
    return build_spec(pod("web", DATA), DATA, use, table(*objects))


def problem(kind: type[MooringError], *objects: PersistentVolumeClaim | PersistentVolume) -> str:
    with pytest.raises(kind) as caught:
        spec_of(*objects)
    return f"{caught.value.what}: {caught.value.why}"


def without_claim_ref(volume: PersistentVolume) -> PersistentVolume:
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=None))


def terminating(*finalizers: str) -> PersistentVolumeClaim:
    bound = claim("c")
    metadata = msgspec.structs.replace(bound.metadata, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=finalizers)
    return msgspec.structs.replace(bound, metadata=metadata)


def owned_claim(*, uid: str, controller: bool = True) -> PersistentVolumeClaim:
    owner = OwnerReference(api_version="v1", kind="Pod", name="web", uid=uid, controller=controller)
    bound = claim("web-data")
    return msgspec.structs.replace(bound, metadata=msgspec.structs.replace(bound.metadata, owner_references=(owner,)))


def test_an_inline_volume_is_taken_as_written() -> None:
    volume = empty_dir("data")
    assert build_spec(pod("web", volume), volume, AS_MOUNT, table()) == VolumeSpec(volume=volume, namespace="default")


def test_a_bound_claim_leads_to_its_persistent_volume() -> None:
    """P20."""
    bound = persistent_volume("c")
    assert spec_of(claim("c"), bound) == VolumeSpec(persistent_volume=bound)


def test_a_claim_used_read_only_makes_a_read_only_spec() -> None:
    volume = claimed("data", "c", read_only=True)
    spec = build_spec(pod("web", volume), volume, AS_MOUNT, table(claim("c"), persistent_volume("c")))
    assert spec.read_only


def test_a_missing_claim_may_still_come() -> None:
    """P06."""
    assert problem(NotYet) == (
        'error processing PVC default/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found'
    )


def test_an_unbound_claim_may_still_be_bound() -> None:
    """P23."""
    assert problem(NotYet, claim("c", phase="Pending")).endswith("PVC is not bound")


def test_a_claim_without_a_phase_is_not_bound_either() -> None:
    with pytest.raises(NotYet) as caught:
        spec_of(claim("c", phase=""))
    assert "not set" in caught.value.next_step


def test_a_bound_claim_without_a_volume_name_is_a_problem() -> None:
    bound = claim("c")
    empty = msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, volume_name=""))
    assert problem(NotYet, empty).endswith("PVC has empty pvc.Spec.VolumeName")


def test_a_terminating_claim_that_is_still_protected_is_usable() -> None:
    """P24."""
    assert spec_of(terminating("kubernetes.io/pvc-protection"), persistent_volume("c")).name == "pv-c"


def test_a_terminating_claim_without_protection_is_not_usable() -> None:
    """P24."""
    assert problem(NotYet, terminating(), persistent_volume("c")).endswith("PVC is being deleted")


def test_a_claim_whose_volume_is_missing_may_still_work() -> None:
    assert problem(NotYet, claim("c")).endswith('failed to fetch PV pv-c: persistentvolumes "pv-c" not found')


def test_a_volume_that_points_to_no_claim_is_not_yet_bound() -> None:
    """P25."""
    assert "nil ClaimRef" in problem(NotYet, claim("c"), without_claim_ref(persistent_volume("c")))


def test_a_volume_that_points_to_another_claim_is_not_used() -> None:
    """P25."""
    assert "does not point to claim.UID" in problem(NotYet, claim("c"), persistent_volume("other", name="pv-c"))


@pytest.mark.parametrize(
    ("mode", "use", "words"),
    [
        ("Block", AS_MOUNT, "volume data has volumeMode Block, but is specified in volumeMounts"),
        ("Filesystem", AS_DEVICE, "volume data has volumeMode Filesystem, but is specified in volumeDevices"),
        (None, AS_MOUNT, "cannot get volumeMode for volume: pv-c"),
    ],
)
def test_a_volume_of_the_wrong_mode_is_refused(mode: str | None, use: VolumeUse, words: str) -> None:
    """P21, P22, V03."""
    with pytest.raises(Refused) as caught:
        spec_of(claim("c"), persistent_volume("c", mode=mode), use=use)
    assert caught.value.why == words


def test_a_block_volume_used_as_a_device_is_fine() -> None:
    """P19."""
    assert spec_of(claim("c"), persistent_volume("c", mode="Block"), use=AS_DEVICE).is_block


def test_an_ephemeral_volume_has_a_claim_named_after_pod_and_volume() -> None:
    """P18, I31."""
    objects = table(owned_claim(uid="uid-web"), persistent_volume("web-data"))
    assert build_spec(OWNER, EPHEMERAL, AS_MOUNT, objects).name == "pv-web-data"


@pytest.mark.parametrize(
    "found", [claim("web-data"), owned_claim(uid="x"), owned_claim(uid="uid-web", controller=False)]
)
def test_an_ephemeral_volume_of_somebody_elses_claim_is_refused(found: PersistentVolumeClaim) -> None:
    """P17, I31."""
    with pytest.raises(Refused) as caught:
        build_spec(OWNER, EPHEMERAL, AS_MOUNT, table(found, persistent_volume("web-data")))
    assert caught.value.why == "PVC default/web-data was not created for pod default/web (pod is not owner)"


def test_only_claims_and_ephemeral_volumes_have_a_claim_name() -> None:
    owner = Pod(metadata=ObjectMeta(name="web"))
    assert claim_name(owner, DATA) == "c"
    assert claim_name(owner, EPHEMERAL) == "web-data"
    assert claim_name(owner, empty_dir("data")) is None


def test_a_volume_refers_to_its_claim_and_once_known_to_its_persistent_volume() -> None:
    owner = pod("web", DATA)
    of_claim, of_volume = ObjectRef("PersistentVolumeClaim", "default", "c"), ObjectRef("PersistentVolume", "", "pv-c")
    assert claim_references(owner, DATA, table()) == (of_claim,)
    assert claim_references(owner, DATA, table(claim("c"))) == (of_claim, of_volume)
    assert claim_references(owner, empty_dir("data"), table()) == ()


def test_a_volume_that_a_claim_only_asks_for_is_not_referred_to() -> None:
    """A node may not read it, and what a refusal costs in patience would be missing once the claim is bound."""
    owner, wanting = pod("web", DATA), claim("c", phase="Pending")
    assert wanting.spec.volume_name == "pv-c"
    assert claim_references(owner, DATA, table(wanting)) == (ObjectRef("PersistentVolumeClaim", "default", "c"),)
