"""YAML and JSON text as plain data that remembers its lines, read with limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml
from yaml.events import StreamEndEvent
from yaml.reader import ReaderError

from mooring.kube.yaml_builder import Builder, Document, Hopeless
from mooring.kube.yaml_syntax import YamlFault, explain_syntax_error, first_undecodable, new_parser

LARGEST_FILE: Final = 10 * 1024 * 1024

# JSON writes a character beyond U+FFFF as two escapes, which YAML does not allow.
_SURROGATE_PAIR = re.compile(rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def read_documents(text: bytes, faults: list[YamlFault]) -> Iterator[Document]:
    """Every document of a YAML or JSON file, one by one: a large file is never in memory as a whole.

    Empty documents are left out. What is wrong with the file is in `faults` in the end; only without one all
    documents are whole.
    """
    if len(text) > LARGEST_FILE:
        why = f"it has {len(text) / 1024**2:.1f} MiB, and {LARGEST_FILE // 1024**2} MiB is the most that is read"
        faults.append(YamlFault(line=1, why=why, next_step="Split it into several files"))
        return
    undecodable = first_undecodable(text)
    if undecodable is not None:
        faults.append(undecodable)
        return
    if text.lstrip()[:1] in (b"{", b"["):
        text = _SURROGATE_PAIR.sub(_join_surrogates, text)
    builder = Builder(faults)
    try:
        parser = new_parser(text)
        while (event := parser.get_event()) is not None and not isinstance(event, StreamEndEvent):
            if (document := builder.take(event)) is not None:
                yield document
    except (ReaderError, yaml.MarkedYAMLError) as error:
        faults.append(explain_syntax_error(error, text, document=builder.number))
    except Hopeless as error:
        faults.append(error.fault)


def _join_surrogates(match: re.Match[bytes]) -> bytes:
    high, low = int(match[2], 16), int(match[3], 16)
    return match[1] + b"\\U%08x" % (0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
