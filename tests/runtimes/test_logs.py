"""The log format of CRI: complete and partial lines, streams, and what is not in the format."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.runtimes.logs import LogLine, LogReader, follow

AT = b"2026-11-18T02:39:05.221838701+00:00"


def lines_of(*pieces: bytes) -> list[LogLine]:
    reader = LogReader()
    return [line for piece in pieces for line in reader.feed(piece)] + list(reader.finish())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (AT + b" stdout F hello\n", LogLine("stdout", "hello")),
        (AT + b" stderr F hello world \n", LogLine("stderr", "hello world ")),
        (AT + b" stdout F \n", LogLine("stdout", "")),
        (AT + b" stdout F\n", LogLine("stdout", "")),
        (AT + b" stdout F:more tags\n", LogLine("stdout", "tags")),
        (AT + b" stdout F caf\xff\n", LogLine("stdout", "caf�")),
        (b"podman could not write\n", LogLine("stdout", "podman could not write")),
    ],
)
def test_a_line_is_read(text: bytes, wanted: LogLine) -> None:
    assert lines_of(text) == [wanted]


def test_parts_of_a_line_are_joined_for_each_stream() -> None:
    text = AT + b" stdout P one \n" + AT + b" stderr P e\n" + AT + b" stdout F two\n" + AT + b" stderr F f\n"
    assert lines_of(text) == [LogLine("stdout", "one two"), LogLine("stderr", "ef")]


def test_a_part_without_its_end_is_shown_when_the_container_has_ended() -> None:
    assert lines_of(AT + b" stdout P half") == [LogLine("stdout", "half")]


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    part = AT + b" stdout P " + b"x" * (1 << 19) + b"\n"
    assert [len(line.text) for line in lines_of(part, part, part)] == [1 << 20, 1 << 19]


@given(st.lists(st.integers(1, 40)))
def test_it_does_not_matter_where_a_log_is_cut(lengths: list[int]) -> None:
    text = AT + b" stdout P one \n" + AT + b" stderr F err\n" + AT + b" stdout F two\n"
    pieces, position = [], 0
    for length in lengths:
        pieces.append(text[position : position + length])
        position += length
    assert lines_of(*pieces, text[position:]) == lines_of(text)


async def test_a_log_is_followed_from_before_it_exists_to_its_end(tmp_path: Path) -> None:
    path, ended, shown = tmp_path / "0.log", asyncio.Event(), asyncio.Queue[LogLine]()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(str(path), ended, shown.put_nowait))
        await asyncio.sleep(0)
        path.write_bytes(AT + b" stdout F one\n")
        assert await shown.get() == LogLine("stdout", "one")
        path.write_bytes(path.read_bytes() + AT + b" stdout F two\n")
        ended.set()
    assert shown.get_nowait() == LogLine("stdout", "two")


async def test_a_log_that_never_came_to_be_is_empty(tmp_path: Path) -> None:
    ended, shown = asyncio.Event(), list[LogLine]()
    ended.set()
    await follow(str(tmp_path / "none"), ended, shown.append)
    assert shown == []
