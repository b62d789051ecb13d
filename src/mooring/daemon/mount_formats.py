"""What containers see, in the words of those who start them: OCI runtimes, podman, docker and systemd.

Pure functions from the rows of `mooring mounts -o json` to text.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mooring.daemon.tables import table
from mooring.errors import MooringError
from mooring.runtimes.mount_words import long_mount

Row = dict[str, Any]
_COLUMNS = [
    ("CONTAINER", "container"),
    ("VOLUME", "volume"),
    ("CONTAINER PATH", "container_path"),
    ("MODE", "mode"),
    ("PROPAGATION", "propagation"),
    ("HOST PATH", "host_path"),
]
_OCI_PROPAGATION = {"private": "rprivate", "rslave": "rslave", "rshared": "rshared"}


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps(list(rows), indent=2)


def as_table(rows: Sequence[Row]) -> str:
    shown = [{**row, "mode": _mode(row), "host_path": row["host_path"] or row["image"]} for row in rows]
    return "\n".join(table(shown, _COLUMNS))


def _mode(row: Row) -> str:
    if row["device"] is not None:
        return str(row["permissions"])
    if row["recursive_read_only"]:
        return "rro"
    return "ro" if row["read_only"] else "rw"


def _by_container(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["container"], []).append(row)
    return found


def _refuse_image(row: Row, output: str) -> None:
    if row["image"] is not None:
        raise MooringError(
            f"cannot write volume {row['volume']!r} as {output}",
            why=f"it is the image {row['image']!r}, which has no path on this machine",
            next_step="Let podman or docker mount it: -o podman, -o docker",
        )


# -- OCI ---------------------------------------------------------------------------------------------------------
def as_oci(rows: Sequence[Row]) -> str:
    """By container: `mounts`, `devices` (linux.devices) and `device_rules` (linux.resources.devices) of its config."""
    return json.dumps({name: _oci_parts(own) for name, own in _by_container(rows).items()}, indent=2)


def _oci_parts(rows: list[Row]) -> Row:
    for row in rows:
        _refuse_image(row, "oci")
    devices = [row for row in rows if row["device"] is not None]
    return {
        "mounts": [_oci_mount(row) for row in rows if row["device"] is None],
        "devices": [
            {"path": row["container_path"], "type": "b", **row["device"], "fileMode": 0o660, "uid": 0, "gid": 0}
            for row in devices
        ],
        "device_rules": [
            {"allow": True, "type": "b", **row["device"], "access": row["permissions"]} for row in devices
        ],
    }


def _oci_mount(row: Row) -> Row:
    return {
        "destination": row["container_path"],
        "type": "bind",
        "source": row["host_path"],
        "options": ["rbind", _mode(row), _OCI_PROPAGATION[row["propagation"]]],
    }


# -- podman and docker -------------------------------------------------------------------------------------------
def as_podman(rows: Sequence[Row]) -> str:
    return "\n".join(_argument_lines(rows, _podman_mount))


def as_docker(rows: Sequence[Row]) -> str:
    return "\n".join(_argument_lines(rows, _docker_mount))


def _argument_lines(rows: Sequence[Row], mount: Callable[[Row], list[str]]) -> Iterator[str]:
    for container, own in _by_container(rows).items():
        yield f"# container {container}"
        yield shlex.join(word for row in own for word in (_device(row) if row["device"] is not None else mount(row)))


def _device(row: Row) -> list[str]:
    return ["--device", f"{row['host_path']}:{row['container_path']}:{row['permissions']}"]


def _podman_mount(row: Row) -> list[str]:
    if row["image"] is not None:
        subpath = [f"subpath={row['image_sub_path']}"] if row["image_sub_path"] else []
        return long_mount("type=image", f"source={row['image']}", f"destination={row['container_path']}", *subpath)
    if row["recursive_read_only"]:
        raise MooringError(
            f"cannot write volume {row['volume']!r} as podman",
            why="podman cannot make mounts recursively read-only",
            next_step="Leave recursiveReadOnly out, or use another runtime",
        )
    if ":" in row["host_path"] + row["container_path"]:
        return long_mount(
            *_bind(row, "destination"), *(["ro=true"] if row["read_only"] else []), *_long_propagation(row)
        )
    return _short(row)


def _docker_mount(row: Row) -> list[str]:
    if row["image"] is not None:
        subpath = [f"image-subpath={row['image_sub_path']}"] if row["image_sub_path"] else []
        return long_mount("type=image", f"source={row['image']}", f"target={row['container_path']}", *subpath)
    if row["recursive_read_only"]:
        return long_mount(*_bind(row, "target"), "readonly", "bind-propagation=rprivate", "bind-recursive=readonly")
    if ":" in row["host_path"] + row["container_path"]:
        return long_mount(*_bind(row, "target"), *(["readonly"] if row["read_only"] else []), *_long_propagation(row))
    return _short(row)


def _short(row: Row) -> list[str]:
    options = ["ro"] if row["read_only"] else []
    if row["propagation"] != "private":  # which is what both take when nothing is said
        options.append(row["propagation"])
    words = [row["host_path"], row["container_path"], *([",".join(options)] if options else [])]
    return ["-v", ":".join(words)]


def _bind(row: Row, destination: str) -> list[str]:
    return ["type=bind", f"source={row['host_path']}", f"{destination}={row['container_path']}"]


def _long_propagation(row: Row) -> list[str]:
    return [] if row["propagation"] == "private" else [f"bind-propagation={row['propagation']}"]


# -- systemd -----------------------------------------------------------------------------------------------------
def as_systemd(rows: Sequence[Row]) -> str:
    """Lines for the [Service] section of a unit, by container."""
    return "\n".join(line for name, own in _by_container(rows).items() for line in _unit_lines(name, own))


def _unit_lines(container: str, rows: list[Row]) -> Iterator[str]:
    yield f"# container {container}"
    for row in rows:
        _refuse_image(row, "systemd")
        if row["propagation"] == "rshared":
            yield f"# {_unit_path(row, 'container_path')}: a unit cannot let mounts made inside be seen outside"
        setting = "BindReadOnlyPaths" if row["read_only"] else "BindPaths"
        yield f"{setting}={_unit_path(row, 'host_path')}:{_unit_path(row, 'container_path')}"
        if row["device"] is not None:
            numbers = f"{row['device']['major']}:{row['device']['minor']}"
            yield f"DeviceAllow=/dev/block/{numbers} {row['permissions']}"


def _unit_path(row: Row, field: str) -> str:
    """A path as units spell it: `%` starts a specifier, and a backslash takes the meaning from other characters."""
    path = str(row[field])
    if not path.isprintable():
        raise MooringError(
            f"cannot write volume {row['volume']!r} as systemd", why=f"units cannot spell the path {path!r}"
        )
    return "".join("%%" if each == "%" else f"\\{each}" if each in "\\:\"' " else each for each in path)


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "table": as_table,
    "json": as_json,
    "oci": as_oci,
    "podman": as_podman,
    "docker": as_docker,
    "systemd": as_systemd,
}
"""How `mooring mounts` prints, by the name of its `-o`."""

NOT_RECURSIVE = frozenset(("podman",))
"""Formats for runtimes that cannot make mounts recursively read-only."""
