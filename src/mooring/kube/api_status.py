"""What an API server says when it says no, as errors of the API protocol."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.kube.api import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
)
from mooring.kube.objects.meta import Value


class Cause(Value, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class Details(Value, frozen=True, kw_only=True):
    retry_after_seconds: int = 0
    causes: tuple[Cause, ...] = ()


class Status(Value, frozen=True, kw_only=True):
    """Kubernetes' answer to what cannot be done."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(code: int, body: bytes, headers: Mapping[str, str], what: str) -> ApiError:
    """The error for an answer with this HTTP status; what is no Status object is told by its code alone."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        status = Status()
    why = status.message or f"the API server answered with HTTP status {code}"
    error = _kind_of(code, status)(what, why=why.rstrip("."))
    error.code = code
    error.retry_after = _retry_after(headers, status)
    return error


def _kind_of(code: int, status: Status) -> type[ApiError]:
    causes = status.details.causes if status.details is not None else ()
    if status.reason == "AlreadyExists":
        return AlreadyExists
    if code == 422 and any(cause.field == "metadata.uid" for cause in causes):
        return Conflict  # a patch that was meant for another object of this name
    if code == 504 and (
        any(cause.reason == "ResourceVersionTooLarge" for cause in causes)
        or "Too large resource version" in status.message
    ):
        return TooLargeResourceVersion
    return _BY_CODE.get(code, InternalError)


def _retry_after(headers: Mapping[str, str], status: Status) -> float:
    """Seconds that the server asks for; inside a watch it has no header to say so."""
    asked = headers.get("Retry-After", "")
    if asked.isascii() and asked.isdigit():
        return float(asked)
    return float(status.details.retry_after_seconds) if status.details is not None else 0.0
