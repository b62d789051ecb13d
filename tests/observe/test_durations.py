"""Histograms as a scrape sees them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from mooring.observe.durations import Durations


def test_a_duration_counts_in_its_bucket_and_in_all_wider_ones() -> None:
    registry = CollectorRegistry()
    durations = Durations("took_seconds", "How long it took", ["what"], (0.5, 1, 2.5))
    registry.register(durations)
    for seconds in (0.25, 0.5, 0.75, 2.5, 3.0):
        durations.add(("mount",), seconds)
    durations.add(("bind",), 1.0)
    text = generate_latest(registry).decode()
    assert text.splitlines() == [
        "# HELP took_seconds How long it took",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{le="0.5",what="bind"} 0.0',
        'took_seconds_bucket{le="1.0",what="bind"} 1.0',
        'took_seconds_bucket{le="2.5",what="bind"} 1.0',
        'took_seconds_bucket{le="+Inf",what="bind"} 1.0',
        'took_seconds_count{what="bind"} 1.0',
        'took_seconds_sum{what="bind"} 1.0',
        'took_seconds_bucket{le="0.5",what="mount"} 2.0',
        'took_seconds_bucket{le="1.0",what="mount"} 3.0',
        'took_seconds_bucket{le="2.5",what="mount"} 4.0',
        'took_seconds_bucket{le="+Inf",what="mount"} 5.0',
        'took_seconds_count{what="mount"} 5.0',
        'took_seconds_sum{what="mount"} 7.0',
    ]
