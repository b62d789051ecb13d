"""Words that podman and docker share."""

from __future__ import annotations


def long_mount(*fields: str) -> list[str]:
    """`--mount` takes a line of comma-separated values, quoted as in CSV files."""
    return ["--mount", ",".join(_csv(field) for field in fields)]


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\r\n') else text
