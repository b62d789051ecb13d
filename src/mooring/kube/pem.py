"""PEM texts: the certificates in them, and certificates as PEM."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

_BLOCK = re.compile(
    r"^-----BEGIN (?P<label>[^\n-]*)-----[ \t]*\n(?P<body>.*?)^-----END (?P=label)-----[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_EDGE = re.compile(r"^-----(?:BEGIN|END) ", re.MULTILINE)
_HEADER = re.compile(r"^[^\s:]+:", re.MULTILINE)
_LINE_LENGTH = 64
_SEQUENCE = 0x30
"""The first byte of every certificate: in DER it is a SEQUENCE."""


def certificates_in(text: str) -> list[bytes]:
    """The certificates of a PEM text in DER, in order; ValueError says what is wrong with it.

    Notes between blocks are passed over, but nothing that looks like a part of a block: it may be a damaged one.
    """
    text = text.replace("\r\n", "\n")
    found: list[bytes] = []
    for number, block in enumerate(_BLOCK.finditer(text), start=1):
        if block["label"] != "CERTIFICATE":
            raise ValueError(f"PEM block {number} is a {block['label']!r}, and only CERTIFICATE is allowed")
        if _HEADER.search(block["body"]):
            raise ValueError(f"PEM block {number} has headers")
        found.append(_decoded(block["body"], number))
    if _EDGE.search(_BLOCK.sub("", text)):
        raise ValueError("it has a PEM block without a beginning or an end")
    if not found:
        raise ValueError("it is not PEM")
    return found


def _decoded(body: str, number: int) -> bytes:
    try:
        der = base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"PEM block {number} is not base64") from error
    if not _is_one_sequence(der):
        raise ValueError(f"PEM block {number} holds no certificate")
    return der


def _is_one_sequence(der: bytes) -> bool:
    """Whether the bytes are one DER SEQUENCE from beginning to end, as a certificate is."""
    if len(der) < 2 or der[0] != _SEQUENCE:
        return False
    if der[1] < 0x80:
        return len(der) == 2 + der[1] and der[1] > 0
    digits = der[1] & 0x7F
    length = int.from_bytes(der[2 : 2 + digits], "big")
    return 0 < digits <= 4 and len(der) == 2 + digits + length


def to_pem(certificates: Iterable[bytes]) -> str:
    """Certificates in DER as one PEM text."""
    return "".join(_block(der) for der in certificates)


def _block(der: bytes) -> str:
    text = base64.b64encode(der).decode("ascii")
    lines = "".join(f"{text[at : at + _LINE_LENGTH]}\n" for at in range(0, len(text), _LINE_LENGTH))
    return f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"
