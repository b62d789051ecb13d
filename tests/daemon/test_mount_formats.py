"""What containers see, as each kind of runtime wants to be told."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mooring.daemon.mount_formats import FORMATS, as_docker, as_oci, as_podman, as_systemd, as_table
from mooring.errors import MooringError

Row = dict[str, Any]
Write = Callable[[Sequence[Row]], str]


def row(host: str | None = "/host", inside: str = "/inside", **changes: Any) -> Row:
    return {
        "container": "main",
        "volume": "data",
        "host_path": host,
        "container_path": inside,
        "read_only": False,
        "recursive_read_only": False,
        "propagation": "private",
        "device": None,
        "permissions": None,
        "image": None,
        "image_sub_path": None,
        **changes,
    }


RECURSIVE = row(read_only=True, recursive_read_only=True)
DEVICE = row("/dev/loop7", "/dev/xvda", propagation=None, device={"major": 7, "minor": 3}, permissions="mrw")
IMAGE = row(None, "/model", read_only=True, image="registry/model:1", image_sub_path="weights")


def test_the_table_tells_path_mode_and_propagation() -> None:
    lines = as_table([row(), row(read_only=True, propagation="rslave"), RECURSIVE, DEVICE, IMAGE]).splitlines()
    assert lines[0].split() == ["CONTAINER", "VOLUME", "CONTAINER", "PATH", "MODE", "PROPAGATION", "HOST", "PATH"]
    assert [line.split()[3:] for line in lines[1:]] == [
        ["rw", "private", "/host"],
        ["ro", "rslave", "/host"],
        ["rro", "private", "/host"],
        ["mrw", "-", "/dev/loop7"],
        ["ro", "private", "registry/model:1"],
    ]


def test_json_is_the_rows_themselves() -> None:
    assert json.loads(FORMATS["json"]([row(), DEVICE])) == [row(), DEVICE]


def test_nothing_is_an_empty_array_or_object() -> None:
    assert (FORMATS["json"]([]), FORMATS["oci"]([])) == ("[]", "{}")


class TestOci:
    @pytest.mark.parametrize(
        ("changes", "options"),
        [
            ({}, ["rbind", "rw", "rprivate"]),
            ({"read_only": True}, ["rbind", "ro", "rprivate"]),
            ({"read_only": True, "recursive_read_only": True}, ["rbind", "rro", "rprivate"]),
            ({"propagation": "rslave"}, ["rbind", "rw", "rslave"]),
            ({"propagation": "rshared"}, ["rbind", "rw", "rshared"]),
        ],
    )
    def test_a_mount_is_a_bind_with_its_options(self, changes: Row, options: list[str]) -> None:
        assert json.loads(as_oci([row(**changes)]))["main"]["mounts"] == [
            {"destination": "/inside", "type": "bind", "source": "/host", "options": options}
        ]

    def test_a_device_comes_with_the_rule_that_allows_it(self) -> None:
        parts = json.loads(as_oci([DEVICE]))["main"]
        assert parts["mounts"] == []
        numbers = {"type": "b", "major": 7, "minor": 3}
        assert parts["devices"] == [{"path": "/dev/xvda", **numbers, "fileMode": 432, "uid": 0, "gid": 0}]
        assert parts["device_rules"] == [{"allow": True, **numbers, "access": "mrw"}]

    def test_each_container_has_its_own_part(self) -> None:
        parts = json.loads(as_oci([row(), row(inside="/b"), row() | {"container": "side"}]))
        assert {name: len(part["mounts"]) for name, part in parts.items()} == {"main": 2, "side": 1}

    def test_an_image_is_refused_in_words(self) -> None:
        with pytest.raises(MooringError, match="it is the image 'registry/model:1'"):
            as_oci([IMAGE])


class TestArguments:
    @pytest.mark.parametrize("write", [as_podman, as_docker])
    def test_each_container_is_a_comment_and_a_line(self, write: Write) -> None:
        rows = [row(), row("/b", "/c", read_only=True, propagation="rslave"), row() | {"container": "side"}]
        assert write(rows).splitlines() == [
            "# container main",
            "-v /host:/inside -v /b:/c:ro,rslave",
            "# container side",
            "-v /host:/inside",
        ]

    @pytest.mark.parametrize("write", [as_podman, as_docker])
    def test_a_device_keeps_its_permissions(self, write: Write) -> None:
        assert write([DEVICE]).splitlines()[1] == "--device /dev/loop7:/dev/xvda:mrw"

    @pytest.mark.parametrize("write", [as_podman, as_docker])
    @pytest.mark.parametrize("path", ["/a b", "/it's", "/$HOME", "/;reboot", "/new\nline", '/"'])
    def test_a_shell_reads_every_path_as_it_is(self, write: Write, path: str) -> None:
        text = write([row(path)]).removeprefix("# container main\n")
        assert shlex.split(text) == ["-v", f"{path}:/inside"]

    def test_a_path_with_a_colon_or_comma_takes_the_long_form(self) -> None:
        found = row("/a:b,c", read_only=True, propagation="rslave")
        words = shlex.split(as_podman([found]).splitlines()[1])
        rest = "ro=true,bind-propagation=rslave"
        assert words == ["--mount", f'type=bind,"source=/a:b,c",destination=/inside,{rest}']
        words = shlex.split(as_docker([found]).splitlines()[1])
        rest = "readonly,bind-propagation=rslave"
        assert words == ["--mount", f'type=bind,"source=/a:b,c",target=/inside,{rest}']

    def test_docker_is_told_of_recursive_read_only(self) -> None:
        rest = "readonly,bind-propagation=rprivate,bind-recursive=readonly"
        assert as_docker([RECURSIVE]).splitlines()[1] == f"--mount type=bind,source=/host,target=/inside,{rest}"

    def test_podman_is_never_given_less_than_recursive_read_only(self) -> None:
        with pytest.raises(MooringError, match="podman cannot make mounts recursively read-only"):
            as_podman([RECURSIVE])

    def test_an_image_is_mounted_by_the_runtime(self) -> None:
        podman, docker = as_podman([IMAGE]).splitlines()[1], as_docker([IMAGE]).splitlines()[1]
        assert podman == "--mount type=image,source=registry/model:1,destination=/model,subpath=weights"
        assert docker == "--mount type=image,source=registry/model:1,target=/model,image-subpath=weights"


class TestSystemd:
    def test_read_only_and_writable_paths_have_their_own_settings(self) -> None:
        assert as_systemd([row(), row("/b", "/c", read_only=True)]).splitlines() == [
            "# container main",
            "BindPaths=/host:/inside",
            "BindReadOnlyPaths=/b:/c",
        ]

    def test_a_device_is_bound_and_allowed_by_its_number(self) -> None:
        assert as_systemd([DEVICE]).splitlines()[1:] == [
            "BindPaths=/dev/loop7:/dev/xvda",
            "DeviceAllow=/dev/block/7:3 mrw",
        ]

    def test_what_means_something_to_systemd_is_escaped(self) -> None:
        text = as_systemd([row("/100% a:b\\c\"d'e", "/x")]).splitlines()[1]
        assert text == "BindPaths=/100%%\\ a\\:b\\\\c\\\"d\\'e:/x"

    def test_a_path_that_would_start_another_line_is_refused(self) -> None:
        with pytest.raises(MooringError, match="units cannot spell the path"):
            as_systemd([row("/a\nExecStart=/bin/sh")])

    def test_propagation_to_the_host_is_said_to_be_impossible(self) -> None:
        lines = as_systemd([row(propagation="rshared")]).splitlines()
        assert lines[1:] == [
            "# /inside: a unit cannot let mounts made inside be seen outside",
            "BindPaths=/host:/inside",
        ]

    def test_an_image_is_refused_in_words(self) -> None:
        with pytest.raises(MooringError, match="it is the image 'registry/model:1'"):
            as_systemd([IMAGE])
