"""iSCSI volumes: sessions, devices, mounts and maps, and how all of it is taken back."""

from __future__ import annotations

import json

import pytest
from tests.plugins.iscsi_bench import IQN, ONE, PLUGIN, TWO, A, B, IscsiBench

from mooring.errors import Doubtful, MooringError, NotYet, Refused
from mooring.host.programs import ProgramResult
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Secret

STAGE = f"{PLUGIN}/iface-default/{A}-{IQN}-lun-0"
NODE = f"iscsiadm -m node -p {A} -T {IQN}"
DISCOVERY = f"iscsiadm -m discoverydb -t sendtargets -p {A} -I default"


@pytest.fixture
def bench() -> IscsiBench:
    return IscsiBench()


def chap_secret(name: str = "chap", *, namespace: str = "shop") -> Secret:
    data = {
        "discovery.sendtargets.auth.username": b"finder",
        "discovery.sendtargets.auth.password": b"hunter2",
        "node.session.auth.username": b"us",
        "node.session.auth.password": b"opensesame",
    }
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def test_a_disk_is_discovered_logged_in_to_and_mounted(bench: IscsiBench) -> None:
    assert bench.stage(bench.inline()) == STAGE
    assert bench.network.calls()[:7] == [
        "iscsiadm -m iface -I default -o show",
        f"{DISCOVERY} -o new",
        f"{DISCOVERY} --discover",
        f"{NODE} -I default -o update -n node.session.scan -v manual",
        f"{NODE} -I default --login",
        f"{NODE} -I default -o update -n node.startup -v manual",
        "mkfs.ext4 -F -m0 /dev/sdd0",
    ]
    assert bench.host.read_file("/sys/class/scsi_host/host3/scan") == b"0 0 0"
    mounted = bench.host.mount_at(STAGE)
    assert mounted is not None
    assert mounted.source == "/dev/sdd0"


def test_a_label_is_an_option_of_the_mount(bench: IscsiBench) -> None:
    assert bench.offer(bench.inline()).takes_labels
    assert not bench.offer(bench.persistent(block=True)).takes_labels
    with pytest.raises(MooringError, match="Unknown parameter 'context'"):  # a kernel that has no SELinux tells so
        bench.stage(bench.inline(), "u:r:t:s0:c1,c2")


def test_staging_again_finds_the_work_done(bench: IscsiBench) -> None:
    bench.stage(bench.inline())
    before = len(bench.network.calls())
    bench.stage(bench.inline())
    assert len(bench.network.calls()) == before


def test_a_pod_gets_a_bind_that_belongs_to_its_group(bench: IscsiBench) -> None:
    path = bench.set_up(bench.inline(), group=2000)
    assert bench.mounted() == [STAGE, path]
    facts = bench.host.look(path)
    assert facts is not None
    assert facts.gid == 2000


def test_unstaging_lets_go_of_the_device_and_ends_the_session(bench: IscsiBench) -> None:
    spec = bench.inline()
    bench.set_up(spec)
    bench.tear_down(spec)
    bench.unstage(spec)
    assert bench.network.deleted() == ["sdd0"]
    assert bench.network.calls()[-2:] == [f"{NODE} --logout -I default", f"{NODE} -o delete -I default"]
    assert (bench.mounted(), bench.left(), bench.network.sessions) == ([], [], {})


def test_unstaging_again_does_nothing(bench: IscsiBench) -> None:
    bench.stage(bench.inline())
    bench.unstage(bench.inline())
    before = len(bench.network.calls())
    bench.unstage(bench.inline())
    assert len(bench.network.calls()) == before


def test_the_session_stays_while_another_disk_of_the_target_is_used(bench: IscsiBench) -> None:
    first, second = bench.inline("a", lun=0), bench.inline("b", lun=1)
    bench.stage(first)
    bench.stage(second)
    assert sum("--login" in call for call in bench.network.calls()) == 1
    bench.unstage(first)
    assert not any("--logout" in call for call in bench.network.calls())
    bench.unstage(second)
    assert bench.network.sessions == {}


