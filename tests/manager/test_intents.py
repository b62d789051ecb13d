"""What is about to be done is on disk before it is begun, and forgotten when it is proven to be gone."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import pytest
from msgspec import structs

from mooring.host.records import encode
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.manager.intents import Intent, Intents
from mooring.testing.memory_host import MemoryHost
from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Mount, Stage, Unmount, Unstage
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

DIRECTORY = "/var/intents"
VOLUME, PLUGIN, POD = VolumeName("test/plugin/disk"), PluginName("test/plugin"), PodUid("uid-1")
DISK = PersistentVolume(metadata=ObjectMeta(name="disk"))
SPEC = VolumeSpec(persistent_volume=DISK, read_only=True, namespace="shop")
STAGING = Intent(volume=VOLUME, plugin=PLUGIN, spec=SPEC, operation="mount_device", path="/stage", device_path="/dev/x")
MOUNTING = Intent(volume=VOLUME, plugin=PLUGIN, spec=SPEC, pod=POD, operation="volume_mount", owner="shop/web")


@pytest.fixture
def host() -> MemoryHost:
    machine = MemoryHost()
    machine.make_directories("/var", 0o755)
    return machine


def written(host: MemoryHost) -> list[Intent]:
    return sorted(Intents(host, DIRECTORY).read().intents, key=lambda intent: intent.operation)


async def test_a_noted_intent_is_found_by_the_next_process_with_all_that_undoes_it(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    await intents.note(MOUNTING)
    assert written(host) == [replace(STAGING, boot="boot-1"), replace(MOUNTING, boot="boot-1")]


async def test_a_volume_of_the_pod_itself_comes_back_equal(host: MemoryHost) -> None:
    spec = VolumeSpec(volume=Volume(name="scratch", empty_dir=EmptyDirVolumeSource(medium="Memory")))
    await Intents(host, DIRECTORY).note(replace(MOUNTING, spec=spec))
    assert [intent.spec for intent in written(host)] == [spec]


async def test_the_same_again_is_not_written_again(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    host.before_call = _refuse
    await intents.note(STAGING)
    with pytest.raises(OSError, match="No space"):
        await intents.note(MOUNTING)


def _refuse(method: str, path: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


async def test_what_could_not_be_written_is_tried_again(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    host.before_call = _refuse
    with pytest.raises(OSError, match="No space"):
        await intents.note(STAGING)
    host.before_call = None
    await intents.note(STAGING)
    assert len(written(host)) == 1


async def test_many_at_once_are_few_writes(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    writes: list[str] = []
    host.after_call = lambda method, path: writes.append(method)

    async def later(call: object, risk: object, what: str) -> object:
        await asyncio.sleep(0)
        assert callable(call)
        return call()

    host.scheduler = later  # type: ignore[assignment]
    many = [replace(MOUNTING, pod=PodUid(f"uid-{number}")) for number in range(100)]
    await asyncio.gather(*(intents.note(intent) for intent in many))
    assert len(written(host)) == 100
    assert writes == ["write_durably", "write_durably"]


async def test_a_writer_that_is_cancelled_does_not_take_the_others_along(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    begun, go = asyncio.Event(), asyncio.Event()

    async def later(call: object, risk: object, what: str) -> object:
        begun.set()
        await go.wait()
        assert callable(call)
        return call()

    host.scheduler = later  # type: ignore[assignment]
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(intents.note(STAGING))
        await begun.wait()
        second = tasks.create_task(intents.note(MOUNTING))
        await asyncio.sleep(0)
        first.cancel()
        go.set()
        await second
    assert [intent.operation for intent in written(host)] == ["volume_mount"]


# -- forgetting ----------------------------------------------------------------------------------------------------
HELD = ActualVolume(
    name=VOLUME,
    plugin=PLUGIN,
    spec=SPEC,
    stage=Presence.PRESENT,
    mounts={POD: ActualMount(pod=POD, presence=Presence.UNCERTAIN, spec=SPEC)},
)


async def test_a_part_that_is_or_may_be_there_stays_written_down(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    await intents.note(MOUNTING)
    for operation in (Stage(VOLUME), Mount(VOLUME, POD), Unmount(VOLUME, POD), Unstage(VOLUME)):
        intents.settle(operation, HELD)
    assert len(written(host)) == 2


async def test_each_part_is_forgotten_when_it_is_gone(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    await intents.note(MOUNTING)
    intents.settle(Unmount(VOLUME, POD), structs.replace(HELD, mounts={}))
    assert [intent.operation for intent in written(host)] == ["mount_device"]
    intents.settle(Unstage(VOLUME), structs.replace(HELD, mounts={}, stage=Presence.ABSENT))
    assert written(host) == []
    assert len(intents) == 0


async def test_what_another_process_wrote_is_forgotten_too_once_it_is_gone(host: MemoryHost) -> None:
    await Intents(host, DIRECTORY).note(STAGING)
    intents = Intents(host, DIRECTORY)
    intents.read()
    intents.settle(Unstage(VOLUME), None)
    assert written(host) == []


# -- damage --------------------------------------------------------------------------------------------------------
async def test_damaged_and_foreign_records_are_told_and_left_alone(host: MemoryHost) -> None:
    await Intents(host, DIRECTORY).note(STAGING)
    host.put_file(f"{DIRECTORY}/cut.record", encode({"volume": "x"})[:-3])
    host.put_file(f"{DIRECTORY}/odd.record", encode({"volume": "x"}))
    host.put_file(f"{DIRECTORY}/notes.txt", "mine")
    found = Intents(host, DIRECTORY).read()
    assert [intent.operation for intent in found.intents] == ["mount_device"]
    names = sorted(damage.path.rpartition("/")[2] for damage in found.damaged)
    assert names == ["cut.record", "notes.txt", "odd.record"]
    assert len(host.names_in(DIRECTORY)) == 4


async def test_a_record_under_another_name_is_not_believed(host: MemoryHost) -> None:
    await Intents(host, DIRECTORY).note(STAGING)
    (name,) = host.names_in(DIRECTORY)
    host.rename(f"{DIRECTORY}/{name}", f"{DIRECTORY}/0123.record")
    found = Intents(host, DIRECTORY).read()
    assert (found.intents, len(found.damaged)) == ((), 1)


# -- SELinux labels ------------------------------------------------------------------------------------------------
async def test_a_label_comes_back_and_without_one_the_record_is_as_it_always_was(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    (record,) = [host.read_file(f"{DIRECTORY}/{name}") for name in host.names_in(DIRECTORY)]
    assert b"label" not in record
    await intents.note(replace(STAGING, label="u:r:t:s0:c1,c2"))
    assert [intent.label for intent in written(host)] == ["u:r:t:s0:c1,c2"]


async def test_what_was_begun_in_this_run_of_the_machine_is_known_apart(host: MemoryHost) -> None:
    intents = Intents(host, DIRECTORY)
    await intents.note(STAGING)
    assert intents.of_this_boot() == {VOLUME}
    host.reboot()
    later = Intents(host, DIRECTORY)
    later.read()
    assert later.of_this_boot() == frozenset()
    await later.note(MOUNTING)
    assert later.of_this_boot() == {VOLUME}
