"""The label a volume is mounted with."""

from __future__ import annotations

import pytest

from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import (
    Container,
    ContainerSecurityContext,
    Pod,
    PodSecurityContext,
    PodSpec,
    SELinuxOptions,
    VolumeMount,
)
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.world.selinux import mount_label
from mooring.world.spec import VolumeSpec

FULL = SELinuxOptions(user="u", role="r", type="container_t", level="s0:c1,c2")
LEVEL = SELinuxOptions(level="s0:c1,c2")


def volume(*modes: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(access_modes=modes)
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


ALONE = volume("ReadWriteOncePod")


def container(options: SELinuxOptions | None, *mounts: str, plain: bool = False) -> Container:
    context = None if plain else ContainerSecurityContext(se_linux_options=options)
    found = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in mounts)
    return Container(name="c", volume_mounts=found, security_context=context)


def pod(*containers: Container, options: SELinuxOptions | None = None, policy: str | None = None) -> Pod:
    context = PodSecurityContext(se_linux_options=options, se_linux_change_policy=policy)
    return Pod(spec=PodSpec(containers=containers, security_context=context))


def test_all_parts_that_are_written_count_and_a_process_type_becomes_that_of_files() -> None:
    assert mount_label(pod(container(FULL, "data")), ["data"], ALONE) == "u:r:container_file_t:s0:c1,c2"


def test_what_is_not_written_has_a_default() -> None:
    assert mount_label(pod(container(LEVEL, "data")), ["data"], ALONE) == "system_u:object_r:container_file_t:s0:c1,c2"


def test_a_type_of_files_is_kept() -> None:
    own = SELinuxOptions(type="my_file_t")
    assert mount_label(pod(container(own, "data")), ["data"], ALONE) == "system_u:object_r:my_file_t:s0"


def test_the_options_of_the_pod_hold_for_containers_without_their_own() -> None:
    wanted = pod(container(None, "data"), container(None, "data", plain=True), options=LEVEL)
    assert mount_label(wanted, ["data"], ALONE).endswith(":s0:c1,c2")


def test_containers_that_do_not_use_the_volume_have_no_say() -> None:
    wanted = pod(container(LEVEL, "data"), container(FULL, "other"))
    assert mount_label(wanted, ["data"], ALONE) == "system_u:object_r:container_file_t:s0:c1,c2"


def test_without_options_there_is_no_label() -> None:
    assert mount_label(pod(container(None, "data")), ["data"], ALONE) == ""
    bare = Pod(spec=PodSpec(containers=(container(None, "data", plain=True),)))
    assert mount_label(bare, ["data"], ALONE) == ""


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod", "ReadWriteOnce"), ()])
def test_a_volume_that_several_pods_may_use_has_none(modes: tuple[str, ...]) -> None:
    assert mount_label(pod(container(FULL, "data")), ["data"], volume(*modes)) == ""


def test_a_pod_that_wants_its_files_labelled_one_by_one_has_none() -> None:
    assert mount_label(pod(container(FULL, "data"), policy="Recursive"), ["data"], ALONE) == ""


def test_containers_that_do_not_agree_are_refused() -> None:
    wanted = pod(container(LEVEL, "data"), container(FULL, "data"))
    with pytest.raises(Refused, match="several SELinux labels"):
        mount_label(wanted, ["data"], ALONE)
