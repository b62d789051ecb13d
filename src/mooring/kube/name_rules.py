"""What Kubernetes allows as a name, a label, an annotation key or a key of data.

Each rule returns the reason why a text breaks it, or an empty text.
"""

from __future__ import annotations

import re

from mooring.kube.field_errors import quoted

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def broken_label(text: str) -> str:
    """A DNS label: volumes, containers and namespaces are named so."""
    if len(text) > 63:
        return f"{quoted(text)} has {len(text)} characters, and 63 are the most"
    if not _LABEL.fullmatch(text):
        return f'{quoted(text)} may only have lower-case letters, digits and "-", with a letter or digit at both ends'
    return ""


def broken_subdomain(text: str) -> str:
    """A DNS subdomain: most objects are named so."""
    if len(text) > 253:
        return f"{quoted(text)} has {len(text)} characters, and 253 are the most"
    if not _SUBDOMAIN.fullmatch(text):
        return (
            f'{quoted(text)} may only have lower-case letters, digits, "-" and ".", '
            "with a letter or digit at both ends and around each dot"
        )
    return ""


def broken_driver_name(text: str) -> str:
    """A CSI driver's name: a DNS subdomain, in either case, of at most 63 characters."""
    if len(text) > 63:
        return f"{quoted(text)} has {len(text)} characters, and 63 are the most"
    return broken_subdomain(text.lower())


def broken_qualified_name(text: str) -> str:
    """A key of a label or annotation: `name` or `example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and broken_subdomain(prefix):
        return f'the part of {quoted(text)} before the "/" is not a DNS name'
    if len(name) > 63:
        return f"the name in {quoted(text)} has {len(name)} characters, and 63 are the most"
    if not _QUALIFIED.fullmatch(name):
        return f'{quoted(text)} may only have letters, digits, "-", "_" and ".", with a letter or digit at both ends'
    return ""


def broken_label_value(text: str) -> str:
    """A value of a label: empty, or spelled like a qualified name without a prefix."""
    if len(text) > 63:
        return f"{quoted(text)} has {len(text)} characters, and 63 are the most"
    if text and not _QUALIFIED.fullmatch(text):
        return f'{quoted(text)} may only have letters, digits, "-", "_" and ".", with a letter or digit at both ends'
    return ""


def broken_data_key(text: str) -> str:
    """A key of a ConfigMap or Secret: it becomes a file name."""
    if len(text) > 253:
        return f"{quoted(text)} has {len(text)} characters, and 253 are the most"
    if not _DATA_KEY.fullmatch(text):
        return f'the key {quoted(text)} may only have letters, digits, "-", "_" and "."'
    if text == "." or text.startswith(".."):
        return f"the key {quoted(text)} is no usable file name"
    return ""


def broken_path_element(text: str) -> str:
    """A UID: it becomes the name of a directory."""
    if text in (".", "..") or "/" in text or not text.isprintable():
        return f"{quoted(text)} cannot be the name of a directory"
    if len(text.encode()) > 253:
        return f"{quoted(text)} has more than 253 characters"
    return ""
