"""The errors mooring raises on purpose; each says what failed, why, and what to do next."""

from __future__ import annotations

import copyreg
from typing import Any


class MooringError(Exception):
    """Base of everything mooring raises on purpose."""

    def __init__(self, what: str, *, why: str, next_step: str = "") -> None:
        self.what, self.why, self.next_step = what, why, next_step
        super().__init__(f"{what}: {why}." + (f" {next_step}." if next_step else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets it go from one process to another as it is, whatever it takes to make one."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class Refused(MooringError):
    """The step was answered with no, and nothing was changed."""


class Infeasible(Refused):
    """It cannot be done as it was asked for, however often it is tried."""


class InUse(Refused):
    """It cannot be done as long as the thing is used."""


class Unsupported(Refused):
    """Whoever was asked has no such ability."""


class NotYet(MooringError):
    """Something the step needs is missing; nothing was changed, and an event will tell when to try again."""


class Doubtful(MooringError):
    """The step may or may not have happened: no answer came, or it stopped half way."""


class InvalidInput(MooringError):
    """What a person wrote cannot be used; `place` says where it stands (file, line, field)."""

    def __init__(self, what: str, *, why: str, next_step: str = "", place: str = "") -> None:
        self.place = place
        super().__init__(f"{place}: {what}" if place else what, why=why, next_step=next_step)
