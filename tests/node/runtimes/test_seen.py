"""What containers see of their volumes and variables, told by the containers themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, config_map, secret
from tests.node.daemon.test_local_volumes import Disk, detach_loops, volume
from tests.node.runtimes.conftest import Pods, container, pod

from mooring.host import syscalls

pytestmark = pytest.mark.node

MS_SHARED = 1 << 20
OBJECTS = config_map("c", "from the map") + secret("s", "hunter2")


def test_content_volumes_have_their_bytes_modes_and_owners(pods: Pods) -> None:
    script = """\
for file in /config/key /secret/key /all/mode /all/name; do stat -Lc "%a %u %g $file" $file; done
cat /config/key /secret/key /all/mode /all/name"""
    mounts = ", ".join(f"{{name: {name}, mountPath: /{name}}}" for name in ("config", "secret", "all"))
    pods.up(
        OBJECTS
        + pod(
            "web",
            container("main", script, f"volumeMounts: [{mounts}]"),
            spec="""\
  securityContext: {fsGroup: 1234}
  volumes:
  - {name: config, configMap: {name: c}}
  - {name: secret, secret: {secretName: s, defaultMode: 0400}}
  - name: all
    projected:
      sources:
      - configMap: {name: c, items: [{key: key, path: mode, mode: 0600}]}
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
""",
        )
    )
    status, out, err = pods.run("web")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "644 0 1234 /config/key",
        "440 0 1234 /secret/key",
        "640 0 1234 /all/mode",
        "644 0 1234 /all/name",
        "from the maphunter2from the mapweb",
    ]
    pods.assert_nothing_left()


def test_two_users_share_an_empty_dir_through_its_group(pods: Pods) -> None:
    pods.up(
        pod(
            "web",
            container(
                "writer",
                "echo shared > /data/draft; mv /data/draft /data/file",
                "securityContext: {runAsUser: 1000}\nvolumeMounts: [{name: data, mountPath: /data}]",
            ),
            container(
                "reader",
                "until [ -e /data/file ]; do sleep 0.05; done; cat /data/file; stat -c '%u %g' /data/file; id -G",
                "securityContext: {runAsUser: 2000, runAsGroup: 3000}\nvolumeMounts: [{name: data, mountPath: /data}]",
            ),
            spec="""\
  securityContext: {fsGroup: 1234, supplementalGroups: [55]}
  volumes: [{name: data, emptyDir: {}}]
""",
        )
    )
    status, out, err = pods.run("web")
    assert (status, err) == (0, "")
    *seen, groups = [line.removeprefix("[reader] ") for line in out.splitlines()]
    assert seen == ["shared", "1000 1234"]
    assert sorted(map(int, groups.split())) == [55, 1234, 3000]


def test_memory_is_a_tmpfs_and_what_is_read_only_stays_as_it_is(pods: Pods) -> None:
    script = """\
grep ' /memory ' /proc/mounts | cut -d' ' -f3
touch /data/file 2>/dev/null || echo refused
touch /own 2>/dev/null || echo refused
touch /memory/file && echo written"""
    mounts = "[{name: memory, mountPath: /memory}, {name: data, mountPath: /data, readOnly: true}]"
    pods.up(
        pod(
            "web",
            container("main", script, f"securityContext: {{readOnlyRootFilesystem: true}}\nvolumeMounts: {mounts}"),
            spec="  volumes: [{name: memory, emptyDir: {medium: Memory}}, {name: data, emptyDir: {}}]\n",
        )
    )
    assert pods.run("web") == (0, "tmpfs\nrefused\nrefused\nwritten\n", "")


def read_only(mode: str) -> str:
    mounts = f"[{{name: data, mountPath: /data, readOnly: true, recursiveReadOnly: {mode}}}]"
    return pod(
        "web",
        container("main", "touch /data/file 2>/dev/null || echo refused", f"volumeMounts: {mounts}"),
        spec="  volumes: [{name: data, emptyDir: {}}]\n",
    )


def test_recursively_read_only_if_possible_is_at_least_read_only(pods: Pods) -> None:
    pods.up(read_only("IfPossible"))
    assert pods.run("web") == (0, "refused\n", "")


def test_recursively_read_only_is_refused_by_a_runtime_that_cannot(pods: Pods) -> None:
    pods.up(read_only("Enabled"))
    status, out, err = pods.run("web")
    assert (status, out) == (1, "")
    assert "cannot show volume 'data' to container 'main': the container runtime cannot make mounts recursively" in err
    pods.assert_nothing_left()


def test_sub_paths_are_shown_and_may_come_from_a_secret(pods: Pods) -> None:
    more = """\
