"""Simulated drivers: what they keep, how they answer, and what they do not survive."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import Doubtful, NotYet, Refused
from mooring.testing.simulation.disks import FULL, STAGING
from mooring.testing.simulation.driver_effects import Request, Thing, Verb, stage_path
from mooring.testing.simulation.drivers import Drivers
from mooring.testing.simulation.faults import DEADLINE, Faults, Killed
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.planted_bugs import planted
from mooring.testing.simulation.runner import run_script
from mooring.testing.simulation.script import AnyStep, Crash, DriverStrike, Pass, PutClaim, PutPod, RemovePod, Script
from mooring.testing.simulation.unreliable_host import UnreliableHost
from mooring.testing.simulation.wishes import DiskWish, PodWish
from mooring.testing.virtual_time import in_virtual_time

ROOT = "/var/lib/mooring"
STAGED = Thing("staged", STAGING, "staged")
STAGE = Request(verb=Verb.STAGE, thing=STAGED, place=stage_path(ROOT, STAGING, "staged"))
UNSTAGE = Request(verb=Verb.UNSTAGE, thing=STAGED, place=stage_path(ROOT, STAGING, "staged"))


def make_drivers() -> tuple[Drivers, Faults]:
    host = UnreliableHost()
    journal = Journal(asyncio.get_running_loop().time)
    faults = Faults(
        host,
        journal,
        seed=0,
        latency=0.0,
        changing=lambda *_: None,
        changed=lambda _: None,
        is_in_doubt=lambda _: False,
    )
    return Drivers(host, faults, journal, ROOT), faults


@in_virtual_time
async def test_what_is_done_twice_is_done_once() -> None:
    drivers, _ = make_drivers()
    await drivers.ask(STAGE)
    await drivers.ask(STAGE)
    assert drivers.held == {STAGED}
    await drivers.ask(UNSTAGE)
    await drivers.ask(UNSTAGE)
    assert drivers.held == set()


@in_virtual_time
async def test_without_an_answer_it_has_happened_or_not() -> None:
    happened = (DriverStrike(answer="done"), DriverStrike(answer="die"))
    for strike in (*happened, DriverStrike(answer="undone"), DriverStrike(answer="hang")):
        drivers, _ = make_drivers()
        drivers.arm(strike)
        with pytest.raises(Doubtful):
            await drivers.ask(STAGE)
        assert drivers.held == ({STAGED} if strike in happened else set())


@in_virtual_time
async def test_a_driver_that_refuses_has_nothing_left_of_what_it_did_not_answer_before() -> None:
    drivers, _ = make_drivers()
    drivers.arm(DriverStrike(answer="done"))
    drivers.arm(DriverStrike(answer="refuse"))
    with pytest.raises(Doubtful):
        await drivers.ask(STAGE)
    with pytest.raises(Refused):
        await drivers.ask(STAGE)
    assert drivers.held == set()


@in_virtual_time
async def test_a_refusal_changes_nothing_of_what_was_answered() -> None:
    drivers, _ = make_drivers()
    await drivers.ask(STAGE)
    drivers.arm(DriverStrike(answer="refuse"))
    with pytest.raises(Refused):
        await drivers.ask(STAGE)
    assert drivers.held == {STAGED}


@in_virtual_time
async def test_work_that_is_late_turns_others_away_and_is_done_all_the_same() -> None:
    drivers, _ = make_drivers()
    drivers.arm(DriverStrike(answer="late", seconds=5.0))
    with pytest.raises(Doubtful):
        await drivers.ask(STAGE)
    with pytest.raises(Doubtful, match="already under way"):
        await drivers.ask(UNSTAGE)
    await asyncio.sleep(6.0)
    assert drivers.held == {STAGED}
    assert asyncio.get_running_loop().time() == DEADLINE + 6.0


@in_virtual_time
async def test_what_was_sent_is_done_although_its_sender_was_killed() -> None:
    drivers, faults = make_drivers()
    faults.arm(Crash(when="during"))
    with pytest.raises(Killed):
        await drivers.ask(STAGE)
    await asyncio.sleep(1.0)
    assert drivers.held == {STAGED}


@in_virtual_time
async def test_a_driver_that_is_away_does_nothing() -> None:
    drivers, _ = make_drivers()
    drivers.away.add(STAGING)
    with pytest.raises(NotYet, match="not registered"):
        await drivers.ask(STAGE)
    assert drivers.held == set()


@in_virtual_time
async def test_attachments_outlive_a_reboot_and_stages_do_not() -> None:
    drivers, _ = make_drivers()
    attached = Thing("attached", FULL, "full")
    await drivers.ask(Request(verb=Verb.ATTACH, thing=attached))
    await drivers.ask(STAGE)
    drivers.reboot()
    assert drivers.held == {attached}


# -- what no machine survives --------------------------------------------------------------------------------------
def violated(bug: str, *steps: AnyStep) -> str:
    with planted(bug):
        violation = run_script(Script(seed=0, steps=steps)).violation
    return violation.invariant if violation is not None else ""


def user(name: str, disk: str) -> PutPod:
    return PutPod(pod=PodWish(name=name, uid=f"uid-{name}", volumes=(DiskWish(name="p0", disk=disk),)))


SECOND = Pass(seconds=1.0)


def test_a_detach_below_a_stage_is_a_violation() -> None:
    steps = (PutClaim(disk="full"), user("a", "full"), SECOND, RemovePod(pod="a"), SECOND)
    assert violated("detached-first", *steps) == "I6"


def test_a_second_pod_on_an_exclusive_disk_is_a_violation() -> None:
    steps = (PutClaim(disk="staged-once"), user("a", "staged-once"), user("b", "staged-once"), SECOND)
    assert violated("not-exclusive", *steps) == "I11"


def test_an_effect_before_its_record_is_a_violation() -> None:
    assert violated("record-late", PutClaim(disk="full"), user("a", "full"), SECOND) == "record"
