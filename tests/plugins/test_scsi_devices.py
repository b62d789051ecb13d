"""What is read from sysfs, from a tree that a real file system holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.host.linux import LinuxHost
from mooring.plugins.scsi_devices import ScsiDevices

IQN = "iqn.2026.example:x"


class Tree:
    """Made-up /sys and /dev below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices = ScsiDevices(LinuxHost(), sys=f"{root}/sys", dev=f"{root}/dev")

    def put(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def session(self, host: int, *, iqn: str = IQN, address: str = "10.0.0.1", persistent: str = "") -> str:
        place = f"sys/class/iscsi_host/host{host}/device/session{host}"
        connection = f"{place}/connection{host}:0/iscsi_connection/connection{host}:0"
        self.put(f"{place}/iscsi_session/session{host}/targetname", f"{iqn}\n")
        self.put(f"{connection}/address", f"{address}\n")
        self.put(f"{connection}/port", "3260\n")
        self.put(f"{connection}/persistent_address", f"{persistent or address}\n")
        self.put(f"{connection}/persistent_port", "3260\n")
        return place


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_machine_without_iscsi_has_no_sessions(tree: Tree) -> None:
    assert tree.devices.portal_hosts(IQN) == {}


def test_sessions_of_a_target_are_known_by_both_of_their_addresses(tree: Tree) -> None:
    tree.session(3, address="10.0.0.1", persistent="10.0.0.9")
    tree.session(4, address="fd00::1")
    tree.session(5, iqn="iqn.other")
    assert tree.devices.portal_hosts(IQN) == {"10.0.0.1:3260": 3, "10.0.0.9:3260": 3, "[fd00::1]:3260": 4}


def test_a_connection_that_cannot_be_read_is_skipped(tree: Tree) -> None:
    place = tree.session(3)
    (tree.root / f"{place}/connection3:0/iscsi_connection/connection3:0/address").unlink()
    (tree.root / f"{place}/connection3:0/iscsi_connection/connection3:0/persistent_port").unlink()
    assert tree.devices.portal_hosts(IQN) == {}


def test_devices_of_a_lun_are_those_of_the_target_alone(tree: Tree) -> None:
    for host, name in ((3, "sdb"), (4, "sdc")):
        place = tree.session(host)
        (tree.root / f"{place}/target{host}:0:0/{host}:0:0:7/block/{name}").mkdir(parents=True)
        (tree.root / f"{place}/target{host}:0:0/{host}:0:0:8/block/other").mkdir(parents=True)
    assert tree.devices.devices_of_lun(IQN, 7) == [f"{tree.root}/dev/sdb", f"{tree.root}/dev/sdc"]


def test_the_multipath_parent_is_found_through_links(tree: Tree) -> None:
    tree.put("dev/sdb")
    tree.put("dev/dm-1")
    (tree.root / "sys/block/dm-0/slaves/sda").mkdir(parents=True)
    (tree.root / "sys/block/dm-1/slaves/sdb").mkdir(parents=True)
    (tree.root / "dev/disk/by-path").mkdir(parents=True)
    (tree.root / "dev/disk/by-path/x").symlink_to("../../sdb")
    assert tree.devices.multipath_parent(f"{tree.root}/dev/disk/by-path/x") == f"{tree.root}/dev/dm-1"
    assert tree.devices.multipath_parent(f"{tree.root}/dev/dm-1") == f"{tree.root}/dev/dm-1"
    assert tree.devices.slaves(f"{tree.root}/dev/dm-1") == [f"{tree.root}/dev/sdb"]


def test_a_device_without_a_parent_has_none(tree: Tree) -> None:
    tree.put("dev/sdb")
    assert tree.devices.multipath_parent(f"{tree.root}/dev/sdb") is None
    assert tree.devices.multipath_parent(f"{tree.root}/dev/gone") is None


def test_scans_are_written_to_one_host_or_to_all(tree: Tree) -> None:
    files = [tree.put(f"sys/class/scsi_host/host{number}/scan") for number in (3, 4)]
    tree.devices.scan_lun(3, 7)
    assert [file.read_text() for file in files] == ["0 0 7", ""]
    tree.devices.scan_everything()
    assert [file.read_text() for file in files] == ["- - -", "- - -"]


def test_a_device_is_deleted_and_one_that_is_gone_is_no_error(tree: Tree) -> None:
    file = tree.put("sys/block/sdb/device/delete")
    tree.devices.delete(f"{tree.root}/dev/sdb")
    tree.devices.delete(f"{tree.root}/dev/gone")
    assert file.read_text() == "1"


def test_a_pattern_finds_the_concrete_name(tree: Tree) -> None:
    tree.put("dev/disk/by-path/pci-0000:01:00.0-ip-10.0.0.1:3260-iscsi-x-lun-0")
    found = tree.devices.find("by-path", "pci-*-ip-10.0.0.1:3260-iscsi-x-lun-0")
    assert found == f"{tree.root}/dev/disk/by-path/pci-0000:01:00.0-ip-10.0.0.1:3260-iscsi-x-lun-0"
    assert tree.devices.find("by-path", "nothing") is None
