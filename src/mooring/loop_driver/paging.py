"""Long lists in pages: a token names the last entry of a page, so that pages stay right when entries come and go."""

from __future__ import annotations

from collections.abc import Sequence

from grpc import StatusCode

from mooring.loop_driver.failures import Failure
from mooring.loop_driver.volumes import Snapshot, Volume

_AFTER = "after:"


def page(what: str, ids: Sequence[str], *, token: str, most: int) -> tuple[list[str], str]:
    """The ids of one page, out of sorted ones, and the token of the next page or none."""
    if most < 0:
        why = f"a page cannot have {most} entries"
        raise Failure(StatusCode.INVALID_ARGUMENT, f"cannot {what}", why=why)
    if token and not token.startswith(_AFTER):
        raise Failure(
            StatusCode.ABORTED,
            f"cannot {what}",
            why=f"the starting token {token!r} is none that was given out",
            next_step="Begin again without a token",
        )
    last = token.removeprefix(_AFTER)
    rest = [identity for identity in ids if identity > last] if token else list(ids)
    if not most or len(rest) <= most:
        return rest, ""
    return rest[:most], f"{_AFTER}{rest[most - 1]}"


def ids_of(things: Sequence[Volume] | Sequence[Snapshot]) -> list[str]:
    return [each.id for each in things]
