"""Things a person should look at: mooring goes on without them, and changes nothing about them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: str  # manifest, leftover, …
    where: str
    what: str
    next_step: str = ""
