"""Devices are formatted only when empty, checked only when writable, and each failure has its kind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mooring.errors import Doubtful, MooringError
from mooring.host.file_systems import MountErrorKind, MountProblem, format_and_mount, grow_to_device
from mooring.host.interface import Check, Content, Signature
from mooring.host.programs import ProgramMissing, ProgramResult
from mooring.testing.conformance.host_devices import EXT4, MEBIBYTE, NOTHING
from mooring.testing.memory_host import MemoryHost


def host_with(holds: Signature = NOTHING, *, read_only: bool = False) -> MemoryHost:
    host = MemoryHost()
    host.make_directory("/m", 0o755)
    host.make_device("/disk", MEBIBYTE, holds=holds, read_only=read_only)
    return host


def ending(host: MemoryHost, program: str, status: int, output: str = "") -> None:
    def result(arguments: Sequence[str]) -> ProgramResult | None:
        return ProgramResult(status=status, output=output) if arguments[0].startswith(program) else None

    host.program_result = result


def programs(host: MemoryHost) -> list[str]:
    return [arguments[0] for arguments in host.programs_run]


def problem(host: MemoryHost, fs_type: str = "ext4", options: Sequence[str] = ()) -> MountProblem:
    with pytest.raises(MountProblem) as caught:
        format_and_mount(host, "/disk", "/m", fs_type, options)
    assert host.mount_at("/m") is None
    return caught.value


def test_a_formatted_disk_is_checked_and_mounted() -> None:
    host = host_with(EXT4)
    done = format_and_mount(host, "/disk", "/m", "ext4")
    assert done.check is not None
    assert (done.formatted, done.check.check) == (False, Check.CLEAN)
    assert host.programs_run == [("fsck", "-a", "/disk")]
    assert host.mount_at("/m") is not None


@pytest.mark.parametrize("options", [["ro"], ["noatime,ro"], ["ro", "defaults"]])
def test_a_read_only_mount_runs_no_program(options: list[str]) -> None:
    host = host_with(EXT4)
    assert format_and_mount(host, "/disk", "/m", "ext4", options).check is None
    assert host.programs_run == []


def test_read_only_may_stand_among_the_sensitive_options() -> None:
    host = host_with(EXT4)
    format_and_mount(host, "/disk", "/m", "ext4", sensitive_options=["ro"])
    facts = host.mount_at("/m")
    assert facts is not None
    assert facts.options[0] == "ro"
    assert host.programs_run == []


def test_an_empty_disk_is_not_formatted_for_a_read_only_mount() -> None:
    host = host_with()
    assert problem(host, options=["ro"]).kind is MountErrorKind.UNFORMATTED_READ_ONLY
    assert host.programs_run == []


@pytest.mark.parametrize(
    ("fs_type", "command"),
    [
        ("", ("mkfs.ext4", "-F", "-m0", "/disk")),
        ("ext4", ("mkfs.ext4", "-F", "-m0", "/disk")),
        ("ext3", ("mkfs.ext3", "-F", "-m0", "/disk")),
        ("xfs", ("mkfs.xfs", "-f", "/disk")),
        ("btrfs", ("mkfs.btrfs", "/disk")),
    ],
)
def test_an_empty_disk_is_formatted_with_the_arguments_of_its_type(fs_type: str, command: tuple[str, ...]) -> None:
    host = host_with()
    assert format_and_mount(host, "/disk", "/m", fs_type).formatted
    assert host.programs_run == [command]


def test_format_options_precede_the_usual_arguments() -> None:
    host = host_with()
    format_and_mount(host, "/disk", "/m", "xfs", [], ["-m", "reflink=0"])
    assert host.programs_run == [("mkfs.xfs", "-m", "reflink=0", "-f", "/disk")]


@pytest.mark.parametrize(
    ("status", "check"),
    [(0, Check.CLEAN), (1, Check.CORRECTED), (2, Check.INCOMPLETE), (8, Check.INCOMPLETE), (-9, Check.INCOMPLETE)],
)
def test_a_check_that_leaves_no_errors_does_not_stop_a_mount(status: int, check: Check) -> None:
    host = host_with(EXT4)
    ending(host, "fsck", status, "words")
    report = format_and_mount(host, "/disk", "/m", "ext4").check
    assert report is not None
    assert (report.check, report.output) == (check, "words")
    assert host.mount_at("/m") is not None


def test_errors_that_are_left_stop_a_mount() -> None:
    host = host_with(EXT4)
    ending(host, "fsck", 4, "UNEXPECTED\n INCONSISTENCY")
    found = problem(host)
    assert found.kind is MountErrorKind.HAS_FILE_SYSTEM_ERRORS
    assert "'UNEXPECTED INCONSISTENCY'" in found.why


def test_a_missing_fsck_does_not_stop_a_mount() -> None:
    host = host_with(EXT4)

    def missing(arguments: Sequence[str]) -> ProgramResult | None:
        raise ProgramMissing(arguments[0])

    host.program_result = missing
    report = format_and_mount(host, "/disk", "/m", "ext4").check
    assert report is not None
    assert report.check is Check.NO_PROGRAM


@pytest.mark.parametrize("content", [Content.PARTITIONS, Content.UNKNOWN])
def test_other_data_is_neither_formatted_nor_checked_and_is_named(content: Content) -> None:
    host = host_with(Signature(content=content, type="dos"))
    found = problem(host)
    assert found.kind is MountErrorKind.FILE_SYSTEM_MISMATCH
    assert f"holds {content.value} (dos)" in found.why
    assert host.programs_run == []


def test_another_type_that_can_be_mounted_as_the_wanted_one_is_no_problem() -> None:
    host = host_with(Signature(content=Content.FILE_SYSTEM, type="ext3"))
    assert format_and_mount(host, "/disk", "/m", "ext4").found.type == "ext3"


def test_another_type_is_a_mismatch_only_once_mounting_fails() -> None:
    host = host_with(EXT4)
    assert problem(host, "xfs").kind is MountErrorKind.FILE_SYSTEM_MISMATCH
    assert programs(host) == ["fsck"]


def test_a_disk_that_cannot_be_read_has_an_unknown_format() -> None:
    host = MemoryHost()
    host.make_directory("/m", 0o755)
    found = problem(host)
    assert (found.kind, found.why) == (MountErrorKind.GET_DISK_FORMAT_FAILED, "No such file or directory")


def test_a_failed_mkfs_says_what_it_said() -> None:
    host = host_with()
    ending(host, "mkfs", 1, "device is\ntoo small")
    found = problem(host)
    assert found.kind is MountErrorKind.FORMAT_FAILED
    assert found.why == "mkfs.ext4 failed on '/disk', exit status 1, 'device is too small'"


def test_a_disk_in_use_is_not_formatted() -> None:
    host = host_with()
    host.claim_device("/disk")
    assert problem(host).kind is MountErrorKind.FORMAT_FAILED
    assert host.programs_run == []


def test_a_disk_in_use_is_not_checked() -> None:
    host = host_with(EXT4)
    host.make_directory("/other", 0o755)
    host.mount_device("/disk", "/other", "ext4")
    assert format_and_mount(host, "/disk", "/m", "ext4").check is None
    assert host.programs_run == []


def test_a_mount_that_fails_after_formatting_is_an_unknown_problem() -> None:
    host = host_with()
    found = problem(host, options=["bogus"])
    assert found.kind is MountErrorKind.UNKNOWN
    assert "Unknown parameter 'bogus'" in found.why


def test_a_read_only_disk_is_not_mounted_writable() -> None:
    assert problem(host_with(EXT4, read_only=True)).kind is MountErrorKind.UNKNOWN


@pytest.mark.parametrize("option", ["password=hunter2", "hunter2"])
def test_sensitive_options_are_masked_in_what_programs_and_the_kernel_say(option: str) -> None:
    host = host_with()
    ending(host, "mkfs", 1, f"cannot use {option} or hunter2")
    with pytest.raises(MountProblem, match="<masked>") as caught:
        format_and_mount(host, "/disk", "/m", "ext4", sensitive_options=[option])
    assert "hunter2" not in str(caught.value)
    host.program_result = None
    with pytest.raises(MountProblem) as caught:
        format_and_mount(host, "/disk", "/m", "ext4", sensitive_options=[option])
    assert "hunter2" not in str(caught.value)


def test_doubt_about_what_mkfs_did_stays_doubt() -> None:
    host = host_with()

    def never_ends(arguments: Sequence[str]) -> ProgramResult | None:
        raise Doubtful("cannot tell", why="it was killed")

    host.program_result = never_ends
    with pytest.raises(Doubtful):
        format_and_mount(host, "/disk", "/m", "ext4")


class TestGrowing:
    @pytest.mark.parametrize(
        ("fs_type", "command"),
        [
            ("ext3", ("resize2fs", "/disk")),
            ("ext4", ("resize2fs", "/disk")),
            ("xfs", ("xfs_growfs", "-d", "/m")),
            ("btrfs", ("btrfs", "filesystem", "resize", "max", "/m")),
        ],
    )
    def test_each_type_has_its_program(self, fs_type: str, command: tuple[str, ...]) -> None:
        host = host_with(Signature(content=Content.FILE_SYSTEM, type=fs_type))
        assert grow_to_device(host, "/disk", "/m")
        assert host.programs_run == [command]

    def test_a_read_only_or_empty_disk_stays_as_it_is(self) -> None:
        for host in (host_with(EXT4, read_only=True), host_with()):
            assert not grow_to_device(host, "/disk", "/m")
            assert host.programs_run == []

    @pytest.mark.parametrize(
        ("held", "why"),
        [
            (Signature(content=Content.FILE_SYSTEM, type="ntfs"), "'ntfs' cannot be grown"),
            (Signature(content=Content.PARTITIONS, type="gpt"), r"it holds partitions \(gpt\)"),
        ],
    )
    def test_what_cannot_grow_is_an_error(self, held: Signature, why: str) -> None:
        with pytest.raises(MooringError, match=why):
            grow_to_device(host_with(held), "/disk", "/m")

    def test_a_missing_device_and_a_failing_program_are_errors(self) -> None:
        with pytest.raises(MooringError, match="there is no such device"):
            grow_to_device(MemoryHost(), "/disk", "/m")
        host = host_with(EXT4)
        ending(host, "resize2fs", 1, "too bad")
        with pytest.raises(MooringError, match="resize2fs failed on '/disk', exit status 1, 'too bad'"):
            grow_to_device(host, "/disk", "/m")
