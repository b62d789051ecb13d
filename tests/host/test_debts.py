"""What was unmounted from under its users is remembered until nobody can be using it."""

from __future__ import annotations

import os

import pytest

from mooring.host.debts import Debts
from mooring.host.health import Debt
from mooring.testing.memory_host import MemoryHost

NFS = Debt(path="/mnt", source="server:/share", fs_type="nfs4", device=os.makedev(0, 40), why="it does not answer")
FUSE = Debt(path="/fuse", source="/src", fs_type="fuse", device=os.makedev(0, 41), why="it does not answer")


class Machine:
    def __init__(self) -> None:
        self.host, self.daemons = MemoryHost(), {41: 4711}
        self.host.make_directories("/var", 0o755)

    def debts(self) -> Debts:
        return Debts(self.host, "/var/debts", serving=self.daemons.get)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_debt_outlives_the_process_that_made_it(machine: Machine) -> None:
    machine.debts().add(NFS)
    machine.debts().add(FUSE)
    assert sorted(debt.path for debt in machine.debts().open()) == ["/fuse", "/mnt"]
    assert NFS in machine.debts().open()


def test_a_boot_ends_all_debts(machine: Machine) -> None:
    machine.debts().add(NFS)
    machine.host.reboot()
    assert machine.debts().open() == []
    assert machine.host.names_in("/var/debts") == []


def test_the_end_of_its_daemon_ends_the_debt_of_a_fuse_file_system(machine: Machine) -> None:
    machine.debts().add(NFS)
    machine.debts().add(FUSE)
    machine.daemons.clear()
    assert machine.debts().open() == [NFS]


def test_without_debts_there_is_nothing_and_nothing_is_made(machine: Machine) -> None:
    assert machine.debts().open() == []
    assert machine.host.names_in("/var") == []
