"""What somebody else did to a mount, from what should be there and the mount table alone."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from mooring.host.interface import MountFacts
from mooring.host.mount_facts import shown_by
from mooring.host.mount_limits import MountRoom
from mooring.host.mount_table import MountTable
from mooring.manager import foreign_words
from mooring.manager.mount_verdicts import ExpectedMount, ForeignChange, Owner, Verdict, judge
from mooring.world.names import PodUid, VolumeName

PATH = "/root/pods/uid/volumes/x/data"
DISK = os.makedev(8, 1)
MEMORY = os.makedev(0, 40)
OWNER = Owner(VolumeName("x/data"), PodUid("uid"))


def mount(
    identity: int, parent: int, path: str, *, device: int = MEMORY, root: str = "/", ro: str = "rw,rw"
) -> MountFacts:
    of_mount, of_file_system = ro.split(",")
    return MountFacts(
        id=identity,
        parent_id=parent,
        path=path,
        root=root,
        device=device,
        fs_type="tmpfs" if device == MEMORY else "ext4",
        source=f"source-{identity}",
        options=tuple(dict.fromkeys((of_mount, "relatime", of_file_system))),
    )


ROOT = mount(1, 0, "/", device=os.makedev(8, 0))
OURS = mount(10, 1, PATH)


def expected(ours: MountFacts = OURS) -> ExpectedMount:
    return ExpectedMount(PATH, ours.id, OWNER, shown_by(ours))


def verdict(*others: MountFacts, of: ExpectedMount | None = None) -> Verdict | None:
    return judge(of if of is not None else expected(), MountTable([ROOT, *others]))


def change(*others: MountFacts, of: ExpectedMount | None = None) -> ForeignChange | None:
    found = verdict(*others, of=of)
    return found.change if found is not None else None


def test_a_mount_that_is_as_it_was_is_right() -> None:
    assert verdict(OURS) is None


def test_a_mount_below_a_volume_is_nobody_s_business() -> None:
    assert verdict(OURS, mount(11, 10, f"{PATH}/inner")) is None


def test_a_mount_beside_a_volume_is_nobody_s_business() -> None:
    assert verdict(OURS, mount(11, 1, f"{PATH}-2")) is None


def test_a_mount_that_is_gone_was_unmounted() -> None:
    assert change() is ForeignChange.UNMOUNTED


def test_a_mount_that_is_elsewhere_was_moved_there() -> None:
    found = verdict(replace(OURS, path="/elsewhere"))
    assert found is not None
    assert found.change is ForeignChange.MOVED
    assert found.now is not None
    assert found.now.path == "/elsewhere"


def test_another_mount_in_the_place_of_one_that_is_gone_has_replaced_it() -> None:
    assert change(mount(11, 1, PATH, device=DISK)) is ForeignChange.REPLACED


def test_the_number_of_a_file_system_in_memory_proves_nothing_once_it_is_gone() -> None:
    assert change(mount(11, 1, PATH)) is ForeignChange.REPLACED


def test_the_same_directory_of_the_same_disk_mounted_again_is_as_good_as_ours() -> None:
    ours = mount(10, 1, PATH, device=DISK, root="/a")
    assert change(mount(11, 1, PATH, device=DISK, root="/a"), of=expected(ours)) is ForeignChange.REMADE


def test_another_directory_of_the_same_disk_is_not_ours() -> None:
    ours = mount(10, 1, PATH, device=DISK, root="/a")
    assert change(mount(11, 1, PATH, device=DISK, root="/b"), of=expected(ours)) is ForeignChange.REPLACED


def test_something_else_on_top_covers_a_mount_and_is_named() -> None:
    cover = mount(11, 10, PATH, device=DISK)
    assert verdict(OURS, cover) == Verdict(change=ForeignChange.COVERED, now=cover)


def test_a_mount_on_a_directory_above_covers_a_mount_and_is_named() -> None:
    cover = mount(11, 1, "/root/pods/uid", device=DISK)
    assert verdict(OURS, cover) == Verdict(change=ForeignChange.COVERED, now=cover)


def test_the_same_on_top_is_a_double_mount() -> None:
    assert change(OURS, mount(11, 10, PATH)) is ForeignChange.DOUBLED


def test_a_foreign_mount_on_a_double_mount_covers_both() -> None:
    assert change(OURS, mount(11, 10, PATH), mount(12, 11, PATH, device=DISK)) is ForeignChange.COVERED


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("ro,rw", ForeignChange.READ_ONLY),
        ("rw,ro", ForeignChange.FILE_SYSTEM_READ_ONLY),
        ("ro,ro", ForeignChange.FILE_SYSTEM_READ_ONLY),
        ("rw,rw", None),
    ],
)
def test_a_mount_or_its_file_system_that_became_read_only_is_told_apart(
    flags: str, found: ForeignChange | None
) -> None:
    assert change(mount(10, 1, PATH, ro=flags)) is found


@pytest.mark.parametrize("before", ["ro,rw", "rw,ro", "ro,ro"])
def test_what_was_read_only_from_the_start_may_be_so(before: str) -> None:
    assert change(mount(10, 1, PATH, ro="ro,ro"), of=expected(mount(10, 1, PATH, ro=before))) is None


def test_a_plain_directory_is_right_as_long_as_nothing_is_mounted_on_it() -> None:
    directory = ExpectedMount(PATH, None, OWNER)
    assert change(of=directory) is None
    assert change(mount(11, 1, PATH), of=directory) is ForeignChange.COVERED


# -- words ---------------------------------------------------------------------------------------------------------
def test_the_loss_of_content_is_told() -> None:
    gone = Verdict(change=ForeignChange.UNMOUNTED)
    assert "what was in it is lost" in foreign_words.message(expected(), gone, "data", repaired=False, lost=True)
    assert "lost" not in foreign_words.message(expected(), gone, "data", repaired=False)


@pytest.mark.parametrize("kind", list(ForeignChange))
def test_every_change_has_a_reason_a_message_and_a_next_step(kind: ForeignChange) -> None:
    found = Verdict(change=kind, now=mount(11, 1, PATH, device=DISK))
    assert foreign_words.reason(found).startswith("Volume")
    finding = foreign_words.finding(expected(), found, "data")
    assert "'data'" in finding.what
    assert finding.next_step


def test_a_disk_that_became_read_only_wants_fsck_and_memory_does_not() -> None:
    ours = mount(10, 1, PATH, device=DISK)
    disk = foreign_words.finding(expected(ours), Verdict(change=ForeignChange.FILE_SYSTEM_READ_ONLY, now=ours), "data")
    memory = foreign_words.finding(expected(), Verdict(change=ForeignChange.FILE_SYSTEM_READ_ONLY, now=OURS), "data")
    assert "fsck on source-10" in disk.next_step
    assert "fsck" not in memory.next_step


@pytest.mark.parametrize(("used", "limit", "told"), [(90, 100, 0), (91, 100, 1), (91, 0, 0)])
def test_a_mount_table_that_is_nearly_full_is_a_finding(used: int, limit: int, told: int) -> None:
    assert len(list(foreign_words.crowded(MountRoom(used=used, limit=limit)))) == told
