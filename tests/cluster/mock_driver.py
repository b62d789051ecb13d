"""The mock driver of Kubernetes' end-to-end tests as a process: told what to answer, and asked what it was called."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from tests.cluster.conftest import Program, Programs, Strangers

_WRITES = itertools.count()
CODES = {code.value[0]: code for code in StatusCode}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How calls of a method are answered: in place of the driver, or after it has done what was asked."""

    method: str
    code: str = "INTERNAL"
    message: str = "as the rule says"
    when: str = "before"
    times: int = 0  # 0: always
    exit: bool = False  # the driver ends instead of answering


@dataclass(frozen=True, slots=True, kw_only=True)
class MockCall:
    """A call as the driver answered it."""

    method: str
    request: Mapping[str, Any]
    code: StatusCode
    message: str = ""


def write_rules(path: Path, rules: Sequence[Rule]) -> None:
    """From now on these rules hold, and have not been used yet: the number of the write makes each content new."""
    written = path.with_suffix(".new")
    written.write_text(json.dumps([asdict(rule) for rule in rules]) + " " * next(_WRITES))
    os.rename(written, path)


class MockDriver:
    """Knows the volumes 1, 2 and 3, makes directories and mounts nothing."""

    def __init__(self, programs: Programs, program: Path, place: Path, name: str, flags: tuple[str, ...]) -> None:
        self.name = name
        self.socket = place / f"{name}.sock"
        self._programs = programs
        self._rules = place / f"{name}.rules"
        self._calls = place / f"{name}.calls"
        files = ("--socket", str(self.socket), "--rules", str(self._rules), "--calls", str(self._calls))
        self._command = (str(program), "--name", name, *files, *flags)
        self.process: Program | None = None

    def start(self) -> None:
        """Serve; after an end it knows nothing of what it did before."""
        self.process = self._programs.serve(*self._command)

    def ended(self) -> int:
        """Wait until the driver has ended by itself; its exit status."""
        assert self.process is not None
        return self.process.wait(timeout=30)

    def answer(self, *rules: Rule) -> None:
        """From now on these rules hold, and no others."""
        write_rules(self._rules, rules)

    def calls(self) -> list[MockCall]:
        """All calls so far, over all lives of the driver."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [MockCall(**{**told, "code": CODES[told["code"]]}) for told in map(json.loads, lines)]

    def methods(self) -> list[str]:
        """What was done with volumes so far, repetitions counted once."""
        done = [call.method for call in self.calls() if call.method.endswith("Volume")]
        return [method for at, method in enumerate(done) if at == 0 or done[at - 1] != method]


MakeMockDriver = Callable[..., MockDriver]


@pytest.fixture
def mock_driver(strangers: Strangers, programs: Programs, place: Path) -> MakeMockDriver:
    """Starts a mock driver with some flags of the program."""

    def make(*flags: str, name: str = "mock.csi.test") -> MockDriver:
        made = MockDriver(programs, strangers("mock-driver"), place, name, flags)
        made.start()
        return made

    return make
