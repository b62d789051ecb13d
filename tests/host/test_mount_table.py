"""Reading the mount table, and the questions asked of it (scenarios K1, K2, K6–K10, K20–K22, K30)."""

from __future__ import annotations

import pytest

from mooring.errors import MooringError
from mooring.host.mount_table import MountTable, parse_mountinfo

ROOT = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


def table(*lines: str) -> MountTable:
    return MountTable(parse_mountinfo("\n".join((ROOT, *lines)) + "\n"))


def test_each_line_is_a_mount_with_its_options_split() -> None:
    mounts = parse_mountinfo(
        f"{ROOT}\n21 20 0:5 / /dev rw,nosuid - devtmpfs udev rw,size=10k\n22 20 0:6 / /a ro - x y ro\n"
    )
    assert [mount.path for mount in mounts] == ["/", "/dev", "/a"]
    assert mounts[1].options == ("rw", "nosuid", "size=10k")


@pytest.mark.parametrize(
    ("tags", "propagation"),
    [("", "private"), ("shared:7", "shared"), ("master:3", "slave"), ("shared:7 master:3", "shared and slave")],
)
def test_optional_fields_tell_the_propagation(tags: str, propagation: str) -> None:
    line = " ".join(["30 20 0:9 /sub /m rw", *([tags] if tags else []), "- tmpfs tmpfs rw"])
    (mount,) = parse_mountinfo(line)
    assert mount.propagation == propagation
    assert (mount.root, mount.fs_type, mount.source) == ("/sub", "tmpfs", "tmpfs")


def test_commas_inside_quotes_do_not_split_options() -> None:
    line = '30 20 0:9 / /m rw - tmpfs tmpfs rw,context="system_u:object_r:t:s0:c314,c894",size=1k'
    (mount,) = parse_mountinfo(line)
    assert mount.options == ("rw", 'context="system_u:object_r:t:s0:c314,c894"', "size=1k")


def test_octal_escapes_are_decoded_everywhere() -> None:
    (mount,) = parse_mountinfo(r"30 20 0:9 /a\011b /with\040space\134 rw - cifs //host/my\040share rw,user=a\040b")
    assert (mount.root, mount.path, mount.source) == ("/a\tb", "/with space\\", "//host/my share")
    assert mount.options == ("rw", "user=a b")


def test_an_empty_source_is_an_empty_source() -> None:
    (mount,) = parse_mountinfo("30 20 0:9 / /m rw - tmpfs  rw")
    assert (mount.source, mount.options) == ("", ("rw",))


@pytest.mark.parametrize(
    "line",
    [
        "30 20 9 / /m rw - tmpfs tmpfs rw,password=hunter2",
        "30 20 : / /m rw - tmpfs tmpfs rw,password=hunter2",
        "30 20 a:b / /m rw - tmpfs tmpfs rw,password=hunter2",
        "x 20 0:9 / /m rw - tmpfs tmpfs rw,password=hunter2",
        "30 20 0:9 / /m password=hunter2",
        "30 20 0:9 / /m rw - tmpfs password=hunter2",
    ],
)
def test_a_line_that_is_not_understood_is_named_by_number_and_its_options_stay_secret(line: str) -> None:
    with pytest.raises(MooringError, match="line 2") as caught:
        parse_mountinfo(f"{ROOT}\n{line}\n")
    assert "hunter2" not in str(caught.value)


def test_a_device_mounted_three_times_is_referenced_by_the_other_two() -> None:
    mounts = table(*(f"3{n} 20 8:9 / /{path} rw - ext4 /dev/sdb rw" for n, path in enumerate("abc")))
    assert mounts.references("/a") == ["/b", "/c"]


def test_an_unused_directory_has_no_references_and_similar_names_do_not_matter() -> None:
    mounts = table("30 20 0:9 / /mnt/disks/vol rw - tmpfs vol rw")
    assert mounts.references("/mnt/disks/vol1") == []
    bound = table("30 20 0:9 / /mnt/disks/vol rw - tmpfs vol rw", "31 20 8:1 /mnt/disks/vol1 /pods/1/v rw - ext4 d rw")
    assert bound.references("/mnt/disks/vol1") == ["/pods/1/v"]


def test_a_tmpfs_used_by_two_pods_is_referenced_by_both() -> None:
    mounts = table(
        "30 20 0:9 / /mnt/vol rw - tmpfs vol rw",
        "31 20 0:9 / /pods/1/v rw - tmpfs vol rw",
        "32 20 0:9 / /pods/2/v rw - tmpfs vol rw",
    )
    assert mounts.references("/mnt/vol") == ["/pods/1/v", "/pods/2/v"]


def test_a_directory_in_a_bind_is_found_by_where_it_lies_in_the_file_system() -> None:
    mounts = table(
        "30 20 0:9 /vol1 /mnt/vol1 rw - tmpfs vol rw",
        "31 20 0:9 /vol1/foo /pods/1/v rw - tmpfs vol rw",
    )
    assert mounts.references("/mnt/vol1/foo") == ["/pods/1/v"]
    assert mounts.references("/mnt/vol1") == []


def test_a_directory_bound_onto_itself_does_not_refer_to_itself() -> None:
    itself = "30 20 8:1 /mnt/vol /mnt/vol rw - ext4 /dev/sda1 rw"
    assert table(itself).references("/mnt/vol") == []
    assert table(itself, "31 20 8:1 /mnt/vol /pods/1/v rw - ext4 d rw").references("/mnt/vol") == ["/pods/1/v"]


def test_references_to_what_no_mount_holds_are_an_error() -> None:
    with pytest.raises(MooringError, match="no mount of this namespace holds it"):
        MountTable(()).references("/a")


def test_a_mount_point_deleted_under_its_mount_is_still_found() -> None:
    mounts = table(r"30 20 0:9 / /m\040(deleted) rw - tmpfs tmpfs rw")
    assert mounts.at("/m") == mounts.by_id(30)
    assert mounts.at("/other") is None


def test_the_upper_mount_of_a_stack_is_seen_even_when_it_was_made_first() -> None:
    mounts = table("30 31 0:9 / /m rw - tmpfs upper rw", "31 20 0:8 / /m rw - tmpfs lower rw")
    assert [mount.id for mount in mounts.mounts] == [20, 31, 30]
    assert mounts.at("/m") == mounts.by_id(30)


def test_a_mount_covered_from_above_is_not_seen() -> None:
    mounts = table(
        "30 20 0:8 / /a rw - tmpfs first rw",
        "31 30 0:9 / /a/b rw - tmpfs hidden rw",
        "32 30 0:10 / /a rw - tmpfs cover rw",
    )
    assert mounts.at("/a/b") is None
    assert mounts.holding("/a/b/c") == mounts.by_id(32)


def test_the_tree_of_a_mount_is_what_is_mounted_on_it() -> None:
    mounts = table("30 20 0:8 / /a rw - x x rw", "31 30 0:9 / /a/b rw - x x rw", "32 20 0:9 / /c rw - x x rw")
    assert [mount.id for mount in mounts.tree_of(30)] == [30, 31]


@pytest.mark.parametrize(
    ("path", "propagation"), [("/anywhere/deep", "shared"), ("/private/x", "private"), ("/private/s/x", "shared")]
)
def test_propagation_is_that_of_the_mount_that_holds_the_path(path: str, propagation: str) -> None:
    mounts = table(
        "30 20 0:8 / /private rw - tmpfs tmpfs rw",
        "31 30 0:9 / /private/s rw shared:2 - tmpfs tmpfs rw",
    )
    holding = mounts.holding(path)
    assert holding is not None
    assert holding.propagation == propagation
