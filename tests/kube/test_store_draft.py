"""The writer's view of the store: what it shows follows its changes, also back."""

from __future__ import annotations

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap
from mooring.kube.store_draft import Draft, Stored

KEY = ("ConfigMap", "ns", "a")
OBJECT = ConfigMap(metadata=ObjectMeta(name="a", namespace="ns"))


def test_origins_are_those_of_the_objects_that_have_one() -> None:
    draft = Draft({KEY: Stored(OBJECT, "a.yaml")}, 1)
    draft.put(("ConfigMap", "ns", "b"), Stored(OBJECT))
    assert draft.origins == {KEY: "a.yaml"}
    draft.remark(KEY, Stored(OBJECT, "b.yaml"))
    assert draft.origins == {KEY: "b.yaml"}
    draft.remark(KEY, Stored(OBJECT))
    assert draft.origins == {}


def test_origins_come_back_with_changes_that_are_taken_back() -> None:
    draft = Draft({KEY: Stored(OBJECT, "a.yaml")}, 1)
    new = ("ConfigMap", "ns", "b")
    draft.remove(KEY)
    draft.put(new, Stored(OBJECT, "b.yaml"))
    assert draft.origins == {new: "b.yaml"}
    draft.take_back(draft.take_changes())
    assert draft.origins == {KEY: "a.yaml"}
