"""What the machine offers, unless a Node object says otherwise."""

from __future__ import annotations

from pathlib import Path

from mooring.daemon.node_facts import disk_size, machine_memory, node_facts, node_name
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node, NodeStatus
from mooring.settings import Settings


def test_without_a_node_object_the_machine_is_asked(tmp_path: Path) -> None:
    facts = node_facts(Settings(root=f"{tmp_path}/not/made/yet", node_name="here"), lambda: None)()
    assert (facts.name, facts.memory) == ("here", machine_memory())
    assert facts.ephemeral_storage == disk_size(str(tmp_path)) > 0
    assert facts.labels == {"kubernetes.io/hostname": "here"}


def test_settings_win_over_the_machine(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path), allocatable_memory=1024, allocatable_cpu_milli=1500)
    facts = node_facts(settings, lambda: None)()
    assert (facts.memory, facts.cpu_milli) == (1024, 1500)


def test_a_node_object_wins_in_what_it_says(tmp_path: Path) -> None:
    meta = ObjectMeta(name="n", labels={"zone": "a"})
    node = Node(metadata=meta, status=NodeStatus(allocatable={"memory": "1Gi", "cpu": "1500m"}))
    found: list[Node | None] = [None]
    look = node_facts(Settings(root=str(tmp_path), node_name="here", allocatable_memory=7), lambda: found[0])
    assert look().name == "here"
    found[0] = node
    facts = look()
    assert (facts.name, facts.memory, facts.cpu_milli, facts.labels) == ("n", 2**30, 1500, {"zone": "a"})
    assert facts.ephemeral_storage == 0  # a kubelet takes what a Node does not offer for nothing


def test_the_node_is_called_as_set_or_like_the_host() -> None:
    assert node_name(Settings(node_name="mine")) == "mine"
    assert node_name(Settings()) == node_name(Settings()).lower() != ""
