"""Rules that fields of several kinds share: required texts, choices, paths, modes, user IDs and quantities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.name_rules import broken_qualified_name
from mooring.kube.quantity import Quantity, parse_quantity

LARGEST_ID = 2**31 - 1


def check_required(text: str, path: FieldPath) -> Iterator[FieldProblem]:
    if not text:
        yield FieldProblem(path=path, why="it is required and missing", next_step=f"Add {quoted(str(path[-1]))} here")


def check_choice(text: str | None, path: FieldPath, choices: Sequence[str]) -> Iterator[FieldProblem]:
    """None is the choice to leave the field out."""
    if text is not None and text not in choices:
        listed = ", ".join(quoted(choice) for choice in choices)
        yield FieldProblem(path=path, why=f"{quoted(text)} is not known", next_step=f"Write one of {listed}")


def check_no_backsteps(text: str, path: FieldPath) -> Iterator[FieldProblem]:
    if ".." in text.split("/"):
        yield FieldProblem(path=path, why=f'{quoted(text)} contains ".."', next_step='Write the path without ".."')


def check_relative(text: str, path: FieldPath) -> Iterator[FieldProblem]:
    """A path below some directory: neither absolute nor with a way out."""
    if text.startswith("/"):
        yield FieldProblem(path=path, why=f"{quoted(text)} is absolute", next_step='Remove the leading "/"')
    yield from check_no_backsteps(text, path)


def check_file_path(text: str, path: FieldPath) -> Iterator[FieldProblem]:
    """The path of a file in a volume. Names that begin with ".." are kept for the links that switch versions."""
    yield from check_required(text, path)
    yield from check_relative(text, path)
    if text.startswith("..") and not text.startswith("../") and text != "..":
        yield FieldProblem(path=path, why=f'{quoted(text)} begins with ".."', next_step="Rename the file")


def check_mode(mode: int | None, path: FieldPath, *, most: int = 0o777) -> Iterator[FieldProblem]:
    if mode is None or 0 <= mode <= most:
        return
    why = f"{mode} is not a mode between 0 and 0{most:o} ({most})"
    digits = str(mode)
    if set(digits) <= set("01234567") and int(digits, 8) <= most:
        next_step = f"Modes are octal: write 0{digits} or {int(digits, 8)}"
    else:
        next_step = "Modes are octal: write, for example, 0644 or 420"
    yield FieldProblem(path=path, why=why, next_step=next_step)


def check_id(number: int | None, path: FieldPath) -> Iterator[FieldProblem]:
    """A user or group ID."""
    if number is not None and not 0 <= number <= LARGEST_ID:
        why = f"{number} is not an ID between 0 and {LARGEST_ID}"
        yield FieldProblem(path=path, why=why)


def check_quantity(
    written: str | int | float | None, path: FieldPath, *, positive: bool = False
) -> Iterator[FieldProblem]:
    if written is None:
        return
    quantity = read_quantity(written)
    if isinstance(quantity, str):
        yield FieldProblem(path=path, why=quantity)
    elif quantity.nano < 0:
        yield FieldProblem(path=path, why=f"{written} is negative", next_step="Write zero or more")
    elif positive and quantity.nano == 0:
        yield FieldProblem(path=path, why="it is zero", next_step="Write more than zero")


def read_quantity(written: str | int | float) -> Quantity | str:
    """The quantity, or the reason why it is none."""
    try:
        return parse_quantity(written)
    except ValueError as error:
        return str(error)


def check_quantities(quantities: Mapping[str, str | int | float], path: FieldPath) -> Iterator[FieldProblem]:
    """A map of resource names to amounts."""
    for name, written in quantities.items():
        if why := broken_qualified_name(name):
            yield FieldProblem(path=(*path, name), why=why)
        yield from check_quantity(written, (*path, name))
