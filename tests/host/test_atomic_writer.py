"""Files appear all at once (scenarios A1–A11, A19), in memory and on the machine's own file system."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest

from mooring.errors import Refused
from mooring.host.atomic_writer import (
    PayloadFile,
    WriteReport,
    data_directory_name,
    normalised,
    paths_to_remove,
    write_payload,
)
from mooring.host.interface import FileKind, Host, NewFile
from mooring.host.linux import LinuxHost
from mooring.testing.memory_host import MemoryHost


@pytest.fixture(params=["memory", "linux"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    if request.param == "memory":
        yield MemoryHost()
    else:
        host = LinuxHost()
        yield host
        host.close()


@pytest.fixture
def place(host: Host, tmp_path: Path) -> str:
    host.make_directories(f"{tmp_path}/volume", 0o755)
    return f"{tmp_path}/volume"


def payload(**files: str) -> dict[str, PayloadFile]:
    return {path.replace("__", "/"): PayloadFile(data=text.encode(), mode=0o644) for path, text in files.items()}


stamps = (f"..2026_01_02_03_04_05.{number:010}" for number in itertools.count())


def write(host: Host, place: str, files: dict[str, PayloadFile]) -> WriteReport:
    return write_payload(host, place, files, stamp=stamps.__next__)


def shown(host: Host, place: str) -> dict[str, bytes]:
    """All visible files by path, read as a container reads them."""
    found: dict[str, bytes] = {}
    pending = [name for name in host.names_in(place) if not name.startswith("..")]
    while pending:
        path = pending.pop()
        facts = host.look_through(f"{place}/{path}")
        if facts is not None and facts.kind is FileKind.DIRECTORY:
            pending.extend(f"{path}/{name}" for name in host.names_in(f"{place}/{path}"))
        else:
            found[path] = host.read_file(f"{place}/{path}")
    return found


def data_directories(host: Host, place: str) -> list[str]:
    return [name for name in host.names_in(place) if name.startswith("..20")]


def test_a_missing_directory_is_refused(host: Host, place: str) -> None:
    with pytest.raises(Refused, match="not an existing directory"):
        write(host, f"{place}/missing", payload(foo="1"))


@pytest.mark.parametrize("path", ["plain", "i/am/well/behaved.txt", ".hidden", "a..b", "a/..b", "x" * 255, "é" * 127])
def test_well_behaved_paths_are_accepted(path: str) -> None:
    assert list(normalised({path: PayloadFile(data=b"", mode=0o644)})) == [path]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/dev/null",
        "..sneaky.txt",
        "..",
        "a/../b",
        "a/..",
        "x" * 256,
        "é" * 128,
        "a/" * 2048 + "a",
        ".",
        "./",
        "\ud800",
    ],
)
def test_paths_that_could_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(Refused, match="cannot write a file"):
        normalised({path: PayloadFile(data=b"", mode=0o644)})


def test_one_bad_path_leaves_the_disk_untouched(host: Host, place: str) -> None:
    files = payload(good="1") | {"foo/../bar": PayloadFile(data=b"", mode=0o644)}
    with pytest.raises(Refused):
        write(host, place, files)
    assert host.names_in(place) == []


def test_paths_are_normalised(host: Host, place: str) -> None:
    write(host, place, {"foo//./bar": PayloadFile(data=b"1", mode=0o644)})
    assert shown(host, place) == {"foo/bar": b"1"}


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        (["foo", "bar"], ["foo"], {"bar"}),
        (["foo", "zip/zap/bar"], ["foo"], {"zip", "zip/zap", "zip/zap/bar"}),
        (
            ["zap/1/2/3/4/bar", "zap/1/2/c/bar", "zap/1/2/magic"],
            ["zap/1/2/magic"],
            {"zap/1/2/3", "zap/1/2/3/4", "zap/1/2/3/4/bar", "zap/1/2/c", "zap/1/2/c/bar"},
        ),
    ],
)
def test_what_is_neither_wanted_nor_above_it_is_to_be_removed(
    host: Host, place: str, old: list[str], new: list[str], stale: set[str]
) -> None:
    host.write_files(place, [NewFile(path=path, data=b"", mode=0o644) for path in old])
    assert paths_to_remove(host, place, new) == stale


def test_a_vanished_data_directory_has_nothing_to_remove(host: Host, place: str) -> None:
    assert paths_to_remove(host, f"{place}/gone", ["foo"]) == set()


def test_the_first_write_makes_links_through_the_data_directory(host: Host, place: str) -> None:
    files = payload(foo__bar="1", foo__baz="2") | {"secret": PayloadFile(data=b"3", mode=0o666)}
    assert write_payload(host, place, files, stamp=lambda: "..2026_01_01_00_00_00.1").changed
    assert host.names_in(place) == ["..2026_01_01_00_00_00.1", "..data", "foo", "secret"]
    assert host.read_link(f"{place}/..data") == "..2026_01_01_00_00_00.1"
    assert host.read_link(f"{place}/foo") == "..data/foo"
    assert shown(host, place) == {"foo/bar": b"1", "foo/baz": b"2", "secret": b"3"}
    file, directory = host.look_through(f"{place}/secret"), host.look_through(f"{place}/..data")
    assert file is not None
    assert directory is not None
    assert (file.mode, directory.mode) == (0o666, 0o755)


def test_equal_content_leaves_the_data_directory_alone(host: Host, place: str) -> None:
    files = payload(foo="1", a__b="2")
    write(host, place, files)
    before = host.read_link(f"{place}/..data")
    assert not write(host, place, files).changed
    assert host.read_link(f"{place}/..data") == before


@pytest.mark.parametrize(
    "new", [payload(foo="2", bar="1"), payload(foo="1"), payload(foo="1", bar="1", a__b="1"), payload(bar__x="1"), {}]
)
def test_changed_content_replaces_the_data_directory(host: Host, place: str, new: dict[str, PayloadFile]) -> None:
    write(host, place, payload(foo="1", bar="1"))
    old = host.read_link(f"{place}/..data")
    assert write(host, place, new).changed
    assert shown(host, place) == {path: file.data for path, file in new.items()}
    assert data_directories(host, place) == [host.read_link(f"{place}/..data")]
    assert old not in host.names_in(place)


def test_an_empty_payload_is_written_once(host: Host, place: str) -> None:
    assert write(host, place, {}).changed
    assert not write(host, place, {}).changed
    assert shown(host, place) == {}


def test_a_dropped_name_is_no_longer_visible(host: Host, place: str) -> None:
    write(host, place, payload(foo="1", bar="1"))
    write(host, place, payload(foo="1"))
    assert [name for name in host.names_in(place) if not name.startswith("..")] == ["foo"]


def test_ownership_is_set_once_per_real_write_before_anyone_can_look(host: Host, place: str) -> None:
    seen: list[tuple[bool, str | None]] = []

    def set_ownership(path: str) -> None:
        seen.append((host.look(path) is not None, host.read_link(f"{place}/..data")))

    files = payload(foo="1")
    for stamp in ("..2026_1", "..2026_2"):
        write_payload(host, place, files, stamp=partial(str, stamp), set_ownership=set_ownership)
    assert seen == [(True, None)]


def test_a_failure_to_set_ownership_leaves_the_old_data_in_force(host: Host, place: str) -> None:
    def fail(path: str) -> None:
        raise PermissionError(path)

    write(host, place, payload(foo="old"))
    before = host.names_in(place)
    with pytest.raises(PermissionError):
        write_payload(host, place, payload(foo="new"), stamp=stamps.__next__, set_ownership=fail)
    assert shown(host, place) == {"foo": b"old"}
    assert host.names_in(place) == before


def test_deleted_visible_links_come_back(host: Host, place: str) -> None:
    files = payload(foo="1", bar="2")
    write(host, place, files)
    host.remove_file(f"{place}/foo")
    assert not write(host, place, files).changed
    assert shown(host, place) == {"foo": b"1", "bar": b"2"}


def test_a_stale_temporary_link_is_no_obstacle(host: Host, place: str) -> None:
    write(host, place, payload(foo="1"))
    host.make_link("..2020_gone", f"{place}/..data_tmp")
    write(host, place, payload(foo="2"))
    assert shown(host, place) == {"foo": b"2"}
    assert "..data_tmp" not in host.names_in(place)


def test_data_directories_out_of_use_are_collected(host: Host, place: str) -> None:
    host.write_files(place, [NewFile(path="..2020_01_01_00_00_00.7/foo", data=b"", mode=0o644)])
    write(host, place, payload(foo="1"))
    assert data_directories(host, place) == [host.read_link(f"{place}/..data")]


def test_a_name_drawn_twice_is_no_obstacle(host: Host, place: str) -> None:
    for text in ("1", "2", "3"):
        write_payload(host, place, payload(foo=text), stamp=lambda: "..2026_01_01_00_00_00.1")
    assert shown(host, place) == {"foo": b"3"}
    assert len(data_directories(host, place)) == 1


def test_directories_that_others_made_in_the_volume_stay(host: Host, place: str) -> None:
    host.make_directory(f"{place}/nested", 0o755)
    host.make_link("elsewhere", f"{place}/theirs")
    write(host, place, payload(foo="1"))
    write(host, place, payload(bar="1"))
    assert [name for name in host.names_in(place) if not name.startswith("..")] == ["bar", "nested", "theirs"]


def test_something_else_where_a_file_belongs_is_an_error_every_time(host: Host, place: str) -> None:
    host.make_directory(f"{place}/foo", 0o755)
    for _ in range(2):
        with pytest.raises(FileExistsError, match="foo"):
            write(host, place, payload(foo="1"))


def test_a_visible_link_belongs_to_the_owner_of_its_file() -> None:
    host = MemoryHost()
    write(host, "/", {"token": PayloadFile(data=b"", mode=0o600, uid=1000)})
    owners = [host.look("/token"), host.look_through("/token")]
    assert [facts.uid for facts in owners if facts is not None] == [1000, 1000]


def test_a_data_directory_is_named_after_time_and_chance() -> None:
    name = data_directory_name(datetime(2026, 8, 1, 2, 3, 4, tzinfo=UTC), Random(1))
    assert name.startswith("..2026_08_01_02_03_04.")
    assert name.rpartition(".")[2].isdigit()
    assert name == data_directory_name(datetime(2026, 8, 1, 2, 3, 4, tzinfo=UTC), Random(1))
