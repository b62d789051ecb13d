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
TESTS = 4


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
    assert totals.crashes >= 600
    assert totals.faults >= 150
    assert totals.operations >= 2000


@pytest.mark.parametrize("crashes", [0, 3, 7])
def test_each_history_has_at_least_as_many_crashes_as_are_asked_for(crashes: int) -> None:
    assert all(history.crashes >= crashes for history in run_until_failure(scripts_of(0, 25, crashes)))


def test_the_histories_ask_drivers_for_everything_in_every_way() -> None:
    asked: set[str] = set()
    for history in run_until_failure(scripts_of(0, 400)):
        asked |= {entry.detail.split()[0] for entry in history.entries if entry.event == "start"}
        asked |= {entry.detail.partition(":")[0] for entry in history.entries if entry.event == "fault"}
        asked |= {entry.event for entry in history.entries}
    operations = {"volume_attach", "mount_device", "volume_mount", "volume_unmount", "unmount_device", "volume_detach"}
    answers = {"refuse", "not yet", "slow", "done", "undone", "late", "hang", "die"}
    assert operations | answers | {"damage", "crash", "resize"} <= asked


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