def test_the_record_is_there_before_the_first_session_and_tells_no_secret(bench: IscsiBench) -> None:
    bench.objects.put(chap_secret())
    seen: list[bytes] = []
    before = bench.host.before_call

    def look(method: str, path: str) -> None:
        if method == "run_program" and bench.host.look(f"{STAGE}/iscsi.json") is not None:
            seen.append(bench.host.read_file(f"{STAGE}/iscsi.json"))
        if before is not None:
            before(method, path)

    bench.host.before_call = look
    bench.stage(bench.inline(secret="chap"))
    record = json.loads(seen[0])
    assert record == {
        "VolName": "data",
        "TargetPortal": A,
        "Portals": [A],
        "Iqn": IQN,
        "Lun": "0",
        "InitIface": "default",
        "Iface": "default",
        "InitiatorName": "",
    }


# -- CHAP ------------------------------------------------------------------------------------------------------------


def test_chap_credentials_are_set_before_discovery_and_before_the_login(bench: IscsiBench) -> None:
    bench.objects.put(chap_secret())
    bench.stage(bench.inline(secret="chap"))
    calls = bench.network.calls()
    key = "discovery.sendtargets.auth"
    assert calls[2:6] == [
        f"{DISCOVERY} -o update -n {key}.authmethod -v CHAP",
        f"{DISCOVERY} -o update -n {key}.username -v finder",
        f"{DISCOVERY} -o update -n {key}.password -v hunter2",
        f"{DISCOVERY} --discover",
    ]
    assert calls[7:11] == [
        f"{NODE} -I default -o update -n node.session.auth.authmethod -v CHAP",
        f"{NODE} -I default -o update -n node.session.auth.username -v us",
        f"{NODE} -I default -o update -n node.session.auth.password -v opensesame",
        f"{NODE} -I default --login",
    ]


