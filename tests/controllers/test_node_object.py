"""What a node says of itself: when there is something to write, and what of a Node is never touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mooring.controllers import node_object
from mooring.controllers.node_object import Amounts, MachineFacts, Taint
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import AttachedVolume, Node, NodeStatus
from mooring.kube.strategic_merge import strategic_merge

GIBIBYTE = 2**30
FACTS = MachineFacts(
    name="here",
    hostname="here",
    address="192.0.2.7",
    capacity=Amounts(cpu_milli=2500, memory=4 * GIBIBYTE, ephemeral_storage=100 * GIBIBYTE + 7),
    allocatable=Amounts(cpu_milli=2000, memory=3 * GIBIBYTE, ephemeral_storage=100 * GIBIBYTE),
    version="0.1.0",
    architecture="amd64",
    boot_id="boot-1",
)


def made(*, not_ready: str = "", labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> Node:
    return node_object.new_node(FACTS, labels=labels or {}, taints=taints, not_ready=not_ready, now="at 0")


def patched(node: Node, patch: dict[str, Any] | None) -> Node:
    """A Node after a strategic merge patch."""
    assert patch is not None
    return msgspec.convert(strategic_merge("Node", msgspec.to_builtins(node), patch), Node)


def conditions(node: Node) -> dict[str, tuple[str, str]]:
    """Status and the time since when it is so."""
    return {each["type"]: (each["status"], each["lastTransitionTime"]) for each in node.status.conditions}


def test_a_new_node_says_what_the_machine_has() -> None:
    status = made().status
    assert status.capacity == {"cpu": "2500m", "memory": "4Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    assert status.allocatable == {"cpu": "2", "memory": "3Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    assert [(each["type"], each["address"]) for each in status.addresses] == [
        ("InternalIP", "192.0.2.7"),
        ("Hostname", "here"),
    ]
    assert status.node_info["kubeletVersion"] == "v1.36.3+mooring.0.1.0"


def test_a_new_node_has_the_labels_and_taints_that_were_given_beside_its_own_labels() -> None:
    node = made(labels={"zone": "a", "kubernetes.io/arch": "wrong"}, taints=(Taint(key="new", effect="NoSchedule"),))
    assert node.metadata.labels == {
        "zone": "a",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "here",
        "kubernetes.io/os": "linux",
    }
    assert node.spec.taints == ({"key": "new", "value": "", "effect": "NoSchedule"},)


def test_a_node_is_ready_unless_it_says_why_not() -> None:
    pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), ("False", "at 0"))
    assert conditions(made()) == {**pressures, "Ready": ("True", "at 0")}
    waits = made(not_ready="looks at the disk")
    assert conditions(waits) == {**pressures, "Ready": ("False", "at 0")}
    assert waits.status.conditions[3]["message"] == "looks at the disk"


def test_nothing_is_written_when_only_times_would_change_unless_they_are_due() -> None:
    assert node_object.status_patch(made(), FACTS, not_ready="", now="at 9") is None
    later = patched(made(), node_object.status_patch(made(), FACTS, not_ready="", now="at 9", is_due=True))
    assert {each["lastHeartbeatTime"] for each in later.status.conditions} == {"at 9"}
    assert conditions(later)["Ready"] == ("True", "at 0")


def test_a_condition_tells_when_its_status_became_another_one() -> None:
    before = made(not_ready="looks at the disk")
    after = patched(before, node_object.status_patch(before, FACTS, not_ready="", now="at 9"))
    assert conditions(after)["Ready"] == ("True", "at 9")
    assert conditions(after)["DiskPressure"] == ("False", "at 0")


def test_a_quantity_in_another_form_is_no_change() -> None:
    status = msgspec.structs.replace(made().status, capacity={**made().status.capacity, "memory": "4096Mi"})
    node = msgspec.structs.replace(made(), status=status)
    assert node_object.status_patch(node, FACTS, not_ready="", now="at 9") is None


def test_an_address_that_is_gone_does_not_linger() -> None:
    moved = replace(FACTS, address="")
    after = patched(made(), node_object.status_patch(made(), moved, not_ready="", now="at 9"))
    assert [each["type"] for each in after.status.addresses] == ["Hostname"]


def test_only_labels_that_are_wrong_are_written() -> None:
    assert node_object.label_patch(made(), FACTS) is None
    wrong = Node(metadata=ObjectMeta(labels={**made().metadata.labels, "kubernetes.io/os": "plan9", "mine": "1"}))
    assert node_object.label_patch(wrong, FACTS) == {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}


@given(
    in_use=st.lists(st.text(min_size=1), unique=True),
    resources=st.dictionaries(st.sampled_from(["example.com/gpu", "hugepages-2Mi"]), st.integers(0, 9).map(str)),
    condition=st.sampled_from(["NetworkUnavailable", "Ready", "DiskPressure"]),
    not_ready=st.sampled_from(["", "waits"]),
    is_due=st.booleans(),
)
def test_what_belongs_to_others_stays_and_one_patch_is_enough(
    in_use: list[str], resources: dict[str, str], condition: str, not_ready: str, is_due: bool
) -> None:
    before = Node(
        metadata=ObjectMeta(name="here", annotations={"theirs": "1"}),
        status=NodeStatus(
            capacity=resources,
            volumes_in_use=tuple(in_use),
            volumes_attached=(AttachedVolume(name="disk", device_path="/dev/sda"),),
            conditions=({"type": condition, "status": "True", "reason": "Theirs"},),
            node_info={"swap": {"capacity": 1}},
        ),
    )
    patch = node_object.status_patch(before, FACTS, not_ready=not_ready, now="at 1", is_due=is_due)
    after = patched(before, patch)
    assert patch is not None
    assert set(patch) == {"status"}
    assert set(patch["status"]) == {"capacity", "allocatable", "conditions", "addresses", "nodeInfo"}
    assert after.status.volumes_in_use == before.status.volumes_in_use
    assert after.status.volumes_attached == before.status.volumes_attached
    assert after.metadata == before.metadata
    assert {key: after.status.capacity[key] for key in resources} == resources
    assert after.status.node_info["swap"] == {"capacity": 1}
    assert condition in {each["type"] for each in after.status.conditions}
    assert node_object.status_patch(after, FACTS, not_ready=not_ready, now="at 2") is None
