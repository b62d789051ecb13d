"""What is known of a mount, a stage or an attachment, and how an answer changes it. All transitions live here."""

from __future__ import annotations

import enum


class Presence(enum.Enum):
    """What we know of a mount, a stage or an attachment on this node."""

    ABSENT = "absent"
    UNCERTAIN = "uncertain"  # it may be there: tear it down before forgetting it, set it up before using it
    PRESENT = "present"


class Result(enum.Enum):
    """What an operation's end tells."""

    DONE = "done"
    REFUSED = "refused"  # answered: nothing was changed, and nothing is under way
    NOT_YET = "not yet"  # not even tried: something it needs is missing
    UNKNOWN = "unknown"  # no answer, or stopped half way: it may have happened


class Attachability(enum.Enum):
    """Whether a volume needs attaching; only what was found on disk can be unsure."""

    TRUE = "true"
    FALSE = "false"
    UNCERTAIN = "uncertain"


def after_setup(before: Presence, result: Result, *, reconstructed: bool) -> Presence:
    """What is known after a mount, stage or attach ended.

    A failed refresh does not unmount what was there. A refusal clears earlier doubt, unless the thing was found
    on disk: then it stays in doubt until it is torn down.
    """
    match before, result:
        case _, Result.DONE:
            return Presence.PRESENT
        case Presence.ABSENT, Result.UNKNOWN:
            return Presence.UNCERTAIN
        case Presence.UNCERTAIN, Result.REFUSED if not reconstructed:
            return Presence.ABSENT
        case _:
            return before


def after_teardown(before: Presence, result: Result) -> Presence:
    """What is known after an unmount, unstage or detach ended; a failed one always leaves doubt."""
    match result:
        case Result.DONE:
            return Presence.ABSENT
        case Result.NOT_YET:
            return before
        case _:
            return Presence.UNCERTAIN
