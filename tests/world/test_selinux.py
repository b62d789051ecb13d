"""The label a volume is mounted with (core.md 2.6, S01 to S13 as far as they are decisions)."""

from __future__ import annotations

import pytest

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import (
    Container,
    ContainerSecurityContext,
    Pod,
    PodSecurityContext,
    PodSpec,
    SELinuxOptions,
    VolumeDevice,
    VolumeMount,
)
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import Volume
from mooring.world.names import PodUid
from mooring.world.selinux import Decision, Held, LabelledUse, Rule, access_mode, decide, file_label
from mooring.world.spec import VolumeSpec

FULL = SELinuxOptions(user="system_u", role="object_r", type="container_t", level="s0:c1,c2")
LEVEL = SELinuxOptions(level="s0:c1,c2")
OTHER = SELinuxOptions(level="s0:c3,c4")
BAD = SELinuxOptions(level='s0",uid=0,x="')
A, B = "system_u:object_r:container_file_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c3,c4"


def volume(*modes: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(access_modes=modes)
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


ALONE, SHARED = volume("ReadWriteOncePod"), volume("ReadWriteMany")
INLINE = VolumeSpec(volume=Volume(name="data"))


def container(options: SELinuxOptions | None, *mounts: str, plain: bool = False) -> Container:
    context = None if plain else ContainerSecurityContext(se_linux_options=options)
    found = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in mounts)
    return Container(name="c", volume_mounts=found, security_context=context)


def pod(
    *containers: Container, uid: str = "one", options: SELinuxOptions | None = None, policy: str | None = None
) -> Pod:
    context = PodSecurityContext(se_linux_options=options, se_linux_change_policy=policy)
    return Pod(metadata=ObjectMeta(uid=uid), spec=PodSpec(containers=containers, security_context=context))


def asking(options: SELinuxOptions, *, uid: str = "one", policy: str | None = None) -> Pod:
    """A pod whose only container has the volume and asks for this."""
    return pod(container(options, "data"), uid=uid, policy=policy)


def decided(
    wanted: Pod,
    spec: VolumeSpec = ALONE,
    held: Held | None = None,
    *,
    supported: bool = True,
    any_mode: bool = False,
) -> Decision:
    use = LabelledUse(pod=wanted, names=["data"], spec=spec, supported=supported, any_access_mode=any_mode)
    return decide(use, held)


def held_after(first: Decision, *uids: str) -> Held:
    """The label of a volume that pods want since a decision."""
    return Held(label=first.label, original=first.original, pods=[PodUid(uid) for uid in uids])


def after(first: Pod, second: Pod, spec: VolumeSpec, *, any_mode: bool = False) -> Decision:
    """What is decided about a second pod."""
    held = held_after(decided(first, spec, any_mode=any_mode), "one")
    return decided(second, spec, held, any_mode=any_mode)


# -- labels ------------------------------------------------------------------------------------------------------
def test_a_volume_that_a_single_pod_can_use_gets_the_label_of_its_files() -> None:
    """S01."""
    assert decided(asking(FULL)) == Decision(label=A, original=A, is_strict=True, admitted=True)


def test_what_is_not_written_has_a_default() -> None:
    """S02."""
    assert decided(asking(LEVEL)).label == A
    assert file_label(SELinuxOptions(user="u")) == "u:object_r:container_file_t:s0"


def test_role_and_type_of_a_process_are_not_those_of_its_files() -> None:
    assert file_label(SELinuxOptions(role="system_r", type="spc_t")) == "system_u:object_r:container_file_t:s0"


@pytest.mark.parametrize("options", [None, SELinuxOptions()])
def test_without_options_there_is_no_label(options: SELinuxOptions | None) -> None:
    """S03."""
    assert decided(pod(container(options, "data"))) == Decision(is_strict=True)
    assert decided(Pod(spec=PodSpec(containers=(container(None, "data", plain=True),)))).label == ""


def test_a_plugin_that_mounts_no_labels_gets_none() -> None:
    """S04."""
    assert decided(asking(FULL), supported=False) == Decision(is_strict=True)


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod", "ReadWriteOnce"), ()])
def test_a_volume_of_another_access_mode_is_mounted_without_the_label_that_it_would_have(modes: tuple[str]) -> None:
    """S05."""
    assert decided(asking(FULL), volume(*modes)) == Decision(label="", original=A, admitted=True)


@pytest.mark.parametrize("policy", [None, "MountOption"])
def test_any_access_mode_can_be_mounted_with_a_label(policy: str | None) -> None:
    """S06."""
    assert decided(asking(FULL, policy=policy), SHARED, any_mode=True).label == A


@pytest.mark.parametrize("spec", [ALONE, SHARED])
def test_a_pod_that_wants_its_files_labelled_one_by_one_has_none(spec: VolumeSpec) -> None:
    """S07."""
    assert decided(asking(FULL, policy="Recursive"), spec, any_mode=True) == Decision(is_strict=True)


def test_a_volume_written_in_the_pod_is_never_mounted_with_a_label() -> None:
    assert decided(asking(FULL), INLINE, any_mode=True) == Decision(label="", original=A, admitted=True)


def test_the_options_of_the_pod_hold_for_containers_without_their_own() -> None:
    wanted = pod(container(None, "data"), container(None, "data", plain=True), options=LEVEL)
    assert decided(wanted).label == A
    assert decided(pod(container(OTHER, "data"), options=LEVEL)).label == B