@pytest.mark.parametrize("step", [("--login",), ("--discover",), ("node.session.auth.password",)])
def test_no_error_shows_a_password(bench: IscsiBench, step: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    bench.objects.put(chap_secret())
    bench.network.answers[step] = ProgramResult(status=24, output="auth failed for us with opensesame, hunter2")
    with pytest.raises(Refused) as caught:
        bench.stage(bench.inline(secret="chap"))
    assert "auth failed for <masked> with <masked>, <masked>" in str(caught.value)
    for secret in ("opensesame", "hunter2"):
        assert secret not in str(caught.value)
        assert secret not in caplog.text


def test_a_missing_secret_is_waited_for_before_anything_is_done(bench: IscsiBench) -> None:
    with pytest.raises(NotYet, match="its Secret 'shop/chap' with the CHAP credentials does not exist"):
        bench.stage(bench.inline(secret="chap"))
    assert bench.network.calls() == []
    assert bench.left() == []


def test_the_secret_of_a_persistent_volume_is_looked_for_where_its_claim_is(bench: IscsiBench) -> None:
    with pytest.raises(NotYet, match="its Secret 'shop/chap'"):
        bench.stage(bench.persistent(secret="chap"))


# -- interfaces ------------------------------------------------------------------------------------------------------


def test_an_initiator_name_gets_an_interface_of_its_own_that_goes_with_the_volume(bench: IscsiBench) -> None:
    spec = bench.inline(initiator="iqn.2026-01.example:node")
    own = f"{A}:data"
    bench.stage(spec)
    assert bench.network.calls()[1:5] == [
        "iscsiadm -m iface -I default -o show",
        f"iscsiadm -m iface -I {own} -o new",
        f"iscsiadm -m iface -I {own} -o update -n iface.initiatorname -v iqn.2026-01.example:node",
        f"iscsiadm -m iface -I {own} -o update -n iface.transport_name -v tcp",
    ]
    assert f"{NODE} -I {own} --login" in bench.network.calls()
    bench.unstage(spec)
    assert bench.network.calls()[-1] == f"iscsiadm -m iface -I {own} -o delete"


def test_an_interface_that_exists_already_is_used(bench: IscsiBench) -> None:
    bench.network.answers["-m", "iface", "new"] = ProgramResult(status=15)
    bench.stage(bench.inline(initiator="iqn.x"))
    assert len(bench.mounted()) == 1


def test_an_interface_that_cannot_be_completed_is_deleted(bench: IscsiBench) -> None:
    bench.network.answers["iface.transport_name",] = ProgramResult(status=7)
    with pytest.raises(Refused, match="exit status 7"):
        bench.stage(bench.inline(initiator="iqn.x"))
    assert bench.network.calls()[-1] == f"iscsiadm -m iface -I {A}:data -o delete"
    assert bench.left() == []


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_failed_discovery_forgets_the_portal_and_leaves_nothing(bench: IscsiBench) -> None:
    bench.network.answers["--discover",] = ProgramResult(status=8, output="timed out")
    with pytest.raises(Refused, match="exit status 8, 'timed out'"):
        bench.stage(bench.inline())
    assert bench.network.calls()[-1] == f"{DISCOVERY} -o delete"
    assert not any("iface" in call and "delete" in call for call in bench.network.calls())
    assert bench.left() == []


def test_a_failed_login_forgets_the_target(bench: IscsiBench) -> None:
    bench.network.answers["--login",] = ProgramResult(status=8)
    with pytest.raises(Refused, match="cannot log in to"):
        bench.stage(bench.inline())
    assert bench.network.calls()[-1] == f"{NODE} -I default -o delete"
    assert bench.left() == []


def test_a_session_that_exists_already_is_no_failure(bench: IscsiBench) -> None:
    bench.network.login_status = 15
    bench.stage(bench.inline())
    assert not any("-o delete" in call for call in bench.network.calls())


def test_a_session_without_the_disk_leaves_doubt_and_is_ended_by_unstaging(bench: IscsiBench) -> None:
    bench.network.without_disk = {A}
    with pytest.raises(Doubtful, match="no device appeared within 30 s"):
        bench.stage(bench.inline())
    bench.unstage(bench.inline())
    assert (bench.network.sessions, bench.left()) == ({}, [])


def test_a_disk_that_cannot_be_mounted_leaves_doubt_and_no_leak(bench: IscsiBench) -> None:
    bench.network.answers["mkfs.ext4",] = ProgramResult(status=1)
    with pytest.raises(Doubtful, match="cannot make a file system"):
        bench.stage(bench.inline())
    bench.unstage(bench.inline())
    assert (bench.network.sessions, bench.left()) == ({}, [])


def test_a_failed_logout_is_tried_again(bench: IscsiBench) -> None:
    bench.stage(bench.inline())
    bench.network.answers["--logout",] = ProgramResult(status=9, output="busy")
    with pytest.raises(Refused, match="cannot log out"):
        bench.unstage(bench.inline())
    del bench.network.answers["--logout",]
    bench.unstage(bench.inline())
    assert (bench.network.sessions, bench.left()) == ({}, [])


def test_a_device_that_somebody_still_uses_is_not_taken_away(bench: IscsiBench) -> None:
    bench.stage(bench.inline())
    bench.host.claim_device("/dev/sdd0")
    with pytest.raises(Doubtful, match="it is in use"):
        bench.unstage(bench.inline())
    assert bench.network.deleted() == []
    assert bench.network.sessions == {A: 3}


# -- multipath -------------------------------------------------------------------------------------------------------


def test_several_portals_are_paths_of_one_multipath_device(bench: IscsiBench) -> None:
    bench.network.multipath = True
    spec = bench.inline(portals=(A, B))
    bench.stage(spec)
    mounted = bench.host.mount_at(STAGE)
    assert mounted is not None
    assert (mounted.source, bench.network.sessions) == ("/dev/dm-1", {A: 3, B: 4})
    bench.unstage(spec)
    assert "multipath -f /dev/dm-1" in bench.network.calls()
    assert bench.network.deleted() == ["sdd0", "sde0"]
    assert bench.network.sessions == {}


def test_a_portal_that_is_down_costs_a_path_and_not_the_volume(bench: IscsiBench) -> None:
    bench.network.answers["-p", B, "--discover"] = ProgramResult(status=8)
    bench.stage(bench.inline(portals=(A, B)))
    assert bench.mounted() == [STAGE]
    assert sum("--discover" in call and B in call for call in bench.network.calls()) == 5


# -- raw devices -----------------------------------------------------------------------------------------------------


def test_a_raw_disk_is_mapped_for_each_pod_and_let_go_after_the_last(bench: IscsiBench) -> None:
    spec = bench.persistent(block=True)
    link = bench.set_up(spec, ONE)
    bench.set_up(spec, TWO)
    assert bench.host.read_link(link) == "/dev/sdd0"
    assert not any("mkfs" in call for call in bench.network.calls())
    bench.tear_down(spec, ONE)
    with pytest.raises(Doubtful, match="still referenced from other pods"):
        bench.unstage(spec)
    bench.tear_down(spec, TWO)
    bench.unstage(spec)
    assert bench.network.deleted() == ["sdd0"]
    assert (bench.network.sessions, bench.left()) == ({}, [])


# -- after a restart -------------------------------------------------------------------------------------------------


def test_a_mounted_volume_is_found_again_by_its_disk_and_torn_down(bench: IscsiBench) -> None:
    spec = bench.inline("data", portals=(A, B))
    bench.set_up(spec)
    later = bench.restarted()
    found = later.plugin.reconstruct_for(ONE, "data", block=False)
    assert later.plugin.volume_name(found) == bench.plugin.volume_name(spec)
    later.tear_down(found)
    later.unstage(found)
    assert bench.network.sessions == {}  # also at the portal that only the record knows
    assert (bench.mounted(), bench.left()) == ([], [])


def test_a_volume_has_the_name_that_whoever_attaches_it_gives_it(bench: IscsiBench) -> None:
    """plugins.md 5: the portal as it is written."""
    assert bench.plugin.volume_name(bench.inline(portals=("10.0.0.1",))) == f"10.0.0.1:{IQN}:0"
    assert bench.plugin.volume_name(bench.inline(portals=(A,))) == f"{A}:{IQN}:0"


@pytest.mark.parametrize("portal", ["10.0.0.1", A])
def test_a_mapped_volume_keeps_its_name_over_a_restart(bench: IscsiBench, portal: str) -> None:
    spec = bench.persistent(block=True, portals=(portal,))
    bench.set_up(spec)
    found = bench.restarted().plugin.reconstruct_for(ONE, "pv", block=True)
    assert bench.plugin.volume_name(found) == bench.plugin.volume_name(spec)


def test_a_mapped_volume_is_found_again_and_torn_down(bench: IscsiBench) -> None:
    spec = bench.persistent(block=True)
    bench.set_up(spec)
    later = bench.restarted()
    found = later.plugin.reconstruct_for(ONE, "pv", block=True)
    assert later.plugin.volume_name(found) == bench.plugin.volume_name(spec)
    later.tear_down(found)
    later.unstage(found)
    assert (bench.network.sessions, bench.left()) == ({}, [])


def test_a_session_that_no_pod_shows_is_found_as_a_trace(bench: IscsiBench) -> None:
    bench.network.without_disk = {A}
    with pytest.raises(Doubtful):
        bench.stage(bench.inline())
    later = bench.restarted()
    (trace,) = later.plugin.traces()
    later.unstage(trace.spec)
    assert (bench.network.sessions, bench.left()) == ({}, [])


def test_of_a_pod_directory_without_a_disk_only_the_name_is_known(bench: IscsiBench) -> None:
    spec = bench.inline()
    bench.set_up(spec)
    bench.host.reboot()
    bench.unstage(spec)
    later = bench.restarted()
    found = later.plugin.reconstruct_for(ONE, "data", block=False)
    assert later.plugin.volume_name(found) == "data"
    later.tear_down(found)
    later.unstage(found)
    assert bench.host.look(later.offer(found).mounter.path(ONE, found)) is None
