"""The part of the corpus that is about the node itself, about a kubelet's state and about mooring's own files."""

from __future__ import annotations

from tests.doctor.corpus import EMPTY_DIR, Broken, broken, vol_data

from mooring.host.records import encode, record_name


# -- the node's own part -----------------------------------------------------------------------------------------
@broken
def empty_stages(it: Broken) -> None:
    it.directory("plugins/kubernetes.io/csi/disk.example.com/abc/globalmount")
    it.directory("plugins/kubernetes.io/csi/pv/pv-1/globalmount")
    it.directory("plugins/kubernetes.io/local-volume/mounts/pv-2")
    it.directory("plugins/kubernetes.io/csi/volumeDevices/staging/pv-3")
    it.directory("plugins/kubernetes.io/csi/volumeDevices/publish/pv-3")
    it.file("plugins/kubernetes.io/csi/volumeDevices/pv-3/dev/u1", b"")
    it.file("plugins/kubernetes.io~local-volume/volumeDevices/pv-4/u1", b"")
    it.clears(
        "plugins/kubernetes.io/csi/disk.example.com/abc",
        "plugins/kubernetes.io/csi/pv/pv-1",
        "plugins/kubernetes.io/local-volume/mounts/pv-2",
        "plugins/kubernetes.io/csi/volumeDevices/staging/pv-3",
        "plugins/kubernetes.io/csi/volumeDevices/publish/pv-3",
        "plugins/kubernetes.io/csi/volumeDevices/pv-3",
        "plugins/kubernetes.io~local-volume/volumeDevices/pv-4",
    )


@broken
def stage_with_data_file(it: Broken) -> None:
    it.directory("plugins/kubernetes.io/csi/disk.example.com/abc/globalmount")
    it.file("plugins/kubernetes.io/csi/disk.example.com/abc/vol_data.json", vol_data())
    it.names("plugins/kubernetes.io/csi/disk.example.com/abc")


@broken
def stage_with_files(it: Broken) -> None:
    it.file("plugins/kubernetes.io/local-volume/mounts/pv-1/written-after-the-unmount")
    it.names("plugins/kubernetes.io/local-volume/mounts/pv-1")


@broken
def iscsi_notes(it: Broken) -> None:
    it.file("plugins/kubernetes.io/iscsi/iface-default/10.0.0.1:3260-iqn-lun-0/iscsi.json", "{")
    it.names(
        "plugins/kubernetes.io/iscsi/iface-default/10.0.0.1:3260-iqn-lun-0",
        "plugins/kubernetes.io/iscsi/iface-default/10.0.0.1:3260-iqn-lun-0/iscsi.json",
    )


@broken
def stale_sockets(it: Broken) -> None:
    it.socket("plugins_registry/d-reg.sock")
    it.socket("plugins/d/csi.sock")
    it.file("plugins/d/state.json", "of the driver")
    it.clears("plugins_registry/d-reg.sock", "plugins/d/csi.sock")


@broken
def damaged_state_of_a_kubelet(it: Broken) -> None:
    it.directory("pods")
    it.file("cpu_manager_state", b"\0\0\0\0")
    it.names("cpu_manager_state")


# -- mooring's own files -----------------------------------------------------------------------------------------
@broken
def damaged_store(it: Broken) -> None:
    it.file("mooring.lock", "4711\n").chmod(0o600)
    it.directory("store").chmod(0o700)
    it.file("store/objects.db", b"SQLite format 3\0" + b"rubbish" * 600).chmod(0o600)
    it.directory(f"pods/u1/{EMPTY_DIR}/data")
    it.clears("pods/u1")
    it.names("store/objects.db")


@broken
def damaged_records(it: Broken) -> None:
    it.file("mooring.lock", "4711\n")
    for name in ("intents", "debts", "runs"):
        it.directory(name).chmod(0o700)
    it.file("intents/abc.record", "no checksum")
    it.file("intents/def.record.new", b"")
    it.file("intents/ghi.record.new", b"half")
    it.file("runs/u1.json", "{")
    it.file("runs/u2.lock", b"")
    it.directory("pods/u1")
    it.clears("intents/def.record.new", "runs/u2.lock")
    it.names("intents/abc.record", "intents/ghi.record.new", "runs/u1.json")


@broken
def recorded_volume(it: Broken) -> None:
    it.file("mooring.lock", "4711\n")
    it.directory("intents").chmod(0o700)
    path = it.directory("pods/u1/volumes/kubernetes.io~local-volume/pv-1")
    body: dict[str, object] = {"path": str(path), "pod": "u1", "owner": "default/web", "volume": "v", "operation": "m"}
    it.file(f"intents/{record_name('v u1')}.record", encode(body))
    it.names("pods/u1/volumes/kubernetes.io~local-volume/pv-1")


@broken
def readable_secrets(it: Broken) -> None:
    it.directory("pods")
    it.file("mooring.lock", "4711\n")
    it.file("service-account.key", "key").chmod(0o644)
    it.file("store/objects.db", b"").chmod(0o666)
    it.directory("store").chmod(0o755)
    it.names("service-account.key", "store", "store/objects.db")


@broken
def lock_that_leads_out(it: Broken) -> None:
    outside = it.root.parent / "outside"
    outside.mkdir()
    (outside / "diary").write_text("dear diary")
    it.link("mooring.lock", str(outside / "diary"))
    it.directory("pods/u1/volumes")
    it.names("pods/u1")
