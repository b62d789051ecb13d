"""nfs volumes: how mount(8) is called, and what is left when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.plugins.conftest import UID, PluginBench

from mooring.errors import Doubtful, Refused
from mooring.host.programs import ProgramMissing, ProgramResult
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import NFSVolumeSource, Volume
from mooring.plugins import nfs
from mooring.world.spec import VolumeSpec

VOLUME = Volume(name="data", nfs=NFSVolumeSource(server="10.0.0.1", path="/srv/data"))
PATH = f"/var/lib/mooring/pods/{UID}/volumes/kubernetes.io~nfs/data"


def let_mount_work(bench: PluginBench) -> None:
    """Let mount(8) do what it would with a server that answers."""

    def mount(arguments: Sequence[str]) -> ProgramResult | None:
        bench.host.mount_network(arguments[-1], arguments[-2], "nfs4")
        return None

    bench.host.program_result = mount


def pv(options: tuple[str, ...] = (), *, server: str = "10.0.0.1", read_only: bool = False) -> PersistentVolume:
    source = NFSVolumeSource(server=server, path="/srv/data", read_only=read_only)
    return PersistentVolume(
        metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(nfs=source, mount_options=options)
    )


def test_an_export_is_mounted_by_mount_and_only_once(bench: PluginBench) -> None:
    let_mount_work(bench)
    assert bench.set_up(VOLUME) == PATH
    bench.set_up(VOLUME)
    assert bench.host.programs_run == [("mount", "-t", "nfs", "10.0.0.1:/srv/data", PATH)]
    mounted = bench.host.mount_at(PATH)
    assert mounted is not None
    assert mounted.source == "10.0.0.1:/srv/data"


def test_tear_down_unmounts_and_removes_the_directory(bench: PluginBench) -> None:
    let_mount_work(bench)
    bench.set_up(VOLUME)
    bench.tear_down(VOLUME)
    bench.tear_down(VOLUME)
    assert bench.host.look(PATH) is None
    assert [mount.path for mount in bench.host.mounts()] == ["/"]


@pytest.mark.parametrize(
    ("server", "source"),
    [
        ("0:0:0:0:0:0:0:1", "[0:0:0:0:0:0:0:1]:/srv/data"),
        ("fd00::1", "[fd00::1]:/srv/data"),
        ("10.0.0.1", "10.0.0.1:/srv/data"),
        ("files.example.com", "files.example.com:/srv/data"),
    ],
)
def test_an_ipv6_server_is_written_in_brackets(server: str, source: str) -> None:
    assert nfs.export(VolumeSpec(persistent_volume=pv(server=server))) == source


def test_mount_options_are_a_sorted_set_with_ro_of_a_read_only_claim() -> None:
    volume = pv(("nfsvers=4.1", "hard", "hard"))
    assert nfs.mount_options(VolumeSpec(persistent_volume=volume)) == ["hard", "nfsvers=4.1"]
    assert nfs.mount_options(VolumeSpec(persistent_volume=volume, read_only=True)) == ["hard", "nfsvers=4.1", "ro"]


def test_options_come_before_the_source(bench: PluginBench) -> None:
    let_mount_work(bench)
    read_only = Volume(name="data", nfs=NFSVolumeSource(server="s", path="/p", read_only=True))
    bench.set_up(read_only)
    assert bench.host.programs_run == [("mount", "-t", "nfs", "-o", "ro", "s:/p", PATH)]
    assert bench.offer(read_only).attributes.read_only


def test_a_failed_mount_is_a_refusal_that_leaves_nothing(bench: PluginBench) -> None:
    bench.host.program_result = lambda _: ProgramResult(status=32, output="mount.nfs: access denied by server")
    with pytest.raises(Refused, match=r"exit status 32, it said 'mount\.nfs: access denied by server'"):
        bench.set_up(VOLUME)
    assert bench.host.look(PATH) is None


def test_a_helper_that_mounts_and_fails_then_leaves_no_mount(bench: PluginBench) -> None:
    def mount(arguments: Sequence[str]) -> ProgramResult:
        bench.host.mount_network(arguments[-1], arguments[-2], "nfs4")
        return ProgramResult(status=1)

    bench.host.program_result = mount
    with pytest.raises(Doubtful, match="exit status 1"):
        bench.set_up(VOLUME)
    assert bench.host.mount_at(PATH) is None


def test_a_mount_that_reports_success_is_not_believed_without_a_mount(bench: PluginBench) -> None:
    with pytest.raises(Doubtful, match="nothing is mounted there"):
        bench.set_up(VOLUME)
    assert bench.host.look(PATH) is None


def test_a_missing_helper_is_named_with_its_package(bench: PluginBench) -> None:
    said = "mount: bad option; for several filesystems you might need a /sbin/mount.<type> helper program."
    bench.host.program_result = lambda _: ProgramResult(status=32, output=said)
    with pytest.raises(Refused) as caught:
        bench.set_up(VOLUME)
    assert caught.value.next_step == "Install /sbin/mount.nfs (in Debian the package nfs-common)"


def test_a_missing_mount_program_is_a_refusal(bench: PluginBench) -> None:
    def missing(arguments: Sequence[str]) -> ProgramResult:
        raise ProgramMissing(arguments[0])

    bench.host.program_result = missing
    with pytest.raises(Refused, match="it is not installed"):
        bench.set_up(VOLUME)
    assert bench.host.look(PATH) is None


def test_a_killed_mount_leaves_doubt_and_no_mount(bench: PluginBench) -> None:
    def killed(arguments: Sequence[str]) -> ProgramResult:
        bench.host.mount_network(arguments[-1], arguments[-2], "nfs4")
        raise Doubtful("cannot tell what 'mount' did", why="it was killed")

    bench.host.program_result = killed
    with pytest.raises(Doubtful, match="it was killed"):
        bench.set_up(VOLUME)
    assert bench.host.mount_at(PATH) is None


@pytest.mark.parametrize("server", ["", "-oremount", "a b", "a/b", "a,b"])
def test_a_server_that_is_no_name_never_reaches_mount(bench: PluginBench, server: str) -> None:
    volume = Volume(name="data", nfs=NFSVolumeSource(server=server, path="/p"))
    with pytest.raises(Refused, match="is no name of a machine"):
        bench.set_up(volume)
    assert bench.host.programs_run == []


def test_a_relative_path_is_refused() -> None:
    with pytest.raises(Refused, match="is not absolute"):
        nfs.export(VolumeSpec(volume=Volume(name="data", nfs=NFSVolumeSource(server="s", path="p"))))


def test_a_reconstructed_volume_is_torn_down_by_its_name(bench: PluginBench) -> None:
    let_mount_work(bench)
    bench.set_up(VOLUME)
    plugin = bench.plugins.find_by_name(nfs.NAME)
    found = plugin.reconstruct("data")
    assert found.volume is not None
    bench.tear_down(found.volume)
    assert bench.host.look(PATH) is None
