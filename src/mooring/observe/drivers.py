"""CSI drivers and the sockets they register with, as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from mooring.csi.drivers import Capabilities, Driver, Drivers
from mooring.registration.interface import SocketState, SocketView

Row = dict[str, Any]


def driver_rows(drivers: Drivers, sockets: Iterable[SocketView]) -> list[Row]:
    """One row per driver, known by its registration or by a socket that got as far as its name, sorted by name.

    Sockets that have not told a name have rows of their own, without one.
    """
    by_name: dict[str, list[SocketView]] = {name: [] for name in drivers.names()}
    nameless = []
    for socket in sockets:
        if socket.name:
            by_name.setdefault(socket.name, []).append(socket)
        else:
            nameless.append(socket)
    rows = [_row(name, drivers.get(name), of_it) for name, of_it in sorted(by_name.items())]
    return rows + [_row(None, None, [socket]) for socket in nameless]


def _row(name: str | None, driver: Driver | None, sockets: list[SocketView]) -> Row:
    failing = next((socket for socket in sockets if socket.failing_step is not None), None)
    waiting = next((socket for socket in sockets if socket.why), None)
    told = driver.node_info if driver is not None else None
    states = [socket.state.value for socket in sockets]
    state = SocketState.REGISTERED.value if told is not None else (states[0] if states else "registering")
    reason = None
    if failing is not None and failing.failing_step is not None:
        reason = f"{failing.failing_step.value}: {failing.why}"
    elif waiting is not None:
        reason = waiting.why
    return {
        "name": name,
        "state": state,
        "version": ".".join(map(str, driver.version)) if driver is not None else None,
        "endpoint": driver.endpoint if driver is not None else None,
        "node_id": told.node_id if told is not None else None,
        "max_volumes": (told.max_volumes_per_node or None) if told is not None else None,
        "topology": dict(told.accessible_topology.segments) if told is not None else {},
        "capabilities": _abilities(driver.node_capabilities) if driver is not None else None,
        "sockets": [_socket_row(socket) for socket in sockets],
        "reason": reason,
    }


_WORDS = {
    "stages": "STAGE_UNSTAGE_VOLUME",
    "stats": "GET_VOLUME_STATS",
    "expands": "EXPAND_VOLUME",
    "condition": "VOLUME_CONDITION",
    "multi_writer": "SINGLE_NODE_MULTI_WRITER",
    "mount_group": "VOLUME_MOUNT_GROUP",
    "health": "GET_VOLUME_HEALTH",
}


def _abilities(known: Capabilities | None) -> list[str] | None:
    """What the node part can do, in CSI's words; None while nobody has asked."""
    if known is None:
        return None
    return [_WORDS[each.name] for each in fields(known) if getattr(known, each.name)]


def _socket_row(socket: SocketView) -> Row:
    return {
        "path": socket.path,
        "static": socket.static,
        "state": socket.state.value,
        "type": socket.type or None,
        "endpoint": socket.endpoint or None,
        "versions": list(socket.versions),
        "failing_step": socket.failing_step.value if socket.failing_step is not None else None,
        "why": socket.why or None,
        "attempts": socket.attempts,
    }
