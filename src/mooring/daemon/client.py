"""A client of the control socket, light enough for commands that should answer at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mooring.daemon.exchange import Answer, BadAnswer, exchange
from mooring.errors import InvalidInput, MooringError

Query = Mapping[str, str]
NO_QUERY: Query = {}


@dataclass(frozen=True, slots=True)
class Body:
    """What a request brings, and of which kind it is."""

    data: bytes = b""
    content_type: str = "text/plain"


NOTHING = Body()


class NoDaemon(MooringError):
    """Nobody listens on the control socket."""


class Client:
    """Asks the daemon of one root directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._socket = f"{root.rstrip('/')}/mooring.sock"

    def get(self, path: str, query: Query = NO_QUERY) -> Any:
        return self._ask("GET", path, query, NOTHING, 30.0)

    def post(self, path: str, query: Query = NO_QUERY, *, body: Body = NOTHING, patience: float = 30.0) -> Any:
        return self._ask("POST", path, query, body, patience)

    def answers(self) -> bool:
        """Whether a daemon is there and well."""
        return self._is_fine("/healthz")

    def is_ready(self) -> bool:
        """Whether the daemon has heard all sources of pods."""
        return self._is_fine("/readyz")

    def _is_fine(self, path: str) -> bool:
        try:
            with self._open("GET", path, NO_QUERY, NOTHING, 5.0) as response:
                return response.status == 200
        except (MooringError, OSError):
            return False

    def lines(self, path: str, query: Query = NO_QUERY) -> Iterator[Any]:
        """A stream of JSON lines."""
        with self._open("GET", path, query, NOTHING, None) as response:
            for line in response:
                yield json.loads(line)

    def _ask(self, method: str, path: str, query: Query, body: Body, timeout: float) -> Any:
        with self._open(method, path, query, body, timeout) as response:
            answer = self._decoded(response)
        if response.status == 400:
            raise _as_told(answer, InvalidInput)
        if response.status >= 300:
            raise _as_told(answer, MooringError)
        return answer

    def _decoded(self, response: Answer) -> Any:
        try:
            return json.loads(response.read())
        except (ValueError, OSError, BadAnswer) as error:
            raise self._unreachable(
                f"its answer makes no sense (status {response.status})", f"Its log is {self._root}/mooring.log"
            ) from error

    def _unreachable(self, why: str, next_step: str) -> MooringError:
        return MooringError(f"cannot reach mooring at {self._root!r}", why=why, next_step=next_step)

    def _open(self, method: str, path: str, query: Query, body: Body, timeout: float | None) -> Answer:
        try:
            return exchange(self._socket, f"{method} {_target(path, query)}", body.data, body.content_type, timeout)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoDaemon(
                f"cannot reach mooring at {self._root!r}",
                why="no daemon listens on its control socket",
                next_step="Start one with `mooring up`, or name its directory with --root or MOORING_ROOT",
            ) from error
        except PermissionError as error:
            raise self._unreachable(
                "its control socket belongs to another user", "Run the command as the user who runs the daemon"
            ) from error
        except TimeoutError as error:
            raise self._unreachable(f"it did not answer within {timeout:g} s", "Look whether it still runs") from error
        except (BadAnswer, ConnectionError) as error:
            raise self._unreachable(
                "it went away before it answered", f"Its log is {self._root}/mooring.log"
            ) from error


def _target(path: str, query: Query) -> str:
    if not query:
        return path
    from urllib.parse import urlencode  # noqa: PLC0415 - most requests have no query

    return f"{path}?{urlencode(query)}"


def _as_told(answer: dict[str, str], kind: type[MooringError]) -> MooringError:
    """The daemon's error as its own: the same parts, and word for word the same text."""
    error = kind(answer["what"], why=answer.get("why", ""), next_step=answer.get("next_step", ""))
    error.args = (answer["error"],)
    return error
