"""FlexVolume: what drivers are asked, in which words, and what mooring does when they leave it to it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mooring.errors import Doubtful, NotYet, Refused
from mooring.host.paths import Paths
from mooring.host.programs import ProgramResult
from mooring.kube.objects.meta import ObjectMeta, SecretReference
from mooring.kube.objects.pod import Secret
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import FlexVolumeSource, Volume
from mooring.plugins.flex_driver import Capabilities, FlexDriver, capabilities_of, parse_reply
from mooring.plugins.flex_volume import FlexVolumePlugin
from mooring.plugins.interface import NodeFacts, PluginContext, Setup
from mooring.sources.object_table import ObjectTable
from mooring.testing.memory_host import MemoryHost
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

ROOT = "/var/lib/mooring"
DRIVER = "example.com/nbd"
PROGRAM = "/drivers/example.com~nbd/nbd"
UID = PodUid("uid-web")
PATH = f"{ROOT}/pods/{UID}/volumes/example.com~nbd/data"
STAGE = f"{ROOT}/plugins/kubernetes.io/flexvolume/example.com/nbd/mounts/data"


class FlexBench:
    """The plugin of one driver. `answers` says how it replies to a command; others it does not support."""

    def __init__(self, capabilities: Capabilities | None = None, *, attached_by_others: bool = False) -> None:
        self.host = MemoryHost()
        self.objects = ObjectTable()
        self.answers: dict[str, dict[str, Any] | ProgramResult] = {}
        self.host.program_result = self._driver
        context = PluginContext(
            host=self.host,
            paths=Paths(ROOT),
            objects=self.objects,
            node=lambda: NodeFacts(name="node-1", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=lambda _: None,
            attached_by_others=attached_by_others,
        )
        driver = FlexDriver(self.host, DRIVER, PROGRAM)
        self.plugin = FlexVolumePlugin(context, driver, capabilities or Capabilities())

    def _driver(self, arguments: Sequence[str]) -> ProgramResult | None:
        if arguments[0] != PROGRAM:
            return None
        answer = self.answers.get(arguments[1], {"status": "Not supported"})
        if isinstance(answer, ProgramResult):
            return answer
        if arguments[1] in ("mount", "mountdevice") and answer.get("status") == "Success":
            self.host.mount_network(arguments[2], "nbd", "ext4")
        if arguments[1] in ("unmount", "unmountdevice") and answer.get("status") == "Success":
            self.host.unmount(arguments[2])
        return ProgramResult(status=0, output=json.dumps(answer))

    def calls(self) -> list[tuple[str, ...]]:
        """What the driver was asked, without the program's name."""
        return [call[1:] for call in self.host.programs_run if call[0] == PROGRAM]

    def attach(self, spec: VolumeSpec) -> str:
        attacher = self.plugin.offer(spec).attacher
        assert attacher is not None
        return run_virtual(attacher.attach(spec))

    def detach(self, spec: VolumeSpec) -> None:
        attacher = self.plugin.offer(spec).attacher
        assert attacher is not None
        run_virtual(attacher.detach(spec))

    def stage(self, spec: VolumeSpec, device: str = "") -> str:
        stager = self.plugin.offer(spec).stager
        assert stager is not None
        return run_virtual(stager.stage(spec, device))

    def unstage(self, spec: VolumeSpec) -> None:
        stager = self.plugin.offer(spec).stager
        assert stager is not None
        run_virtual(stager.unstage(spec, ""))

    def set_up(self, spec: VolumeSpec, *, group: int | None = None, stage_path: str = "") -> str:
        request = Setup(pod=pod("web"), uid=UID, spec=spec, fs_group=group, stage_path=stage_path)
        mounter = self.plugin.offer(spec).mounter
        run_virtual(mounter.set_up(request))
        return mounter.path(UID, spec)

    def tear_down(self, spec: VolumeSpec) -> None:
        run_virtual(self.plugin.offer(spec).mounter.tear_down(UID, spec))

    def mounted(self) -> list[str]:
        return [mount.path for mount in self.host.mounts() if mount.path != "/"]


