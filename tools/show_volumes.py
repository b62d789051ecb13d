"""Prints where each volume of `mooring get volumes -o json` is, and what is in it."""

from __future__ import annotations

import json
import os
import sys

MOST_ENTRIES = 6


def main() -> None:
    for row in json.load(sys.stdin):
        print(f"{row['pod']} {row['volume']}: {row['path']}")
        names = sorted(name for name in os.listdir(row["path"]) if not name.startswith(".."))
        for name in names[:MOST_ENTRIES]:
            print(f"    {name}{describe(os.path.join(row['path'], name), secret='secret' in row['plugin'])}")
        if len(names) > MOST_ENTRIES:
            print(f"    … and {len(names) - MOST_ENTRIES} more")
        if not names:
            print("    (empty)")


def describe(path: str, *, secret: bool) -> str:
    """The first line of a small file; never of a secret."""
    if os.path.isdir(path) or not os.path.isfile(path):
        return "/" if os.path.isdir(path) else ""
    if secret:
        return f"  ({os.path.getsize(path)} bytes)"
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return f" = {stream.readline(60).rstrip()}"
    except PermissionError:
        return "  (closed to this user)"


if __name__ == "__main__":
    main()
