"""Names, data files, access modes, requests and redaction: pure functions of the CSI room."""

from __future__ import annotations

import hashlib
import json

import pytest

from mooring.csi.access_modes import access_mode
from mooring.csi.drivers import Capabilities
from mooring.csi.names import Identity, Places, attachment_name, inline_handle, split_volume_name, volume_name
from mooring.csi.publish import gives_to_group, publish_request
from mooring.csi.redaction import TOKENS_KEY, described, secret_values, without
from mooring.csi.stage import stage_request
from mooring.csi.vol_data import VolumeData, decoded, encoded, read, skeleton, write
from mooring.errors import Doubtful
from mooring.host.paths import Paths
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import CSIVolumeSource, Volume
from mooring.plugins.interface import IssuedToken
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.sample_objects import pod
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

Mode = csi.VolumeCapability.AccessMode

STAGES = Capabilities(stages=True)
WEB = pod("web")
TOKEN = IssuedToken(text="secret-token", expires_at=0.0, refresh_at=0.0)


def spec(*, modes: tuple[str, ...] = ("ReadWriteOnce",), fs_type: str = "ext4", read_only: bool = False) -> VolumeSpec:
    attributes = {"share": "a", "csi.storage.k8s.io/pod.name": "spoofed"}
    source = CSIPersistentVolumeSource(driver="d", volume_handle="h", fs_type=fs_type, volume_attributes=attributes)
    volume = PersistentVolumeSpec(csi=source, access_modes=modes, mount_options=("noatime",), volume_mode="Filesystem")
    return VolumeSpec(
        persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv"), spec=volume), read_only=read_only
    )


def inline(*, fs_type: str = "ext4", read_only: bool = False) -> VolumeSpec:
    return VolumeSpec(volume=Volume(name="s", csi=CSIVolumeSource(driver="d", fs_type=fs_type, read_only=read_only)))


def published(driver: CSIDriverSpec, tokens: dict[str, IssuedToken] | None = None) -> csi.NodePublishVolumeRequest:
    return publish_request(
        spec(),
        WEB,
        STAGES,
        "/target",
        "/stage",
        secrets={"key": "value"},
        publish_context={"disk": "sda"},
        tokens=tokens or {},
        driver=CSIDriver(metadata=ObjectMeta(name="d"), spec=driver),
    )


# -- names -------------------------------------------------------------------------------------------------------------
def test_a_handle_may_hold_the_separator() -> None:
    identity = Identity(driver="d", handle="a^b")
    assert split_volume_name(volume_name(identity)) == identity


def test_handles_and_attachments_are_named_by_the_kubelets_recipes() -> None:
    assert inline_handle(PodUid("uid"), "vol") == "csi-" + hashlib.sha256(b"uidvol").hexdigest()
    named = attachment_name(Identity(driver="drv", handle="vol"), "node")
    assert named == "csi-" + hashlib.sha256(b"voldrvnode").hexdigest()


def test_stages_and_targets_lie_where_a_kubelet_has_them() -> None:
    places = Places(Paths("/r"))
    digest = hashlib.sha256(b"h").hexdigest()
    stage = places.stage(Identity(driver="d", handle="h"))
    assert stage == f"/r/plugins/kubernetes.io/csi/d/{digest}/globalmount"
    assert places.target(PodUid("u"), "pv") == "/r/pods/u/volumes/kubernetes.io~csi/pv/mount"


# -- data files --------------------------------------------------------------------------------------------------------
def test_a_data_file_of_a_kubelet_is_read_and_unknown_keys_are_passed_over() -> None:
    raw = b'{"attachmentID":"csi-1","driverName":"d","new":"x","nodeName":"n","specVolID":"pv","volumeHandle":"h"}\n'
    data = decoded(raw)
    assert (data.identity, data.spec_vol_id) == (Identity(driver="d", handle="h"), "pv")
    assert decoded(encoded(data)) == data
    known = b'{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h"}\n'
    assert encoded(data) == known


def test_a_data_file_that_makes_no_sense_is_not_taken_for_a_missing_one() -> None:
    host = MemoryHost()
    assert read(host, "/unit") is None
    write(host, "/unit", VolumeData(driver_name="", volume_handle="h"))
    with pytest.raises(Doubtful):
        read(host, "/unit")
    host.write_durably("/unit", {"vol_data.json": b'{"driverName"}}'})
    with pytest.raises(Doubtful):
        read(host, "/unit")


