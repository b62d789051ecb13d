"""Volumes that no pod uses any more and that cannot be taken away: nobody's row tells of them, so a finding does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.world.actual import ActualVolume
from mooring.world.findings import Finding
from mooring.world.presence import Presence


def leftovers(volumes: Iterable[ActualVolume]) -> Iterator[Finding]:
    """A finding for each volume whose last step, of unstaging or detaching, has failed; sorted by name."""
    for volume in sorted(volumes, key=lambda each: each.name):
        failure = volume.failures.get(None)
        if failure is None or volume.mounts:
            continue
        yield Finding(
            kind="volume",
            where=volume.stage_path or volume.device_path or volume.name,
            what=f"volume {volume.spec.name!r} is still {_held(volume)}, although no pod uses it: {failure.what}:"
            f" {failure.why}",
            next_step=failure.next_step or "It is tried again by itself",
        )


def _held(volume: ActualVolume) -> str:
    return "staged" if volume.stage is not Presence.ABSENT else "attached"