env: [{name: USER, valueFrom: {secretKeyRef: {name: s, key: key}}}]
volumeMounts:
- {name: data, mountPath: /own, subPathExpr: users/$(USER)}
- {name: config, mountPath: /etc/one.conf, subPath: key}"""
    pods.up(
        OBJECTS
        + pod(
            "web",
            container("main", "echo mine > /own/file; cat /etc/one.conf", more),
            spec="  volumes: [{name: data, emptyDir: {}}, {name: config, configMap: {name: c}}]\n",
        )
    )
    assert pods.run("web")[:2] == (0, "from the map\n")
    assert (pods.daemon.path("web/data") / "users/hunter2/file").read_text() == "mine\n"


def test_mounts_made_later_are_seen_where_that_is_asked_for(pods: Pods) -> None:
    shared = Path(pods.daemon.root).parent / "shared"
    shared.mkdir()
    syscalls.mount("tmpfs", str(shared), "tmpfs", 0, "")
    syscalls.mount("", str(shared), "", MS_SHARED, "")
    (shared / "late").mkdir()
    script = """\
echo ready
until [ -e /sees/late/file ]; do sleep 0.05; done
cat /sees/late/file; ls /not/late"""
    mounts = "[{name: host, mountPath: /sees, mountPropagation: HostToContainer}, {name: host, mountPath: /not}]"
    pods.up(
        pod(
            "web",
            container("main", script, f"volumeMounts: {mounts}"),
            spec=f"  volumes: [{{name: host, hostPath: {{path: {shared}}}}}]\n",
        )
    )
    running = pods.start("web")
    assert running.line() == "ready"
    syscalls.mount("tmpfs", str(shared / "late"), "tmpfs", 0, "")
    (shared / "late" / "draft").write_text("late\n")
    (shared / "late" / "draft").rename(shared / "late" / "file")
    assert running.ended() == (0, "late\n", "")


@pytest.fixture
def disk(daemon: Daemon) -> Iterator[Disk]:
    made = Disk(daemon)
    yield made
    daemon.kill_all()
    detach_loops(daemon)


def test_a_raw_device_has_its_numbers_and_takes_bytes(disk: Disk, pods: Pods) -> None:
    pods.up(
        volume(disk.device, mode="Block")
        + pod(
            "web",
            container(
                "main",
                """\
stat -c '%F %t:%T' /dev/data
echo written | dd of=/dev/data 2>/dev/null; sync
dd if=/dev/data bs=8 count=1 2>/dev/null""",
                "volumeDevices: [{name: data, devicePath: /dev/data}]",
            ),
            spec="  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n",
        )
    )
    number = os.stat(disk.device).st_rdev
    status, out, err = pods.run("web")
    assert (status, err) == (0, "")
    assert out.splitlines() == [f"block special file {os.major(number):x}:{os.minor(number):x}", "written"]
    subprocess.run(["sync"], check=True)
    with open(disk.device, "rb") as device:
        assert device.read(8) == b"written\n"


# -- variables -----------------------------------------------------------------------------------------------------
VARIABLES = """\
workingDir: /tmp
resources: {limits: {memory: 64Mi}}
envFrom: [{prefix: MAP_, configMapRef: {name: c}}, {secretRef: {name: none, optional: true}}]
env:
- {name: PLAIN, value: as it is}
- {name: BOTH, value: "$(PLAIN), $(NONE)"}
- {name: ODD, value: "a\\"b'c\\\\d\\n#e"}
- {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: key}}}
- {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
- {name: HTTP_PROXY, value: "http://proxy:1"}"""


def test_variables_of_every_kind_reach_the_container(pods: Pods) -> None:
    script = 'echo "$MAP_key|$PLAIN|$BOTH|$SECRET|$NAME|$MEMORY|$HTTP_PROXY|$PWD"; echo "$ODD"'
    pods.up(OBJECTS + pod("web", container("main", script, VARIABLES)))
    status, out, err = pods.run("web")
    assert (status, err) == (0, "")
    assert out == ("from the map|as it is|as it is, $(NONE)|hunter2|web|64|http://proxy:1|/tmp\na\"b'c\\d\n#e\n")


def test_no_secret_is_on_a_command_line_in_a_log_or_in_a_record(pods: Pods) -> None:
    more = "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: key}}}]"
    script = "trap 'exit 0' TERM; echo ready; sleep 1000 & wait"
    pods.up(OBJECTS + pod("web", container("main", script, more)))
    running = pods.start("web")
    seen: set[bytes] = set()

    def has_begun() -> bool:
        seen.update(command_lines())
        return any(path.stat().st_size for path in Path(pods.daemon.root, "runs").glob("*/main/0.log"))

    pods.until(has_begun)
    record = next(Path(pods.daemon.root, "runs").glob("*.json")).read_bytes()
    running.signal(signal.SIGTERM)
    running.ended()
    assert any(b"create" in line or b"containerd" in line for line in seen)
    assert not [line for line in seen if b"hunter2" in line]
    assert b"hunter2" not in record
    assert "hunter2" not in pods.daemon.log()


def command_lines() -> set[bytes]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add((entry / "cmdline").read_bytes())
            except OSError:  # it has ended meanwhile
                continue
    return found
