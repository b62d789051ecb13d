"""The YAML parser in use, and its complaints in words for people.

No message repeats text of the file: what stands next to a mistake may be a secret.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import yaml
from yaml.events import Event
from yaml.reader import ReaderError

from mooring.kube.field_errors import FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFault:
    """Why a file, or a document of it, is not usable YAML."""

    line: int
    why: str
    next_step: str = ""
    document: int = 0
    path: FieldPath = ()


class EventParser(Protocol):
    def get_event(self) -> Event | None: ...


@functools.cache
def _parser_type() -> Callable[[bytes], EventParser]:
    if yaml.__with_libyaml__:
        return yaml.CSafeLoader
    warnings.warn("PyYAML comes without libyaml here: manifests are read about ten times slower", stacklevel=2)
    return yaml.SafeLoader


def new_parser(text: bytes) -> EventParser:
    """A parser at the beginning of the text: the one in C where PyYAML has it."""
    return _parser_type()(text)


def first_undecodable(text: bytes) -> YamlFault | None:
    """The first place that is not UTF-8, if there is one."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        why = f"the byte 0x{text[error.start]:02x} at position {error.start} is not UTF-8 text"
        return YamlFault(line=line, why=why, next_step="Save the file as UTF-8, or leave it out if it is no manifest")
    return None


def explain_syntax_error(error: ReaderError | yaml.MarkedYAMLError, text: bytes, *, document: int) -> YamlFault:
    """What the parser complains about, with the line where a person should look."""
    if isinstance(error, ReaderError):
        line = text.count(b"\n", 0, error.position) + 1
        why = "it contains control characters, which YAML does not allow"
        return YamlFault(line=line, why=why, next_step="Remove them, or leave the file out", document=document)
    mark, opened = error.problem_mark, error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    opened_line = opened.line + 1 if opened is not None else line
    problem, context = error.problem or "", error.context or ""
    if "quoted scalar" in context and "unexpected end" in problem:
        why = f"the quote that opens in line {opened_line} is never closed"
        return YamlFault(line=opened_line, why=why, next_step="Close the quote", document=document)
    if "cannot start any token" in problem:
        why, next_step = _explain_character(_character_at(text, line, column))
    else:
        why, next_step = _explain_problem(problem, opened_line)
    return YamlFault(line=line, why=f"{why} (column {column})", next_step=next_step, document=document)


def _character_at(text: bytes, line: int, column: int) -> str:
    lines = text.decode("utf-8").split("\n")
    return lines[line - 1][column - 1 : column] if line <= len(lines) else ""


def _explain_character(character: str) -> tuple[str, str]:
    if character == "\t":
        return "a tab stands where YAML expects spaces", "Indent with spaces"
    return "a value may not begin with this character", "Put the value in quotes"


_PROBLEMS: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        'a ": " stands where no key can be',
        'Check the indentation, and put a value that contains ": " in quotes',
    ),
    (
        "',' or ']'",
        "the list that opens in line {opened} is not closed, or lacks a comma",
        'Add the missing "," or "]"',
    ),
    (
        "',' or '}'",
        "the map that opens in line {opened} is not closed, or lacks a comma",
        'Add the missing "," or "}}"',
    ),
    ("node content", "a value is missing or not finished", "Write the value, and close every bracket"),
    ("'-' indicator", "the list that begins in line {opened} is broken off", 'Indent every "- " of a list alike'),
    (
        "expected key",
        "the indentation does not fit the map that begins in line {opened}",
        "Indent all keys of a map alike",
    ),
    ("expected ':'", "a key has no value", 'Write "key: value", and check the indentation and the quotes'),
    ("block end", "the indentation does not fit the lines before", "Indent all entries alike"),
    ("escape c", "an escape sequence is not known", "Write a backslash in double quotes twice"),
    ("tag handle", "a tag is not known", "Put a value that begins with an exclamation mark in quotes"),
)


def _explain_problem(problem: str, opened_line: int) -> tuple[str, str]:
    """Words for a problem, known by a part of the parser's own words for it."""
    for part, why, next_step in _PROBLEMS:
        if part in problem:
            return why.format(opened=opened_line), next_step.format()
    return f"it is not valid YAML: {problem}", ""
