"""How iSCSI disks are spelled: portals, directories, records, and what iscsiadm prints."""

from __future__ import annotations

import json

import pytest

from mooring.errors import Refused
from mooring.kube.objects.meta import SecretReference
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import ISCSIVolumeSource, Volume
from mooring.plugins import iscsi_disk
from mooring.plugins.interface import ObjectRef
from mooring.plugins.iscsi_admin import interface_fields, transport_in
from mooring.plugins.iscsi_disk import IscsiDisk, decode_record, encode_record, parse_directory, portal_with_port
from mooring.plugins.iscsi_sessions import path_pattern
from mooring.world.spec import VolumeSpec

DISK = IscsiDisk(name="v", portals=("10.0.0.1:3260",), iqn="iqn.2026.x", lun=0)


@pytest.mark.parametrize(
    ("written", "portal"),
    [
        ("10.1.1.1", "10.1.1.1:3260"),
        ("10.1.1.1:860", "10.1.1.1:860"),
        ("disks.example.com", "disks.example.com:3260"),
        ("fd00::1", "[fd00::1]:3260"),
        ("[fd00::1]", "[fd00::1]:3260"),
        ("[fd00::1]:860", "[fd00::1]:860"),
    ],
)
def test_a_portal_without_a_port_gets_the_usual_one(written: str, portal: str) -> None:
    assert portal_with_port(written) == portal


@pytest.mark.parametrize(
    ("directory", "portal", "iqn", "lun"),
    [
        ("127.0.0.1:3260-iqn.2026.x:y-lun-0", "127.0.0.1:3260", "iqn.2026.x:y", 0),
        ("[fd00::1]:3260-eui.02004567A425678D-lun-12", "[fd00::1]:3260", "eui.02004567A425678D", 12),
        ("my-disks-1:3260-naa.52004567BA64678D-lun-3", "my-disks-1:3260", "naa.52004567BA64678D", 3),
        ("a:1-iqn.2026.x:with-lun-1-inside-lun-2", "a:1", "iqn.2026.x:with-lun-1-inside", 2),
    ],
)
def test_a_directory_tells_portal_target_and_lun(directory: str, portal: str, iqn: str, lun: int) -> None:
    found = parse_directory("iface-default", directory)
    assert found is not None
    assert (found.portals, found.iqn, found.lun, found.interface) == ((portal,), iqn, lun, "default")
    assert found.directory == f"iface-default/{directory}"


@pytest.mark.parametrize(
    ("interface", "directory"),
    [("iface-default", "no-target-lun-0"), ("iface-default", "a:1-iqn.x-lun-x"), ("default", "a:1-iqn.x-lun-0")],
)
def test_a_directory_of_another_form_tells_nothing(interface: str, directory: str) -> None:
    assert parse_directory(interface, directory) is None


def test_a_record_tells_the_whole_disk() -> None:
    disk = IscsiDisk(
        name="v",
        portals=("a:1", "b:1"),
        iqn="iqn.x",
        lun=7,
        interface="a:1:v",
        configured_interface="hw",
        initiator_name="iqn.me",
        target_portal="a",
    )
    assert decode_record(encode_record(disk), DISK) == disk


def test_a_record_that_does_not_tell_how_its_portal_was_written_has_it_with_its_port() -> None:
    record = json.loads(encode_record(DISK))
    del record["TargetPortal"]
    disk = decode_record(json.dumps(record).encode(), DISK)
    assert iscsi_disk.backing_name(iscsi_disk.source_of_disk(disk)) == "10.0.0.1:3260:iqn.2026.x:0"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"VolName": "v"}', b'{"Portals": 3}'])
def test_a_record_that_cannot_be_read_leaves_what_the_directory_says(data: bytes) -> None:
    assert decode_record(data, DISK) == DISK


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        ("iface.transport_name = tcp", "tcp"),
        ("iface.transport_name = cxgb4i", "cxgb4i"),
        ("iface.transport_name = <empty>", "tcp"),
        ("iface.iscsi_ifacename = default", ""),
    ],
)
def test_the_transport_is_read_from_the_interface(line: str, transport: str) -> None:
    assert transport_in(f"# BEGIN RECORD\n{line}\n# END RECORD") == transport


def test_a_copy_of_an_interface_has_all_but_its_name_and_what_is_empty() -> None:
    shown = "# x\niface.iscsi_ifacename = default\niface.mtu = <empty>\niface.vlan_id = 7\nother = 1"
    assert interface_fields(shown) == {"iface.vlan_id": "7"}


def test_a_line_of_another_form_is_an_error() -> None:
    with pytest.raises(Refused, match=r"a line of no known form, 'iface\.x=error'"):
        interface_fields("iface.x=error")


def test_other_transports_than_tcp_put_their_adapter_before_the_name() -> None:
    assert path_pattern(DISK, "10.0.0.1:3260", "tcp") == "ip-10.0.0.1:3260-iscsi-iqn.2026.x-lun-0"
    assert path_pattern(DISK, "[fd00::1]:3260", "cxgb4i") == "pci-*-ip-fd00::1:3260-iscsi-iqn.2026.x-lun-0"


@pytest.mark.parametrize(
    ("stated", "persistent", "namespace"),
    [("", False, "pods"), ("other", False, "pods"), ("", True, "pods"), ("other", True, "other")],
)
def test_only_a_persistent_volume_may_name_the_namespace_of_its_secret(
    stated: str, persistent: bool, namespace: str
) -> None:
    source = ISCSIVolumeSource(
        target_portal="a",
        iqn="iqn.x",
        chap_auth_session=True,
        secret_ref=SecretReference(name="chap", namespace=stated),
    )
    volume = PersistentVolume(spec=PersistentVolumeSpec(iscsi=source))
    spec = VolumeSpec(persistent_volume=volume) if persistent else VolumeSpec(volume=Volume(name="v", iscsi=source))
    assert iscsi_disk.secret_reference(spec, "pods") == ObjectRef("Secret", namespace, "chap")


def test_no_secret_is_wanted_without_chap() -> None:
    source = ISCSIVolumeSource(target_portal="a", iqn="iqn.x", secret_ref=SecretReference(name="chap"))
    assert iscsi_disk.secret_reference(VolumeSpec(volume=Volume(name="v", iscsi=source)), "pods") is None


@pytest.mark.parametrize(
    "source",
    [
        ISCSIVolumeSource(target_portal="a", iqn="iqn.x/../../etc"),
        ISCSIVolumeSource(target_portal="-x", iqn="iqn.x"),
        ISCSIVolumeSource(target_portal="a", iqn="iqn.x", iscsi_interface="../up"),
        ISCSIVolumeSource(target_portal="", iqn="iqn.x"),
    ],
)
def test_words_that_could_be_options_or_lead_elsewhere_are_refused(source: ISCSIVolumeSource) -> None:
    with pytest.raises(Refused):
        iscsi_disk.disk_of(VolumeSpec(volume=Volume(name="v", iscsi=source)))
