"""What a comparison came to, for people."""

from __future__ import annotations

from bench.compare.comparison import Result


def text_of(result: Result) -> str:
    """Figures, what is allowed and why, and all that is not."""
    verdict = result.verdict
    kept = sum(len(each) for _, each in verdict.allowed)
    lines = [
        f"{result.manifests} manifests, {result.facts} facts compared",
        f"{kept} differences allowed by {len(verdict.allowed)} rows of docs/differences.md, "
        f"{len(verdict.unexpected)} unexpected, {len(verdict.unused)} rows without a difference",
    ]
    lines += [f"  {len(each):4} {allowed}\n       {allowed.reason}" for allowed, each in verdict.allowed]
    if verdict.unexpected:
        lines += ["", "Unexpected:", *map(str, verdict.unexpected)]
    if verdict.unused:
        lines += ["", "Listed, but no longer so:", *map(str, verdict.unused)]
    return "\n".join(lines)
