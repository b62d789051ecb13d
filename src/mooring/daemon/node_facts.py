"""What this machine offers to memory-backed volumes and downwardAPI files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from mooring.kube.objects.node import Node
from mooring.kube.quantity import parse_quantity
from mooring.plugins.interface import NodeFacts
from mooring.settings import Settings


def node_name(settings: Settings) -> str:
    """The name this node goes by: as set, else the host name in lower case."""
    return settings.node_name or socket.gethostname().lower()


def machine_memory() -> int:
    """All memory of the machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def node_facts(settings: Settings, find_node: Callable[[], Node | None]) -> Callable[[], NodeFacts]:
    """A look-up of the node's facts: its Node object where there is one, the settings, then the machine."""
    name = node_name(settings)
    memory = settings.allocatable_memory or machine_memory()
    cpu_milli = settings.allocatable_cpu_milli or 1000 * (os.cpu_count() or 1)
    plain = NodeFacts(name=name, memory=memory, cpu_milli=cpu_milli, labels={"kubernetes.io/hostname": name})
    seen: tuple[Node | None, NodeFacts] = (None, plain)

    def look() -> NodeFacts:
        nonlocal seen
        node = find_node()
        if node is not seen[0]:
            seen = (node, plain if node is None else _of_node(node, plain))
        return seen[1]

    return look


def _of_node(node: Node, plain: NodeFacts) -> NodeFacts:
    offered = node.status.allocatable
    if not offered:
        return NodeFacts(
            name=node.metadata.name,
            memory=plain.memory,
            cpu_milli=plain.cpu_milli,
            labels=node.metadata.labels or plain.labels,
        )
    return NodeFacts(
        name=node.metadata.name,
        memory=parse_quantity(offered.get("memory", 0)).value,
        cpu_milli=parse_quantity(offered.get("cpu", 0)).milli,
        ephemeral_storage=parse_quantity(offered.get("ephemeral-storage", 0)).value,
        labels=node.metadata.labels,
    )
