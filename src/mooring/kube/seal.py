"""The seal on secrets that are kept on disk: AES-GCM with a key that stays on the node."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from pathlib import Path

from mooring.errors import MooringError, Refused

log = logging.getLogger(__name__)

KEY_BYTES = 32
_NONCE_BYTES = 12  # what AES-GCM is made for (NIST SP 800-38D, 8.2)


class SealBroken(MooringError):
    """What is sealed was sealed with another key, or for another purpose, or was changed since."""


class Seal:
    """Seals and opens bytes. Its repr shows nothing of the key."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only where it is needed

        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return "Seal()"

    def close(self, plain: bytes, *, about: bytes) -> bytes:
        """The bytes, sealed: they open only together with what they are `about`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, about)

    def open(self, sealed: bytes, *, about: bytes) -> bytes:
        """What `close` was given; `SealBroken` when it was not this seal, or was about something else."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
        except (InvalidTag, ValueError) as error:
            raise SealBroken(
                "cannot open what was sealed", why="the key is another one, or the bytes changed"
            ) from error


def load_or_make(path: str) -> Seal:
    """The seal whose key is in a file that only its owner can use; a new key where there is none that fits."""
    try:
        key = _read(path)
        if len(key) != KEY_BYTES:
            log.warning("the key %s is damaged and is replaced: secrets sealed with it are lost", path)
            key = _make(path)
    except FileNotFoundError:
        key = _make(path)
    except OSError as error:
        raise _unusable(path, error) from error
    return Seal(key)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(descriptor, "rb") as stream:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            log.warning("others than its owner could use the key %s (mode 0%o); now they cannot", path, mode)
            os.fchmod(descriptor, 0o600)
        return stream.read(KEY_BYTES + 1)


def _make(path: str) -> bytes:
    """Write a new key, whole or not at all, and on the disk before anything is sealed with it."""
    key = secrets.token_bytes(KEY_BYTES)
    new = f"{path}.new"
    try:
        if not Path(path).parent.is_dir():
            Path(path).parent.mkdir(mode=0o700, parents=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)  # of a process that was killed here
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
            stream.write(key)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, path)
        _sync_directory(os.path.dirname(path) or ".")
    except OSError as error:
        raise _unusable(path, error) from error
    return key


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: str, error: OSError) -> Refused:
    return Refused(
        f"cannot use the key '{path}'",
        why=error.strerror or str(error),
        next_step="Let mooring read and write it, or keep no secrets with offline_secrets = never",
    )
