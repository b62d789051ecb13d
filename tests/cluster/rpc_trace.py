"""Traces of calls to a CSI driver in a form in which two of them can be compared.

What is done with each volume is compared in order. Left out is what says nothing about it: questions for capabilities,
repetitions, the order of like calls for several pods, where the root directory is, and which UIDs pods have.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

DRIVER = "the driver"
"""Stands for the name of a volume in calls that are about none."""

HEADING = "## RPC traces"
SEPARATOR = " > "
"""Between the names on the path to a field: keys of a volume's context have all other signs in them."""

_ROW = re.compile(r"\|\s*`(?P<call>\w+)`\s*\|\s*(?P<what>only mooring|only the kubelet|`(?P<field>[^`]+)`)\s*\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A call as it counts for comparison, and how it was answered."""

    method: str
    request: Mapping[str, Any]
    code: str

    def line(self) -> str:
        return f"{self.method} {json.dumps(self.request, sort_keys=True)} {self.code}"

    @property
    def volume(self) -> str:
        return str(self.request.get("volume_id", DRIVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The differences that are kept on purpose: calls that one side alone makes, and fields that do not count."""

    only_mooring: frozenset[str] = frozenset()
    only_kubelet: frozenset[str] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()  # of a method, the path to a field


def read_trace(lines: Iterable[str], names: Mapping[str, str]) -> list[TracedCall]:
    """A trace as a recording proxy wrote it, in the order in which calls came.

    Each text of `names` (a root directory, a pod's UID) is replaced by what it stands for.
    """
    told = sorted((json.loads(_renamed(line, names)) for line in lines), key=lambda call: int(call["number"]))
    return [TracedCall(method=call["method"], request=call["request"], code=call["code"]) for call in told]


def _renamed(line: str, names: Mapping[str, str]) -> str:
    for name in sorted(names, key=lambda each: (-len(each), each)):
        line = line.replace(name, names[name])
    return line


def canonical(trace: Iterable[TracedCall]) -> dict[str, list[TracedCall]]:
    """What was done with each volume."""
    by_volume: dict[str, list[TracedCall]] = {}
    for call in trace:
        if call.method != "NodeGetCapabilities":
            by_volume.setdefault(call.volume, []).append(call)
    return {volume: list(_in_order(by_volume[volume])) for volume in sorted(by_volume)}


def _in_order(calls: Sequence[TracedCall]) -> Iterator[TracedCall]:
    """Like calls for several pods run at the same time: their order is chance, and that one is put off for another."""
    for _, alike in groupby(calls, key=lambda call: call.method):
        last = {json.dumps(call.request, sort_keys=True): call for call in alike}
        yield from (last[request] for request in sorted(last))


def read_allowed(page: str) -> Allowed:
    """The table below the heading, in a page of Markdown: a call; who alone makes it, or a field; and why."""
    rows = list(_rows(page.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]))
    return Allowed(
        only_mooring=frozenset(row["call"] for row in rows if row["what"] == "only mooring"),
        only_kubelet=frozenset(row["call"] for row in rows if row["what"] == "only the kubelet"),
        fields=frozenset((row["call"], row["field"]) for row in rows if row["field"]),
    )


def _rows(section: str) -> Iterator[re.Match[str]]:
    table = [line for line in section.splitlines() if line.startswith("|")]
    for line in table[2:]:  # after its head
        row = _ROW.match(line)
        if row is None:
            raise ValueError(f"this row says neither who alone makes the call nor which field differs: {line}")
        yield row


def differences(kubelet: Sequence[TracedCall], mooring: Sequence[TracedCall], allowed: Allowed) -> list[str]:
    """How the second trace differs from the first, as lines for a person; none when nothing is left but what may be."""
    theirs = canonical(_counting(kubelet, allowed.only_kubelet, allowed.fields))
    ours = canonical(_counting(mooring, allowed.only_mooring, allowed.fields))
    found: list[str] = []
    for volume in sorted({*theirs, *ours}):
        before, after = ([call.line() for call in side.get(volume, ())] for side in (theirs, ours))
        found += difflib.unified_diff(before, after, f"{volume}: kubelet", f"{volume}: mooring", lineterm="", n=1)
    return found


def _counting(
    trace: Iterable[TracedCall], left_out: frozenset[str], fields: frozenset[tuple[str, str]]
) -> Iterator[TracedCall]:
    for call in trace:
        if call.method not in left_out:
            paths = [path.split(SEPARATOR) for method, path in sorted(fields) if method == call.method]
            yield TracedCall(method=call.method, request=_without(call.request, paths), code=call.code)


def _without(request: Mapping[str, Any], paths: Sequence[Sequence[str]]) -> dict[str, Any]:
    gone = {path[0] for path in paths if len(path) == 1}
    kept: dict[str, Any] = {}
    for name, value in request.items():
        if name not in gone:
            deeper = [path[1:] for path in paths if path[0] == name and len(path) > 1]
            kept[name] = _without(value, deeper) if deeper and isinstance(value, Mapping) else value
    return kept
