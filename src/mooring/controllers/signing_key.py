"""The key that signs service account tokens: kept in one file, made when it is first needed, never replaced."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from mooring.errors import Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

KEY_BITS = 2048
_WHAT = "cannot sign service account tokens"
_RENEW = "Put the right key back, or remove the file to get a new one, with which no old token is valid"


class SigningKey:
    """An RSA key. Its repr shows which one it is, and nothing of it."""

    def __init__(self, key: RSAPrivateKey) -> None:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only where a key is needed

        self._key = key
        public = key.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        der = public.public_bytes(serialization.Encoding.DER, form)
        self.key_id = base64url(hashlib.sha256(der).digest())
        self._numbers = public.public_numbers()

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id!r})"

    @property
    def key_set_entry(self) -> dict[str, str]:
        """The public half, as JSON Web Key Sets have it (RFC 7517)."""
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": self.key_id,
            "alg": "RS256",
            "n": _number(self._numbers.n),
            "e": _number(self._numbers.e),
        }

    def sign(self, data: bytes) -> bytes:
        """The RS256 signature of the data (RFC 7518, 3.3)."""
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415 - as above

        return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def load_or_make(path: str) -> SigningKey:
    """The key in a file; a file that does not exist is made with a new one. What cannot be used is left alone."""
    try:
        text = _read(path)
    except FileNotFoundError:
        return _make(path)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error), "Let mooring read the file") from error
    return _parse(path, text)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(descriptor, "rb") as stream:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            why = f"others than its owner may use the file (mode 0{mode:o})"
            raise _unusable(path, why, f"Run `chmod 600 {path}` if nobody else has read it; {_RENEW.lower()}")
        return stream.read()


def _parse(path: str, text: bytes) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as above

    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # What the library says of it is no help, and nobody has checked that it quotes nothing.
        raise _unusable(path, "it is not a private key in PEM", _RENEW) from None
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < KEY_BITS:
        raise _unusable(path, f"it is not an RSA key of at least {KEY_BITS} bits", _RENEW)
    return SigningKey(key)


def _make(path: str) -> SigningKey:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - as above

    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        _write(path, text)
    except OSError as error:
        why = f"{error.strerror or error}, when it should be made"
        raise _unusable(path, why, "Make the root directory writable; it is tried again by itself") from error
    return SigningKey(key)


def _write(path: str, text: bytes) -> None:
    """The whole file or none, on disk before anybody can rely on it. The instance's lock keeps other writers away."""
    beside = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)  # of a process that was killed here
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(descriptor)
    os.rename(beside, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _unusable(path: str, why: str, next_step: str) -> Refused:
    return Refused(_WHAT, why=f"the key in {path!r} cannot be used: {why}", next_step=next_step)


def base64url(data: bytes) -> str:
    """Base64 for URLs without padding (RFC 7515, appendix C)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))
