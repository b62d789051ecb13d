"""Bugs that are planted to see whether the simulation finds them. Each is one that a volume manager once had."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from msgspec.structs import replace

from mooring.engine.reconciler import Reconciler
from mooring.host import atomic_writer
from mooring.host.interface import FileKind, Host, NewFile
from mooring.manager.operations import mount as mounting
from mooring.manager.operations.context import OperationContext
from mooring.manager.reconstruction import Reconstruction
from mooring.manager.volume_subject import VolumeSubject
from mooring.plugins import empty_dir
from mooring.testing.simulation.planted_device_bugs import DEVICE_BUGS
from mooring.testing.simulation.planting import PlantedBug, swapped
from mooring.world import outcomes, planner
from mooring.world.operations import Mount, Operation, Unmount
from mooring.world.outcomes import Outcome
from mooring.world.presence import Presence, Result


def planted(name: str | None) -> AbstractContextManager[None]:
    """The bug of this name for as long as the context lasts; None plants nothing."""
    return nullcontext() if name is None else PLANTED[name].plant()


# -- doubt -----------------------------------------------------------------------------------------------------------
def _forget_failed_unmounts() -> AbstractContextManager[None]:
    def after_teardown(before: Presence, result: Result) -> Presence:
        return before if result is Result.NOT_YET else Presence.ABSENT

    return swapped(outcomes, "after_teardown", after_teardown)


def _trust_failed_unmounts() -> AbstractContextManager[None]:
    def after_teardown(before: Presence, result: Result) -> Presence:
        return Presence.ABSENT if result is Result.DONE else Presence.PRESENT

    return swapped(outcomes, "after_teardown", after_teardown)


def _apply_outcomes_twice() -> AbstractContextManager[None]:
    original = VolumeSubject.apply

    def apply(self: VolumeSubject, operation: Operation, outcome: Outcome) -> bool:
        succeeded = original(self, operation, outcome)

        def again() -> None:
            if isinstance(operation, Mount | Unmount) and (known := self.actual.volumes.get(operation.volume)):
                self.actual.put(outcomes.apply_outcome(known, operation, outcome))

        asyncio.get_running_loop().call_later(1.0, again)
        return succeeded

    return swapped(VolumeSubject, "apply", apply)


def _forget_what_is_on_disk() -> AbstractContextManager[None]:
    return swapped(Reconstruction, "run", lambda _: [])


# -- deciding --------------------------------------------------------------------------------------------------------
def _unmount_before_sources_are_heard() -> AbstractContextManager[None]:
    return swapped(planner, "_held", lambda *_: None)


def _lose_wake_ups() -> AbstractContextManager[None]:
    return swapped(Reconciler, "_wake", lambda *_: None)


def _lose_refreshes() -> AbstractContextManager[None]:
    original = mounting.mount

    async def mount(context: OperationContext, operation: Mount) -> Outcome:
        outcome = await original(context, operation)
        wish = context.desired.mount(operation.pod, operation.volume)
        return replace(outcome, revision=wish.revision) if wish is not None else outcome

    return swapped(mounting, "mount", mount)


# -- doing -----------------------------------------------------------------------------------------------------------
def _delete_through_foreign_mounts() -> AbstractContextManager[None]:
    def dismantle(host: Host, path: str, ready: str, *, may_have_quota: bool = False) -> None:
        if host.look(ready) is not None:
            host.remove_tree(ready)
        if host.look(path) is not None:
            _remove_all_below(host, path)
            original(host, path, ready)

    original = empty_dir.dismantle
    return swapped(empty_dir, "dismantle", dismantle)


def _remove_all_below(host: Host, path: str) -> None:
    for name in host.names_in(path):
        facts = host.look(f"{path}/{name}")
        if facts is not None and facts.kind is FileKind.DIRECTORY:
            _remove_all_below(host, f"{path}/{name}")
        else:
            host.remove_file(f"{path}/{name}")


def _start_every_empty_dir_afresh() -> AbstractContextManager[None]:
    original = empty_dir.prepare

    def prepare(host: Host, wanted: empty_dir.Directory) -> None:
        if not wanted.untrusted and host.look(f"{wanted.ready}/ready") is not None:
            empty_dir.dismantle(host, wanted.path, wanted.ready)
        original(host, wanted)

    return swapped(empty_dir, "prepare", prepare)


def _switch_before_writing() -> AbstractContextManager[None]:
    def publish(
        host: Host,
        directory: str,
        wanted: Mapping[str, atomic_writer.PayloadFile],
        stamp: str,
        names: set[str],
        set_ownership: Callable[[str], None] | None,
    ) -> None:
        new_link = f"{directory}/{atomic_writer.NEW_DATA_LINK}"
        with contextlib.suppress(FileNotFoundError):
            host.remove_file(new_link)
        host.make_directory(f"{directory}/{stamp}", 0o755)
        host.make_link(stamp, new_link)
        host.rename(new_link, f"{directory}/{atomic_writer.DATA_LINK}")
        files = [NewFile(path=path, data=file.data, mode=file.mode, uid=file.uid) for path, file in wanted.items()]
        host.write_files(f"{directory}/{stamp}", files)
        if set_ownership is not None:
            set_ownership(f"{directory}/{stamp}")

    return swapped(atomic_writer, "_publish", publish)


PLANTED: dict[str, PlantedBug] = {
    "failed-unmount-forgotten": PlantedBug(says="an unmount that failed counts as done", plant=_forget_failed_unmounts),
    "failed-unmount-trusted": PlantedBug(
        says="a volume whose unmount failed counts as mounted", plant=_trust_failed_unmounts
    ),
    "outcome-applied-twice": PlantedBug(
        says="what an operation told is written into the world a second time", plant=_apply_outcomes_twice
    ),
    "disk-forgotten": PlantedBug(
        says="what earlier managers left on disk is not taken into account", plant=_forget_what_is_on_disk
    ),
    "unheard-unmount": PlantedBug(
        says="volumes are unmounted before all sources were heard", plant=_unmount_before_sources_are_heard
    ),
    "wake-up-lost": PlantedBug(says="nobody comes back when a pause is over", plant=_lose_wake_ups),
    "refresh-lost": PlantedBug(
        says="an object that changes while its volume is written counts as shown", plant=_lose_refreshes
    ),
    "foreign-data-deleted": PlantedBug(
        says="a teardown deletes through mounts of others", plant=_delete_through_foreign_mounts
    ),
    "data-deleted-at-restart": PlantedBug(
        says="a set-up that finds an emptyDir ready makes it anew", plant=_start_every_empty_dir_afresh
    ),
    "half-written-content": PlantedBug(
        says="readers are sent to new content before it is complete", plant=_switch_before_writing
    ),
    **DEVICE_BUGS,
}
"""By name, as `mooring simulate --plant` takes them."""
