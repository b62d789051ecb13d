"""The pods a node serves, by UID and by name."""

from __future__ import annotations

from mooring.manager.pods import KnownPods, PodManager
from mooring.testing.sample_objects import pod
from mooring.world.names import PodUid

WEB = PodUid("uid-web")


def test_a_pod_is_found_by_uid_and_by_name() -> None:
    pods = PodManager()
    assert pods.put(pod("web")) == WEB
    assert pods.get(WEB) == pods.find("default/web") == pod("web")
    assert len(pods) == 1


def test_a_removed_pod_is_not_found_any_more() -> None:
    pods = PodManager()
    pods.put(pod("web"))
    assert pods.remove(WEB) == pod("web")
    assert pods.remove(WEB) is None
    assert pods.find("default/web") is None
    assert list(pods) == []


def test_removing_an_earlier_pod_keeps_its_successor_of_the_same_name() -> None:
    pods = PodManager()
    pods.put(pod("web"))
    pods.put(pod("web", uid="uid-new"))
    pods.remove(WEB)
    assert pods.find("default/web") == pod("web", uid="uid-new")


def test_without_anybody_who_runs_containers_a_pod_lives_as_long_as_it_is_known() -> None:
    pods = PodManager()
    states = KnownPods(pods)
    assert states.runtime_removed(WEB)
    pods.put(pod("web"))
    assert not states.runtime_removed(WEB)
    assert not states.containers_terminating(WEB)


def test_on_a_node_that_is_drained_every_pod_counts_as_gone() -> None:
    pods = PodManager()
    pods.put(pod("web"))
    states = KnownPods(pods)
    states.draining = True
    assert states.runtime_removed(WEB)
    assert states.containers_terminating(WEB)


def test_a_pod_with_containers_is_not_removed_before_they_are() -> None:
    states = KnownPods(PodManager())
    states.with_containers.add(WEB)
    assert states.containers_terminating(WEB)
    assert not states.runtime_removed(WEB)
    states.draining = True
    assert not states.runtime_removed(WEB)
    states.with_containers.discard(WEB)
    assert states.runtime_removed(WEB)
