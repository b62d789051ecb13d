"""Both worlds of the cluster by themselves, and what pods are told (attachdetach.md A22 to A28 and 5.7)."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.controllers.attach_bench import ONCE, pod, unique

from mooring.controllers.attachdetach import figures, multi_attach
from mooring.controllers.attachdetach.actual import ActualStateOfWorld, Use
from mooring.controllers.attachdetach.desired import DesiredStateOfWorld
from mooring.controllers.attachdetach.pod_volumes import may_attach_to_many
from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.observe.attach_metrics import AttachMetrics
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

V1 = unique("v1")


def spec(*modes: str) -> VolumeSpec:
    source = CSIPersistentVolumeSource(driver="disk.csi.test", volume_handle="v1")
    made = PersistentVolumeSpec(access_modes=modes, csi=source)
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="v1"), spec=made))


def test_a_new_attachment_counts_as_used_until_the_node_is_heard() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    found = actual.attachment(V1, "n1")
    assert actual.use(V1, "n1") is Use.ASSUMED
    assert found is not None
    assert found.detach_requested_at is None
    actual.hear_node("n1", [], 1)
    assert actual.use(V1, "n1") is Use.FREE


def test_marking_a_known_attachment_again_changes_neither_its_use_nor_the_wish_to_detach_it() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    actual.hear_node("n1", [], 1)
    actual.request_detach(V1, "n1", 5.0)
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    found = actual.attachment(V1, "n1")
    assert actual.use(V1, "n1") is Use.FREE
    assert found is not None
    assert found.detach_requested_at == 5.0


def test_an_older_node_is_not_heard_after_a_newer_one() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    assert actual.hear_node("n1", [V1], 7)
    assert not actual.hear_node("n1", [], 6)
    assert actual.use(V1, "n1") is Use.IN_USE


def test_the_device_path_that_was_told_last_goes_to_all_nodes() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT, device_path="/dev/one")
    actual.mark(V1, spec(), "n2", Presence.PRESENT, device_path="/dev/two")
    assert actual.report("n1") == actual.report("n2") == ((V1, "/dev/two"),)


def test_what_is_withdrawn_and_reported_again_is_reported_once() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    actual.report_written("n1", actual.report("n1"))
    actual.remove_from_report(V1, "n1")
    assert actual.needs_report("n1")
    actual.add_to_report(V1, "n1")
    assert actual.report("n1") == ((V1, ""),)
    assert not actual.needs_report("n1")  # nothing was written in between


def test_what_is_detached_and_attached_again_is_reported_again() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    actual.remove_from_report(V1, "n1")
    actual.mark(V1, None, "n1", Presence.ABSENT)
    assert actual.report("n1") == ()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    assert actual.report("n1") == ((V1, ""),)


def test_what_is_in_doubt_is_never_reported() -> None:
    actual = ActualStateOfWorld()
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    actual.mark(V1, None, "n1", Presence.UNCERTAIN)
    actual.add_to_report(V1, "n1")
    assert actual.report("n1") == ()


def test_a_pod_on_a_node_that_nobody_manages_is_refused() -> None:
    desired = DesiredStateOfWorld()
    with pytest.raises(Refused, match="does not leave attaching to a controller"):
        desired.add_pod(pod("web", "n1"), V1, spec(), "n1")
    assert list(desired.volumes()) == []


def test_a_node_with_volumes_stays_managed() -> None:
    desired = DesiredStateOfWorld()
    desired.add_node("n1")
    desired.add_pod(pod("web", "n1"), V1, spec(), "n1")
    with pytest.raises(Refused, match="1 volumes are still wanted there"):
        desired.delete_node("n1")
    assert desired.is_managed("n1")
    desired.delete_node("n2")  # one that is not known is fine


@pytest.mark.parametrize(
    ("modes", "many"),
    [
        ((), True),
        (ONCE, False),
        (("ReadWriteOncePod",), False),
        (("ReadWriteMany",), True),
        (("ReadWriteOnce", "ReadOnlyMany"), True),
    ],
)
def test_access_modes_say_whether_several_nodes_may_have_a_volume(modes: tuple[str, ...], many: bool) -> None:
    assert may_attach_to_many(spec(*modes)) is many
    assert may_attach_to_many(None)


def test_a_waiting_pod_is_told_the_names_of_pods_in_its_own_namespace_only() -> None:
    waiting, near, near_too = pod("w", "n2"), pod("b", "n1"), pod("a", "n1")
    far = pod("secret", "n1", namespace="bank")
    start = 'Multi-Attach error for volume "v1" '
    assert multi_attach.message("v1", waiting, [near, near_too]) == f"{start}Volume is already used by pod(s) a, b"
    both = f"{start}Volume is already used by pod(s) b and 1 pod(s) in different namespaces"
    assert multi_attach.message("v1", waiting, [near, far]) == both
    assert multi_attach.message("v1", waiting, [far, far]) == (
        f"{start}Volume is already used by 2 pod(s) in different namespaces"
    )
    assert multi_attach.message("v1", waiting, []) == f"{start}{multi_attach.NOBODY}"


def test_metrics_have_the_names_of_kube_controller_manager() -> None:
    desired, actual, registry = DesiredStateOfWorld(), ActualStateOfWorld(), CollectorRegistry()
    desired.add_node("n1")
    desired.add_pod(pod("web", "n1"), V1, spec(), "n1")
    actual.mark(V1, spec(), "n1", Presence.PRESENT)
    actual.mark(unique("nameless"), None, "n1", Presence.PRESENT)
    metrics = AttachMetrics(
        registry, in_use=lambda: [("n1", "kubernetes.io/csi:disk")], totals=lambda: figures.totals(desired, actual)
    )
    metrics.forced("timeout")
    metrics.finished("kubernetes.io/csi:disk", "volume_attach", succeeded=True, migrated=False, seconds=1.0)
    text = generate_latest(registry).decode()
    plugin = "kubernetes.io/csi:disk.csi.test"
    for line in (
        'storage_count_attachable_volumes_in_use{node="n1",volume_plugin="kubernetes.io/csi:disk"} 1.0',
        f'attachdetach_controller_total_volumes{{plugin_name="{plugin}",state="actual_state_of_world"}} 1.0',
        f'attachdetach_controller_total_volumes{{plugin_name="{plugin}",state="desired_state_of_world"}} 1.0',
        'attach_detach_controller_attachdetach_controller_forced_detaches{reason="timeout"} 1.0',
        'attach_detach_controller_attachdetach_controller_forced_detaches{reason="out-of-service"} 0.0',
        'operation_name="volume_attach",status="success"',
    ):
        assert line in text
