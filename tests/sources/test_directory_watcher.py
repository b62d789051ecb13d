"""inotify as the sources use it: every change wakes, and nothing is lost silently."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.host.inotify import CLOSE_WRITE, CREATE, IS_DIRECTORY, OVERFLOW, DirectoryEvent, DirectoryWatcher


class Watched:
    """A watcher and what it has told."""

    def __init__(self) -> None:
        self._events: list[DirectoryEvent] = []
        self._news = asyncio.Event()
        self.watcher = DirectoryWatcher(self._notice)

    def _notice(self, events: list[DirectoryEvent]) -> None:
        self._events += events
        self._news.set()

    async def until(self, name: str, mask: int) -> list[DirectoryEvent]:
        """All events up to the one of this name and kind."""
        async with asyncio.timeout(10):
            while not any(event.name == name and event.mask & mask for event in self._events):
                self._news.clear()
                await self._news.wait()
        events, self._events = self._events, []
        return events


@pytest.fixture
async def watched(place: Path) -> AsyncIterator[Watched]:
    made = Watched()
    made.watcher.watch(str(place))
    yield made
    made.watcher.close()


async def test_a_written_file_is_told_with_its_directory_and_name(watched: Watched, place: Path) -> None:
    (place / "größe.yaml").write_text("x")
    events = await watched.until("größe.yaml", CLOSE_WRITE)
    assert {event.directory for event in events} == {str(place)}


async def test_a_new_directory_is_told_as_one(watched: Watched, place: Path) -> None:
    (place / "sub").mkdir()
    (event,) = await watched.until("sub", CREATE)
    assert event.mask & IS_DIRECTORY


async def test_more_events_than_the_kernel_keeps_are_told_as_an_overflow(watched: Watched, place: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("this machine keeps too many events to overflow them")
    for _ in range(limit // 3 + 1):
        os.close(os.open(place / "file", os.O_CREAT | os.O_WRONLY))
        os.unlink(place / "file")
    events = await watched.until("", OVERFLOW)
    assert [event.directory for event in events if event.mask & OVERFLOW] == [""]
    (place / "after").touch()
    await watched.until("after", CREATE)


async def test_a_removed_directory_is_forgotten_and_can_be_watched_again(watched: Watched, place: Path) -> None:
    sub = place / "sub"
    sub.mkdir()
    watched.watcher.watch(str(sub))
    assert watched.watcher.directories == {str(place), str(sub)}
    sub.rmdir()
    (place / "end").touch()
    await watched.until("end", CREATE)
    assert watched.watcher.directories == {str(place)}
    sub.mkdir()
    watched.watcher.watch(str(sub))
    (sub / "file").touch()
    await watched.until("file", CREATE)


async def test_a_forgotten_directory_tells_nothing_any_more(watched: Watched, place: Path) -> None:
    sub = place / "sub"
    sub.mkdir()
    watched.watcher.watch(str(sub))
    watched.watcher.forget(str(sub))
    watched.watcher.forget(str(sub))
    (sub / "quiet").touch()
    (place / "end").touch()
    assert "quiet" not in {event.name for event in await watched.until("end", CREATE)}


async def test_what_is_no_directory_cannot_be_watched(watched: Watched, place: Path) -> None:
    (place / "file").touch()
    for name in ("file", "missing"):
        with pytest.raises(OSError, match=name):
            watched.watcher.watch(str(place / name))
