"""File systems on block devices as volumes need them: formatted once and only when empty, checked, mounted, grown.

Written against the `Host` protocol. All of it may hang, so it is called inside `host.run(..., risk=Risk.HANGING)`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host import mount_options
from mooring.host.interface import Check, CheckReport, Content, Host, Signature
from mooring.host.programs import ProgramFailed, ProgramMissing

DEFAULT_TYPE = "ext4"
_MASK = "<masked>"


class MountErrorKind(enum.Enum):
    """The kubelet's names for what can be wrong when a device is formatted and mounted."""

    FILE_SYSTEM_MISMATCH = "FilesystemMismatch"
    HAS_FILE_SYSTEM_ERRORS = "HasFilesystemErrors"
    UNFORMATTED_READ_ONLY = "UnformattedReadOnly"
    FORMAT_FAILED = "FormatFailed"
    GET_DISK_FORMAT_FAILED = "GetDiskFormatFailed"
    UNKNOWN = "UnknownMountError"


class MountProblem(Refused):
    """A device was not mounted; `kind` says at which step, and so what a person can do about it."""

    def __init__(self, kind: MountErrorKind, what: str, *, why: str, next_step: str = "") -> None:
        self.kind = kind
        super().__init__(what, why=why, next_step=next_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMount:
    """What was found and done on the way to a mounted device."""

    found: Signature
    formatted: bool = False
    check: CheckReport | None = None  # None when nothing was checked


def format_and_mount(
    host: Host,
    device: str,
    path: str,
    fs_type: str = "",
    options: Sequence[str] = (),
    format_options: Sequence[str] = (),
    *,
    sensitive_options: Sequence[str] = (),
) -> DeviceMount:
    """Mount a device on an existing directory, formatting it first when it is empty and checking it when it is not.

    A device mounted read-only is neither formatted nor checked. A device that holds anything is never formatted.
    `Doubtful` from a program that was killed is passed on; everything else that goes wrong is a `MountProblem`.
    """
    wanted = fs_type or DEFAULT_TYPE
    read_only = mount_options.parse([*options, *sensitive_options]).read_only
    attempt = _Attempt(host, device, path, wanted, sensitive_options)
    found = attempt.probe()
    check = None
    if found.content is Content.NOTHING:
        attempt.format(read_only, format_options)
    elif found.content is Content.FILE_SYSTEM and not read_only:
        check = attempt.check()
    attempt.mount(found, [*options, *sensitive_options])
    return DeviceMount(found=found, formatted=found.content is Content.NOTHING, check=check)


def grow_to_device(host: Host, device: str, path: str) -> bool:
    """Let the file system of a device, mounted at path, fill it; false when there is nothing that could grow.

    A device that holds nothing is formatted to its full size later, and a read-only one stays as it is.
    """
    what = f"cannot grow the file system of {device!r}"
    try:
        facts = host.device(device)
        if facts is None:
            raise Refused(what, why="there is no such device")
        found = Signature(content=Content.NOTHING) if facts.read_only else host.signature(device)
        if found.content is Content.NOTHING:
            return False
        if found.content is not Content.FILE_SYSTEM:
            raise Refused(what, why=f"it holds {described(found)}")
        host.grow_file_system(device, path, found.type)
    except (OSError, ProgramFailed, ProgramMissing) as error:
        raise Refused(what, why=_reason(error)) from error
    return True


def described(found: Signature) -> str:
    """Say what a device holds, for people."""
    return f"{found.content.value} ({found.type})" if found.type else found.content.value


class _Attempt:
    """The steps towards one mount, each of which words its own failure and keeps what is sensitive out of it."""

    def __init__(self, host: Host, device: str, path: str, wanted: str, sensitive_options: Sequence[str]) -> None:
        self.host, self.device, self.path, self.wanted = host, device, path, wanted
        self.secrets = [option for option in sensitive_options if option not in ("", "ro")]

    def probe(self) -> Signature:
        try:
            return self.host.signature(self.device)
        except Doubtful:
            raise
        except (OSError, MooringError) as error:
            what = f"cannot tell what {self.device!r} holds"
            raise self.problem(MountErrorKind.GET_DISK_FORMAT_FAILED, what, why=_reason(error)) from error

    def format(self, read_only: bool, format_options: Sequence[str]) -> None:
        if read_only:
            raise self.problem(
                MountErrorKind.UNFORMATTED_READ_ONLY,
                f"cannot mount {self.device!r} read-only",
                why="it is not formatted, and a read-only volume is never formatted",
                next_step="Mount it once without readOnly, or format it by hand",
            )
        try:
            self.host.make_file_system(self.device, self.wanted, format_options)
        except Doubtful:
            raise
        except (OSError, MooringError) as error:
            what = f"cannot make a file system of type {self.wanted!r} on {self.device!r}"
            raise self.problem(MountErrorKind.FORMAT_FAILED, what, why=_reason(error)) from error

    def check(self) -> CheckReport | None:
        """Check the file system, unless it is in use: correcting it under its users would destroy it."""
        try:
            if self.host.is_device_open(self.device):
                return None
            report = self.host.check_file_system(self.device)
        except OSError as error:
            return CheckReport(check=Check.INCOMPLETE, output=_reason(error))
        if report.check is not Check.UNCORRECTED:
            return report
        raise self.problem(
            MountErrorKind.HAS_FILE_SYSTEM_ERRORS,
            f"cannot mount {self.device!r}",
            why=f"its file system has errors that fsck could not correct, {' '.join(report.output.split())!r}",
            next_step=f"Repair it by hand with fsck {self.device}",
        )

    def mount(self, found: Signature, options: Sequence[str]) -> None:
        try:
            self.host.mount_device(self.device, self.path, self.wanted, options)
        except OSError as error:
            what, why = f"cannot mount {self.device!r} as {self.wanted!r} at {self.path!r}", _reason(error)
            fits = found.content is Content.NOTHING or (
                found.content is Content.FILE_SYSTEM and found.type == self.wanted
            )
            if fits:
                raise self.problem(MountErrorKind.UNKNOWN, what, why=why) from error
            raise self.problem(
                MountErrorKind.FILE_SYSTEM_MISMATCH,
                what,
                why=f"the device holds {described(found)}, and mounting it said {why!r}",
                next_step="Name the type of file system that is there, or empty the device with wipefs",
            ) from error

    def problem(self, kind: MountErrorKind, what: str, *, why: str, next_step: str = "") -> MountProblem:
        for secret in self.secrets:
            why = why.replace(secret, _MASK).replace(secret.partition("=")[2] or secret, _MASK)
        return MountProblem(kind, what, why=why, next_step=next_step)


def _reason(error: OSError | MooringError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{error.what}, {error.why}" if isinstance(error, ProgramFailed | ProgramMissing) else error.why
