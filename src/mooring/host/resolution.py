"""Where a path really leads: without links, as the mount table writes paths and as devices are handed to pods."""

from __future__ import annotations

import errno
import os

from mooring.host.interface import FileKind, Host

_MOST_LINKS = 40  # as many as the kernel follows


def resolved(host: Host, path: str) -> str:
    """The same place by a path without links, `.` and `..`. OSError ENOENT when nothing is there, ELOOP for loops."""
    pending = path.split("/")[::-1]
    done = ""
    links = 0
    while pending:
        name = pending.pop()
        if name == "..":
            done = done.rpartition("/")[0]
        elif name not in ("", "."):
            here = f"{done}/{name}"
            text = _link_text(host, here)
            if text is None:
                done = here
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            done = "" if text.startswith("/") else done
            pending.extend(reversed(text.split("/")))
    return done or "/"


def _link_text(host: Host, path: str) -> str | None:
    """The text of a link; None for everything else that is there."""
    facts = host.look(path)
    if facts is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return host.read_link(path) if facts.kind is FileKind.LINK else None
