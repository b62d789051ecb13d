"""Starting, looking, changing, killing, restarting and taking down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

pytestmark = pytest.mark.node

PODS = (
    config_map("c")
    + secret("s")
    + pod("web", "disk: emptyDir: {}", "memory: emptyDir: {medium: Memory}", "config: configMap: {name: c}")
    + pod("safe", "keys: secret: {secretName: s}")
)


def test_a_pod_and_its_objects_that_start_together_need_one_attempt(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    assert {row["attempts"] for row in daemon.json("get", "volumes")} == {1}
    assert daemon.json("get", "events") == []


def test_up_says_which_process_runs_and_where_its_log_is(daemon: Daemon) -> None:
    ended = daemon.run("up", daemon.manifests, "--detach")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err == f"mooring runs as process {daemon.pid}; its log is {daemon.root}/mooring.log\n"


def test_right_after_up_all_pods_are_known(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up()
    assert [row["pod"] for row in daemon.json("get", "pods")] == ["default/safe", "default/web"]
    assert daemon.json("explain", "web")["pod"] == "default/web"


@pytest.mark.parametrize("more", [["--detach"], []], ids=["detached", "in front"])
def test_a_second_manager_on_one_root_is_refused_with_the_pid_of_the_first(daemon: Daemon, more: list[str]) -> None:
    daemon.up()
    command = [sys.executable, "-m", "mooring", "--root", daemon.root, "up", str(daemon.manifests), *more]
    second = subprocess.run(command, text=True, capture_output=True, timeout=30, check=False)
    assert second.returncode == 1
    assert f"process {daemon.pid} already runs a manager there" in second.stderr


def test_every_command_that_looks_answers(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    assert "default/web is ready: all of its 3 volumes are mounted." in daemon.done("explain", "web")
    assert daemon.json("explain", "web")["ready"] is True
    assert "Plugin:       kubernetes.io/configmap" in daemon.done("describe", "volume/web/config")
    assert "Ready:        yes" in daemon.done("describe", "pod/web")
    assert daemon.json("describe", "pod/default/web")["mounted"] == 3
    assert {row["what"] for row in daemon.json("timeline", "web/disk")} == {"volume_mount"}
    assert daemon.done("top", "--until-mounted", "--timeout", "10s").endswith("4 of 4 volumes mounted\n")
    assert daemon.run("get", "findings").err == "no findings\n"
    for table in ("pods", "volumes", "claims", "drivers", "operations", "events", "findings"):
        assert isinstance(daemon.json("get", table), list)


def test_apply_and_delete_change_what_runs(daemon: Daemon) -> None:
    daemon.up()
    more = Path(daemon.root).parent / "more"
    more.mkdir()
    (more / "1-pod.yaml").write_text(pod("extra", "v: configMap: {name: x}"))
    (more / "2-objects.yaml").write_text(config_map("x", "applied"))
    assert daemon.done("apply", "-f", more) == "pod/default/extra created\nconfigmap/default/x created\n"
    daemon.mounted("extra")
    assert daemon.volume("extra/v")["attempts"] == 1
    path = daemon.path("extra/v")
    assert (path / "key").read_text() == "applied"
    assert daemon.done("delete", "-f", more / "1-pod.yaml") == "pod/default/extra deleted\n"
    daemon.done("wait", "extra", "--for", "unmounted", "--timeout", "10s")
    daemon.until(lambda: not path.exists())
    assert daemon.done("delete", "-f", more / "1-pod.yaml") == "pod/default/extra not found\n"


def test_apply_reads_standard_input_and_names_mistakes_in_it(daemon: Daemon) -> None:
    daemon.up()
    command = [sys.executable, "-m", "mooring", "--root", daemon.root, "apply", "-f", "-"]

    def apply(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=text, text=True, capture_output=True, timeout=30, check=False)

    assert apply(config_map("c")).stdout == "configmap/default/c created\n"
    wrong = apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: C}\n")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("mooring: standard input:3: metadata.name: cannot use ConfigMap")


def test_deleting_what_a_file_still_names_says_so(daemon: Daemon) -> None:
    file = daemon.write("a.yaml", pod("web", "v: emptyDir: {}"))
    daemon.up("web")
    ended = daemon.run("delete", "-f", file)
    assert (ended.status, ended.out) == (0, "pod/default/web deleted\n")
    assert f"pod/default/web is still written in {file}" in ended.err


def test_events_are_followed_until_the_daemon_ends(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("odd", "v: csi: {driver: d.example.com}"))
    daemon.up()
    command = [sys.executable, "-m", "mooring", "--root", daemon.root, "events", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert "Warning FailedMount pod/odd MountVolume.SetUp failed for volume" in follower.stdout.readline()
        daemon.write("b.yaml", pod("odder", "v: csi: {driver: d.example.com}"))
        assert "pod/odder" in follower.stdout.readline()
        daemon.done("down")
        assert (follower.stdout.read(), follower.wait(10)) == ("", 0)


# -- ending and coming back ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_volumes_outlive_the_daemon_and_the_next_one_knows_them(daemon: Daemon, number: signal.Signals) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    (daemon.path("web/memory") / "work").write_text("in memory")
    mounts, volumes = daemon.mounts(), daemon.json("get", "volumes")
    data = os.readlink(daemon.path("web/config") / "..data")
    daemon.end(number)
    assert daemon.mounts() == mounts
    daemon.up("web", "safe")
    daemon.until(lambda: daemon.json("get", "volumes") == volumes)
    assert daemon.mounts() == mounts
    assert (daemon.path("web/memory") / "work").read_text() == "in memory"
    assert os.readlink(daemon.path("web/config") / "..data") == data


def test_a_pod_removed_while_nobody_ran_is_taken_down_afterwards(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    gone = daemon.write("gone.yaml", pod("gone", "v: secret: {secretName: s}", "e: emptyDir: {}"))
    daemon.up("web", "gone")
    uid = daemon.volume("gone/v")["pod_uid"]
    daemon.end(signal.SIGKILL)
    gone.unlink()
    daemon.up("web")
    daemon.until(lambda: not Path(daemon.root, "pods", uid).exists())
    assert not any(uid in path for path in daemon.mounts())
    assert {row["pod"] for row in daemon.json("get", "pods")} == {"default/web", "default/safe"}


def test_a_config_map_edited_while_nobody_ran_is_shown_afterwards(daemon: Daemon) -> None:
    file = daemon.write("a.yaml", PODS)
    daemon.up("web")
    daemon.end(signal.SIGKILL)
    file.write_text(PODS.replace("key: '1'", "key: 'edited'"))
    daemon.up("web")
    daemon.until(lambda: (daemon.path("web/config") / "key").read_text() == "edited")


def test_a_file_broken_while_nobody_ran_keeps_its_pods(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    mounts = daemon.mounts()
    daemon.end(signal.SIGKILL)
    file = daemon.write("a.yaml", "kind: [")
    ended = daemon.run("up", daemon.manifests, "--detach", "--node-name", "here")
    assert (ended.status, f"{file}:2: cannot read the file" in ended.err) == (0, True)
    daemon.mounted("web", "safe")
    assert (daemon.mounts(), len(daemon.json("get", "findings"))) == (mounts, 1)


# -- down ----------------------------------------------------------------------------------------------------------
def assert_nothing_left(daemon: Daemon) -> None:
    assert daemon.mounts() == {}
    assert os.listdir(f"{daemon.root}/pods") == []
    assert not os.path.exists(f"{daemon.root}/mooring.sock")


def test_down_leaves_no_mount_no_directory_and_no_process(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    pid = daemon.pid
    daemon.done("down")
    daemon.ended(pid)
    assert_nothing_left(daemon)
    assert "stopping; all volumes are gone" in daemon.log()


def test_down_without_a_daemon_cleans_up_what_a_killed_one_left(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    daemon.end(signal.SIGKILL)
    assert daemon.mounts() != {}
    os.unlink(f"{daemon.root}/mooring.sock")
    daemon.done("down")
    assert_nothing_left(daemon)


def test_down_that_cannot_unmount_says_what_is_in_use_and_can_be_repeated(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web", "safe")
    path = daemon.path("safe/keys")
    pid = daemon.pid
    with (path / "key").open():
        ended = daemon.run("down", "--timeout", "1s")
        assert ended.status == 1
        assert ended.err.startswith("mooring: not everything could be unmounted within 1 s:\n  default/safe keys: ")
        assert str(path) in ended.err
        assert list(daemon.mounts()) == [str(path)]
    daemon.done("down")
    daemon.ended(pid)
    assert_nothing_left(daemon)


def test_after_down_a_new_start_begins_afresh(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    daemon.up("web")
    (daemon.path("web/disk") / "work").write_text("old")
    pid = daemon.pid
    daemon.done("down")
    daemon.ended(pid)
    daemon.up("web")
    assert os.listdir(daemon.path("web/disk")) == []


def test_the_settings_file_reaches_a_detached_daemon(daemon: Daemon) -> None:
    config = Path(daemon.root).parent / "mooring.toml"
    config.write_text('log_level = "debug"\n')
    daemon.done("--config", config, "up", daemon.manifests, "--detach")
    assert " DEBUG " in daemon.log()
