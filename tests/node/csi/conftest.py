"""The daemon, a driver and all between them, on the real kernel. Whatever a test does, nothing is left afterwards."""

from __future__ import annotations

import functools
import json
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.node.csi.manifests import DRIVER
from tests.node.csi.proxied import Beside
from tests.node.daemon.conftest import Daemon
from tests.node.loop_driver.conftest import LoopDriver

from mooring.host import loop_devices, syscalls
from mooring.kube.quantity import parse_quantity
from mooring.loop_driver.volumes import volume_id
from mooring.registration.registrar import Registrar
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

NODE_NAME = "here"
_PATIENCE = 30.0
"""Seconds after which what is waited for is given up."""


class Node:
    """One machine: the daemon with its manifests, the loop driver, and a proxy to it."""

    def __init__(self, root: str, sockets: str, environment: pytest.MonkeyPatch) -> None:
        above = Path(root).parent
        for name in ("manifests", "driver"):
            (above / name).mkdir()
        self.daemon = Daemon(root, above / "manifests")
        self.driver = LoopDriver(str(above / "driver"), sockets)
        self.beside = Beside(f"{sockets}/proxy.sock", self.driver.socket, self.driver.registry)
        self.registrar: Registrar | None = None  # of the driver behind the proxy
        self._environment = environment
        self.set(plugin_registry=self.driver.registry, node_name=NODE_NAME)
        self.set(backoff_initial="10ms", backoff_maximum="100ms")

    def set(self, **settings: object) -> None:
        """Settings of the daemons that are started from now on."""
        for name, value in settings.items():
            self._environment.setenv(f"MOORING_{name.upper()}", str(value))

    def waits_for_events_only(self) -> None:
        """What failed is tried again when something happens, and not because time has passed."""
        self.set(backoff_initial="1h", backoff_maximum="1h", resync_interval="1h")

    # -- the driver ------------------------------------------------------------------------------------------------
    def start_driver(self, *flags: str) -> None:
        """The driver runs, and makes itself known."""
        self.driver.start("--register", self.driver.registry, *flags)

    def start_behind_proxy(self, *flags: str) -> None:
        """The driver runs, and is known at the proxy, which sees all calls."""
        self.driver.start(*flags)
        self.beside.start()
        self.registrar = self.beside.register(DRIVER)

    def boot(self, *flags: str) -> None:
        """What a start of the machine does: no mount, no device and no process is left, and nothing else has gone."""
        self.clear()
        assert not self.daemon.mounts()
        Path(self.daemon.root, "boot-id").write_text(f"{uuid.uuid4()}\n")
        self.driver.start(*flags)

    def attached(self) -> list[str]:
        """Volumes that the driver has attached."""
        found = []
        with grpc.insecure_channel(f"unix:{self.driver.socket}") as channel:
            for entry in services.ControllerStub(channel).ListVolumes(csi.ListVolumesRequest()).entries:
                found += [entry.volume.volume_id] if entry.status.published_node_ids else []
        return found

    def make(self, *names: str, size: str = "16Mi") -> None:
        """Let the driver make volumes."""
        with grpc.insecure_channel(f"unix:{self.driver.socket}") as channel:
            controller = services.ControllerStub(channel)
            for name in names:
                made = controller.CreateVolume(_create(name, parse_quantity(size).value))
                assert made.volume.volume_id == volume_id(name)

    def aside(self, text: str) -> Path:
        """A file with manifests that the daemon does not read by itself."""
        path = self.daemon.manifests.parent / "aside.yaml"
        path.write_text(text)
        return path

    # -- what is seen ----------------------------------------------------------------------------------------------
    def row(self, name: str) -> dict[str, Any]:
        """The row of `pod/volume`; empty while the pod is not known yet."""
        try:
            return self.daemon.volume(name)
        except KeyError:
            return {"reason": None, "state": ""}

    def driver_row(self) -> dict[str, Any]:
        """What `get drivers` tells of the one driver there is."""
        (row,) = self.daemon.json("get", "drivers")
        found: dict[str, Any] = row
        return found

    def until_reason(self, volume: str, words: str) -> dict[str, Any]:
        """The row of a volume, once its reason holds some words."""
        return self.until_row(lambda: self.row(volume), words)

    def until_row(self, look: Callable[[], dict[str, Any]], words: str) -> dict[str, Any]:
        """A row, once its reason holds some words; a moment later it may be another."""
        seen: dict[str, Any] = {}

        def holds() -> bool:
            seen.clear()
            seen.update(look())
            return words in (seen["reason"] or "")

        self.until(holds, lambda: seen)
        return seen

    def until(self, condition: Callable[[], bool], shown: Callable[[], object] = lambda: "") -> None:
        """Return when a condition of the machine holds; what is `shown` tells why it does not."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"it did not come to pass: {shown()}\nthe log is:\n{self.daemon.log()}"
            time.sleep(0.02)  # a look costs the machine as much as what is waited for

    def stages(self) -> list[str]:
        """Where volumes are staged, as file systems."""
        return [path for path in self.daemon.mounts() if path.endswith("/globalmount")]

    def mounted(self, *pods: str) -> None:
        """Return when pods that were just written have their volumes."""
        for pod in pods:
            self.until(functools.partial(self._knows, pod))
        self.daemon.mounted(*pods)

    def is_mounted(self) -> bool:
        """Whether all volumes of the pods there are."""
        ended = self.daemon.run("get", "volumes", "-o", "json")
        rows = json.loads(ended.out) if ended.status == 0 else []
        return bool(rows) and all(row["state"] == "mounted" for row in rows)

    def _knows(self, pod: str) -> bool:
        return any(row["pod"] == f"default/{pod}" for row in self.daemon.json("get", "pods"))

    def gone(self, *pods: str) -> None:
        """Return when the volumes of pods that were just taken away are unmounted."""
        for pod in pods:
            self.daemon.done("wait", pod, "--for", "unmounted", "--timeout", "10s")

    # -- the end ---------------------------------------------------------------------------------------------------
    def left(self) -> dict[str, object]:
        """What there should not be when all pods are gone."""
        root = Path(self.daemon.root)
        found = {
            "mounts": sorted(self.daemon.mounts()),
            "mounts of the driver": self.driver.mounts(),
            "devices": self.driver.loops(),
            "pods": sorted(os.listdir(root / "pods")) if (root / "pods").exists() else [],
            "places": sorted(str(path) for path in self._places()),
            "intents": sorted(os.listdir(root / "intents")) if (root / "intents").exists() else [],
        }
        return {what: them for what, them in found.items() if them}

    def _places(self) -> Iterator[Path]:
        """Directories of volumes; those of drivers stay, as with a kubelet."""
        above = Path(self.daemon.root, "plugins/kubernetes.io/csi")
        for driver in above.glob("*"):
            yield from (path for path in driver.glob("*") if driver.name != "volumeDevices" or any(path.rglob("*")))

    def down(self) -> None:
        """Take everything away, and see that it is gone."""
        pid = self.daemon.pid
        self.daemon.done("down", "--timeout", "20s")
        self.daemon.ended(pid)
        assert self.left() == {}

    def clear(self) -> None:
        """Take away whatever a failing test left: loop devices do not vanish with a namespace."""
        self.driver.end(signal.SIGKILL)
        for name, backing in reversed(list(loop_devices.attached())):
            if backing.startswith(f"{self.daemon.root}/"):  # those that hold the raw devices of pods
                with suppress(OSError):
                    loop_devices.detach(f"/dev/{name}")
        for path in sorted(self.daemon.mounts(), reverse=True):
            with suppress(OSError):
                syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW)
        self.driver.clear()

    def is_up(self) -> bool:
        return os.path.exists(f"{self.daemon.root}/mooring.sock")


@pytest.fixture
def node(node_root: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A machine with a driver that does not run yet. What is up at the end is taken down, and must be gone."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as sockets:
        made = Node(node_root, sockets, monkeypatch)
        try:
            yield made
            if made.is_up():
                made.down()
        finally:
            made.daemon.kill_all()
            made.beside.stop()
            made.clear()


def _create(name: str, size: int) -> csi.CreateVolumeRequest:
    mount = csi.VolumeCapability.MountVolume()
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    return csi.CreateVolumeRequest(
        name=name,
        capacity_range=csi.CapacityRange(required_bytes=size),
        volume_capabilities=[csi.VolumeCapability(mount=mount, access_mode=mode)],
    )
