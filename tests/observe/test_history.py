"""What is remembered of volumes, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod
from mooring.observe.history import Entry, History, Journal
from mooring.world.changes import Finished, Noticed, ProblemArose, Reconstructed, Started
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import MakePodDirectory, Mount, Operation, RemovePodDirectory, Unmount
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result

UID = PodUid("uid-1")
NAME = VolumeName("kubernetes.io/secret/uid-1-v")
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid=UID))
MOUNT, UNMOUNT = Mount(NAME, UID), Unmount(NAME, UID)


class Clock:
    """Two clocks that go together: the loop's, and the one on the wall 1000 seconds ahead."""

    now = 0.0

    def loop(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1000.0


class Remembering:
    """A history with its clock, and a journal that is written when a test says so."""

    def __init__(self, path: Path | None = None, *, length: int = 64, size: int = 1 << 20) -> None:
        self.clock = Clock()
        self.due: list[object] = []
        self.journal = Journal(str(path), size=size, soon=self.due.append) if path is not None else None
        self.history = History(length=length, wall=self.clock.wall, clock=self.clock.loop, journal=self.journal)

    def happened(
        self, operation: Operation = MOUNT, result: Result = Result.DONE, *, at: float = 0.0, refresh: bool = False
    ) -> None:
        self.clock.now = at
        outcome = Outcome(result=result, what="cannot read Secret 's'", why="it is not there")
        self.history.listen(
            Finished(
                operation=operation,
                outcome=outcome if result is not Result.DONE else Outcome(result=result),
                at=at,
                seconds=0.25,
                inner_name="v",
                pod=POD,
                refreshed=refresh,
            )
        )

    def flush(self) -> None:
        assert self.journal is not None
        self.journal.flush()


@pytest.fixture
def remembering() -> Remembering:
    return Remembering()


# -- in memory -----------------------------------------------------------------------------------------------------
def test_a_finished_operation_is_an_entry_with_time_result_and_reason(remembering: Remembering) -> None:
    remembering.happened(result=Result.NOT_YET, at=5.0)
    assert remembering.history.of_pod(UID) == [
        Entry(
            at=1005.0,
            pod=UID,
            volume="v",
            what="volume_mount",
            result="not yet",
            seconds=0.25,
            detail="cannot read Secret 's': it is not there",
            name=NAME,
            pod_name="shop/web",
        )
    ]


def test_pod_directories_are_worth_an_entry_only_when_they_fail(remembering: Remembering) -> None:
    remembering.happened(MakePodDirectory(UID))
    remembering.happened(RemovePodDirectory(UID))
    assert remembering.history.of_pod(UID) == []
    remembering.happened(RemovePodDirectory(UID), Result.REFUSED)
    assert len(remembering.history.of_pod(UID)) == 1


def test_each_volume_keeps_its_newest_entries_only() -> None:
    remembering = Remembering(length=3)
    for number in range(10):
        remembering.happened(result=Result.REFUSED, at=float(number))
    assert [entry.at for entry in remembering.history.of_pod(UID)] == [1007.0, 1008.0, 1009.0]


def test_one_volume_can_be_asked_for_and_brings_what_concerns_the_whole_pod(remembering: Remembering) -> None:
    remembering.happened(result=Result.REFUSED, at=1.0)
    remembering.clock.now = 2.0
    remembering.history.listen(ProblemArose(pod=POD, volume="other", why="no volume plugin matched"))
    assert [entry.volume for entry in remembering.history.of_pod(UID)] == ["v", "other"]
    assert [entry.volume for entry in remembering.history.of_pod(UID, "v")] == ["v"]
    assert remembering.history.of_pod(UID, "other")[0].result == "waiting"


def test_a_notice_is_remembered_with_its_reason(remembering: Remembering) -> None:
    remembering.history.listen(Noticed(pod=POD, volume="v", reason="Told", message="so it is"))
    (entry,) = remembering.history.of_pod(UID, "v")
    assert (entry.what, entry.result, entry.detail) == ("notice", "Told", "so it is")


def test_what_a_start_found_is_remembered(remembering: Remembering) -> None:
    plugin = PluginName("kubernetes.io/secret")
    for name, why in ((NAME, ""), (None, "it makes no sense")):
        remembering.history.listen(Reconstructed(pod=UID, plugin=plugin, inner_name="v", volume=name, why=why))
    assert [(entry.what, entry.result, entry.detail) for entry in remembering.history.of_pod(UID)] == [
        ("reconstruct", "found", ""),
        ("reconstruct", "not understood", "it makes no sense"),
    ]


def test_the_begin_of_an_operation_is_not_worth_an_entry(remembering: Remembering) -> None:
    remembering.history.listen(Started(operation=MOUNT, at=0.0))
    assert remembering.history.of_pod(UID) == []


def test_pods_are_found_by_a_name_they_had_the_latest_last(remembering: Remembering) -> None:
    for uid, at in (("second", 20.0), ("first", 10.0)):
        remembering.happened(Mount(NAME, PodUid(uid)), at=at)
    assert remembering.history.pods_named("shop/web") == ["first", "second"]
    assert remembering.history.pods_named("shop/other") == []


def test_mounted_at_is_the_first_mount_until_the_volume_is_unmounted(remembering: Remembering) -> None:
    history = remembering.history
    assert history.mounted_at(UID, NAME) is None
    remembering.happened(result=Result.REFUSED, at=1.0)
    remembering.happened(at=2.0)
    remembering.happened(at=3.0, refresh=True)
    remembering.happened(at=4.0)
    assert history.mounted_at(UID, NAME) == 1002.0
    remembering.happened(UNMOUNT, Result.UNKNOWN, at=5.0)
    assert history.mounted_at(UID, NAME) == 1002.0
    remembering.happened(UNMOUNT, at=6.0)
    assert history.mounted_at(UID, NAME) is None
    remembering.happened(at=7.0)
    assert history.mounted_at(UID, NAME) == 1007.0


def test_a_refresh_is_called_one(remembering: Remembering) -> None:
    remembering.happened(refresh=True)
    assert [entry.what for entry in remembering.history.of_pod(UID)] == ["refresh"]


# -- on disk -------------------------------------------------------------------------------------------------------
def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first = Remembering(path)
    first.happened(result=Result.REFUSED, at=1.0)
    first.happened(at=2.0)
    first.flush()
    second = Remembering(path)
    assert second.history.of_pod(UID) == first.history.of_pod(UID)
    assert second.history.mounted_at(UID, NAME) == 1002.0


def test_lines_are_written_after_the_turn_of_the_loop_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    remembering = Remembering(path)
    remembering.happened()
    remembering.happened(result=Result.REFUSED)
    assert (len(remembering.due), path.exists()) == (1, False)
    remembering.flush()
    assert len(path.read_bytes().splitlines()) == 2


def test_the_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    remembering = Remembering(tmp_path / "history.jsonl")
    remembering.happened()
    remembering.flush()
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    remembering = Remembering(path)
    remembering.happened(at=1.0)
    remembering.happened(result=Result.REFUSED, at=2.0)
    remembering.flush()
    path.write_bytes(path.read_bytes()[:-20])
    assert [entry.at for entry in Remembering(path).history.of_pod(UID)] == [1001.0]


def test_what_is_written_after_a_torn_line_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"at": 1.0, "po')
    remembering = Remembering(path)
    remembering.happened(at=5.0)
    remembering.flush()
    assert [entry.at for entry in Remembering(path).history.of_pod(UID)] == [1005.0]


def test_a_journal_that_grows_too_large_loses_its_older_half_but_no_mount(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    remembering = Remembering(path, size=4000)
    remembering.happened(at=1.0)
    for number in range(200):
        remembering.happened(at=2.0 + number, refresh=True)
        remembering.flush()
        assert path.stat().st_size <= 4500
    again = Remembering(path)
    assert again.history.mounted_at(UID, NAME) == 1001.0
    entries = again.history.of_pod(UID)
    assert (entries[0].at, entries[-1].at) == (1001.0, 1201.0)
    assert len(entries) == len(set(entries))


def test_a_disk_that_takes_nothing_costs_history_and_nothing_else(tmp_path: Path) -> None:
    remembering = Remembering(tmp_path / "missing" / "history.jsonl")
    remembering.happened()
    remembering.flush()
    assert len(remembering.history.of_pod(UID)) == 1


def test_closing_writes_what_was_collected(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    remembering = Remembering(path)
    remembering.happened()
    assert remembering.journal is not None
    remembering.journal.close()
    assert len(path.read_bytes().splitlines()) == 1


# -- how much is kept ----------------------------------------------------------------------------------------------
def test_pods_that_are_gone_are_forgotten_one_day_and_those_that_have_volumes_never(remembering: Remembering) -> None:
    remembering.happened()
    for number in range(2000):
        uid = PodUid(f"uid-gone-{number}")
        remembering.happened(Mount(NAME, uid), at=1.0 + number)
        remembering.happened(Unmount(NAME, uid), at=1.0 + number)
    assert remembering.history.of_pod(UID) != []
    assert remembering.history.mounted_at(UID, NAME) == 1000.0
    assert remembering.history.of_pod("uid-gone-1999") != []
    assert remembering.history.of_pod("uid-gone-0") == []


def test_a_pod_that_is_mounted_again_is_not_among_those_that_are_forgotten(remembering: Remembering) -> None:
    remembering.happened()
    remembering.happened(UNMOUNT)
    remembering.happened()
    for number in range(2000):
        remembering.happened(Mount(NAME, PodUid(f"uid-{number}-failing")), result=Result.REFUSED)
    assert len(remembering.history.of_pod(UID)) == 3
