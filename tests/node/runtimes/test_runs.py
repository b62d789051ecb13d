"""Runs and volumes: whoever dies or is deleted, volumes go after the containers and not before."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.node.runtimes.conftest import Pods, Running, container, pod
from tests.node.runtimes.engines import Containerd

pytestmark = pytest.mark.node

PATIENT = """\
trap 'sleep 0.5; cat /data/file > /host/last; exit 3' TERM
echo kept > /data/file; echo ready
sleep 1000 & wait"""
MOUNTS = "volumeMounts: [{name: data, mountPath: /data}, {name: host, mountPath: /host}]"


class Web:
    """The pod `web`, whose container reads its volume once more when it is asked to end."""

    def __init__(self, pods: Pods) -> None:
        self.pods, self.daemon = pods, pods.daemon
        self.host = Path(pods.daemon.root).parent / "host"
        self.host.mkdir()
        volumes = f"[{{name: data, emptyDir: {{medium: Memory}}}}, {{name: host, hostPath: {{path: {self.host}}}}}]"
        manifest = pod("web", container("main", PATIENT, MOUNTS), spec=f"  volumes: {volumes}\n")
        self.file = self.daemon.write("web.yaml", manifest)
        self.daemon.up("web")
        self.uid = self.daemon.volume("web/data")["pod_uid"]

    def start(self) -> Running:
        running = self.pods.start("web")
        assert running.line() == "ready"
        return running

    def last_seen(self) -> str:
        """What the container read when it was asked to end."""
        return (self.host / "last").read_text()

    def containers(self) -> str:
        """What is told of its containers."""
        [row] = [row for row in self.daemon.json("get", "pods") if row["pod"] == "default/web"]
        return str(row["containers"])

    def assert_volumes_gone(self) -> None:
        self.daemon.done("wait", "web", "--for", "unmounted", "--timeout", "20s")
        assert not any(self.uid in path for path in self.daemon.mounts())


@pytest.fixture
def web(pods: Pods) -> Web:
    return Web(pods)


def test_a_run_is_told_while_it_lasts(web: Web) -> None:
    running = web.start()
    assert web.containers() == f"they were started with {web.pods.engine.name}"
    again = web.pods.run("web")
    assert again[0] == 1
    assert "cannot run pod 'default/web': they were started with" in again[2]
    running.signal(signal.SIGTERM)
    assert running.ended() == (3, "", "")
    assert web.containers() == "None"
    assert web.last_seen() == "kept\n"
    assert (web.daemon.path("web/data") / "file").read_text() == "kept\n"  # the pod itself is still wanted
    web.pods.assert_nothing_left()


def test_interrupted_twice_a_container_is_killed_at_once(web: Web) -> None:
    stubborn = pod("stubborn", container("main", "echo ready; sleep 1000"))
    web.daemon.write("more.yaml", stubborn)
    web.pods.until(lambda: len(web.daemon.json("get", "pods")) == 2)
    running = web.pods.start("stubborn")
    assert running.line() == "ready"
    running.signal(signal.SIGINT)
    running.signal(signal.SIGHUP)
    assert running.ended() == (137, "", "")
    web.pods.assert_nothing_left()


def test_after_its_grace_period_a_container_is_killed(web: Web) -> None:
    manifest = pod("stubborn", container("main", "echo ready; sleep 1000"), spec="  terminationGracePeriodSeconds: 1\n")
    web.daemon.write("more.yaml", manifest)
    web.pods.until(lambda: len(web.daemon.json("get", "pods")) == 2)
    running = web.pods.start("stubborn")
    assert running.line() == "ready"
    running.signal(signal.SIGTERM)
    assert running.ended() == (137, "", "")


def test_a_pod_deleted_while_it_runs_keeps_its_volumes_to_the_end(web: Web) -> None:
    running = web.start()
    web.file.unlink()
    status, _, err = running.ended()
    assert status in (3, 137)  # by then the container may have been removed already
    assert "mooring: the pod was deleted, and its containers are stopped" in err
    web.assert_volumes_gone()
    assert web.last_seen() == "kept\n"
    web.pods.assert_nothing_left()


def test_down_ends_containers_first(web: Web) -> None:
    running = web.start()
    web.daemon.done("down")
    assert running.ended()[0] in (3, 137)
    assert web.last_seen() == "kept\n"
    assert web.daemon.mounts() == {}
    web.pods.assert_nothing_left()


# -- the daemon dies -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_run_goes_on_over_a_restart_of_the_daemon(web: Web, number: signal.Signals) -> None:
    running = web.start()
    mounts = web.daemon.mounts()
    web.daemon.end(number)
    web.daemon.up("web")
    assert web.containers() == f"they were started with {web.pods.engine.name}"
    assert web.daemon.mounts() == mounts
    running.signal(signal.SIGTERM)
    assert running.ended() == (3, "", "")
    web.pods.assert_nothing_left()


def test_a_run_that_ends_without_a_daemon_is_forgotten_by_the_next(web: Web) -> None:
    running = web.start()
    web.daemon.end(signal.SIGKILL)
    running.signal(signal.SIGTERM)
    status, _, err = running.ended()
    assert status == 3
    assert "no daemon listens on its control socket" in err
    assert web.pods.is_recorded()
    web.daemon.up("web")
    web.pods.until(lambda: not web.pods.is_recorded())
    web.pods.assert_nothing_left()


def test_a_pod_deleted_while_no_daemon_runs_is_stopped_by_the_next(web: Web) -> None:
    running = web.start()
    web.daemon.end(signal.SIGKILL)
    web.file.unlink()
    web.daemon.up()
    assert running.ended()[0] in (3, 137)
    web.assert_volumes_gone()
    assert web.last_seen() == "kept\n"
    web.pods.assert_nothing_left()


def test_down_without_a_daemon_ends_containers_too(web: Web) -> None:
    running = web.start()
    web.daemon.end(signal.SIGKILL)
    web.daemon.done("down")
    assert running.ended()[0] in (3, 137)
    assert web.last_seen() == "kept\n"
    assert web.daemon.mounts() == {}
    web.pods.assert_nothing_left()


# -- the client dies -----------------------------------------------------------------------------------------------
def test_containers_outlive_their_client_until_the_pod_is_deleted(web: Web) -> None:
    running = web.start()
    running.signal(signal.SIGKILL)
    running.ended()
    web.pods.until(lambda: "goes on with main, although their client has gone" in web.containers())
    assert (web.daemon.path("web/data") / "file").read_text() == "kept\n"
    web.file.unlink()
    web.assert_volumes_gone()
    assert web.last_seen() == "kept\n"
    web.pods.assert_nothing_left()


def test_what_ends_after_its_client_is_cleaned_up(web: Web) -> None:
    waiting = "echo ready; until [ -e /host/go ]; do sleep 0.05; done"
    volumes = f"[{{name: data, emptyDir: {{}}}}, {{name: host, hostPath: {{path: {web.host}}}}}]"
    web.file.write_text(pod("other", container("main", waiting, MOUNTS), spec=f"  volumes: {volumes}\n"))
    web.pods.until(lambda: [row["pod"] for row in web.daemon.json("get", "pods")] == ["default/other"])
    running = web.pods.start("other")
    assert running.line() == "ready"
    running.signal(signal.SIGKILL)
    running.ended()
    (web.host / "go").touch()
    web.pods.until(lambda: not web.pods.is_recorded())
    web.pods.assert_nothing_left()


# -- the engine dies -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ["cri"], indirect=True)
def test_an_engine_that_does_not_answer_holds_volumes_and_is_named(web: Web) -> None:
    engine = web.pods.engine
    assert isinstance(engine, Containerd)
    running = web.start()
    running.signal(signal.SIGKILL)
    running.ended()
    engine.end()
    web.file.unlink()
    ended = web.daemon.run("down", "--timeout", "2s")
    assert ended.status == 1
    assert f"default/web: containers have not ended (the container runtime at {engine.socket} cannot" in ended.err
    explained = web.daemon.run("explain", "web")
    assert (explained.status, "it was deleted, and its containers have not ended (the container" in explained.err) == (
        1,
        True,
    )
    row = web.daemon.volume("web/data")
    assert (row["state"], Path(row["path"], "file").read_text()) == ("unmounting", "kept\n")
    assert row["reason"].startswith("it waits: containers of the pod have not ended (the container runtime at")
    engine.begin()
    web.daemon.done("down", "--timeout", "30s")
    assert web.last_seen() == "kept\n"
    web.pods.assert_nothing_left()


# -- records -------------------------------------------------------------------------------------------------------
def test_a_broken_record_is_a_finding_and_holds_just_its_own_pod(web: Web) -> None:
    web.daemon.end(signal.SIGKILL)
    record = Path(web.daemon.root, "runs", f"{web.uid}.json")
    record.parent.mkdir(exist_ok=True)
    record.write_text("{")
    web.daemon.write("other.yaml", pod("other", container("main", "echo fine")))
    web.daemon.up("web", "other")
    [finding] = web.daemon.json("get", "findings")
    assert (finding["kind"], finding["where"]) == ("run", str(record))
    assert web.pods.run("other") == (0, "fine\n", "")
    assert web.pods.run("web")[0] == 1
    record.unlink()
    web.daemon.done("down")
    assert os.listdir(record.parent) == []
