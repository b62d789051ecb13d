"""Why a call was not done, with the code that CSI has for it."""

from __future__ import annotations

import errno

from grpc import StatusCode

from mooring.errors import Doubtful, MooringError
from mooring.host.file_systems import MountErrorKind, MountProblem

_CODES = {
    errno.ENOSPC: StatusCode.RESOURCE_EXHAUSTED,
    errno.EDQUOT: StatusCode.RESOURCE_EXHAUSTED,
    errno.EFBIG: StatusCode.OUT_OF_RANGE,
    errno.EBUSY: StatusCode.FAILED_PRECONDITION,
}


class Failure(MooringError):
    """A call that is answered with an error; `code` tells the caller what to do about it."""

    def __init__(self, code: StatusCode, what: str, *, why: str, next_step: str = "") -> None:
        self.code = code
        super().__init__(what, why=why, next_step=next_step)


def failure_of(error: MooringError | OSError, what: str) -> Failure:
    """The same error as a caller of the driver is told of it."""
    match error:
        case Failure():
            return error
        case MountProblem(kind=MountErrorKind.FILE_SYSTEM_MISMATCH | MountErrorKind.UNFORMATTED_READ_ONLY):
            return Failure(StatusCode.FAILED_PRECONDITION, error.what, why=error.why, next_step=error.next_step)
        case Doubtful():  # a code that leaves the caller in doubt as well
            return Failure(StatusCode.UNAVAILABLE, error.what, why=error.why, next_step=error.next_step)
        case MooringError():
            return Failure(StatusCode.INTERNAL, error.what, why=error.why, next_step=error.next_step)
        case _:
            where = f" at {error.filename}" if error.filename else ""
            return Failure(
                _CODES.get(error.errno or 0, StatusCode.INTERNAL), what, why=f"{error.strerror or error}{where}"
            )


def require(what: str, **fields: object) -> None:
    """Refuse a request in which one of these fields is missing."""
    for name, value in fields.items():
        if not value:
            why = f"the field {name!r} is missing"
            raise Failure(StatusCode.INVALID_ARGUMENT, f"cannot {what}", why=why)


def unknown_volume(what: str, volume_id: str) -> Failure:
    return Failure(
        StatusCode.NOT_FOUND,
        f"cannot {what}",
        why=f"there is no volume {volume_id!r}",
        next_step="Check the volume handle",
    )
