"""Where in a manifest something is wrong, and how that is said."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.errors import InvalidInput

FieldPath = tuple[str | int, ...]
"""The way from an object to one of its fields: map keys and list positions."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_QUOTE = 80


def quoted(text: str) -> str:
    """The text in double quotes on one line, shortened when nobody would read it to the end."""
    shown = text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"
    return '"' + "".join(_escaped(character) for character in shown) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def format_field(path: FieldPath) -> str:
    """`spec.volumes[0].configMap.defaultMode`, with unusual keys in brackets: `data["tls.crt"]`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part) and len(part) <= _LONGEST_QUOTE:
            shown += f".{part}" if shown else part
        else:
            shown += f"[{quoted(part)}]"
    return shown


def closest(word: str, known: Sequence[str]) -> str:
    """The known word that was probably meant, or an empty text."""
    same = [name for name in known if name.lower() == word.lower()]
    close = same or difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return close[0] if close else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One thing that is wrong with one field of an object."""

    path: FieldPath
    why: str
    next_step: str = ""

    @property
    def field(self) -> str:
        return format_field(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestProblem:
    """One thing that is wrong, or worth a warning, in a manifest file."""

    file: str
    document: int  # counted from 1, as in the file; 0 when the file as a whole is meant
    line: int
    field: str
    what: str
    why: str
    next_step: str = ""

    @property
    def place(self) -> str:
        """`FILE:LINE: FIELD`, or `FILE:LINE` when no field is meant."""
        return f"{self.file}:{self.line}: {self.field}" if self.field else f"{self.file}:{self.line}"

    def error(self) -> InvalidInput:
        """The problem as an exception, for a caller that gives up on it."""
        return InvalidInput(self.what, why=self.why, next_step=self.next_step, place=self.place)

    def __str__(self) -> str:
        return str(self.error())
