"""What to start for a pod, worked out from its manifest."""

from __future__ import annotations

import pytest

from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import (
    Container,
    ContainerSecurityContext,
    EnvironmentSource,
    EnvironmentVariable,
    KeySelector,
    Pod,
    PodSecurityContext,
    PodSpec,
)
from mooring.manager.container_mounts import ContainerDevice, ContainerMount, ContainerView, Propagation
from mooring.manager.environment import EnvironmentSources
from mooring.plugins.interface import NodeFacts
from mooring.runtimes.interface import ContainerPlan, DevicePlan, MountPlan, Pull, Role, RunPlan
from mooring.runtimes.pod_plan import plan_run
from mooring.sources.object_table import ObjectTable

SOURCES = EnvironmentSources(objects=ObjectTable(), node=NodeFacts(name="here", memory=1 << 30, cpu_milli=1000))
MOUNT = ContainerMount(
    container="main",
    name="data",
    host_path="/volumes/data",
    container_path="/data",
    read_only=True,
    recursive_read_only=True,
    propagation=Propagation.RSLAVE,
    selinux_relabel=True,
)
IMAGE_MOUNT = ContainerMount(
    container="main",
    name="tools",
    host_path=None,
    container_path="/tools",
    read_only=True,
    recursive_read_only=False,
    propagation=Propagation.PRIVATE,
    selinux_relabel=False,
    image="reg/tools:1",
    image_sub_path="bin",
)


def plan(
    *containers: Container,
    init: tuple[Container, ...] = (),
    security: PodSecurityContext | None = None,
    grace: int | None = None,
    mounts: tuple[ContainerMount, ...] = (),
    devices: tuple[ContainerDevice, ...] = (),
    images: bool = True,
    extra_groups: tuple[int, ...] = (),
) -> RunPlan:
    spec = PodSpec(
        containers=containers,
        init_containers=init,
        security_context=security,
        termination_grace_period_seconds=grace,
    )
    pod = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"), spec=spec)
    views = [ContainerView(container=each.name, mounts=mounts, devices=devices) for each in pod.spec.all_containers()]
    return plan_run(pod, views, SOURCES, run="run1", log_directory="/logs", extra_groups=extra_groups, images=images)


def planned(container: Container, *, security: PodSecurityContext | None = None) -> ContainerPlan:
    return plan(container, security=security).containers[0]


MAIN = Container(name="main", image="image")


def test_init_containers_come_first_and_those_that_restart_are_sidecars() -> None:
    helper = Container(name="helper", image="image", restart_policy="Always")
    found = plan(MAIN, init=(Container(name="first", image="image"), helper))
    assert [(each.name, each.role) for each in found.containers] == [
        ("first", Role.INIT),
        ("helper", Role.SIDECAR),
        ("main", Role.REGULAR),
    ]


def test_what_a_pod_does_not_say_is_as_in_kubernetes() -> None:
    found = plan(MAIN)
    assert (found.restart_policy, found.grace_seconds, found.pod) == ("Always", 30, "shop/web")
    assert plan(MAIN, grace=0).grace_seconds == 0


def test_commands_are_expanded_from_the_environment() -> None:
    env = (EnvironmentVariable(name="A", value="x"), EnvironmentVariable(name="B", value="$(A)y"))
    found = planned(Container(name="main", image="image", env=env, command=("$(B)",), args=("$(NONE)", "$$(A)")))
    assert (found.command, found.args) == (("xy",), ("$(NONE)", "$(A)"))
    assert found.env == {"A": "x", "B": "xy"}


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [(None, Pull.MISSING), ("IfNotPresent", Pull.MISSING), ("Always", Pull.ALWAYS), ("Never", Pull.NEVER)],
)
def test_when_an_image_is_fetched_follows_from_its_policy(policy: str | None, wanted: Pull) -> None:
    assert planned(Container(name="main", image="image", image_pull_policy=policy)).pull is wanted


def test_a_containers_own_user_wins_over_the_pods() -> None:
    shared = PodSecurityContext(run_as_user=1000, run_as_group=7)
    own = ContainerSecurityContext(run_as_user=0, privileged=True, read_only_root_filesystem=True)
    inherited = planned(MAIN, security=shared)
    assert (inherited.user, inherited.group, inherited.privileged) == (1000, 7, False)
    found = planned(Container(name="main", image="image", security_context=own), security=shared)
    assert (found.user, found.group, found.privileged, found.read_only_root) == (0, 7, True, True)


def test_groups_are_the_pods_its_fs_group_and_those_of_its_volumes_each_once() -> None:
    security = PodSecurityContext(supplemental_groups=(5, 6), fs_group=77)
    assert plan(MAIN, security=security, extra_groups=(6, 99)).containers[0].groups == (5, 6, 77, 99)


def test_mounts_and_devices_are_taken_over() -> None:
    device = ContainerDevice(
        container="main", name="raw", host_path="/links/raw", container_path="/dev/raw", permissions="mrw"
    )
    [found] = plan(MAIN, mounts=(MOUNT, IMAGE_MOUNT), devices=(device,)).containers
    assert found.mounts == (
        MountPlan(
            volume="data",
            container_path="/data",
            host_path="/volumes/data",
            read_only=True,
            recursive_read_only=True,
            propagation=Propagation.RSLAVE,
            relabel=True,
        ),
        MountPlan(volume="tools", container_path="/tools", image="reg/tools:1", image_sub_path="bin", read_only=True),
    )
    assert found.devices == (DevicePlan(container_path="/dev/raw", host_path="/links/raw", permissions="mrw"),)


def test_a_runtime_that_cannot_mount_images_is_told_apart() -> None:
    with pytest.raises(Refused, match="cannot show volume 'tools' to container 'main': the container runtime cannot"):
        plan(MAIN, mounts=(IMAGE_MOUNT,), images=False)
    assert plan(MAIN, mounts=(MOUNT,), images=False)


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (Container(name="main"), "it names no image"),
        (Container(name="main", image="i", image_pull_policy="Sometimes"), "unknown imagePullPolicy 'Sometimes'"),
        (
            Container(name="main", image="i", security_context=ContainerSecurityContext(run_as_group=7)),
            "runAsGroup needs runAsUser",
        ),
        (
            Container(
                name="main",
                image="i",
                env=(
                    EnvironmentVariable(
                        name="P", value_from=EnvironmentSource(secret_key_ref=KeySelector(name="db", key="k"))
                    ),
                ),
            ),
            "cannot read Secret 'db': secret \"db\" not found in namespace 'shop'",
        ),
    ],
)
def test_a_container_that_cannot_be_started_is_named_with_the_reason(container: Container, why: str) -> None:
    with pytest.raises(Refused) as caught:
        plan(container)
    assert caught.value.what == "cannot start container 'main'"
    assert caught.value.why == why
