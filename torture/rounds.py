"""Rounds of torture: disturb, let it come to rest, and compare the node with one that nobody disturbed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.errors import Refused
from mooring.testing.fault_points import FAULT, POINTS
from torture.arena import DISKS, Arena, loops_below
from torture.inspection import MARKER, differences, mounts_below, tree_below
from torture.instance import Instance
from torture.wishes import Wishes


class Violation(AssertionError):
    """Something was lost or left."""


class Torture:
    """One tortured instance, the undisturbed one beside it, and what users wrote to volumes."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.arena = arena
        self.chance = random.Random(seed)
        self.wishes = Wishes(arena, self.chance)
        self.tortured = Instance(arena.root, arena.manifests, share_work="always")
        self.reference = Instance(arena.reference_root, arena.reference_manifests, share_work="off")
        self.written: dict[str, str] = {}
        self.deaths = 0
        self._faults: list[Callable[[], None]] = [
            self._kill_at_random,
            self._kill_at_random,
            self._kill_at_a_point,
            self._kill_at_a_point,
            self._fill_the_disk,
            self._restore_the_store,
            self._break_a_disk,
            self._let_the_clock_jump,
        ]

    def begin(self) -> None:
        self.wishes.begin()
        self.wishes.copy()
        self.reference.start()
        self.reference.ready()

    def end(self) -> None:
        for instance in (self.tortured, self.reference):
            instance.kill()

    def round(self, point: str | None = None) -> str:
        """One round, with a fault of its own or at a named point; returns what was done."""
        if point is not None:
            self._kill_at_a_point(point)
            done = point
        else:
            fault = self.chance.choice(self._faults)
            fault()
            done = fault.__name__.strip("_").replace("_", " ")
        self.tortured.kill()
        self.tortured.start()
        self._converge()
        self._compare()
        self._write_as_users_do()
        if self.chance.random() < 0.5:
            self.tortured.stop()
        else:
            self.tortured.kill()
        return done

    def finish(self) -> None:
        """All pods go, and nothing may be left."""
        self.tortured.kill()
        self.wishes.clear()
        self.tortured.start()
        self._converge()
        self._compare()
        if left := [*mounts_below(self.arena.root), *loops_below(self.arena.root)]:
            raise Violation(f"left: {left}")
        records = self.arena.root / "intents"
        if records.is_dir() and os.listdir(records):
            raise Violation(f"records are left: {os.listdir(records)}")
        self.tortured.stop()

    # -- faults --------------------------------------------------------------------------------------------------
    def _kill_at_random(self) -> None:
        self.tortured.start()
        time.sleep(self.chance.uniform(0.0, 0.4))
        self.wishes.change()
        time.sleep(self.chance.uniform(0.0, 0.6))
        self.wishes.change()
        time.sleep(self.chance.expovariate(20.0))
        self._pull()

    def _kill_at_a_point(self, point: str | None = None) -> None:
        point = point or self.chance.choice(POINTS)
        self.tortured.start({FAULT: f"{point}:{self.chance.randint(1, 6)}"})
        self.wishes.change()
        deadline = time.monotonic() + self.chance.uniform(0.8, 1.6)  # it may never pass there
        changed = False
        while self.tortured.is_alive and time.monotonic() < deadline:
            time.sleep(0.01)
            if not changed and time.monotonic() > deadline - 0.4:
                self.wishes.change()
                changed = True
        self._pull()

    def _fill_the_disk(self) -> None:
        ballast = self.arena.root.parent / "ballast"
        self.tortured.start()
        self.wishes.change()
        with contextlib.suppress(OSError), open(ballast, "wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        self.wishes.change()
        time.sleep(self.chance.uniform(0.2, 0.8))
        self._pull()
        ballast.unlink()

    def _restore_the_store(self) -> None:
        """Copy the store while it is written to, file by file, and start with that copy."""
        store, copy = self.arena.root / "store", self.arena.work / "store-copy"
        self.tortured.start()
        self.wishes.change()
        time.sleep(self.chance.uniform(0.2, 0.8))
        copy.mkdir(exist_ok=True)
        for path in copy.iterdir():
            path.unlink()
        if store.is_dir():
            for path in sorted(store.iterdir()):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy2(path, copy / path.name)
        self.wishes.change()
        time.sleep(self.chance.uniform(0.0, 0.3))
        self._pull()
        if any(copy.iterdir()):
            for path in store.iterdir():
                path.unlink()
            for path in copy.iterdir():
                shutil.copy2(path, store / path.name)

    def _break_a_disk(self) -> None:
        """Cut off the end of a disk for a while: whoever reads or writes there gets an I/O error."""
        disk = self.arena.disk(0)
        whole = self.arena.work / "disk-whole"
        shutil.copyfile(disk, whole)
        size = disk.stat().st_size
        if not self._is_mounted(self.arena.device(0)):
            os.truncate(disk, 4096)
            self.tortured.start()
            self.wishes.change()
            time.sleep(self.chance.uniform(0.3, 0.9))
            self._pull()
            with open(whole, "rb") as source, open(disk, "r+b") as target:
                os.truncate(disk, size)
                shutil.copyfileobj(source, target)
        else:
            self._kill_at_random()

    def _let_the_clock_jump(self) -> None:
        """Let the clock on the wall be weeks ahead or behind for one life of the daemon."""
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        if library is None:
            raise Refused("cannot let the clock jump", why="libfaketime is missing", next_step="Install faketime")
        jump = f"{self.chance.choice('+-')}{self.chance.randint(1, 60)}d"
        self.tortured.start({"LD_PRELOAD": str(library), "FAKETIME": jump, "DONT_FAKE_MONOTONIC": "1"})
        self.wishes.change()
        time.sleep(self.chance.uniform(0.3, 0.9))
        self.wishes.change()
        time.sleep(self.chance.uniform(0.0, 0.3))
        self._pull()

    def _is_mounted(self, device: str) -> bool:
        return any(line.split(" - ")[1].split()[1] == device for line in Path("/proc/self/mountinfo").open())

    def _pull(self) -> None:
        self.deaths += 1
        self.tortured.kill()

    # -- coming to rest ------------------------------------------------------------------------------------------
    def _converge(self) -> None:
        self.wishes.copy()
        self.tortured.ready()
        for instance in (self.tortured, self.reference):
            instance.until("exactly the wanted volumes are mounted", lambda i=instance: self._is_at_rest(i))

    def _is_at_rest(self, instance: Instance) -> bool:
        pods, volumes = instance.ask("get", "pods"), instance.ask("get", "volumes")
        if pods is None or volumes is None:
            return False
        wanted = {f"default/{name}" for name in self.wishes.pods}
        directories = instance.root / "pods"
        held = len(os.listdir(directories)) if directories.is_dir() else 0
        return (
            {row["pod"] for row in pods} == wanted
            and {row["pod"] for row in volumes} <= wanted
            and all(row["ready"] for row in pods)
            and held == len(wanted)
        )

    def _compare(self) -> None:
        pairs = ((mounts_below, "mounts"), (tree_below, "tree"))
        for look, what in pairs:
            deadline = time.monotonic() + 10.0  # an edit of content may still be under way on either side
            while lines := differences(look(self.arena.reference_root), look(self.arena.root)):
                if time.monotonic() > deadline:
                    raise Violation(f"the {what} differ:\n" + "\n".join(lines))
                time.sleep(0.05)
        expected, found = loops_below(self.arena.reference_root), loops_below(self.arena.root)
        if expected != found:
            raise Violation(f"the loop devices differ: {expected} / {found}")
        self._check_bytes()

    def _check_bytes(self) -> None:
        """A directory of a pod lives as long as the pod, a disk and a directory of the machine for ever."""
        for row in self.tortured.ask("get", "volumes") or []:
            name = _kept_name(row)
            if name in self.written and row["path"]:
                self._check(Path(row["path"]), self.written[name])
        for number in range(DISKS):
            if f"dir{number}" in self.written:
                self._check(self.arena.directory(number), self.written[f"dir{number}"])

    def _check(self, directory: Path, text: str) -> None:
        path = directory / MARKER
        found = path.read_text() if path.exists() else None
        if found != text:
            raise Violation(f"what a user wrote is lost: {path} should hold {text!r} and holds {found!r}")

    def _write_as_users_do(self) -> None:
        """Write something to every volume that keeps what is written, and remember it."""
        for row in self.tortured.ask("get", "volumes") or []:
            name = _kept_name(row)
            if name is not None and name not in self.written and row["path"]:
                text = f"{name} {self.chance.random()}"
                (Path(row["path"]) / MARKER).write_text(text)
                self.written[name] = text


def _kept_name(row: dict[str, Any]) -> str | None:
    """What the bytes of a volume are remembered by; None for one that keeps nothing."""
    if row["volume"] == "scratch":
        return f"{row['pod']}/scratch"
    return row["volume"] if row["volume"].startswith(("dir", "disk")) else None