OK = {"status": "Success"}


@pytest.fixture
def bench() -> FlexBench:
    return FlexBench()


def flex(*, read_only: bool = False, secret: str = "", options: Mapping[str, str] | None = None) -> VolumeSpec:
    reference = SecretReference(name=secret) if secret else None
    source = FlexVolumeSource(
        driver=DRIVER, fs_type="ext4", read_only=read_only, options=options or {}, secret_ref=reference
    )
    return VolumeSpec(volume=Volume(name="data", flex_volume=source))


# -- options ---------------------------------------------------------------------------------------------------------


def test_a_mount_tells_of_the_volume_the_pod_and_the_group(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex(options={"share": "a"}), group=42)
    ((command, directory, options),) = bench.calls()
    assert (command, directory) == ("mount", PATH)
    assert json.loads(options) == {
        "kubernetes.io/fsType": "ext4",
        "kubernetes.io/readwrite": "rw",
        "kubernetes.io/pvOrVolumeName": "data",
        "kubernetes.io/pod.name": "web",
        "kubernetes.io/pod.namespace": "default",
        "kubernetes.io/pod.uid": UID,
        "kubernetes.io/serviceAccount.name": "",
        "kubernetes.io/mounterArgs.FsGroup": "42",
        "share": "a",
    }


