"""The side of mooring: a real daemon on the manifests, which are edited while it runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.compare import causes
from bench.compare.corpus import LAST, NODE, Manifest, write_manifests
from bench.compare.machine import FLEX_DRIVERS, ROOT
from bench.compare.seen import Refusal, Run, Seen, SeenPod, Stage, below_root, field_name
from bench.compare.trees import entries, settled

_PATIENCE = 60.0  # seconds until nothing moves any more
_PAUSE = 0.2
_MOVING = ("attaching", "staging", "mounting", "unmounting")
_ABOUT_TO_MOVE = "it is about to be"
_REFUSED = re.compile(r'cannot use (?P<kind>\w+) "(?P<name>[^"]*)"')
_WHERE = re.compile(r".*/(?P<file>[^/]+)\.yaml:\d+: (?P<field>.*)")
_CLUSTER_WIDE = ("PersistentVolume", "ClusterTrustBundle")


def run(sockets: Mapping[str, Path], manifests: Sequence[Manifest], directory: Path) -> Run:
    """What it makes of the manifests at each stage."""
    daemon = Daemon(sockets)
    write_manifests([], directory, edited=False)
    with ExitStack() as undo:
        daemon.call("up", directory, "--detach", "--node-name", NODE)
        undo.callback(daemon.down)
        # Files with mistakes come while it runs: at its start it would refuse all of them.
        write_manifests(manifests, directory, edited=False)
        yield daemon.seen(Stage.FIRST)
        write_manifests(manifests, directory, edited=True)
        yield daemon.seen(Stage.EDITED)
    yield settled(lambda: Seen(stage=Stage.LEFT, entries=entries()))


class Daemon:
    """One over the root directory of both sides."""

    def __init__(self, sockets: Mapping[str, Path]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORING_")}
        self._environment = kept | {
            "MOORING_ROOT": str(ROOT),
            "MOORING_CSI_SOCKETS": ",".join(map(str, sockets.values())),
            "MOORING_FLEX_VOLUME_DIRECTORY": str(FLEX_DRIVERS),
        }

    def call(self, *arguments: object) -> str:
        command = [sys.executable, "-m", "mooring", *map(str, arguments)]
        ended = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"mooring {arguments[0]} ended with {ended.returncode}: {ended.stderr}")
        return ended.stdout

    def down(self) -> None:
        """Take everything down, and return when the process has ended and let go of its files."""
        process = Path("/proc", (ROOT / "mooring.lock").read_text().strip())
        self.call("down", "--timeout", f"{_PATIENCE}s")
        while process.exists():
            time.sleep(_PAUSE)

    def get(self, what: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.call("get", what, "-o", "json"))
        return rows

    def seen(self, stage: Stage) -> Seen:
        """What there is when the last pod is known, each volume is there or has said why not, and nothing moves."""
        deadline = time.monotonic() + _PATIENCE
        last = f"{LAST}/{stage.value}"
        volumes = self.get("volumes")
        while any(map(_moves, volumes)) or all(row["pod"] != last for row in volumes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"mooring did not come to rest: {[row for row in volumes if _moves(row)]}")
            time.sleep(_PAUSE)
            volumes = self.get("volumes")
        return settled(lambda: self.look(stage))

    def look(self, stage: Stage) -> Seen:
        """What there is now."""
        volumes = self.get("volumes")
        findings = [row for row in self.get("findings") if row["kind"] == "manifest"]
        return Seen(
            stage=stage,
            entries=entries(),
            pods=[_pod(row, volumes) for row in self.get("pods")],
            refusals=_refusals(findings),
        )


def _moves(row: Mapping[str, Any]) -> bool:
    return row["state"] in _MOVING or (row["reason"] or "").startswith(_ABOUT_TO_MOVE)


def _pod(row: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]) -> SeenPod:
    namespace, _, name = row["pod"].partition("/")
    own = [volume for volume in volumes if volume["pod"] == row["pod"]]
    return SeenPod(
        namespace=namespace,
        name=name,
        uid=row["uid"],
        ready=row["ready"],
        causes=[each for volume in own if volume["reason"] for each in causes.of_mooring(volume["reason"])],
        volumes={
            volume["volume"]: (volume["plugin"], below_root(volume["path"] or ""))
            for volume in own
            if volume["state"] == "mounted"
        },
    )


def _refusals(findings: Sequence[Mapping[str, Any]]) -> list[Refusal]:
    found: dict[tuple[str, str, str], set[str]] = {}
    for finding in findings:
        where, what = _WHERE.fullmatch(finding["where"]), _REFUSED.match(finding["what"])
        if where is None or what is None:
            raise ValueError(f"this finding names no object of a manifest: {finding}")
        namespace = "" if what["kind"] in _CLUSTER_WIDE else where["file"]
        found.setdefault((namespace, what["kind"], what["name"]), set()).add(field_name(where["field"]))
    return [
        Refusal(namespace=namespace, kind=kind, name=name, fields=frozenset(fields))
        for (namespace, kind, name), fields in sorted(found.items())
    ]
