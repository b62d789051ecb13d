"""What a CRI runtime is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runtimes.conftest import container, plan_of

from mooring.manager.container_mounts import Propagation
from mooring.runtimes.cri_requests import MASKED_PATHS, can_mount_images, container_config, sandbox_config
from mooring.runtimes.interface import ContainerPlan, DevicePlan, MountPlan
from mooring.stubs import cri_pb2 as cri

MAIN = container("main", "exit 0")


def config_of(chosen: ContainerPlan) -> cri.ContainerConfig:
    return container_config(plan_of(Path("/logs"), chosen), chosen, 2)


def mounted(mount: MountPlan) -> cri.Mount:
    return config_of(replace(MAIN, mounts=(mount,))).mounts[0]


def test_a_sandbox_shares_the_network_of_the_machine_and_nothing_else() -> None:
    config = sandbox_config(plan_of(Path("/logs"), MAIN))
    options = config.linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (cri.NODE, cri.CONTAINER, cri.POD)
    assert (config.metadata.name, config.metadata.namespace, config.metadata.uid) == ("web", "default", "uid-web")
    assert config.log_directory == "/logs"
    assert config.labels["mooring.run"] == "run1"
    assert not config.linux.security_context.privileged


def test_a_sandbox_with_a_privileged_container_is_privileged() -> None:
    plan = plan_of(Path("/logs"), MAIN, replace(MAIN, name="other", privileged=True))
    assert sandbox_config(plan).linux.security_context.privileged


def test_a_container_is_named_labelled_and_logged_by_its_run() -> None:
    config = config_of(MAIN)
    assert (config.metadata.name, config.metadata.attempt, config.log_path) == ("main", 2, "main/2.log")
    assert config.labels["mooring.container"] == config.labels["io.kubernetes.container.name"] == "main"
    assert list(config.command) == ["sh", "-c", "exit 0"]


def test_variables_are_sent_in_order() -> None:
    config = config_of(replace(MAIN, env={"B": "2", "A": "1\n2"}))
    assert [(each.key, each.value) for each in config.envs] == [("A", "1\n2"), ("B", "2")]


def test_user_and_groups_are_sent_only_when_they_are_set() -> None:
    security = config_of(replace(MAIN, user=0, group=7, groups=(5, 6), read_only_root=True)).linux.security_context
    assert (security.run_as_user.value, security.run_as_group.value) == (0, 7)
    assert security.HasField("run_as_user")
    assert list(security.supplemental_groups) == [5, 6]
    assert security.readonly_rootfs
    assert not config_of(MAIN).linux.security_context.HasField("run_as_user")


def test_only_a_privileged_container_sees_everything() -> None:
    confined = config_of(MAIN).linux.security_context
    assert tuple(confined.masked_paths) == MASKED_PATHS
    assert confined.seccomp.profile_type == cri.SecurityProfile.RuntimeDefault
    privileged = config_of(replace(MAIN, privileged=True)).linux.security_context
    assert not privileged.masked_paths
    assert privileged.seccomp.profile_type == cri.SecurityProfile.Unconfined


@pytest.mark.parametrize(
    ("propagation", "wanted"),
    [
        (Propagation.PRIVATE, cri.PROPAGATION_PRIVATE),
        (Propagation.RSLAVE, cri.PROPAGATION_HOST_TO_CONTAINER),
        (Propagation.RSHARED, cri.PROPAGATION_BIDIRECTIONAL),
    ],
)
def test_propagation_is_sent(propagation: Propagation, wanted: cri.MountPropagation.ValueType) -> None:
    assert (
        mounted(MountPlan(volume="v", container_path="/v", host_path="/h", propagation=propagation)).propagation
        == wanted
    )


def test_mounts_are_sent_as_they_are_planned() -> None:
    mount = mounted(
        MountPlan(
            volume="v", container_path="/v", host_path="/h", read_only=True, recursive_read_only=True, relabel=True
        )
    )
    assert (mount.container_path, mount.host_path) == ("/v", "/h")
    assert (mount.readonly, mount.recursive_read_only, mount.selinux_relabel) == (True, True, True)
    assert not mount.HasField("image")


def test_an_image_is_sent_as_image() -> None:
    mount = mounted(MountPlan(volume="v", container_path="/v", image="reg/x:1", image_sub_path="etc", read_only=True))
    assert (mount.image.image, mount.image_sub_path, mount.host_path) == ("reg/x:1", "etc", "")


def test_devices_have_their_permissions() -> None:
    device = DevicePlan(container_path="/dev/data", host_path="/links/data", permissions="r")
    sent = config_of(replace(MAIN, devices=(device,))).devices[0]
    assert (sent.container_path, sent.host_path, sent.permissions) == ("/dev/data", "/links/data", "r")


@pytest.mark.parametrize(
    ("name", "version", "can"),
    [
        ("containerd", "1.6.20~ds1", False),
        ("containerd", "v2.0.4", False),
        ("containerd", "v2.1.0-rc.1", True),
        ("cri-o", "1.31.0", True),
        ("cri-o", "1.30.9", False),
        ("containerd", "unknown", False),
        ("other", "9.9", False),
    ],
)
def test_who_can_mount_images_follows_from_name_and_version(name: str, version: str, can: bool) -> None:
    assert can_mount_images(name, version) is can


def test_the_services_have_the_names_of_the_interface() -> None:
    assert {name: service.full_name for name, service in cri.DESCRIPTOR.services_by_name.items()} == {
        "RuntimeService": "runtime.v1.RuntimeService",
        "ImageService": "runtime.v1.ImageService",
    }
