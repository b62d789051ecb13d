"""The executor: one coroutine per operation kind, and the one place that turns surprises into outcomes."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable
from typing import assert_never

from mooring.errors import Doubtful, MooringError, NotYet, Refused
from mooring.host.mount_limits import MountTableFull
from mooring.manager.operations import attach, expand, mount, pod_directory, stage
from mooring.manager.operations.context import OperationContext
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    MakePodDirectory,
    Mount,
    Operation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
    kind_of,
    pod_of,
)
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result

log = logging.getLogger(__name__)


class OperationExecutor:
    """Runs operations and says what is known afterwards. It never writes to the world."""

    def __init__(self, context: OperationContext, *, strict: bool = False) -> None:
        self._context = context
        self._strict = strict  # raise surprises instead of containing them: for tests
        self.surprises = 0

    async def execute(self, operation: Operation) -> Outcome:
        try:
            return await self._call(operation)
        except Refused as error:
            return _outcome(Result.REFUSED, error)
        except NotYet as error:
            return _outcome(Result.NOT_YET, error)
        except Doubtful as error:
            return _outcome(Result.UNKNOWN, error)
        except OSError as error:
            return _from_os_error(operation, error)
        except Exception as error:
            if self._strict:
                raise
            self.surprises += 1
            log.exception("operation %s ended with a surprise", kind_of(operation))
            why = f"mooring has a bug here: {type(error).__name__}: {error}"
            return Outcome(result=Result.UNKNOWN, what=f"{kind_of(operation)} broke off", why=why)
        finally:  # from here on the world knows
            self._context.pods_made.discard(pod_of(operation))

    def _call(self, operation: Operation) -> Awaitable[Outcome]:
        match operation:
            case Attach():
                return attach.attach(self._context, operation)
            case Stage():
                return stage.stage(self._context, operation)
            case Mount():
                return mount.mount(self._context, operation)
            case Expand():
                return expand.expand(self._context, operation)
            case Unmount():
                return mount.unmount(self._context, operation)
            case Unstage():
                return stage.unstage(self._context, operation)
            case Detach():
                return attach.detach(self._context, operation)
            case MakePodDirectory():
                return pod_directory.make(self._context, operation)
            case RemovePodDirectory():
                return pod_directory.remove(self._context, operation)
            case _:
                assert_never(operation)


def _outcome(result: Result, error: MooringError) -> Outcome:
    return Outcome(result=result, what=error.what, why=error.why, next_step=error.next_step)


_ADVICE = {
    "EROFS": "Make the file system writable; it is tried again by itself",
    "ENOSPC": "Free some space; it is tried again by itself",
    "EACCES": "Run mooring with the rights it needs",
    "EPERM": "Run mooring with the rights it needs",
    "EBUSY": "Something still uses it; it is tried again by itself",
}


_NO_ANSWER = "no answer came in time"
"""What a bare TimeoutError, which is an OSError without an errno, stands for."""


def _from_os_error(operation: Operation, error: OSError) -> Outcome:
    name = errno.errorcode.get(error.errno or 0, "")
    reason = error.strerror or str(error) or _NO_ANSWER
    where = f" at {error.filename}" if error.filename else ""
    return Outcome(
        result=Result.UNKNOWN,
        what=f"{kind_of(operation).replace('_', ' ')} stopped half way",
        why=f"{reason}{where}",
        next_step=error.next_step if isinstance(error, MountTableFull) else _ADVICE.get(name, ""),
    )
