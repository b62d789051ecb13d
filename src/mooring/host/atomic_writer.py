"""Writes a set of files into a directory so that readers see all of the old ones or all of the new ones.

The files live in a data directory `..<time>.<digits>`; the link `..data` names the current one, and once it is there it
is switched by a rename; each visible name is a link through `..data`. A writer killed at any step leaves a directory
that the next write puts right: a left-over `..data_tmp`, data directories that `..data` does not name, and visible
links that are missing or stale are all repaired, even when the payload itself has not changed.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from random import Random

import msgspec

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host, NewFile

DATA_LINK = "..data"
NEW_DATA_LINK = "..data_tmp"
_LONGEST_PATH = 4096
_LONGEST_NAME = 255
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,250}").fullmatch  # the usual key, which needs no more checks


class PayloadFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file, its exact mode, and its owner when that is not the process."""

    data: bytes
    mode: int
    uid: int | None = None


class WriteReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did: `changed` is false when the data on disk was already right."""

    changed: bool


def data_directory_name(now: datetime, random: Random) -> str:
    """Return a name for a data directory, made of the time (UTC) and ten random digits."""
    digits = random.randrange(10**10)
    return f"..{now.year:04}_{now.month:02}_{now.day:02}_{now.hour:02}_{now.minute:02}_{now.second:02}.{digits:010}"


def write_payload(
    host: Host,
    directory: str,
    payload: Mapping[str, PayloadFile],
    *,
    stamp: Callable[[], str],
    set_ownership: Callable[[str], None] | None = None,
    hidden: Collection[str] = (),
    is_empty: bool = False,
) -> WriteReport:
    """Make `directory` show exactly the payload; `stamp` draws a name for the data directory should one be needed.

    `set_ownership` is called once per real write, before readers can see the data, with the path of the new data
    directory; what it raises undoes the write. Names in `hidden` belong to directories that something is mounted on: a
    file of such a name is not shown. Writers of one directory take turns: that is for the caller to see to. A
    directory that was made just now `is_empty`, and is not looked into.
    """
    wanted = normalised(payload)
    there = {} if is_empty else _in_target(host, directory)
    current = host.read_link(f"{directory}/{DATA_LINK}") if DATA_LINK in there else None
    changed = current is None or _differs(host, f"{directory}/{current}", wanted)
    if changed:
        current = stamp()
        while current in there:  # left by a killed writer that drew the same digits
            current += "0"
        _publish(host, directory, wanted, current, there, set_ownership)
    _show(host, directory, wanted, there, hidden)
    _collect(host, directory, wanted, there, current)
    return WriteReport(changed=changed)


def normalised(payload: Mapping[str, PayloadFile]) -> dict[str, PayloadFile]:
    """Return the payload by clean relative paths, or raise `Refused` for a path that could leave the directory."""
    return {_normalised_path(path): file for path, file in payload.items()}


def paths_to_remove(host: Host, data_directory: str, wanted: Iterable[str]) -> set[str]:
    """Return all relative paths in a data directory that are neither wanted nor above a wanted path.

    A directory that does not exist has none.
    """
    kept = set(wanted)
    for path in tuple(kept):
        names = path.split("/")
        kept.update("/".join(names[:depth]) for depth in range(1, len(names)))
    stale: set[str] = set()
    pending = [""]
    while pending:
        above = pending.pop()
        with contextlib.suppress(FileNotFoundError):
            for name in host.names_in(f"{data_directory}/{above}" if above else data_directory):
                path = f"{above}/{name}" if above else name
                if path not in kept:
                    stale.add(path)
                facts = host.look(f"{data_directory}/{path}")
                if facts is not None and facts.kind is FileKind.DIRECTORY:
                    pending.append(path)
    return stale


def _normalised_path(path: str) -> str:
    if _PLAIN_NAME(path):
        return path
    names = path.split("/")
    if not path:
        raise _bad_path(path, "it is empty")
    if path.startswith("/"):
        raise _bad_path(path, "it is absolute")
    if ".." in names:
        raise _bad_path(path, "it has '..' as an element")
    try:
        sizes = [len(name.encode()) for name in names]
    except UnicodeEncodeError as error:
        raise _bad_path(path, "it cannot be written as UTF-8") from error
    if sum(sizes) + len(sizes) - 1 > _LONGEST_PATH:
        raise _bad_path(path, f"it is longer than {_LONGEST_PATH} bytes")
    if max(sizes) > _LONGEST_NAME:
        raise _bad_path(path, f"one of its elements is longer than {_LONGEST_NAME} bytes")
    if names[0].startswith(".."):
        raise _bad_path(path, "names that start with '..' are reserved")
    clean = "/".join(name for name in names if name not in ("", "."))
    if not clean or "\0" in clean:
        raise _bad_path(path, "it names no file")
    return clean


def _bad_path(path: str, why: str) -> Refused:
    shown = path if len(path) <= 80 else f"{path[:77]}..."
    return Refused(f"cannot write a file at {shown!r}", why=why, next_step="Use a relative path inside the volume")


def _in_target(host: Host, directory: str) -> dict[str, bool]:
    """Each name in the directory, and whether it is a link."""
    try:
        return host.links_in(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Refused(f"cannot write files into {directory!r}", why="it is not an existing directory") from error


def _differs(host: Host, data_directory: str, wanted: Mapping[str, PayloadFile]) -> bool:
    """Tell whether the files on disk are others than the wanted ones; modes and owners are not compared."""
    if any("/" in path for path in wanted):
        return _differs_deep_down(host, data_directory, wanted)
    return not host.holds_files(data_directory, {path: file.data for path, file in wanted.items()})


def _differs_deep_down(host: Host, data_directory: str, wanted: Mapping[str, PayloadFile]) -> bool:
    """The same for files that lie in directories, which may be left without any."""
    try:
        if paths_to_remove(host, data_directory, wanted):
            return True
        return any(host.read_file(f"{data_directory}/{path}") != file.data for path, file in wanted.items())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return True


def _publish(
    host: Host,
    directory: str,
    wanted: Mapping[str, PayloadFile],
    stamp: str,
    there: dict[str, bool],
    set_ownership: Callable[[str], None] | None,
) -> None:
    """Write a new data directory and switch `..data` to it; a failure leaves the old one in force."""
    data_directory = f"{directory}/{stamp}"
    new_link = f"{directory}/{NEW_DATA_LINK}"
    if NEW_DATA_LINK in there:  # a writer was killed just before its switch
        host.remove_file(new_link)
        del there[NEW_DATA_LINK]
    linked = False
    host.make_directory(data_directory, 0o755)
    try:
        host.change_mode(data_directory, 0o755)
        host.write_files(
            data_directory,
            [NewFile(path=path, data=file.data, mode=file.mode, uid=file.uid) for path, file in wanted.items()],
        )
        if set_ownership is not None:
            set_ownership(data_directory)
        if DATA_LINK not in there:
            host.make_link(stamp, f"{directory}/{DATA_LINK}")
            return
        host.make_link(stamp, new_link)
        linked = True
        host.rename(new_link, f"{directory}/{DATA_LINK}")
    except Exception:
        with contextlib.suppress(OSError):
            if linked:
                host.remove_file(new_link)
            host.remove_tree(data_directory)
        raise


def _show(
    host: Host,
    directory: str,
    wanted: Mapping[str, PayloadFile],
    there: Mapping[str, bool],
    hidden: Collection[str],
) -> None:
    """Make the visible link of each top-level name that has none."""
    shown = set(hidden)
    for path, file in wanted.items():
        top = path.partition("/")[0]
        if top in shown:
            continue
        shown.add(top)
        if top not in there:
            host.make_link(f"{DATA_LINK}/{top}", f"{directory}/{top}", file.uid)
        elif not there[top]:
            why = "something that is no link stands where the file belongs"
            raise FileExistsError(errno.EEXIST, why, f"{directory}/{top}")


def _collect(
    host: Host, directory: str, wanted: Mapping[str, PayloadFile], there: Mapping[str, bool], current: str | None
) -> None:
    """Remove what earlier writes left: visible links of files that are gone, and data directories out of use.

    All are tried; the last failure is raised.
    """
    tops = {path.partition("/")[0] for path in wanted}
    failure: OSError | None = None
    for name in sorted(there.keys() - tops - {DATA_LINK}):
        path = f"{directory}/{name}"
        try:
            if name.startswith("..20"):
                if name != current:
                    host.remove_tree(path)
            elif name == NEW_DATA_LINK or (there[name] and host.read_link(path) == f"{DATA_LINK}/{name}"):
                host.remove_file(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure
