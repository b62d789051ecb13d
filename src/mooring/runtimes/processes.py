"""Whether the process that started a pod's containers is still there, told without asking again and again."""

from __future__ import annotations

import asyncio
import os

import msgspec

_PATIENCE = 1.0  # seconds between two looks where the kernel cannot wake us (before Linux 5.3)


class ClientProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that no later one can be taken for: its number, its start in ticks since boot, and which boot."""

    pid: int
    started: int
    boot: str


def process_of(pid: int) -> ClientProcess | None:
    """The process of this number; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()  # the name before it may hold anything
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ClientProcess(pid=pid, started=int(fields[19]), boot=_boot())


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


def is_alive(process: ClientProcess) -> bool:
    return process_of(process.pid) == process and not _is_zombie(process.pid)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until_ended(process: ClientProcess) -> None:
    """Return when a process has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError:
        while True:
            if not is_alive(process):
                return
            await asyncio.sleep(_PATIENCE)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        if is_alive(process):  # it was this one that was opened, not another with its number
            loop.add_reader(descriptor, ended.set)
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
