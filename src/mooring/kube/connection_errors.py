"""What it means when there is no answer at all, as errors of the API protocol.

The words are our own where the transport's may hold a URL: that of a proxy can have a password in it.
"""

from __future__ import annotations

import os
import ssl

import aiohttp

from mooring.kube.api import ApiError, ConnectionRefused, InternalError

_PROXY_AUTHENTICATION_REQUIRED = 407


def no_answer(what: str, seconds: float) -> InternalError:
    """The error when an answer did not come in time."""
    return InternalError(what, why=f"the API server did not answer within {seconds:.0f} s")


def connection_error(what: str, error: Exception) -> ApiError:
    """The error for what the transport raised instead of an answer, or in the middle of one."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = f"the API server's certificate is not to be trusted ({error.certificate_error})"
            next_step = "Compare certificate-authority and server in the kubeconfig"
            return ConnectionRefused(what, why=why, next_step=next_step)
        case aiohttp.ClientHttpProxyError():
            return _refused_by_proxy(what, error)
        case aiohttp.ClientResponseError():
            return InternalError(what, why=f"the API server broke off: HTTP status {error.status}")
        case aiohttp.InvalidURL():
            why = "the address of the API server or of its proxy is no URL"
            next_step = "Look into server and proxy-url in the kubeconfig, and into HTTPS_PROXY"
            return InternalError(what, why=why, next_step=next_step)
        case aiohttp.ClientPayloadError():
            return ConnectionRefused(what, why="the API server broke off in the middle of its answer")
        case aiohttp.ServerTimeoutError():
            return ConnectionRefused(what, why="the API server cannot be reached: there was no connection in time")
        case aiohttp.ClientConnectionError() | ConnectionError():
            return ConnectionRefused(what, why=f"the API server cannot be reached: {_words(error)}")
        case _:
            return InternalError(what, why=f"the API server broke off: {_words(error)}")


def _refused_by_proxy(what: str, error: aiohttp.ClientHttpProxyError) -> ApiError:
    why = f"the proxy at {error.request_info.real_url.host} does not let it through (HTTP status {error.status})"
    asks_who = error.status == _PROXY_AUTHENTICATION_REQUIRED
    next_step = "Write user and password into proxy-url or HTTPS_PROXY" if asks_who else "Look into NO_PROXY"
    return ConnectionRefused(what, why=why, next_step=next_step)


def _words(error: Exception) -> str:
    """Why there is no connection, without what the transport adds to it."""
    if isinstance(error, aiohttp.ClientConnectorError):
        number = None if isinstance(error.os_error, ssl.SSLError) else error.os_error.errno
        return f"{error.host}:{error.port}: {os.strerror(number) if number else error.os_error}"
    return str(error) or type(error).__name__