def test_a_secret_of_the_drivers_type_is_told_in_base64(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    secret = Secret(metadata=ObjectMeta(name="login", namespace="default"), type=DRIVER, data={"key": b"hunter2"})
    bench.objects.put(secret)
    bench.set_up(flex(secret="login"))
    assert json.loads(bench.calls()[0][2])["kubernetes.io/secret/key"] == base64.b64encode(b"hunter2").decode()


def test_a_secret_of_another_type_is_refused(bench: FlexBench) -> None:
    bench.objects.put(Secret(metadata=ObjectMeta(name="login", namespace="default"), data={"key": b"x"}))
    with pytest.raises(Refused, match=r"its Secret 'default/login' is of type 'Opaque'"):
        bench.set_up(flex(secret="login"))
    assert bench.host.look(PATH) is None


def test_a_missing_secret_is_waited_for(bench: FlexBench) -> None:
    with pytest.raises(NotYet, match="'default/login' does not exist"):
        bench.set_up(flex(secret="login"))
    (reference,) = bench.plugin.references(flex(secret="login"), pod("web"))
    assert (reference.kind, reference.namespace, reference.name) == ("Secret", "default", "login")


def test_options_of_the_volume_win_over_all_others_with_a_warning(
    bench: FlexBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex(options={"kubernetes.io/pod.name": "other"}))
    assert json.loads(bench.calls()[0][2])["kubernetes.io/pod.name"] == "other"
    assert "its own options replace kubernetes.io/pod.name" in caplog.text


# -- mounting for a pod ----------------------------------------------------------------------------------------------


def test_a_mounted_volume_is_not_mounted_again(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex())
    bench.set_up(flex())
    assert len(bench.calls()) == 1


def test_the_group_gets_what_the_driver_mounted(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex(), group=42)
    facts = bench.host.look(PATH)
    assert facts is not None
    assert facts.gid == 42


def test_a_crash_before_the_group_was_set_is_made_good(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex())
    bench.set_up(flex(), group=42)
    facts = bench.host.look(PATH)
    assert facts is not None
    assert facts.gid == 42


@pytest.mark.parametrize("read_only", [True, False])
def test_a_driver_may_keep_groups_out(read_only: bool) -> None:
    bench = FlexBench(Capabilities(fs_group=read_only))
    bench.answers["mount"] = OK
    bench.set_up(flex(read_only=read_only), group=42)
    facts = bench.host.look(PATH)
    assert facts is not None
    assert facts.gid == 0


def test_a_failed_mount_leaves_nothing(bench: FlexBench) -> None:
    bench.answers["mount"] = {"status": "Failure", "message": "no such share"}
    with pytest.raises(Refused, match="mount command failed, status: Failure, reason: no such share"):
        bench.set_up(flex())
    assert bench.host.look(PATH) is None


def test_a_driver_that_mounted_and_failed_then_leaves_doubt(bench: FlexBench) -> None:
    bench.host.make_directories(PATH, 0o750)
    bench.answers["mount"] = {"status": "Failure", "message": "late"}

    def mounts_first(method: str, path: str) -> None:
        if method == "run_program" and bench.host.mount_at(PATH) is None:
            bench.host.mount_network(PATH, "nbd", "ext4")

    bench.host.before_call = mounts_first
    with pytest.raises(Doubtful, match="reason: late"):
        bench.set_up(flex())


def test_tear_down_asks_the_driver_and_removes_what_it_leaves(bench: FlexBench) -> None:
    bench.answers |= {"mount": OK, "unmount": OK}
    bench.set_up(flex())
    bench.tear_down(flex())
    bench.tear_down(flex())
    assert bench.calls()[1:] == [("unmount", PATH)]
    assert bench.host.look(PATH) is None


def test_a_driver_that_does_not_unmount_leaves_that_to_mooring(bench: FlexBench) -> None:
    bench.answers["mount"] = OK
    bench.set_up(flex())
    bench.tear_down(flex())
    assert (bench.mounted(), bench.host.look(PATH)) == ([], None)


def test_a_driver_that_neither_mounts_nor_attaches_is_of_no_use() -> None:
    bench = FlexBench(Capabilities(attach=False))
    assert bench.plugin.offer(flex()).stager is None
    with pytest.raises(Refused, match="neither mounts volumes for pods nor attaches them"):
        bench.set_up(flex())
    assert bench.host.look(PATH) is None


# -- attaching -------------------------------------------------------------------------------------------------------


def test_a_volume_is_attached_waited_for_and_mounted_for_the_node(bench: FlexBench) -> None:
    bench.answers |= {
        "getvolumename": {"status": "Success", "volumeName": "elsewhere"},
        "attach": {"status": "Success", "device": "/dev/nbd0"},
        "waitforattach": {"status": "Success", "device": "/dev/nbd1"},
        "mountdevice": OK,
    }
    device = bench.attach(flex())
    assert bench.stage(flex(), device) == STAGE
    assert bench.plugin.volume_name(flex()) == "data"
    assert [(call[0], *call[1:-1]) for call in bench.calls()] == [
        ("getvolumename",),
        ("attach", bench.calls()[1][1]),
        ("waitforattach", "/dev/nbd0"),
        ("mountdevice", STAGE, "/dev/nbd1"),
    ]
    assert bench.calls()[1][2] == "node-1"


def test_where_others_attach_the_driver_is_not_asked_to_attach_or_detach_here() -> None:
    """operations.md, scenario 22."""
    bench = FlexBench(attached_by_others=True)
    assert bench.attach(flex()) == ""
    bench.detach(flex())
    assert bench.calls() == []


def test_a_driver_that_fails_to_name_a_volume_does_not_attach_it(bench: FlexBench) -> None:
    bench.answers["getvolumename"] = {"status": "Failure", "message": "no"}
    with pytest.raises(Refused, match="getvolumename command failed"):
        bench.attach(flex())
    assert [call[0] for call in bench.calls()] == ["getvolumename"]


def test_what_the_driver_does_not_support_is_done_by_mooring(bench: FlexBench) -> None:
    """X2."""
    bench.host.make_directories("/dev", 0o755)
    bench.host.make_device("/dev/disk", 64 * 2**20)
    assert bench.attach(flex()) == ""
    stage = bench.stage(flex(), "/dev/disk")
    path = bench.set_up(flex(), stage_path=stage)
    assert bench.mounted() == [STAGE, PATH]
    assert path == PATH
    bench.tear_down(flex())
    bench.unstage(flex())
    bench.detach(flex())
    assert (bench.mounted(), bench.host.look(STAGE)) == ([], None)


def test_what_a_driver_does_not_support_is_asked_once(bench: FlexBench) -> None:
    bench.attach(flex())
    bench.attach(flex())
    assert [call[0] for call in bench.calls()] == ["getvolumename", "attach"]


def test_without_a_device_there_is_nothing_to_mount(bench: FlexBench) -> None:
    assert bench.stage(flex()) == STAGE
    assert bench.mounted() == []


def test_a_volume_is_detached_by_its_name(bench: FlexBench) -> None:
    bench.answers["detach"] = OK
    bench.detach(flex())
    assert bench.calls() == [("detach", "data", "node-1")]


def test_stages_of_earlier_processes_are_traces(bench: FlexBench) -> None:
    bench.answers |= {"mountdevice": OK, "unmountdevice": OK}
    bench.stage(flex(), "/dev/nbd0")
    (trace,) = bench.plugin.traces()
    assert bench.plugin.volume_name(trace.spec) == "data"
    bench.unstage(trace.spec)
    assert (bench.mounted(), bench.host.look(STAGE)) == ([], None)


# -- growing ---------------------------------------------------------------------------------------------------------


def test_growing_asks_the_driver_for_the_volume_and_its_file_system(bench: FlexBench) -> None:
    bench.answers |= {"expandvolume": {"status": "Success", "volumeNewSize": 12}, "expandfs": OK}
    assert run_virtual(bench.plugin.expander.expand_volume(flex(), STAGE, 10, 5)) == 12
    run_virtual(bench.plugin.expander.expand_file_system(flex(), "/dev/nbd0", STAGE, 10, 5))
    volume, file_system = bench.calls()
    assert (volume[0], *volume[2:]) == ("expandvolume", STAGE, "10", "5")
    assert (file_system[0], *file_system[2:]) == ("expandfs", "/dev/nbd0", STAGE, "10", "5")


def test_a_driver_that_does_not_grow_volumes_has_grown_them(bench: FlexBench) -> None:
    assert run_virtual(bench.plugin.expander.expand_volume(flex(), STAGE, 10, 5)) == 10


# -- replies ---------------------------------------------------------------------------------------------------------


def test_a_reply_is_read_whatever_the_case_of_its_keys() -> None:
    reply = parse_reply('{"Status": "Success", "DEVICE": "/dev/x", "volumename": "v", "Attached": true}')
    assert (reply.status, reply.device, reply.volume_name, reply.attached) == ("Success", "/dev/x", "v", True)


@pytest.mark.parametrize("output", ["", "ok", "[]", '{"status": "Success"} trailing'])
def test_an_answer_that_is_no_json_object_is_an_error_that_shows_nothing_of_it(bench: FlexBench, output: str) -> None:
    bench.answers["mount"] = ProgramResult(status=1, output=output)
    with pytest.raises(Refused, match="exit status 1 and did not answer with one JSON object"):
        bench.set_up(flex())


def test_success_with_a_failing_exit_status_is_a_failure(bench: FlexBench) -> None:
    bench.answers["mount"] = ProgramResult(status=3, output='{"status": "Success"}')
    with pytest.raises(Refused, match="reported success and ended with exit status 3"):
        bench.set_up(flex())


def test_a_reply_overrides_only_the_capabilities_it_names() -> None:
    reply = parse_reply('{"status": "Success", "capabilities": {"attach": false, "supportsMetrics": true, "x": 1}}')
    assert capabilities_of(reply) == Capabilities(attach=False, supports_metrics=True)
    assert capabilities_of(parse_reply('{"status": "Success"}')) == Capabilities()


def test_a_persistent_volume_is_named_after_itself(bench: FlexBench) -> None:
    source = FlexVolumeSource(driver=DRIVER)
    volume = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(flex_volume=source))
    spec = VolumeSpec(persistent_volume=volume)
    assert bench.plugin.supports(spec)
    assert bench.plugin.volume_name(spec) == "pv"


def test_a_volume_of_another_driver_is_not_served(bench: FlexBench) -> None:
    other = VolumeSpec(volume=Volume(name="v", flex_volume=FlexVolumeSource(driver="example.com/other")))
    assert not bench.plugin.supports(other)
    assert not bench.plugin.supports(VolumeSpec(volume=Volume(name="v")))