@pytest.mark.parametrize(("mode", "is_inline"), [("Ephemeral", True), ("Persistent", False), ("", False)])
def test_what_was_published_is_known_again_from_its_data_file(mode: str, is_inline: bool) -> None:
    found = skeleton(VolumeData(driver_name="d", volume_handle="h", volume_lifecycle_mode=mode), "pv", block=False)
    assert (found.volume is not None, found.name, found.csi_driver) == (is_inline, "pv", "d")


# -- requests ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("modes", "plain", "exact"),
    [
        ((), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        (("ReadWriteOnce", "ReadOnlyMany"), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        (("ReadWriteOncePod",), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        (("ReadOnlyMany",), Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        (("ReadWriteMany",), Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        (("Other",), Mode.UNKNOWN, Mode.UNKNOWN),
    ],
)
def test_the_first_access_mode_is_told_as_exactly_as_the_driver_understands(
    modes: tuple[str, ...], plain: int, exact: int
) -> None:
    told = [access_mode(modes, multi_writer=multi_writer) for multi_writer in (False, True)]
    assert told == [plain, exact]


def test_a_stage_is_asked_for_with_the_volumes_own_words_and_none_of_a_pods() -> None:
    asked = stage_request(spec(), STAGES, "/stage", secrets={"key": "value"}, publish_context={"disk": "sda"})
    assert (asked.volume_id, asked.staging_target_path, dict(asked.secrets)) == ("h", "/stage", {"key": "value"})
    assert (asked.volume_context["share"], dict(asked.publish_context)) == ("a", {"disk": "sda"})
    mount = asked.volume_capability.mount
    assert (mount.fs_type, list(mount.mount_flags), mount.volume_mount_group) == ("ext4", ["noatime"], "")


def test_the_real_pod_wins_over_attributes_of_the_same_name() -> None:
    context = published(CSIDriverSpec(pod_info_on_mount=True)).volume_context
    assert context["csi.storage.k8s.io/pod.name"] == "web"
    assert context["csi.storage.k8s.io/ephemeral"] == "false"


def test_a_driver_that_does_not_ask_is_told_nothing_of_the_pod() -> None:
    assert "csi.storage.k8s.io/pod.uid" not in published(CSIDriverSpec()).volume_context


def test_tokens_go_into_the_context_or_into_the_secrets_and_never_into_both() -> None:
    tokens = {"gcp": TOKEN, "": TOKEN}
    shown = published(CSIDriverSpec(), tokens)
    entry = json.loads(shown.volume_context[TOKENS_KEY])
    assert entry["gcp"] == {"token": "secret-token", "expirationTimestamp": "1970-01-01T00:00:00Z"}
    assert "" in entry
    assert TOKENS_KEY not in shown.secrets
    hidden = published(CSIDriverSpec(service_account_token_in_secrets=True), tokens)
    assert TOKENS_KEY in hidden.secrets
    assert TOKENS_KEY not in hidden.volume_context


@pytest.mark.parametrize(
    ("volume", "policy", "gives"),
    [
        (spec(), "None", False),
        (spec(fs_type="", modes=("ReadWriteMany",)), "File", True),
        (spec(), "ReadWriteOnceWithFSType", True),
        (spec(modes=("ReadWriteOncePod",)), "ReadWriteOnceWithFSType", True),
        (spec(fs_type=""), "ReadWriteOnceWithFSType", False),
        (spec(modes=("ReadWriteMany",)), "ReadWriteOnceWithFSType", False),
        (spec(read_only=True), "File", False),
        (inline(), "ReadWriteOnceWithFSType", True),
        (inline(fs_type=""), "ReadWriteOnceWithFSType", False),
        (inline(read_only=True), "File", False),
    ],
)
def test_the_policy_decides_who_gives_the_files_to_the_group(volume: VolumeSpec, policy: str, gives: bool) -> None:
    assert gives_to_group(volume, policy) is gives


# -- redaction ---------------------------------------------------------------------------------------------------------
def test_a_request_is_described_without_its_secrets_and_tokens() -> None:
    asked = published(CSIDriverSpec(), {"": TOKEN})
    words = described(asked)
    assert "secret-token" not in words
    assert '"value"' not in words
    assert all(each in words for each in ('"key"', "/target", "sda"))
    assert asked.secrets["key"] == "value"


def test_longer_secrets_are_hidden_before_those_they_hold() -> None:
    asked = csi.NodeStageVolumeRequest(secrets={"a": "pass", "b": "password", "c": ""})
    assert without("pass password passed", secret_values(asked)) == "*** *** ***ed"
