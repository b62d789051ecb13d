"""What a plain YAML scalar means in a Kubernetes manifest.

YAML 1.1 as Kubernetes reads it: `yes` and `on` are booleans and `0644` is octal. Not from YAML 1.1: timestamps and
sexagesimals stay texts, `0o644` and `1e3` are numbers, and `.inf` and `.nan` are texts because JSON cannot hold them.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")
_NULL = ("null",)


def _spellings(words: tuple[str, ...], meaning: bool | None) -> dict[str, bool | None]:
    return {spelling: meaning for word in words for spelling in (word, word.capitalize(), word.upper())}


_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **_spellings(_NULL, None),
    **_spellings(_TRUE, True),
    **_spellings(_FALSE, False),
}
_NUMBER_BEGINS_WITH = frozenset("+-.0123456789")
_LONGEST_NUMBER = 400
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"0b": 2, "0x": 16, "0o": 8}


def resolve_plain(text: str) -> Scalar:
    """The value of a scalar written without quotes and without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_BEGINS_WITH and len(text) <= _LONGEST_NUMBER:
        return _resolve_number(text)
    return text


def _resolve_number(text: str) -> str | int | float:
    if _INTEGER.fullmatch(text):
        return _integer(text)
    # A number without point and exponent that is no integer is something like 0899: neither octal nor decimal.
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdigit():
        return _finite(text.replace("_", ""), otherwise=text)
    return text


def _integer(text: str) -> str | int | float:
    digits = text.replace("_", "").lstrip("+-")
    base = _BASES.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
    digits = digits[2:] if digits[:2] in _BASES else digits
    if not digits:
        return text
    number = int(digits, base)
    number = -number if text[0] == "-" else number
    if -(2**63) <= number < 2**63:
        return number
    return _finite(str(number), otherwise=text)


def _finite(digits: str, *, otherwise: str) -> str | float:
    number = float(digits)
    return number if math.isfinite(number) else otherwise
