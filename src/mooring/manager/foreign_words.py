"""The words for what somebody else did to a volume's mount: for an Event, and for a finding while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.host.mount_limits import MountRoom
from mooring.manager.mount_verdicts import ExpectedMount, ForeignChange, Verdict, described
from mooring.world.findings import Finding

_REASONS = {
    ForeignChange.UNMOUNTED: "VolumeUnmountedExternally",
    ForeignChange.MOVED: "VolumeMovedExternally",
    ForeignChange.REPLACED: "VolumeReplacedExternally",
    ForeignChange.REMADE: "VolumeRemountedExternally",
    ForeignChange.COVERED: "VolumeMountedOver",
    ForeignChange.DOUBLED: "VolumeMountedTwice",
    ForeignChange.READ_ONLY: "VolumeRemountedReadOnly",
    ForeignChange.FILE_SYSTEM_READ_ONLY: "VolumeFileSystemReadOnly",
}
_CROWDED = 0.9  # of the mounts that a namespace may have


def reason(verdict: Verdict) -> str:
    """The one word that an Event has for it."""
    return _REASONS[verdict.change]


def thing(expected: ExpectedMount, volume: str) -> str:
    """What was changed, as a person would call it."""
    if expected.sub_path is not None:
        return f"The sub-path {expected.sub_path.relative!r} of volume {volume!r}"
    return f"Volume {volume!r}" if expected.owner.pod is not None else f"The node's mount of volume {volume!r}"


def message(expected: ExpectedMount, verdict: Verdict, volume: str, *, repaired: bool, lost: bool = False) -> str:
    """What an Event says. `lost`: only its memory had the content."""
    what, now = thing(expected, volume), described(verdict.now)
    loss = ", empty: it was in memory, and what was in it is lost" if lost else ""
    match verdict.change:
        case ForeignChange.UNMOUNTED:
            return f"{what} was unmounted by somebody else; it is set up again{loss}"
        case ForeignChange.MOVED:
            where = verdict.now.path if verdict.now is not None else ""
            return f"{what} was moved to {where!r} by somebody else; it is set up again{loss}"
        case ForeignChange.REPLACED:
            return f"{what} was unmounted by somebody else, and {now} is mounted in its place"
        case ForeignChange.REMADE:
            return f"{what} was unmounted and mounted again by somebody else"
        case ForeignChange.COVERED:
            return f"{what} cannot be seen: {now} was mounted over it by somebody else"
        case ForeignChange.DOUBLED:
            after = "the upper mount was taken away" if repaired else "the upper mount is still there"
            return f"{what} was mounted once more on top of itself by somebody else; {after}"
        case ForeignChange.READ_ONLY:
            after = "it was made writable again" if repaired else "it could not be made writable again"
            return f"{what} was remounted read-only by somebody else; {after}"
        case ForeignChange.FILE_SYSTEM_READ_ONLY:
            return f"{what} became read-only with its whole file system, {now}: it met errors, or somebody remounted it"


def finding(expected: ExpectedMount, verdict: Verdict, volume: str) -> Finding:
    """What a person should look at as long as it lasts."""
    return Finding(
        kind="mount",
        where=expected.path,
        what=message(expected, verdict, volume, repaired=False),
        next_step=_next_step(expected, verdict),
    )


def _next_step(expected: ExpectedMount, verdict: Verdict) -> str:
    match verdict.change:
        case ForeignChange.FILE_SYSTEM_READ_ONLY:
            if expected.shown is not None and expected.shown.is_in_memory:
                return f"Make it writable with `mount -o remount,rw {expected.path}`"
            source = verdict.now.source if verdict.now is not None else "its device"
            return f"Look into the kernel's log; remove the pods that use it, and run fsck on {source}"
        case ForeignChange.READ_ONLY:
            return f"Find out who does that, and make it writable with `mount -o remount,bind,rw {expected.path}`"
        case _:
            where = verdict.now.path if verdict.now is not None else expected.path
            return f"Find out who mounted it, and unmount it with `umount {where}`; mooring leaves it alone"


def crowded(room: MountRoom) -> Iterator[Finding]:
    """What a person should know when a namespace soon may have no more mounts."""
    if room.limit and room.used > _CROWDED * room.limit:
        yield Finding(
            kind="mount-table",
            where="/proc/self/mountinfo",
            what=f"{room.used:,} mounts are there, and this namespace may have {room.limit:,} (fs.mount-max)",
            next_step="Unmount what nobody needs, or allow more with `sysctl fs.mount-max=N`",
        )
