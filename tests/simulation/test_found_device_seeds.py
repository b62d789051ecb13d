"""Histories with disks of drivers that once went wrong, as short as they could be made; each test says what it was."""

from __future__ import annotations

from mooring.testing.simulation.runner import run_script
from mooring.testing.simulation.script import (
    AnyStep,
    BreakReads,
    Crash,
    DamageRecord,
    DeleteClaim,
    DriverStrike,
    DropVolume,
    LimitDisk,
    LoseDriver,
    Pass,
    PutClaim,
    PutObject,
    PutPod,
    PutVolume,
    Reboot,
    RemovePod,
    Restart,
    Script,
    Strike,
    Turn,
    UnmountByHand,
    WriteFile,
)
from mooring.testing.simulation.wishes import DiskWish, InlineWish, ObjectWish, PodWish, VolumeWish

SECOND = Pass(seconds=1.0)


def disk(name: str) -> DiskWish:
    return DiskWish(name="p0", disk=name)


def put(name: str, *volumes: VolumeWish) -> PutPod:
    return PutPod(pod=PodWish(name=name, uid=f"uid-{name}", volumes=volumes))


def holds(*steps: AnyStep, latency: float = 0.0, seed: int = 0) -> None:
    history = run_script(Script(seed=seed, latency=latency, steps=steps))
    assert history.violation is None, "\n".join([str(history.violation), *(str(entry) for entry in history.entries)])


def test_what_was_found_on_disk_counts_as_in_use_although_nobody_knows_whether_it_is_attached() -> None:
    gone = Restart(lost=("a",), heard_after=1.0)
    holds(PutClaim(disk="full-once"), put("a", disk("full-once")), SECOND, gone, Pass(seconds=0.01))


def test_a_record_that_a_crash_left_half_written_goes_with_the_next_start() -> None:
    claims = (PutClaim(disk="staged"), PutClaim(disk="full"))
    both = put("a", disk("staged"), DiskWish(name="p1", disk="full"))
    for skip in range(10):
        holds(*claims, Crash(when="during", skip=skip, lost=("a",)), both, SECOND)


def test_a_record_for_which_there_is_no_room_leaves_nothing_behind() -> None:
    holds(PutClaim(disk="staged"), LimitDisk(pages=1), put("a", disk("staged")), SECOND, RemovePod(pod="a"))


def test_a_driver_that_goes_while_its_volume_is_mounted_breaks_no_question_about_the_pod() -> None:
    holds(PutClaim(disk="attached"), put("a", disk("attached")), SECOND, LoseDriver(driver="simulated/attaching"))


def test_nothing_is_unstaged_below_what_a_damaged_record_told_of() -> None:
    crash = Crash(lost=("a",))
    damages = [DamageRecord(how="cut", which=number) for number in range(2)]
    for damage in damages:
        for name in ("full", "full-block"):
            holds(PutClaim(disk=name), put("a", disk(name)), SECOND, crash, damage, SECOND)


def test_nothing_is_unstaged_below_what_an_unreadable_record_tells_of() -> None:
    gone = Restart(lost=("a",))
    for skip in range(8):
        for reads in (1, 2):
            broken = BreakReads(skip=skip, reads=reads)
            holds(PutClaim(disk="full"), put("a", disk("full")), SECOND, broken, gone, SECOND)


def test_a_refused_attach_does_not_remove_the_record_that_could_not_be_read() -> None:
    refuse = DriverStrike(answer="refuse", verb="attach", skip=1)
    for skip in range(5):
        broken = BreakReads(skip=skip, reads=1)
        start = (PutClaim(disk="full-once"), put("a", disk("full-once")), refuse, SECOND)
        holds(*start, broken, Restart(), Turn(turns=4), Restart(), Turn())


def test_a_volume_kept_apart_keeps_the_device_path_that_it_got_meanwhile() -> None:
    start = (PutClaim(disk="attached-block"), put("a", disk("attached-block")), SECOND)
    holds(
        *start, LoseDriver(driver="simulated/attaching"), Restart(lost=("a",)), SECOND, put("b", disk("attached-block"))
    )


def test_an_attachment_that_was_kept_apart_is_undone_as_soon_as_it_is_understood() -> None:
    away = LoseDriver(driver="simulated/attaching")
    late = DriverStrike(answer="not yet", verb="publish")
    start = (PutClaim(disk="attached"), late, put("a", disk("attached")), Turn(turns=6))
    holds(*start, away, Restart(lost=("a",)), SECOND)


def test_the_directory_of_a_pod_stays_while_something_of_the_pod_is_kept_apart() -> None:
    away = LoseDriver(driver="simulated/attaching")
    start = (PutClaim(disk="attached"), put("a", disk("attached"), InlineWish(name="i0")), SECOND)
    holds(*start, away, Restart(lost=("a",)), Pass(seconds=70.0), latency=5.0)


def test_a_pod_that_comes_back_with_an_unknown_claim_loses_nothing_to_an_unmount_that_was_about_to_begin() -> None:
    holds(put("a"), SECOND, Restart(lost=("a",)), Turn(turns=2), put("a", disk("staged-block")))


def test_a_mount_table_that_cannot_be_read_once_is_looked_at_again() -> None:
    """The manager ended, and before that it would not have looked again until the next change."""
    start = (PutClaim(disk="full"), put("a", disk("full")), SECOND)
    for strike in (Strike(fault="busy"), Strike(fault="silent"), Strike(fault="broken")):
        holds(*start, UnmountByHand(pod="a", volume="p0"), strike, SECOND, Pass(seconds=5.0))


def test_a_look_at_disks_whose_timer_fires_a_moment_early_does_not_spin() -> None:
    holds(PutClaim(disk="full-once"), put("a", disk("full-once")), latency=0.5, seed=14)


def test_a_volume_that_somebody_unmounts_is_set_up_again() -> None:
    for name in ("full", "attached", "staged", "plain"):
        history = run_script(
            Script(
                seed=0,
                steps=(
                    PutClaim(disk=name),
                    put("a", disk(name)),
                    SECOND,
                    WriteFile(pod="a", volume="p0", file="f", text="kept"),
                    UnmountByHand(pod="a", volume="p0"),
                    Pass(seconds=3.0),
                ),
            )
        )
        assert history.violation is None
        ends = [entry for entry in history.entries if entry.event == "end" and "volume_mount" in entry.detail]
        assert len(ends) == 2


def test_a_boot_that_could_not_be_marked_does_not_make_the_next_start_forget() -> None:
    """The old mark was left, so a start after a crash took what the same boot had set up for gone."""
    content = ObjectWish(name="c0", kind="ConfigMap", object="colours")
    crash = Crash(when="after")
    full = (PutObject(kind="ConfigMap", name="colours", data={"sky": "blue"}), LimitDisk(pages=1), Reboot())
    holds(*full, put("a"), SECOND, crash, PutVolume(pod="a", volume=content), SECOND)


def test_an_unmount_that_a_pod_of_unknown_wishes_prevents_leaves_the_volume_mounted() -> None:
    start = (PutClaim(disk="staged-once"), put("a", disk("staged-once")), SECOND, DeleteClaim(disk="staged-once"))
    drop, back = DropVolume(pod="a", volume="p0"), PutVolume(pod="a", volume=disk("staged-once"))
    holds(*start, SECOND, drop, Turn(), back)
