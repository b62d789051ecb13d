"""Project quotas of emptyDir volumes: who gets one, which number, and when it is given back."""

from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace
from tests.plugins.conftest import UID, PluginBench

from mooring.errors import Refused
from mooring.host.interface import NewFile
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.plugins import directory_quotas

FIRST = 1048577
PATH = f"/var/lib/mooring/pods/{UID}/volumes/kubernetes.io~empty-dir/v"
VOLUME = Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit="1Mi"))


def bench_with(mode: str, *, keeps_projects: bool = True) -> PluginBench:
    bench = PluginBench(project_quotas=mode)
    bench.host.keeps_projects = keeps_projects
    return bench


def set_up(bench: PluginBench, *, host_users: bool | None = False, size: int = 2**20, volume: Volume = VOLUME) -> None:
    pod = bench.pod(volume)
    pod = replace(pod, spec=replace(pod.spec, host_users=host_users))
    bench.set_up(volume, pod=pod, size_limit=size)


def test_an_enforced_limit_is_the_kernels() -> None:
    bench = bench_with("enforce")
    set_up(bench)
    assert bench.host.project_of(PATH) == FIRST
    assert bench.host.project_limits == {FIRST: 2**20}


def test_an_accounted_one_is_only_counted() -> None:
    bench = bench_with("account")
    set_up(bench)
    bench.host.write_files(PATH, [NewFile(path="f", data=b"x" * 8192, mode=0o644)])
    assert bench.host.project_limits == {FIRST: 0}
    assert directory_quotas.quota_usage(bench.host, PATH) == 8192


def test_setting_up_again_keeps_the_project() -> None:
    bench = bench_with("enforce")
    set_up(bench)
    set_up(bench)
    assert bench.host.project_limits == {FIRST: 2**20}


def test_tear_down_gives_the_project_back() -> None:
    bench = bench_with("enforce")
    set_up(bench)
    bench.tear_down(VOLUME)
    assert bench.host.project_limits == {}


@pytest.mark.parametrize(
    ("mode", "host_users", "size"), [("off", False, 2**20), ("enforce", None, 2**20), ("enforce", False, 0)]
)
def test_without_the_setting_a_user_namespace_and_a_limit_there_is_none(
    mode: str, host_users: bool | None, size: int
) -> None:
    bench = bench_with(mode)
    set_up(bench, host_users=host_users, size=size)
    assert bench.host.project_limits == {}


def test_a_volume_in_memory_has_none() -> None:
    bench = bench_with("enforce")
    set_up(bench, volume=Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory")))
    assert bench.host.project_limits == {}


def test_a_file_system_without_quotas_costs_nothing() -> None:
    bench = bench_with("enforce", keeps_projects=False)
    set_up(bench)
    assert directory_quotas.quota_usage(bench.host, PATH) is None
    bench.tear_down(VOLUME)
    assert bench.host.look(PATH) is None


def test_numbers_that_are_written_down_or_in_use_are_passed_over() -> None:
    bench = bench_with("enforce")
    bench.host.put_file("/etc/projects", f"{FIRST}:/srv\n# comment\n")
    bench.host.put_file("/etc/projid", f"other:{FIRST + 1}\n")
    bench.host.make_directories("/srv/used", 0o755)
    bench.host.assign_project("/srv/used", FIRST + 2, 0)
    set_up(bench)
    assert bench.host.project_of(PATH) == FIRST + 3


def test_a_search_without_end_is_given_up() -> None:
    bench = bench_with("enforce")
    for number in range(FIRST, FIRST + 200):
        bench.host.make_directories(f"/srv/{number}", 0o755)
        bench.host.assign_project(f"/srv/{number}", number, 0)
    with pytest.raises(Refused, match="no project number of 128"):
        set_up(bench)


def test_a_quota_that_cannot_be_released_does_not_keep_the_directory(caplog: pytest.LogCaptureFixture) -> None:
    bench = bench_with("enforce")
    set_up(bench)

    def fail(method: str, path: str) -> None:
        if method == "release_project":
            raise OSError(errno.EIO, "broken", path)

    bench.host.before_call = fail
    bench.tear_down(VOLUME)
    assert bench.host.look(PATH) is None
    assert "cannot release the quota" in caplog.text
