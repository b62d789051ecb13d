"""Kubeconfig files with everything in them, so that they can be copied elsewhere."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rig.certificates import Pair


def write(path: Path, *, server: str, authority: bytes, user: Mapping[str, Any]) -> Path:
    """Write a kubeconfig whose only user has these fields; only we can read it. JSON is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {"server": server, "certificate-authority-data": _base64(authority)}}],
        "users": [{"name": "user", "user": dict(user)}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user"}}],
        "current-context": "rig",
    }
    write_secret(path, json.dumps(content, indent=2).encode())
    return path


def certificate_user(pair: Pair) -> dict[str, str]:
    """The user whom a certificate speaks for."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only we can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(content)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
