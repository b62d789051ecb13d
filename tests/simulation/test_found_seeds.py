"""Histories that once went wrong, as short as they could be made. Each test says what was wrong."""

from __future__ import annotations

from mooring.testing.simulation.runner import run_script
from mooring.testing.simulation.script import (
    AnyStep,
    Crash,
    DropVolume,
    Pass,
    PutObject,
    PutPod,
    PutVolume,
    Reboot,
    RelabelPod,
    RemovePod,
    Restart,
    Script,
    Settle,
    Strike,
    Turn,
    WriteFile,
)
from mooring.testing.simulation.wishes import (
    DownwardWish,
    EmptyDirWish,
    HostPathWish,
    ObjectWish,
    PodWish,
    ProjectedWish,
    VolumeWish,
)

DISK = EmptyDirWish(name="d0")
MEMORY = EmptyDirWish(name="m0", memory=True)
NAME = DownwardWish(name="c0", items={"name": "metadata.name"})
LABEL = DownwardWish(name="c0", items={"label": "metadata.labels['app']"})
COLOURS = ObjectWish(name="c0", kind="ConfigMap", object="colours")


def put(*volumes: VolumeWish, label: str = "", fs_group: int | None = None) -> PutPod:
    return PutPod(pod=PodWish(name="a", uid="uid-a", volumes=volumes, label=label, fs_group=fs_group))


def colours(text: str) -> PutObject:
    return PutObject(kind="ConfigMap", name="colours", data={"sky": text})


def holds(*steps: AnyStep, latency: float = 0.0, seed: int = 0) -> None:
    history = run_script(Script(seed=seed, latency=latency, steps=steps))
    assert history.violation is None, "\n".join(str(entry) for entry in history.entries)


def test_a_pause_whose_timer_fires_a_moment_early_is_over_and_the_loop_does_not_spin() -> None:
    holds(Pass(seconds=0.3), Pass(seconds=0.01), put(COLOURS), Pass(seconds=130.0), seed=5, latency=5.0)


def test_work_that_an_event_brings_at_the_moment_of_a_resync_is_not_put_down_to_the_resync() -> None:
    holds(put(DISK), Pass(seconds=60.0), Turn(), DropVolume(pod="a", volume="d0"), Turn(turns=3))


def test_an_unmount_that_has_not_begun_when_the_pod_comes_back_does_not_begin() -> None:
    holds(put(DISK), Pass(seconds=1.0), RemovePod(pod="a"), Turn(), put(DISK), Turn(turns=3))


def test_a_volume_that_is_being_unmounted_does_not_count_as_mounted_when_its_pod_comes_back() -> None:
    """Containers wrote into it, and the unmount that was still under way deleted what they wrote."""
    slow = Strike(fault="slow", seconds=2.0)
    write = WriteFile(pod="a", volume="d0", file="f", text="kept")
    holds(put(DISK), Pass(seconds=1.0), slow, RemovePod(pod="a"), Pass(seconds=0.5), put(DISK), write)


def test_a_mount_that_outlasts_its_wish_does_not_pass_for_an_up_to_date_one_of_the_next_wish() -> None:
    slow = Strike(fault="slow", skip=1, seconds=2.0)
    holds(colours("blue"), slow, put(COLOURS), Pass(seconds=0.5), RemovePod(pod="a"), colours("red"), put(COLOURS))


def test_a_host_path_that_is_changed_in_place_is_reported_at_its_new_place() -> None:
    old = HostPathWish(name="h0", path="/srv/old", check="DirectoryOrCreate")
    new = HostPathWish(name="h0", path="/srv/new", check="DirectoryOrCreate")
    holds(put(old), Pass(seconds=1.0), PutVolume(pod="a", volume=new), Settle())


def test_a_volume_that_changes_its_type_in_place_keeps_the_modes_of_its_files() -> None:
    """The teardown of the old type took away the mark that the new type's set-up had left."""
    holds(
        colours("blue"),
        put(NAME, fs_group=2000),
        Pass(seconds=1.0),
        PutVolume(pod="a", volume=COLOURS),
        Pass(seconds=1.0),
        RelabelPod(pod="a", label="new"),
        Settle(),
    )


def test_a_volume_in_memory_is_given_to_its_group_when_a_crash_follows_a_reboot() -> None:
    """The mark on disk outlived the reboot, and spoke for a mount that was not owned yet."""
    crash = Crash(skip=1, when="after")
    holds(put(MEMORY, fs_group=2000), Pass(seconds=1.0), Reboot(told_after=0.1), crash, Pass(seconds=1.0))


def test_content_of_which_a_teardown_has_begun_is_written_anew_with_its_own_modes() -> None:
    """A crash between mark and files left files that the next set-up gave to the group to write."""
    holds(
        colours("blue"),
        put(COLOURS, fs_group=2000),
        Pass(seconds=1.0),
        Crash(when="after"),
        DropVolume(pod="a", volume="c0"),
        Turn(turns=3),
        PutVolume(pod="a", volume=COLOURS),
        Settle(),
    )


def test_content_never_mixes_an_older_pod_with_newer_objects() -> None:
    both = ProjectedWish(
        name="c0",
        parts=(
            ObjectWish(kind="ConfigMap", object="colours"),
            DownwardWish(items={"label": "metadata.labels['app']"}),
        ),
    )
    slow = Strike(fault="slow", seconds=1.0)
    holds(
        colours("blue"),
        slow,
        put(both, label="old"),
        Turn(turns=3),
        RelabelPod(pod="a", label="new"),
        colours("red"),
        Pass(seconds=3.0),
    )


def test_a_refusal_after_a_try_in_doubt_leaves_nothing_on_disk() -> None:
    unknown_field = DownwardWish(name="c0", items={"phase": "status.phase"})
    silent = Strike(fault="silent", skip=1)
    holds(silent, put(NAME), Turn(turns=4), PutVolume(pod="a", volume=unknown_field), Pass(seconds=2.0))


def test_a_refusal_before_the_plugin_was_asked_clears_no_doubt() -> None:
    silent, refuse = Strike(fault="silent", skip=1), Strike(fault="refuse", skip=2)
    holds(silent, refuse, put(NAME), Pass(seconds=0.7), RemovePod(pod="a"), Settle())


def test_a_volume_renamed_to_another_type_leaves_no_wish_behind() -> None:
    holds(colours("blue"), put(NAME), Pass(seconds=1.0), put(COLOURS), Pass(seconds=1.0), RemovePod(pod="a"))


def test_the_directory_of_a_pod_without_volumes_is_made_although_the_first_try_failed() -> None:
    holds(Strike(fault="broken"), put(), Turn(turns=4), Settle())


def test_a_directory_that_could_not_be_made_leaves_no_pause_when_its_pod_goes() -> None:
    holds(Strike(fault="broken"), put(), Turn(turns=4), RemovePod(pod="a"), Pass(seconds=1.0))


def test_stopping_waits_for_what_runs_and_no_longer() -> None:
    holds(put(DISK), Strike(fault="slow", seconds=1.0), put(DISK, MEMORY), Turn(turns=3), Restart())
