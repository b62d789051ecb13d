"""Both sides on the same machine, one after the other, and what they made of the manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.compare import daemon, kubelet
from bench.compare.corpus import Manifest, read_corpus
from bench.compare.differences import Verdict, differences, judged, read_allowed
from bench.compare.machine import fresh_machine
from bench.compare.seen import Fact, Run, facts_of

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How much was compared, and what came of it."""

    manifests: int
    facts: int
    verdict: Verdict

    @property
    def passed(self) -> bool:
        return not self.verdict.unexpected and not self.verdict.unused


def compare(peer: Path) -> Result:
    """Run both sides. To be called in a mount namespace of one's own."""
    manifests = read_corpus()
    with TemporaryDirectory(prefix="mooring-compare-") as place, fresh_machine(peer) as sockets:
        theirs = _facts(kubelet.run(peer, sockets, manifests, Path(place)), manifests)
    with TemporaryDirectory(prefix="mooring-compare-") as place, fresh_machine(peer) as sockets:
        ours = _facts(daemon.run(sockets, manifests, Path(place)), manifests)
    found = differences(theirs, ours)
    table = read_allowed(DIFFERENCES.read_text(encoding="utf-8"))
    return Result(manifests=len(manifests), facts=len({*theirs, *ours}), verdict=judged(found, table))


def _facts(stages: Run, manifests: Sequence[Manifest]) -> Mapping[Fact, str]:
    uids: dict[str, str] = {}
    found: dict[Fact, str] = {}
    with closing(stages):  # so that the side has ended before the machine goes, whatever happens
        for seen in stages:
            uids |= {pod.uid: f"{pod.namespace}/{pod.name}" for pod in seen.pods}
            found |= facts_of(seen, manifests, uids)
    return found
