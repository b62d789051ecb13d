"""Hundreds of seeded histories in which everything holds, the same way in each run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mooring.testing.simulation.history import make_script
from mooring.testing.simulation.reporting import Totals, as_document, numbered_steps, run_until_failure, scripts_of
from mooring.testing.simulation.runner import run_script
from mooring.testing.simulation.shrink import shrink

HISTORIES_PER_TEST = 100
TESTS = 10


@pytest.mark.parametrize("part", range(TESTS))
def test_everything_holds_in_seeded_histories(part: int) -> None:
    first = part * HISTORIES_PER_TEST
    for history in run_until_failure(scripts_of(first, HISTORIES_PER_TEST)):
        if history.violation is not None:
            lines = numbered_steps(shrink(history).history.script)
            pytest.fail("\n".join([f"seed {history.script.seed}: {history.violation}", *lines]))


def test_the_histories_hold_crashes_faults_and_work() -> None:
    totals = Totals()
    for history in run_until_failure(scripts_of(0, 200)):
        totals.add(history)
    assert totals.histories == 200
    assert totals.crashes >= 80
    assert totals.faults >= 100
    assert totals.operations >= 2000


def test_a_seed_always_gives_the_same_script() -> None:
    assert make_script(7) == make_script(7)
    assert make_script(7) != make_script(8)


def test_a_script_always_gives_the_same_history() -> None:
    for seed in range(20):
        assert run_script(make_script(seed)).entries == run_script(make_script(seed)).entries


@pytest.mark.parametrize("seed", [3, 11])
def test_a_history_is_the_same_in_another_process_with_other_hashes(seed: int) -> None:
    here = json.dumps(as_document(run_until_failure(scripts_of(seed, 3))))
    program = (
        "import json; from mooring.testing.simulation.reporting import as_document, run_until_failure, scripts_of; "
        f"print(json.dumps(as_document(run_until_failure(scripts_of({seed}, 3)))))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    assert ended.stdout.strip() == here
