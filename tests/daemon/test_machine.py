"""Facts about this machine."""

from __future__ import annotations

import os

from mooring.daemon.machine import machine_facts
from mooring.settings import Settings


def test_a_machine_tells_what_it_has_under_the_nodes_name() -> None:
    facts = machine_facts(Settings(root="/", node_name="here"), boot_id="boot-1", address="192.0.2.7")()
    assert (facts.name, facts.hostname, facts.address) == ("here", "here", "192.0.2.7")
    assert facts.capacity == facts.allocatable
    assert facts.capacity.memory > 0
    assert facts.capacity.ephemeral_storage > 0
    assert facts.architecture not in ("", "x86_64", "aarch64")
    assert facts.kernel_version == os.uname().release


def test_what_the_settings_leave_for_pods_is_allocatable() -> None:
    settings = Settings(root="/", allocatable_memory=2**30, allocatable_cpu_milli=500)
    facts = machine_facts(settings, boot_id="", address="192.0.2.7")()
    assert (facts.allocatable.memory, facts.allocatable.cpu_milli) == (2**30, 500)
    assert facts.capacity.memory > 0
