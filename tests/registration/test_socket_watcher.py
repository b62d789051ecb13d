"""Which sockets are noticed, and when they are new ones: on a real file system."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from tests.registration.conftest import SOON, Bench, bind

from mooring.host.linux import LinuxHost
from mooring.registration.interface import SocketState
from mooring.registration.lookout import nearest_directory


async def test_the_directory_is_made_for_all_to_enter(bench: Bench) -> None:
    bench.directory = bench.place / "plugins" / "registry"
    bench.static = [str(bench.place / "none.sock")]
    async with bench.running() as manager:
        await bench.until(lambda: "not there yet" in manager.sockets()[0].why)  # by then both have looked
    assert bench.directory.stat().st_mode & 0o777 == 0o755


async def test_a_socket_moved_out_of_the_tree_is_deregistered(bench: Bench) -> None:
    async with bench.running(), bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        os.rename(registrar.path, bench.place / "elsewhere.sock")
        await bench.until_gone(registrar.path)
        assert bench.handler.registered == {}


async def test_a_socket_moved_into_the_tree_is_registered(bench: Bench) -> None:
    registrar = bench.registrar(directory=str(bench.place))
    async with bench.running(), registrar.serving():
        inside = bench.directory / "inside.sock"
        os.rename(registrar.path, inside)
        await bench.until_state(inside, SocketState.REGISTERED)


async def test_a_socket_that_is_renamed_within_the_tree_is_a_new_one(bench: Bench) -> None:
    async with bench.running(), bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        renamed = bench.directory / "renamed.sock"
        os.rename(registrar.path, renamed)
        # Both have the same name: which is refused at first and taken in once the old path has been let go.
        await bench.until_state(renamed, SocketState.REGISTERED)
        await bench.until_gone(registrar.path)


async def test_a_socket_moved_away_and_back_is_a_new_one(bench: Bench) -> None:
    async with bench.running(), bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        os.rename(registrar.path, bench.place / "away")
        os.rename(bench.place / "away", registrar.path)
        await bench.until(lambda: bench.handler.changes() == ["register", "deregister", "register"])
        await bench.until_registered(registrar)


async def test_sockets_of_a_directory_that_is_moved_away_are_deregistered(bench: Bench) -> None:
    below = bench.directory / "vendor" / "deep"
    below.mkdir(parents=True)
    async with bench.running(), bench.registrar(directory=str(below)).serving() as registrar:
        await bench.until_registered(registrar)
        (bench.directory / "vendor").rename(bench.place / "away")
        await bench.until_gone(registrar.path)
        with bind(bench.place / "away" / "deep" / "new.sock"):  # nobody looks there any more
            async with bench.registrar("b").serving() as other:
                await bench.until_registered(other)
                assert [view.path for view in bench.manager.sockets()] == [other.path]


async def test_sockets_of_a_directory_that_is_renamed_are_found_at_their_new_path(bench: Bench) -> None:
    before, after = bench.directory / "before", bench.directory / "after"
    before.mkdir(parents=True)
    async with bench.running(), bench.registrar(directory=str(before)).serving() as registrar:
        await bench.until_registered(registrar)
        before.rename(after)
        await bench.until_state(after / os.path.basename(registrar.path), SocketState.REGISTERED)
        await bench.until_gone(registrar.path)
        async with bench.registrar("b", directory=str(after)).serving() as second:  # it is watched at its new place
            await bench.until_registered(second)


async def test_a_directory_that_is_removed_and_made_again_is_watched_again(bench: Bench) -> None:
    below = bench.directory / "vendor"
    below.mkdir(parents=True)
    async with bench.running():
        for name in ("a", "b", "c"):
            async with bench.registrar(name, directory=str(below)).serving() as registrar:
                await bench.until_registered(registrar)
                shutil.rmtree(below)
                below.mkdir()
                await bench.until_gone(registrar.path)


async def test_the_registry_itself_may_be_removed_or_moved_away(bench: Bench) -> None:
    async with bench.running():
        async with bench.registrar("a").serving() as registrar:
            await bench.until_registered(registrar)
            shutil.rmtree(bench.directory)
            await bench.until_gone(registrar.path)
        async with bench.registrar("b").serving() as registrar:
            await bench.until_registered(registrar)
            bench.directory.rename(bench.place / "away")
            await bench.until_gone(registrar.path)
        async with bench.registrar("c").serving() as registrar:
            await bench.until_registered(registrar)


async def test_events_that_were_lost_are_made_up_for(bench: Bench) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    below = bench.directory / "vendor"
    below.mkdir(parents=True)
    async with bench.running(), bench.registrar("a", directory=str(below)).serving() as first:
        await bench.until_registered(first)
        for number in range(queue // 2 + 1):  # two events each, and nobody reads them
            os.mkdir(bench.directory / f"{number % 2}")
            os.rmdir(bench.directory / f"{number % 2}")
        shutil.rmtree(below)
        below.mkdir()
        with bind(below / "late.sock"):
            await bench.until(lambda: bench.view(below / "late.sock") is not None)
            await bench.until_gone(first.path)
        async with bench.registrar("b").serving() as second:
            await bench.until_registered(second)
        await bench.until_gone(second.path)  # by then all events that were left have been read
        async with bench.registrar("c", directory=str(below)).serving() as third:  # the new directory is watched
            await bench.until_registered(third)


async def test_a_link_to_a_socket_is_a_socket_that_changes_with_it(bench: Bench) -> None:
    elsewhere = bench.place / "elsewhere"
    elsewhere.mkdir()
    link = bench.directory / "link.sock"
    registrar = bench.registrar(directory=str(elsewhere))
    link.symlink_to(registrar.path)
    async with bench.running():
        for _ in range(2):
            async with registrar.serving():
                await bench.until_state(link, SocketState.REGISTERED)
            await bench.until_gone(link)
    assert bench.handler.changes() == ["register", "deregister"] * 2


async def test_links_to_directories_and_to_nowhere_are_not_followed(bench: Bench) -> None:
    bench.directory.mkdir()
    (bench.directory / "around").symlink_to(bench.directory)
    (bench.directory / "circle").symlink_to("circle")
    (bench.directory / "nowhere").symlink_to("/nowhere/at/all")
    async with bench.running() as manager, bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        assert [view.path for view in manager.sockets()] == [registrar.path]


async def test_a_registry_that_cannot_be_made_is_told_and_tried_again_when_its_place_changes(bench: Bench) -> None:
    blocked = bench.place / "blocked"
    blocked.write_text("a file where a directory should be")
    bench.directory = blocked / "registry"
    async with bench.running() as manager:
        await bench.until(lambda: "cannot make the directory" in manager.problem())
        blocked.unlink()
        blocked.mkdir()
        await bench.until(lambda: manager.problem() == "")
        async with bench.registrar().serving() as registrar:
            await bench.until_registered(registrar)


class TroubledHost(LinuxHost):
    """A machine that cannot open one more file, when told so."""

    is_exhausted = False

    def names_in(self, path: str) -> list[str]:
        if self.is_exhausted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return super().names_in(path)


async def test_a_directory_that_cannot_be_read_now_is_not_taken_for_empty(bench: Bench) -> None:
    host = bench.host = TroubledHost()
    bench.backoff = SOON
    async with bench.running() as manager, bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        host.is_exhausted = True
        (bench.directory / "something").touch()
        await bench.until(lambda: "cannot read the directory" in manager.problem())
        assert bench.state(registrar.path) is SocketState.REGISTERED
        host.is_exhausted = False
        await bench.until(lambda: manager.problem() == "")
        assert bench.handler.changes() == ["register"]


async def test_a_missed_event_costs_time_only(bench: Bench) -> None:
    bench.resync_interval = 0.05
    below = bench.place / "above" / "middle"
    below.mkdir(parents=True)
    bench.directory = below / "registry"
    async with bench.running(), bench.registrar().serving() as registrar:
        await bench.until_registered(registrar)
        (bench.place / "above").rename(bench.place / "away")  # nothing that is watched tells of this
        await bench.until_gone(registrar.path)


async def test_a_socket_that_was_removed_while_nobody_looked_is_gone_at_the_start(bench: Bench) -> None:
    bench.backoff = SOON
    async with bench.registrar().serving() as registrar:
        async with bench.running():
            await bench.until_registered(registrar)
        assert bench.handler.made("deregister") == 0  # who stops says nothing of its plugins
    async with bench.running() as manager, bench.registrar("b").serving() as other:
        await bench.until_registered(other)
        assert [view.path for view in manager.sockets()] == [other.path]


def test_the_nearest_directory_is_where_something_has_to_happen_first(place: Path) -> None:
    (place / "file").touch()
    (place / "circle").symlink_to("circle")
    host = LinuxHost()
    assert nearest_directory(host, str(place)) == str(place)
    for name in ("missing/further/down", "file/below", "circle/x", "file"):
        assert nearest_directory(host, str(place / name)) == str(place)
    assert nearest_directory(host, "/") == "/"
