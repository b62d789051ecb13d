"""Writes docs/states.md: the state diagrams, drawn from the transition functions themselves. `--check` compares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from mooring.world.presence import Presence, Result, after_setup, after_teardown

TARGET = Path(__file__).parent.parent / "docs" / "states.md"

HEAD = """# States

This page is written by `make docs` from `mooring.world.presence`, the one place where these transitions live.

A mount, a stage and an attachment are each *absent*, *uncertain* or *present*. **Uncertain** means: it may be there.
It is never shown to containers, counts as present for every safety check, is set up again before use and torn down
before it is forgotten. An operation ends with one of four results: **done**; **refused** (it was answered: nothing was
changed); **not yet** (something it needs is missing, and nothing was tried); **unknown** (no answer, or it stopped
half way).
"""


def main() -> int:
    text = "\n".join([HEAD, *sections()]) + "\n"
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print("docs/states.md does not show what the code does; run `make docs`", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def sections() -> Iterator[str]:
    yield "## Set-up (mount, stage, attach)\n"
    yield from diagram(lambda before, result: after_setup(before, result, reconstructed=False))
    yield "A failed refresh of something present leaves it present: no error takes away what the pod sees.\n"
    yield "## Set-up of something found on disk after a restart\n"
    yield from diagram(lambda before, result: after_setup(before, result, reconstructed=True), start=Presence.UNCERTAIN)
    yield "A refusal does not clear the doubt here: what an earlier process left must still be torn down.\n"
    yield "## Teardown (unmount, unstage, detach)\n"
    yield from diagram(after_teardown, start=Presence.PRESENT)


def diagram(transition: Callable[[Presence, Result], Presence], start: Presence = Presence.ABSENT) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {start.value}"
    for before in Presence:
        for after in Presence:
            results = [result.value for result in Result if transition(before, result) is after]
            if results and not (before is after and len(results) == len(Result)):
                yield f"    {before.value} --> {after.value}: {', '.join(results)}"
    yield "```\n"


if __name__ == "__main__":
    sys.exit(main())
