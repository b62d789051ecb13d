"""`LinuxHost` shows nothing but the inside of a volume, on each tier of kernel features, also under attack."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from mooring.host import features
from mooring.host.features import Tier
from mooring.host.interface import FileKind, Host, NewFile
from mooring.host.linux import LinuxHost
from mooring.testing.conformance.host_subpaths import (
    HostSubpathBindsConformance,
    HostSubpathsConformance,
    MakeSpecial,
)

pytestmark = pytest.mark.node
ROUNDS = 4000
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(params=list(Tier), ids=lambda tier: tier.name.lower())
def host(request: pytest.FixtureRequest, node_root: str) -> Iterator[LinuxHost]:
    host = LinuxHost(features=features.probe().limited_to(request.param))
    yield host
    host.close()


def make_special(path: str, kind: FileKind) -> None:
    if kind is FileKind.FIFO:
        os.mkfifo(path)
        return
    with socket.socket(socket.AF_UNIX) as made:
        above, name = os.path.split(path)
        directory = os.open(above, os.O_PATH)
        made.bind(f"/proc/self/fd/{directory}/{name}")  # the path itself may be too long for a socket
        os.close(directory)


class TestLinuxHost(HostSubpathsConformance, HostSubpathBindsConformance):
    @pytest.fixture
    def place(self, node_root: str) -> str:
        return node_root

    @pytest.fixture
    def make_special(self) -> MakeSpecial:
        return make_special


def exchange(one: str, other: str) -> None:
    """Let two names swap what they stand for in one step: renameat2(2) with RENAME_EXCHANGE."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), 2) != 0:
        raise OSError(ctypes.get_errno(), "cannot exchange")


@contextlib.contextmanager
def swapping(one: str, other: str) -> Iterator[None]:
    """Somebody in a thread of their own exchanges two names as fast as they can."""
    over = threading.Event()

    def attack() -> None:
        while not over.is_set():
            exchange(one, other)

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def contested(host: Host, node_root: str) -> str:
    """A volume beside something secret, and a place to bind to."""
    volume = f"{node_root}/volume"
    host.make_directories(f"{volume}/swapped/sub", 0o755)
    host.create_file(f"{volume}/swapped/sub/inside", 0o644)
    host.make_directories(f"{node_root}/outside/sub", 0o755)
    host.create_file(f"{node_root}/outside/sub/secret", 0o644)
    host.make_directory(f"{node_root}/target", 0o750)
    return volume


@pytest.mark.parametrize(
    ("text", "relative", "wanted"),
    [
        ("/", "swapped", "sub"),
        ("../outside", "swapped/sub", "inside"),
        ("../outside/sub/..", "swapped/sub", "inside"),
        ("../outside", "swapped/sub/../sub", "inside"),
    ],
)
def test_no_bind_shows_anything_outside_while_a_directory_and_a_link_are_swapped(
    host: Host, contested: str, node_root: str, text: str, relative: str, wanted: str
) -> None:
    host.make_link(text, f"{contested}/link")
    shown, refused = 0, 0
    with swapping(f"{contested}/swapped", f"{contested}/link"):
        for _ in range(ROUNDS):
            try:
                host.bind_beneath(contested, relative, f"{node_root}/target")
            except OSError:
                refused += 1
                continue
            shown += 1
            names = host.names_in(f"{node_root}/target")
            host.unmount(f"{node_root}/target")
            assert names == [wanted]
    assert shown > 0
    assert refused > 0


def test_a_file_bound_while_it_is_swapped_is_never_a_foreign_one(host: Host, contested: str, node_root: str) -> None:
    host.create_file(f"{node_root}/target-file", 0o640)
    host.write_files(contested, [NewFile(path="key", data=b"inside", mode=0o644)])
    host.write_files(node_root, [NewFile(path="secret", data=b"outside", mode=0o644)])
    host.make_link("../secret", f"{contested}/link")
    shown = 0
    with swapping(f"{contested}/key", f"{contested}/link"):
        for _ in range(ROUNDS):
            try:
                host.bind_beneath(contested, "key", f"{node_root}/target-file")
            except OSError:
                continue
            shown += 1
            content = host.read_file(f"{node_root}/target-file")
            host.unmount(f"{node_root}/target-file")
            assert content == b"inside"
    assert shown > 0


def test_no_directory_is_made_outside_while_a_directory_and_a_link_are_swapped(
    host: Host, contested: str, node_root: str
) -> None:
    host.make_link("../outside", f"{contested}/link")
    with swapping(f"{contested}/swapped", f"{contested}/link"):
        for number in range(ROUNDS):
            with contextlib.suppress(OSError):
                host.make_subpath(contested, f"swapped/sub/{number}", 0o777)
    assert host.names_in(f"{node_root}/outside") == ["sub"]
    assert host.names_in(f"{node_root}/outside/sub") == ["secret"]
    places = [f"{contested}/{name}" for name in ("swapped", "link")]
    [directory] = [path for path in places if not os.path.islink(path)]
    assert len(host.names_in(f"{directory}/sub")) > 1


def test_no_descriptor_is_left_open(host: Host, contested: str, node_root: str) -> None:
    host.make_link("loop", f"{contested}/loop")

    def everything() -> None:
        for path in ("swapped/sub", "..", "/", "loop", "missing", "swapped/sub/inside", "swapped/sub/inside/below"):
            with contextlib.suppress(OSError):
                host.look_beneath(contested, path)
            with contextlib.suppress(OSError):
                host.make_subpath(contested, f"{path}/a/b", 0o755)
            with contextlib.suppress(OSError):
                host.bind_beneath(contested, path, f"{node_root}/target")
                host.unmount(f"{node_root}/target")

    everything()
    before = len(os.listdir("/proc/self/fd"))
    everything()
    assert len(os.listdir("/proc/self/fd")) == before
