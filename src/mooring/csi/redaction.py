"""Keeping secrets out of texts: of what is asked of a driver, and of what a driver says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from mooring.rpc import csi

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

TOKENS_KEY = "csi.storage.k8s.io/serviceAccount.tokens"
"""Where tokens of service accounts stand in a volume's context: no field of its own marks them as secret."""

HIDDEN = "***"

M = TypeVar("M", bound="Message")


def secret_values(request: Message) -> frozenset[str]:
    """All texts in a request that nobody may see, taken from the fields that the specification marks."""
    return frozenset(value for value in _secrets_of(request) if value)


def without(words: str, secrets: Iterable[str]) -> str:
    """The words with each secret hidden; longer ones first, for one may be part of another."""
    for secret in sorted(secrets, key=lambda each: (-len(each), each)):
        words = words.replace(secret, HIDDEN)
    return words


def redacted(message: M) -> M:
    """A copy whose keys are shown and whose secrets are hidden."""
    shown = type(message)()
    shown.CopyFrom(message)
    _hide(shown)
    return shown


def described(request: Message) -> str:
    """A request as one line of text, without its secrets."""
    from google.protobuf import text_format  # noqa: PLC0415 - only for logs that tell all

    return text_format.MessageToString(redacted(request), as_one_line=True)


def _secrets_of(request: Message) -> Iterator[str]:
    for field, value in request.ListFields():
        if _is_secret(field):
            yield from value.values() if _is_map(field) else [str(value)]
        elif _is_map(field):
            if TOKENS_KEY in value:
                yield from _token_texts(value[TOKENS_KEY])
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from _secrets_of(each)


def _token_texts(encoded: str) -> Iterator[str]:
    """The tokens, and the JSON that holds them."""
    yield encoded
    try:
        by_audience = json.loads(encoded)
    except ValueError:
        return
    if isinstance(by_audience, dict):
        for each in by_audience.values():
            if isinstance(each, dict) and isinstance(each.get("token"), str):
                yield each["token"]


def _hide(request: Message) -> None:
    for field, value in request.ListFields():
        if _is_map(field):
            for key in list(value) if _is_secret(field) else [key for key in value if key == TOKENS_KEY]:
                value[key] = HIDDEN
        elif _is_secret(field):
            setattr(request, field.name, HIDDEN)
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                _hide(each)


def _is_secret(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[csi.csi_secret])


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
