"""How a server is recognised, and we are by a certificate; files are read again when somebody replaces them."""

from __future__ import annotations

import logging
import os
import ssl

from mooring.errors import InvalidInput
from mooring.kube.kubeconfig import Access

log = logging.getLogger(__name__)

Pair = tuple[bytes, bytes]
"""A certificate and its key."""
_Version = tuple[tuple[int, int, int], ...]


class TlsContext:
    """TLS as an access describes it. It stays the same object, and with it connections, until something changes.

    Whoever renews certificates does so file by file: as long as they do not fit together, those of before are used.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._context: ssl.SSLContext | None = None
        self._printed: Pair | None = None
        self._files: _Version = ()
        self._complained = False

    def current(self, printed: Pair | None) -> ssl.SSLContext:
        """The settings with a pair that a program has printed, or with that of the access."""
        access = self._access
        files = _version(access.client_certificate_file, access.client_key_file, access.certificate_authority_file)
        if self._context is None or printed != self._printed:
            self._context = make_context(access, printed)
        elif files != self._files:
            try:
                self._context = make_context(access, printed)
            except InvalidInput as error:
                if not self._complained:
                    log.warning("goes on with the certificates of before until the new ones can be used: %s", error)
                self._complained = True
                return self._context
        self._printed, self._files, self._complained = printed, files, False
        return self._context


def make_context(access: Access, printed: Pair | None) -> ssl.SSLContext:
    """TLS settings. A server is always verified unless the kubeconfig says otherwise."""
    try:
        context = ssl.create_default_context(cadata=_authority(access))
        # Python is stricter by default than Go, with which clusters' certificates are made.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = printed or _pair(access)
        if certificate:
            _load_pair(context, certificate, key)
    except (ssl.SSLError, OSError) as error:
        why = f"a certificate or key cannot be used: {error}"
        raise InvalidInput("cannot reach the API server", why=why, next_step="Look into the kubeconfig") from error
    return context


def _authority(access: Access) -> str | None:
    """Who signs for the server; None only where the access names nobody, for then it is whom the machine trusts."""
    written = _content(access.certificate_authority_file, access.certificate_authority)
    if not written and not access.certificate_authority_file:
        return None
    text = written.decode("ascii", "ignore")  # comments around certificates may be in any encoding
    if not text.strip():
        raise ssl.SSLError("certificate-authority is empty")
    return text


def _version(*files: str) -> _Version:
    """Changes when one of the files does."""
    found = []
    for file in files:
        if file:
            try:
                status = os.stat(file)
            except OSError:
                continue
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _pair(access: Access) -> Pair:
    """The client's certificate and key, where what stands in the kubeconfig itself goes before files."""
    certificate, key = access.client_certificate, access.client_key
    return (
        certificate or _content(access.client_certificate_file, b""),
        key or _content(access.client_key_file, b""),
    )


def _content(file: str, otherwise: bytes) -> bytes:
    if not file:
        return otherwise
    with open(file, "rb") as stream:
        return stream.read()


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module reads files only: the pair lies for a moment in one that is in memory and has no name."""
    with os.fdopen(os.memfd_create("pair.pem"), "wb") as stream:
        stream.write(certificate + b"\n" + key)
        stream.flush()
        # Without a password it would ask whoever sits at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{stream.fileno()}", password=lambda: b"")
