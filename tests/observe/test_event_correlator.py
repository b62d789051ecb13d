"""Correlating events: what is counted, what is combined, and how much is written at the most."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects.meta import ObjectReference
from mooring.observe.event_correlator import COMBINED, EventCorrelator, Limits, Sighting
from mooring.observe.events import Said

QUIET = Limits(burst=100_000)  # nothing is held back


def said(message: str, *, pod: str = "web", reason: str = "FailedMount") -> Said:
    reference = ObjectReference(api_version="v1", kind="Pod", name=pod, namespace="shop", uid=f"uid-{pod}")
    return Said(object=reference, type="Warning", reason=reason, message=message)


class Bench:
    """A correlator, and what it wanted written."""

    def __init__(self, limits: Limits) -> None:
        self._correlator, self._stamps = EventCorrelator(limits), itertools.count(1)

    def tell(self, *words: Said, at: float = 0.0) -> list[Sighting | None]:
        return [self._correlator.observe(each, at=at, stamp=next(self._stamps)) for each in words]

    def told(self, *words: Said, at: float = 0.0) -> list[tuple[str, int]]:
        """Message and count of each."""
        return [(seen.said.message, seen.count) for seen in self.tell(*words, at=at) if seen is not None]


def test_the_same_words_again_are_one_event_that_counts_them() -> None:
    first, second = Bench(QUIET).tell(said("a"), said("a"))
    assert first is not None
    assert second is not None
    assert (first.name, first.count, second.name, second.count) == ("web.1", 1, "web.1", 2)
    assert (second.first, second.last) == (1, 2)


def test_the_tenth_different_message_begins_a_summary_that_tells_the_last_one() -> None:
    words = [said(f"try {number}") for number in range(12)]
    told = Bench(QUIET).told(*words)
    assert told[:9] == [(f"try {number}", 1) for number in range(9)]
    assert told[9:] == [(f"{COMBINED}try 9", 1), (f"{COMBINED}try 10", 2), (f"{COMBINED}try 11", 3)]


def test_messages_that_came_before_a_summary_go_on_being_counted() -> None:
    bench = Bench(QUIET)
    bench.tell(*(said(f"try {number}") for number in range(20)))
    assert bench.told(said("try 3")) == [("try 3", 2)]


def test_another_reason_or_object_has_a_summary_of_its_own() -> None:
    bench = Bench(QUIET)
    bench.tell(*(said(f"try {number}") for number in range(20)))
    assert bench.told(said("new", reason="Told"), said("new", pod="db")) == [("new", 1), ("new", 1)]


def test_after_ten_quiet_minutes_messages_are_told_one_by_one_again() -> None:
    bench = Bench(QUIET)
    bench.tell(*(said(f"try {number}") for number in range(20)))
    assert bench.told(said("still"), at=600.0) == [(f"{COMBINED}still", 12)]
    assert bench.told(said("again"), at=1200.1) == [("again", 1)]


def test_an_object_has_twenty_five_writes_and_then_one_every_five_minutes() -> None:
    bench = Bench(Limits())
    assert len(bench.told(*[said("a")] * 100)) == 25
    assert bench.told(said("a"), at=299.0) == []
    assert bench.told(said("a"), said("a"), at=300.0) == [("a", 102)], "what was held back is counted"
    assert bench.told(said("a", pod="db"), at=300.0) == [("a", 1)], "of others as much is written as ever"


def test_only_so_many_are_remembered() -> None:
    bench = Bench(Limits(remembered=2))
    assert bench.told(said("a"), said("b"), said("a"), said("c"), said("b")) == [
        ("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", 1),
    ]  # fmt: skip


steps = st.lists(
    st.tuples(
        st.floats(min_value=0, max_value=400),
        st.sampled_from(["web", "db"]),
        st.sampled_from(["FailedMount", "Told"]),
        st.integers(min_value=0, max_value=30),
    ),
    max_size=200,
)


@given(steps)
def test_whatever_is_told_the_counts_add_up_and_writes_are_bounded(told: list[tuple[float, str, str, int]]) -> None:
    correlator = EventCorrelator()
    newest: dict[tuple[str, str], Sighting] = {}
    all_of_them = Bench(QUIET)
    at, writes, counted = 0.0, dict.fromkeys(("web", "db"), 0), 0
    for stamp, (pause, pod, reason, number) in enumerate(told, start=1):
        at += pause
        words = said(f"try {number}", pod=pod, reason=reason)
        seen = correlator.observe(words, at=at, stamp=stamp)
        (free,) = all_of_them.tell(words, at=at)
        assert free is not None
        newest[pod, free.name] = free
        if seen is not None:
            writes[pod] += 1
            assert seen == free, "what is written is the same whether or not others were held back"
    counted = sum(seen.count for seen in newest.values())
    assert counted == len(told), "each thing said is counted in one Event"
    assert all(made <= 25 + at / 300 + 1e-6 for made in writes.values())
    for pod, reason in itertools.product(("web", "db"), ("FailedMount", "Told")):
        similar = [s for (p, _), s in newest.items() if p == pod and s.said.reason == reason]
        assert sum(s.said.message.startswith(COMBINED) for s in similar) <= 1, "one summary of each sort"