def test_containers_that_do_not_use_the_volume_as_a_directory_have_no_say() -> None:
    raw = Container(
        name="raw",
        volume_devices=(VolumeDevice(name="data", device_path="/dev/x"),),
        security_context=ContainerSecurityContext(se_linux_options=OTHER),
    )
    assert decided(pod(container(LEVEL, "data"), container(OTHER, "other"), raw)).label == A


# -- rules -------------------------------------------------------------------------------------------------------
def test_a_second_pod_with_another_label_is_refused_and_the_label_stays() -> None:
    """S08."""
    for spec, any_mode in ((ALONE, False), (SHARED, True)):
        second = after(asking(FULL), asking(OTHER, uid="two"), spec, any_mode=any_mode)
        assert second.label == A
        refusal = second.refusal
        assert refusal is not None
        assert refusal.rule is Rule.VOLUME
        assert refusal.why == f"conflicting SELinux labels: other pods have it with {A}, this pod asks for {B}"


def test_a_second_pod_with_the_same_label_is_welcome() -> None:
    assert after(asking(FULL), asking(LEVEL, uid="two"), SHARED, any_mode=True) == Decision(
        label=A, original=A, is_strict=True
    )


def test_a_volume_that_is_mounted_without_its_label_goes_to_pods_of_any_and_that_is_told() -> None:
    """S09."""
    second = after(asking(FULL), asking(OTHER, uid="two"), SHARED)
    assert (second.label, second.original, second.refusal) == ("", A, None)
    assert [breach.rule for breach in second.breaches] == [Rule.VOLUME]


def test_pods_of_different_policies_have_different_labels() -> None:
    """S10, S11."""
    recursive = asking(FULL, policy="Recursive")
    for first, second, spec, label in (
        (recursive, asking(FULL, uid="two"), ALONE, ""),
        (asking(FULL), asking(FULL, uid="two", policy="Recursive"), SHARED, A),
    ):
        found = after(first, second, spec, any_mode=True)
        assert found.label == label
        assert found.refusal is not None
        assert "none" in found.refusal.why


def test_pods_that_want_their_files_labelled_one_by_one_do_not_conflict() -> None:
    """S12."""
    second = after(asking(FULL, policy="Recursive"), asking(OTHER, uid="two", policy="Recursive"), ALONE)
    assert second == Decision(is_strict=True)


@pytest.mark.parametrize("policy", [None, "Recursive"])
@pytest.mark.parametrize("supported", [True, False])
def test_containers_that_do_not_agree_are_refused_where_a_label_counts(policy: str | None, supported: bool) -> None:
    """S13: whatever the policy and the plugin."""
    wanted = pod(container(LEVEL, "data"), container(OTHER, "data"), policy=policy)
    refusal = decided(wanted, supported=supported).refusal
    assert refusal is not None
    assert (refusal.rule, refusal.why) == (Rule.POD, f"its containers ask for several SELinux labels: {A}, {B}")
    lenient = decided(wanted, SHARED, supported=supported)
    assert (lenient.label, lenient.original, lenient.refusal, lenient.admitted) == ("", "", None, False)
    assert [breach.rule for breach in lenient.breaches] == [Rule.POD]


def test_containers_that_do_not_agree_do_not_conflict_with_another_pod_where_no_label_counts() -> None:
    torn = pod(container(LEVEL, "data"), container(OTHER, "data"), uid="two")
    assert [breach.rule for breach in after(asking(FULL), torn, SHARED).breaches] == [Rule.POD]


def test_options_that_could_end_the_mount_option_make_no_label() -> None:
    assert file_label(BAD) == file_label(SELinuxOptions(user="a:b")) == ""
    refusal = decided(asking(BAD)).refusal
    assert refusal is not None
    assert refusal.rule is Rule.CONTAINERS
    lenient = decided(asking(BAD), SHARED)
    assert (lenient.original, lenient.refusal) == ("", None)
    assert [breach.rule for breach in lenient.breaches] == [Rule.CONTAINERS]


def test_options_that_make_no_label_differ_from_the_label_of_another_pod() -> None:
    found = after(asking(FULL), asking(BAD, uid="two"), SHARED)
    assert [breach.rule for breach in found.breaches] == [Rule.CONTAINERS, Rule.VOLUME]


def test_a_pod_that_has_the_volume_keeps_it_whatever_it_asks_for_later() -> None:
    held = held_after(decided(asking(FULL)), "one")
    assert decided(asking(OTHER), held=held) == Decision(label=A, original=A, is_strict=True)


def test_what_was_found_on_disk_keeps_its_label_for_the_pods_that_have_it_whatever_is_set_now() -> None:
    found = Held(label=A, original=A, pods=[PodUid("one")], found=True)
    assert decided(asking(FULL), SHARED, found) == Decision(label=A, original=A, admitted=True)
    assert decided(asking(OTHER), ALONE, found).label == A
    other = decided(asking(OTHER, uid="two"), ALONE, found)
    assert other.refusal is not None
    assert not other.admitted


# -- words of metrics --------------------------------------------------------------------------------------------
def test_the_widest_access_mode_is_told() -> None:
    assert access_mode(volume("ReadWriteOnce", "ReadWriteMany")) == "RWX"
    assert access_mode(volume("ReadWriteOnce", "ReadOnlyMany")) == "ROX"
    assert access_mode(volume("ReadWriteOncePod")) == "RWOP"
    assert access_mode(volume("ReadWriteOnce")) == "RWO"
    assert access_mode(volume()) == ""
    assert access_mode(INLINE) == "inline"
