"""The side of the kubelet: its own volume manager, over the manifests and then over the edited ones."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compare import causes
from bench.compare.corpus import NODE, Manifest, write_manifests
from bench.compare.machine import FLEX_DRIVERS, ROOT
from bench.compare.seen import Refusal, Run, Seen, SeenPod, Stage, below_root
from bench.compare.trees import entries, settled

PATIENCE = "15s"
"""How long it may take until all is ready that will ever be: what fails is waited for as long."""

_PROCESSED = re.compile(r"failed to process volumes=\[[^\]]+\]: (?P<why>.*)", re.DOTALL)
_UNATTACHED = re.compile(r"unattached volumes=\[(?P<names>[^\]]+)\]")
_VOLUME_IS_UNKNOWN = "FieldValueNotFound"


def run(peer: Path, sockets: Mapping[str, Path], manifests: Sequence[Manifest], directory: Path) -> Run:
    """What it makes of the manifests at each stage. A second process over the same root is a kubelet that restarts."""
    command: list[object] = [peer, "run", "--root", ROOT, "--manifests", directory, "--node", NODE, "--validate"]
    command += ["--flex-dir", FLEX_DRIVERS, "--timeout", PATIENCE, "--hold"]
    for name, socket in sockets.items():
        command += ["--csi", f"{name}={socket}"]
    write_manifests(manifests, directory, edited=False)
    with _Peer(command) as running:
        yield _seen(Stage.FIRST, running.document())
    write_manifests(manifests, directory, edited=True)
    with _Peer([*command, "--teardown"]) as running:
        yield _seen(Stage.EDITED, running.document())
        running.stop()
        torn_down = running.document()["teardown"]
    yield settled(lambda: Seen(stage=Stage.LEFT, entries=entries()))
    if torn_down.get("error") or torn_down["mounts"]:
        raise RuntimeError(f"the kubelet did not take everything down: {torn_down.get('error')}, {torn_down['mounts']}")


class _Peer:
    """The program, which writes one document when it is ready and one when it has ended."""

    def __init__(self, command: Sequence[object]) -> None:
        self._command = [str(word) for word in command]

    def __enter__(self) -> _Peer:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> None:
        self._process.terminate()

    def document(self) -> dict[str, Any]:
        """The next document. Its last line is the first one that is a closing bracket alone."""
        assert self._process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"kubelet-peer ended with {self._process.wait()} before it told what it did")
            lines.append(line)
        document: dict[str, Any] = json.loads("".join(lines))
        return document


def _seen(stage: Stage, report: Mapping[str, Any]) -> Seen:
    pods = [_pod(pod) for pod in report["pods"]]
    refusals = [_refusal(refused) for refused in report.get("refused", ())]
    return settled(lambda: Seen(stage=stage, entries=entries(), pods=pods, refusals=refusals))


def _pod(pod: Mapping[str, Any]) -> SeenPod:
    return SeenPod(
        namespace=pod["namespace"],
        name=pod["name"],
        uid=pod["uid"],
        ready=pod["ready"] or pod.get("ended", False),  # nobody waits for the volumes of one that has ended
        causes=[] if pod["ready"] else [each for text in _complaints(pod) for each in causes.of_kubelet(text)],
        volumes={volume["name"]: (volume["plugin"], below_root(volume["path"])) for volume in pod["volumes"] or ()},
    )


def _complaints(pod: Mapping[str, Any]) -> list[str]:
    """What it says about a pod: in events, and in the error with which a wait ends."""
    told = [event["message"] for event in pod.get("events", ()) if event["type"] == "Warning"]
    error = pod.get("error", "")
    if processed := _PROCESSED.search(error):
        told.append(processed["why"])
    elif not told and (unattached := _UNATTACHED.search(error)):
        told.append(f"unattached volumes=[{unattached['names']}]")
    return told


def _refusal(refused: Mapping[str, Any]) -> Refusal:
    problems = refused["problems"]
    of_volumes = any(problem["field"].startswith("spec.volumes") for problem in problems)
    return Refusal(
        namespace=refused.get("namespace", ""),
        kind=refused["kind"],
        name=refused["name"],
        # A volume that is refused is unknown to the containers, which adds nothing.
        fields=frozenset(
            problem["field"] for problem in problems if not (of_volumes and problem["type"] == _VOLUME_IS_UNKNOWN)
        ),
    )
