"""`make compare`: the kubelet and mooring on the same manifests; exit status 1 when they differ unexpectedly."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import arena
from bench.compare.comparison import compare
from bench.compare.machine import missing
from bench.compare.report import text_of

_PEER = Path(__file__).parents[2] / ".strangers" / "bin" / "kubelet-peer"


def main() -> int:
    arena.enter()
    if lacking := missing():
        print(f"compare: this needs {lacking}", file=sys.stderr)
        return 2
    result = compare(_PEER)
    print(text_of(result))
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
