"""Pod: the parts that decide which volumes it needs and how its containers use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mooring.kube.objects.meta import KubernetesObject, LocalObjectReference, Unmodelled, Value
from mooring.kube.objects.volumes import ObjectFieldSelector, ResourceFieldSelector, Volume

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a pod in the API that only shows one which its node has from a manifest."""

Quantities = Mapping[str, str | int | float]


class SELinuxOptions(Value, frozen=True, kw_only=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class ResourceRequirements(Value, frozen=True, kw_only=True):
    limits: Quantities = {}
    requests: Quantities = {}
    claims: tuple[Unmodelled, ...] = ()


class VolumeMount(Value, frozen=True, kw_only=True):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(Value, frozen=True, kw_only=True):
    name: str
    device_path: str


class ContainerSecurityContext(Value, frozen=True, kw_only=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    se_linux_options: SELinuxOptions | None = msgspec.field(name="seLinuxOptions", default=None)
    privileged: bool | None = None
    read_only_root_filesystem: bool | None = None


class KeySelector(Value, frozen=True, kw_only=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class EnvironmentSource(Value, frozen=True, kw_only=True):
    """Where the value of a variable comes from."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvironmentVariable(Value, frozen=True, kw_only=True):
    name: str
    value: str = ""
    value_from: EnvironmentSource | None = None


class ObjectSelector(Value, frozen=True, kw_only=True):
    """A whole ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class EnvironmentFrom(Value, frozen=True, kw_only=True):
    """All keys of an object as variables."""

    prefix: str = ""
    config_map_ref: ObjectSelector | None = None
    secret_ref: ObjectSelector | None = None


class Container(Value, frozen=True, kw_only=True):
    """A container of any kind: init, regular or ephemeral."""

    name: str
    image: str = ""
    image_pull_policy: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvironmentVariable, ...] = ()
    env_from: tuple[EnvironmentFrom, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    security_context: ContainerSecurityContext | None = None
    restart_policy: str | None = None


class PodSecurityContext(Value, frozen=True, kw_only=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    supplemental_groups: tuple[int, ...] = ()
    se_linux_options: SELinuxOptions | None = msgspec.field(name="seLinuxOptions", default=None)
    se_linux_change_policy: str | None = msgspec.field(name="seLinuxChangePolicy", default=None)


class PodSpec(Value, frozen=True, kw_only=True):
    volumes: tuple[Volume, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    node_name: str = ""
    service_account_name: str = ""
    service_account: str = ""  # the older name of service_account_name
    security_context: PodSecurityContext | None = None
    host_users: bool | None = None
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities = {}
    tolerations: tuple[Unmodelled, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()

    def all_containers(self) -> Iterator[Container]:
        """Every container of every kind, in start order."""
        yield from self.init_containers
        yield from self.containers
        yield from self.ephemeral_containers


class ContainerState(Value, frozen=True, kw_only=True):
    """One of the three is set; none at all means waiting."""

    waiting: Unmodelled | None = None
    running: Unmodelled | None = None
    terminated: Unmodelled | None = None


class ContainerStatus(Value, frozen=True, kw_only=True):
    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Value, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Unmodelled, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()

    def all_container_statuses(self) -> Iterator[ContainerStatus]:
        yield from self.init_container_statuses
        yield from self.container_statuses
        yield from self.ephemeral_container_statuses


class Pod(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ConfigMap(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, bytes] = {}
    immutable: bool = False


class Secret(KubernetesObject, frozen=True, kw_only=True):
    """A secret; `data` holds decoded bytes. Its repr shows no value."""

    api_version: str = "v1"
    kind: str = "Secret"
    type: str = "Opaque"
    data: Mapping[str, bytes] = {}
    string_data: Mapping[str, str] = {}
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.key!r}, keys={sorted(self.data)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("key", self.key)]


class ServiceAccount(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ServiceAccount"
    secrets: tuple[Unmodelled, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()


class Namespace(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Namespace"
