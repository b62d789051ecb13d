"""What a pod's spec says about its volumes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import (
    Container,
    ContainerSecurityContext,
    Pod,
    PodSecurityContext,
    PodSpec,
    Quantities,
    ResourceRequirements,
    VolumeDevice,
    VolumeMount,
)
from mooring.kube.objects.volumes import (
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    GitRepoVolumeSource,
    HostPathVolumeSource,
    Volume,
)
from mooring.world import pod_facts

GI = 2**30


def container(
    name: str = "c", *, limits: Quantities | None = None, user: int | None = None, restart: str | None = None
) -> Container:
    return Container(
        name=name,
        resources=ResourceRequirements(limits=limits or {}),
        security_context=ContainerSecurityContext(run_as_user=user) if user is not None else None,
        restart_policy=restart,
    )


def pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    security: PodSecurityContext | None = None,
    resources: ResourceRequirements | None = None,
) -> Pod:
    spec = PodSpec(containers=containers, init_containers=init, security_context=security, resources=resources)
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"), spec=spec)


def test_volumes_are_used_by_containers_of_every_kind_as_directories_and_devices() -> None:
    """core.md 1.4 step 1."""
    used = Pod(
        spec=PodSpec(
            volumes=tuple(Volume(name=name) for name in "abcd"),
            containers=(Container(name="c", volume_mounts=(VolumeMount(name="a", mount_path="/a"),)),),
            init_containers=(Container(name="i", volume_devices=(VolumeDevice(name="b", device_path="/b"),)),),
            ephemeral_containers=(Container(name="e", volume_mounts=(VolumeMount(name="c", mount_path="/c"),)),),
        )
    )
    use = pod_facts.volume_use(used)
    assert use.mounts == {"a", "c"}
    assert use.devices == {"b"}
    assert use.names == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("users", "default", "expected"),
    [
        ((1000, 1000), None, 1000),
        ((1000, 2000), None, None),
        ((1000, None), None, None),
        ((1000, None), 1000, 1000),
        ((None, None), 500, 500),
        ((None, None), None, None),
        ((0, 0), None, 0),
    ],
)
def test_the_user_is_the_one_that_all_containers_run_as(
    users: tuple[int | None, ...], default: int | None, expected: int | None
) -> None:
    """operations.md 2.4, note on fsUser."""
    security = PodSecurityContext(run_as_user=default) if default is not None else None
    assert pod_facts.fs_user(pod(*(container(user=user) for user in users), security=security)) == expected


def test_a_user_without_security_context_of_the_pod_counts_init_containers_too() -> None:
    assert pod_facts.fs_user(pod(container(user=7), init=(container(user=8),))) is None


def test_the_group_is_that_of_the_pod() -> None:
    assert pod_facts.fs_group(pod(security=PodSecurityContext(fs_group=42))) == 42
    assert pod_facts.fs_group(pod()) is None


@pytest.mark.parametrize(
    ("size", "with_limits", "without"),
    [("1Gi", GI, GI), ("2Gi", 2 * GI, 2 * GI), ("3Gi", 2 * GI, 3 * GI), (None, 2 * GI, 0)],
)
def test_the_size_limit_is_the_smaller_of_the_pods_and_the_volumes_own(
    size: str | None, with_limits: int, without: int
) -> None:
    """D11, D12."""
    limited = pod(container(limits={"ephemeral-storage": "1Gi"}), container(limits={"ephemeral-storage": "1Gi"}))
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit=size))
    assert pod_facts.size_limit(limited, volume) == with_limits
    assert pod_facts.size_limit(pod(container()), volume) == without


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (Volume(name="v", config_map=ConfigMapVolumeSource(name="c")), GI),
        (Volume(name="v", git_repo=GitRepoVolumeSource(repository="r")), GI),
        (Volume(name="v", host_path=HostPathVolumeSource(path="/")), 0),
        (Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")), 0),
        (Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit="-1")), GI),
    ],
)
def test_only_local_ephemeral_volumes_have_a_size_limit(volume: Volume, expected: int) -> None:
    """core.md 2.7."""
    limited = pod(container(limits={"ephemeral-storage": "1Gi"}))
    assert pod_facts.size_limit(limited, volume) == expected


def test_the_memory_limit_is_the_sum_over_containers() -> None:
    assert (
        pod_facts.memory_limit(pod(container(limits={"memory": "1Gi"}), container(limits={"memory": "2Gi"}))) == 3 * GI
    )


def test_there_is_no_memory_limit_unless_every_container_has_one() -> None:
    assert pod_facts.memory_limit(pod(container(limits={"memory": "1Gi"}), container())) is None
    assert pod_facts.memory_limit(pod()) is None


def test_the_memory_limit_of_the_pod_itself_wins() -> None:
    overall = ResourceRequirements(limits={"memory": "5Gi"})
    assert pod_facts.memory_limit(pod(container(limits={"memory": "1Gi"}), resources=overall)) == 5 * GI
    assert pod_facts.memory_limit(pod(container(), resources=ResourceRequirements(limits={"memory": 0}))) is None


def test_what_the_sandbox_takes_comes_on_top_of_a_limit() -> None:
    limited = pod(container(limits={"memory": "1Gi"}))
    sandboxed = replace(limited, spec=replace(limited.spec, overhead={"memory": "1Gi", "ephemeral-storage": "1Gi"}))
    assert pod_facts.memory_limit(sandboxed) == 2 * GI
    assert pod_facts.ephemeral_storage_limit(sandboxed) == 0  # where there is none it makes none
    overall = ResourceRequirements(limits={"memory": "5Gi"})
    assert pod_facts.memory_limit(replace(sandboxed, spec=replace(sandboxed.spec, resources=overall))) == 6 * GI


def test_a_pod_whose_own_resources_do_not_speak_of_memory_is_summed_up() -> None:
    overall = ResourceRequirements(limits={"cpu": "1"})
    assert pod_facts.memory_limit(pod(container(limits={"memory": "1Gi"}), resources=overall)) == GI


def test_the_largest_init_container_counts_when_it_needs_more_than_all_others() -> None:
    init = (container(limits={"memory": "4Gi"}), container(limits={"memory": "1Gi"}))
    assert pod_facts.memory_limit(pod(container(limits={"memory": "1Gi"}), init=init)) == 4 * GI


def test_sidecars_count_beside_the_containers_and_beside_later_init_containers() -> None:
    sidecar = container(limits={"memory": "1Gi"}, restart="Always")
    assert pod_facts.memory_limit(pod(container(limits={"memory": "2Gi"}), init=(sidecar,))) == 3 * GI
    init = (sidecar, container(limits={"memory": "4Gi"}))
    assert pod_facts.memory_limit(pod(container(limits={"memory": "2Gi"}), init=init)) == 5 * GI


def test_containers_are_found_by_name_among_regular_and_init_ones_or_those_given() -> None:
    both = pod(container("main"), init=(container("first"),))
    assert set(pod_facts.containers_by_name(both)) == {"main", "first"}
    assert set(pod_facts.containers_by_name(both, [container("other")])) == {"other"}


# -- how a pod's group gets its volumes ----------------------------------------------------------------------------
def _annotated(value: str | None, policy: str | None = "Always") -> Pod:
    annotations = {} if value is None else {pod_facts.FS_GROUP_ANNOTATION: value}
    security = None if policy is None else PodSecurityContext(fs_group_change_policy=policy)
    return Pod(metadata=ObjectMeta(name="web", annotations=annotations), spec=PodSpec(security_context=security))


def test_a_pod_asks_for_a_way_to_get_its_group_by_an_annotation() -> None:
    assert pod_facts.fs_group_mode(_annotated("trust-root")) is pod_facts.FsGroupMode.TRUST_ROOT
    assert pod_facts.fs_group_mode(_annotated("idmapped")) is pod_facts.FsGroupMode.IDMAPPED
    assert pod_facts.fs_group_mode(_annotated(None)) is None


def test_an_unknown_way_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(Refused, match=r"'idmaped' is not known.*'trust-root' or 'idmapped'"):
        pod_facts.fs_group_mode(_annotated("idmaped"))


def test_trust_in_the_root_is_a_change_policy_whatever_else_is_written() -> None:
    assert pod_facts.fs_group_policy(_annotated("trust-root")) == "OnRootMismatch"
    assert pod_facts.fs_group_policy(_annotated(None)) == "Always"
    assert pod_facts.fs_group_policy(_annotated(None, policy=None)) is None
