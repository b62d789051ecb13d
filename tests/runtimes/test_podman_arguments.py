"""Podman's command line: what stands on it, and above all what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runtimes.conftest import container, plan_of

from mooring.errors import Refused
from mooring.manager.container_mounts import Propagation
from mooring.runtimes.interface import ContainerPlan, DevicePlan, MountPlan
from mooring.runtimes.podman_arguments import (
    create_arguments,
    global_options,
    mount_arguments,
    pass_variables,
)
from mooring.runtimes.records import RuntimeOptions

PLACE = Path("/logs")
MAIN = ContainerPlan(name="main", role=container("main").role, image="image")


def created(chosen: ContainerPlan, options: RuntimeOptions | None = None) -> list[str]:
    passed = pass_variables(chosen)
    return create_arguments(plan_of(PLACE, chosen), chosen, 2, options or RuntimeOptions(), passed, "/proc/self/fd/9")


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_a_container_is_named_labelled_and_logged_by_its_run() -> None:
    words = created(MAIN)
    assert words[0] == "create"
    assert value(words, "--name") == "mooring-run1-main-2"
    assert value(words, "--log-opt") == "path=/logs/main/2.log"
    labels = [words[at + 1] for at, word in enumerate(words) if word == "--label"]
    assert labels == ["mooring.pod=uid-web", "mooring.run=run1", "mooring.container=main", "mooring.attempt=2"]
    assert value(words, "--network") == "host"
    assert words[-1] == "image"


def test_command_and_arguments_keep_their_places() -> None:
    words = created(replace(MAIN, command=("sh", "-c"), args=("echo 'x'", "--name")))
    assert value(words, "--entrypoint") == '["sh", "-c"]'
    assert words[-3:] == ["image", "echo 'x'", "--name"]
    assert "--entrypoint" not in created(MAIN)


def test_users_groups_and_rights_are_passed() -> None:
    words = created(
        replace(MAIN, user=1000, group=7, groups=(5, 6), privileged=True, read_only_root=True, working_dir="/srv")
    )
    assert value(words, "--user") == "1000:7"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--group-add"] == ["5", "6"]
    assert {"--privileged", "--read-only", "--read-only-tmpfs=false"} <= set(words)
    assert value(words, "--workdir") == "/srv"
    assert not {"--user", "--privileged", "--read-only", "--workdir"} & set(created(MAIN))


def test_devices_have_their_permissions() -> None:
    device = DevicePlan(container_path="/dev/data", host_path="/links/data", permissions="mrw")
    assert value(created(replace(MAIN, devices=(device,))), "--device") == "/links/data:/dev/data:mrw"


def test_options_of_the_caller_are_used() -> None:
    options = RuntimeOptions(oci_runtime="runc", ulimits=("nofile=1:2", "nproc=3:4"), options=("--root=/p",))
    assert global_options(options) == ["--runtime", "runc", "--root=/p"]
    words = created(MAIN, options)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--ulimit"] == ["nofile=1:2", "nproc=3:4"]


@pytest.mark.parametrize(
    ("mount", "wanted"),
    [
        (
            MountPlan(volume="v", container_path="/v", host_path="/h"),
            "type=bind,source=/h,destination=/v,bind-propagation=rprivate",
        ),
        (
            MountPlan(volume="v", container_path="/v", host_path="/h", read_only=True, propagation=Propagation.RSLAVE),
            "type=bind,source=/h,destination=/v,ro=true,bind-propagation=rslave",
        ),
        (
            MountPlan(volume="v", container_path="/v", host_path='/a,b"c', relabel=True),
            'type=bind,"source=/a,b""c",destination=/v,bind-propagation=rprivate,relabel=shared',
        ),
        (
            MountPlan(volume="v", container_path="/v", image="reg/x:1", image_sub_path="etc"),
            "type=image,source=reg/x:1,destination=/v,subpath=etc",
        ),
    ],
    ids=["plain", "read-only and slave", "odd names", "image"],
)
def test_mounts_are_written_as_podman_reads_them(mount: MountPlan, wanted: str) -> None:
    assert mount_arguments(mount) == ["--mount", wanted]


# -- variables -----------------------------------------------------------------------------------------------------
SECRETS = {"PLAIN": "hunter2", "LINES": "top\nsecret", "QUOTED": 'say "it"', "BLANK": " x", "PATH": "/hidden/bin"}


def test_no_value_of_a_variable_is_on_the_command_line() -> None:
    words = created(replace(MAIN, env=SECRETS))
    assert not [word for word in words for secret in SECRETS.values() if secret in word]
    assert value(words, "--env-file") == "/proc/self/fd/9"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--env"] == ["BLANK", "LINES", "QUOTED"]


def test_every_variable_is_passed_one_way_or_the_other() -> None:
    passed = pass_variables(replace(MAIN, env=SECRETS))
    assert passed.lines == ("PATH=/hidden/bin", "PLAIN=hunter2")
    assert passed.environment == {name: SECRETS[name] for name in ("BLANK", "LINES", "QUOTED")}
    assert "hunter2" not in repr(passed)
    assert "hunter2" not in repr(replace(MAIN, env=SECRETS))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "XDG_RUNTIME_DIR", "CONTAINERS_CONF", "HTTP_PROXY"])
def test_what_podman_itself_heeds_is_never_put_into_its_environment(name: str) -> None:
    with pytest.raises(Refused, match="cannot start container 'main'") as caught:
        pass_variables(replace(MAIN, env={name: "top\nsecret"}))
    assert "secret" not in str(caught.value)


def test_without_variables_there_is_no_file() -> None:
    assert "--env-file" not in created(MAIN)
