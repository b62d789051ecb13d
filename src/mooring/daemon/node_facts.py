"""What this machine offers to memory-backed volumes and downwardAPI files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

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


def machine_address() -> str:
    """The address this machine sends from to others; empty when it has no way out. Nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # RFC 5737: an address that belongs to nobody
        except OSError:
            return ""
        address: str = asked.getsockname()[0]
        return address


def disk_size(path: str) -> int:
    """The size in bytes of the file system that a path is or will be on."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    facts = os.statvfs(path)
    return facts.f_blocks * facts.f_frsize


NO_TOPOLOGY: Mapping[str, str] = {}


def node_facts(
    settings: Settings, find_node: Callable[[], Node | None], *, topology: Mapping[str, str] = NO_TOPOLOGY
) -> Callable[[], NodeFacts]:
    """A look-up of the node's facts: its Node object where there is one, the settings, then the machine.

    What drivers say about where the node is counts as labels, unless the Node has others; it grows as they register.
    """
    name = node_name(settings)
    memory = settings.allocatable_memory or machine_memory()
    cpu_milli = settings.allocatable_cpu_milli or 1000 * (os.cpu_count() or 1)
    plain = NodeFacts(
        name=name,
        memory=memory,
        cpu_milli=cpu_milli,
        ephemeral_storage=disk_size(settings.root),
        labels={"kubernetes.io/hostname": name},
        selinux=os.path.exists("/sys/fs/selinux/enforce"),
    )
    seen: tuple[Node | None, int, NodeFacts] = (None, 0, plain)

    def look() -> NodeFacts:
        nonlocal seen
        node, known = find_node(), len(topology)
        if node is not seen[0] or known != seen[1]:
            facts = plain if node is None else _of_node(node, plain)
            seen = (node, known, replace(facts, labels={**topology, **facts.labels}))
        return seen[2]

    return look


def _of_node(node: Node, plain: NodeFacts) -> NodeFacts:
    """What the Node object says; memory and processors that it does not tell are the machine's own.

    A Node that tells what it offers and leaves out ephemeral-storage offers none, as for a kubelet.
    """
    offered = node.status.allocatable
    memory, cpu, storage = (offered.get(name) for name in ("memory", "cpu", "ephemeral-storage"))
    if storage is None and offered:
        storage = 0
    return NodeFacts(
        name=node.metadata.name,
        memory=parse_quantity(memory).value if memory is not None else plain.memory,
        cpu_milli=parse_quantity(cpu).milli if cpu is not None else plain.cpu_milli,
        ephemeral_storage=parse_quantity(storage).value if storage is not None else plain.ephemeral_storage,
        labels=node.metadata.labels or plain.labels,
        selinux=plain.selinux,
    )
