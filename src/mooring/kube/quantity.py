"""Kubernetes quantities: `500m`, `10Gi`, `1e3`, kept exactly in billionths."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

_NANO = 10**9
_LARGEST = (2**63 - 1) * _NANO  # Kubernetes lowers anything greater to this
_LONGEST_TEXT = 100
_FURTHEST_EXPONENT = 200  # beyond it every quantity is the largest or the smallest anyway

_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_FORM = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]))?")
_BYTE_UNIT = re.compile(r"([0-9.]+) ?([kKmMgGtTpPeE])(?:i?[bB])?")


class Notation(enum.Enum):
    """How a quantity was written, and so how it is written again."""

    DECIMAL = "decimal"  # 500m, 2k, 3M
    BINARY = "binary"  # 10Gi
    EXPONENT = "exponent"  # 1e3


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount with its notation. Two quantities are equal when the amounts are; the notation does not count."""

    nano: int
    notation: Notation = field(default=Notation.DECIMAL, compare=False)

    @property
    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.notation)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.notation)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.notation)

    def __str__(self) -> str:
        """The canonical form: no fraction, and the greatest suffix that keeps the number whole."""
        if self.nano == 0:
            return "0"
        if self.notation is Notation.BINARY and abs(self.nano) >= 1024 * _NANO:
            return _binary_form(self.value)
        return _decimal_form(self.nano, with_exponent=self.notation is Notation.EXPONENT)


ZERO = Quantity(0)


def parse_quantity(written: str | int | float) -> Quantity:
    """The quantity that `written` stands for; raises ValueError with a sentence when it is none."""
    if isinstance(written, bool):
        raise ValueError(f"{written} is not a quantity: expected a number such as 500m, 10Gi or 1e3")
    text = str(written)
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if form is None:
        raise ValueError(_explain(text))
    sign, digits, exponent, suffix = form.groups()
    whole, _, fraction = digits.partition(".")
    mantissa = int(whole + fraction or "0")
    notation, twos, tens = Notation.DECIMAL, 0, 0
    if exponent is not None:
        notation, tens = Notation.EXPONENT, _clamp(int(exponent))
    elif suffix in _BINARY_EXPONENTS:
        notation, twos = Notation.BINARY, _BINARY_EXPONENTS[suffix]
    elif suffix:
        tens = _DECIMAL_EXPONENTS[suffix]
    nano = _scale(mantissa << twos, tens - len(fraction) + 9)
    nano = min(nano, _LARGEST)
    return Quantity(-nano if sign == "-" else nano, notation)


def _scale(number: int, tens: int) -> int:
    """`number` times ten to the power `tens`, rounded up: a precision below a billionth is not kept."""
    power: int = 10 ** abs(tens)
    return number * power if tens >= 0 else -(-number // power)


def _clamp(exponent: int) -> int:
    return max(-_FURTHEST_EXPONENT, min(exponent, _FURTHEST_EXPONENT))


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _binary_form(units: int) -> str:
    for suffix, twos in reversed(_BINARY_EXPONENTS.items()):
        if units % (1 << twos) == 0:
            return f"{units >> twos}{suffix}"
    return str(units)


def _decimal_form(nano: int, *, with_exponent: bool) -> str:
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano, exponent = nano // 1000, exponent + 3
    if with_exponent:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"


def _explain(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        return f"a text of {len(text)} characters is not a quantity: expected a number such as 500m, 10Gi or 1e3"
    unit = _BYTE_UNIT.fullmatch(text)
    if unit is not None:
        number, letter = unit[1], unit[2].upper()
        decimal = "k" if letter == "K" else letter
        return f"{text!r} is not a quantity: the units are {number}{decimal} (decimal) and {number}{letter}i (binary)"
    return f"{text!r} is not a quantity: expected a number with an optional unit such as 500m, 10Gi or 1e3"
