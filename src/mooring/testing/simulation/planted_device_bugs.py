"""Bugs about disks and the records of what was done to them, planted to see whether the simulation finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from msgspec import structs

from mooring.engine.pending import Slot
from mooring.errors import NotYet
from mooring.manager import volume_subject
from mooring.manager.intents import Intents, IntentsFound
from mooring.manager.operations import mount as mounting
from mooring.manager.operations.context import OperationContext
from mooring.manager.pods import KnownPods
from mooring.manager.quarantine import Quarantine
from mooring.manager.reconstruction import Reconstruction
from mooring.manager.recovery import Recovery
from mooring.manager.volume_manager import VolumeManager
from mooring.manager.volume_subject import VolumeSubject
from mooring.plugins.interface import Offer
from mooring.testing.simulation.planting import PlantedBug, swapped
from mooring.world import outcomes, planner, presence
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredVolume
from mooring.world.names import PodUid
from mooring.world.operations import Detach, Mount, Operation, Unmount, Unstage, VolumeOperation, pod_of
from mooring.world.outcomes import Outcome
from mooring.world.planner import Gates
from mooring.world.presence import Presence, Result
from mooring.world.spec import VolumeSpec


# -- records ---------------------------------------------------------------------------------------------------------
def _write_records_late() -> AbstractContextManager[None]:
    original = OperationContext.note

    async def note(
        self: OperationContext, operation: VolumeOperation, offer: Offer, spec: VolumeSpec, path: str, owner: str = ""
    ) -> None:
        async def write() -> None:
            with suppress(NotYet, KeyError):
                await original(self, operation, offer, spec, path, owner)

        asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(write()))

    return swapped(OperationContext, "note", note)


def _remove_records_early() -> AbstractContextManager[None]:
    original = Intents.settle

    def settle(self: Intents, operation: VolumeOperation, held: ActualVolume | None) -> None:
        if isinstance(operation, Unmount | Unstage):
            self.forget((operation.volume, pod_of(operation)))
        original(self, operation, held)

    return swapped(Intents, "settle", settle)


def _keep_records() -> AbstractContextManager[None]:
    return swapped(Intents, "settle", lambda *_: None)


def _ignore_records_of_the_node() -> AbstractContextManager[None]:
    original = Intents.read

    def read(self: Intents) -> IntentsFound:
        found = original(self)
        return replace(found, intents=tuple(intent for intent in found.intents if intent.pod is not None))

    return swapped(Intents, "read", read)


def _ignore_what_records_tell() -> AbstractContextManager[None]:
    original = Intents.read
    return swapped(Intents, "read", lambda self: replace(original(self), intents=()))


def _forget_what_is_kept_apart() -> AbstractContextManager[None]:
    original = Quarantine.begin

    def begin(self: Quarantine, reconstruction: Reconstruction) -> None:
        original(self, reconstruction)
        self.leftovers = []

    return swapped(Quarantine, "begin", begin)


def _take_every_start_for_a_boot() -> AbstractContextManager[None]:
    return swapped(Recovery, "_mark_boot", lambda _: True)


# -- doubt -----------------------------------------------------------------------------------------------------------
def _forget_failed_unstages() -> AbstractContextManager[None]:
    def apply_outcome(actual: ActualVolume, operation: VolumeOperation, outcome: Outcome) -> ActualVolume:
        after = outcomes.apply_outcome(actual, operation, outcome)
        return structs.replace(after, stage=Presence.ABSENT) if isinstance(operation, Unstage) else after

    return swapped(volume_subject, "apply_outcome", apply_outcome)


def _lose_device_paths() -> AbstractContextManager[None]:
    def apply_outcome(actual: ActualVolume, operation: VolumeOperation, outcome: Outcome) -> ActualVolume:
        after = outcomes.apply_outcome(actual, operation, outcome)
        return structs.replace(after, device_path="") if isinstance(operation, Unstage) else after

    return swapped(volume_subject, "apply_outcome", apply_outcome)


def _clear_doubt_about_what_was_found() -> AbstractContextManager[None]:
    original = presence.after_setup

    def after_setup(before: Presence, result: Result, *, reconstructed: bool) -> Presence:
        return original(before, result, reconstructed=False)

    return swapped(outcomes, "after_setup", after_setup)


def _let_one_pod_replace_the_other() -> AbstractContextManager[None]:
    original = outcomes._after_mount

    def after_mount(actual: ActualVolume, pod: PodUid, outcome: Outcome) -> Mapping[PodUid, ActualMount]:
        mounts = original(actual, pod, outcome)
        return {pod: mounts[pod]} if pod in mounts else mounts

    return swapped(outcomes, "_after_mount", after_mount)


# -- deciding --------------------------------------------------------------------------------------------------------
def _detach_before_unstaging() -> AbstractContextManager[None]:
    original = planner._leftover

    def leftover(desired: DesiredVolume | None, actual: ActualVolume | None, gates: Gates) -> Iterator[planner.Step]:
        for step in original(desired, actual, gates):
            attached = actual is not None and actual.attachment is not Presence.ABSENT
            yield Detach(step.volume) if isinstance(step, Unstage) and attached else step

    return swapped(planner, "_leftover", leftover)


def _give_exclusive_volumes_to_all() -> AbstractContextManager[None]:
    return swapped(planner, "_is_exclusive", lambda _: False)


@contextmanager
def _overlook_containers() -> Iterator[None]:
    with (
        swapped(VolumeManager, "containers_changed", lambda self, uid, _: self.pod_state_changed(uid)),
        swapped(KnownPods, "runtime_removed", KnownPods.containers_terminating),
    ):
        yield


@contextmanager
def _unmount_what_cannot_be_worked_out() -> Iterator[None]:
    original = planner._held

    def held(actual: ActualVolume, gates: Gates, pod: PodUid | None) -> planner.Reason | None:
        return original(actual, structs.replace(gates, pods_in_doubt=frozenset()), pod)

    with swapped(planner, "_held", held), swapped(mounting, "_refuse_wanted", lambda *_: None):
        yield


def _work_for_all_pods_at_once() -> AbstractContextManager[None]:
    original = VolumeSubject.slot

    def slot(self: VolumeSubject, operation: Operation) -> Slot:
        return Slot(operation.volume, operation.pod) if isinstance(operation, Mount) else original(self, operation)

    return swapped(VolumeSubject, "slot", slot)


DEVICE_BUGS: dict[str, PlantedBug] = {
    "record-late": PlantedBug(
        says="what is about to be done is written down only after it was done", plant=_write_records_late
    ),
    "record-removed-early": PlantedBug(
        says="a record goes before its volume is proven to be gone", plant=_remove_records_early
    ),
    "record-kept": PlantedBug(says="records of what is gone stay", plant=_keep_records),
    "node-record-ignored": PlantedBug(
        says="after a start nobody looks what was attached and staged for the node", plant=_ignore_records_of_the_node
    ),
    "record-ignored": PlantedBug(
        says="after a start only the names of directories are believed", plant=_ignore_what_records_tell
    ),
    "quarantine-forgotten": PlantedBug(
        says="what cannot be made sense of after a start is forgotten", plant=_forget_what_is_kept_apart
    ),
    "boot-imagined": PlantedBug(
        says="after every start nothing counts as mounted before it", plant=_take_every_start_for_a_boot
    ),
    "unstage-forgotten": PlantedBug(says="an unstage without an answer counts as done", plant=_forget_failed_unstages),
    "device-path-lost": PlantedBug(
        says="the path of a device is forgotten when it is unstaged", plant=_lose_device_paths
    ),
    "found-forgotten": PlantedBug(
        says="a refused mount clears the doubt about what was found on disk", plant=_clear_doubt_about_what_was_found
    ),
    "other-pod-forgotten": PlantedBug(
        says="a volume that is mounted for a pod counts as gone for the others", plant=_let_one_pod_replace_the_other
    ),
    "detached-first": PlantedBug(says="a volume is detached before it is unstaged", plant=_detach_before_unstaging),
    "not-exclusive": PlantedBug(
        says="a ReadWriteOncePod volume is given to several pods", plant=_give_exclusive_volumes_to_all
    ),
    "containers-overlooked": PlantedBug(says="volumes go while containers use them", plant=_overlook_containers),
    "doubtful-unmounted": PlantedBug(
        says="volumes of a pod whose claim cannot be found are taken away", plant=_unmount_what_cannot_be_worked_out
    ),
    "served-at-once": PlantedBug(
        says="a volume is mounted for several pods at the same time", plant=_work_for_all_pods_at_once
    ),
}
"""By name, as `mooring simulate --plant` takes them."""
