"""Pods: containers, what they mount, and whose files they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.kube.field_errors import FieldPath, FieldProblem, quoted
from mooring.kube.name_rules import broken_label, broken_subdomain
from mooring.kube.objects.pod import (
    Container,
    Pod,
    PodSecurityContext,
    PodSpec,
    ResourceRequirements,
    VolumeDevice,
    VolumeMount,
)
from mooring.kube.objects.volumes import Volume
from mooring.kube.value_rules import (
    check_choice,
    check_id,
    check_no_backsteps,
    check_quantities,
    check_relative,
    check_required,
)
from mooring.kube.volume_validation import check_volumes

_PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
_RESTARTS = ("Always", "OnFailure", "Never")
_PULLS = ("Always", "IfNotPresent", "Never")
_RECURSIVE = ("Disabled", "IfPossible", "Enabled")


def pod_problems(pod: Pod) -> Iterator[FieldProblem]:
    spec, path = pod.spec, ("spec",)
    yield from check_volumes(spec.volumes, (*path, "volumes"))
    if not spec.containers:
        why = "a pod needs at least one container"
        yield FieldProblem(path=(*path, "containers"), why=why, next_step="Add a container with a name")
    volumes = {volume.name: volume for volume in spec.volumes}
    first: dict[str, FieldPath] = {}
    for at, container in located_containers(spec):
        yield from _container_name_problems(container.name, at, first)
        yield from _container_problems(container, at, volumes)
    for name, text in (("nodeName", spec.node_name), ("serviceAccountName", spec.service_account_name)):
        if text and (why := broken_subdomain(text)):
            yield FieldProblem(path=(*path, name), why=why)
    yield from check_choice(spec.restart_policy or None, (*path, "restartPolicy"), _RESTARTS)
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        at = (*path, "terminationGracePeriodSeconds")
        yield FieldProblem(path=at, why=f"{grace} is less than 0", next_step="Write seconds, or leave it out for 30")
    if spec.security_context is not None:
        yield from _security_problems(spec.security_context, (*path, "securityContext"))
    if spec.resources is not None:
        yield from _resource_problems(spec.resources, (*path, "resources"))
    yield from check_quantities(spec.overhead, (*path, "overhead"))


def located_containers(spec: PodSpec) -> Iterator[tuple[FieldPath, Container]]:
    """Every container with the path to it, in start order."""
    lists = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    for name, containers in lists:
        for position, container in enumerate(containers):
            yield ("spec", name, position), container


def _container_name_problems(name: str, path: FieldPath, first: dict[str, FieldPath]) -> Iterator[FieldProblem]:
    at = (*path, "name")
    if not name:
        yield from check_required(name, at)
    elif why := broken_label(name):
        yield FieldProblem(path=at, why=why)
    elif name in first:
        why = f"{first[name][-2]}[{first[name][-1]}] is also called {quoted(name)}"
        yield FieldProblem(path=at, why=why, next_step="Give each container a name of its own")
    first.setdefault(name, path)


def _container_problems(container: Container, path: FieldPath, volumes: Mapping[str, Volume]) -> Iterator[FieldProblem]:
    yield from _resource_problems(container.resources, (*path, "resources"))
    yield from check_choice(container.image_pull_policy, (*path, "imagePullPolicy"), _PULLS)
    yield from _environment_problems(container, path)
    if container.security_context is not None:
        at = (*path, "securityContext")
        yield from check_id(container.security_context.run_as_user, (*at, "runAsUser"))
        yield from check_id(container.security_context.run_as_group, (*at, "runAsGroup"))
    privileged = container.security_context is not None and bool(container.security_context.privileged)
    used: dict[str, str] = {}
    for position, mount in enumerate(container.volume_mounts):
        at = (*path, "volumeMounts", position)
        yield from _use_problems(mount.name, at, volumes)
        yield from _used_path_problems(mount.mount_path, (*at, "mountPath"), used, f"volumeMounts[{position}]")
        yield from _mount_problems(mount, at, privileged=privileged)
    mounted = {mount.name for mount in container.volume_mounts}
    for position, device in enumerate(container.volume_devices):
        at = (*path, "volumeDevices", position)
        yield from _use_problems(device.name, at, volumes)
        yield from _used_path_problems(device.device_path, (*at, "devicePath"), used, f"volumeDevices[{position}]")
        yield from _device_problems(device, at, volumes.get(device.name), mounted)


def _environment_problems(container: Container, path: FieldPath) -> Iterator[FieldProblem]:
    for position, variable in enumerate(container.env):
        at = (*path, "env", position)
        if not variable.name or "=" in variable.name or "\0" in variable.name:
            why = f'{quoted(variable.name)} cannot be the name of a variable: it is empty or contains "="'
            yield FieldProblem(path=(*at, "name"), why=why)
        if variable.value and variable.value_from is not None:
            why = "value and valueFrom exclude each other"
            yield FieldProblem(path=(*at, "valueFrom"), why=why, next_step="Keep one of the two")


def _use_problems(name: str, path: FieldPath, volumes: Mapping[str, Volume]) -> Iterator[FieldProblem]:
    if name not in volumes:
        why = f"the pod has no volume called {quoted(name)}" if name else "it is required and missing"
        names = ", ".join(quoted(known) for known in volumes)
        next_step = f"The volumes are {names}" if volumes else "Add the volume under spec.volumes"
        yield FieldProblem(path=(*path, "name"), why=why, next_step=next_step)


def _used_path_problems(text: str, path: FieldPath, used: dict[str, str], user: str) -> Iterator[FieldProblem]:
    """Two things at one path in one container."""
    yield from check_required(text, path)
    if text and text in used:
        why = f"{used[text]} already uses {quoted(text)} in this container"
        yield FieldProblem(path=path, why=why, next_step="Give it a path of its own")
    used.setdefault(text, user)


def _mount_problems(mount: VolumeMount, path: FieldPath, *, privileged: bool) -> Iterator[FieldProblem]:
    yield from check_relative(mount.sub_path, (*path, "subPath"))
    yield from check_relative(mount.sub_path_expr, (*path, "subPathExpr"))
    if mount.sub_path and mount.sub_path_expr:
        why = "subPath and subPathExpr exclude each other"
        yield FieldProblem(path=(*path, "subPathExpr"), why=why, next_step="Keep one of the two")
    propagation = mount.mount_propagation
    yield from check_choice(propagation, (*path, "mountPropagation"), _PROPAGATIONS)
    if propagation == "Bidirectional" and not privileged:
        why = "Bidirectional is only for privileged containers"
        next_step = "Write HostToContainer, or make the container privileged"
        yield FieldProblem(path=(*path, "mountPropagation"), why=why, next_step=next_step)
    at = (*path, "recursiveReadOnly")
    yield from check_choice(mount.recursive_read_only, at, _RECURSIVE)
    if mount.recursive_read_only in ("Enabled", "IfPossible"):
        if not mount.read_only:
            yield FieldProblem(path=at, why="the mount is not readOnly", next_step='Add "readOnly: true"')
        if propagation not in (None, "None"):
            yield FieldProblem(path=at, why="it excludes mountPropagation", next_step="Remove one of the two")


def _device_problems(
    device: VolumeDevice, path: FieldPath, volume: Volume | None, mounted: set[str]
) -> Iterator[FieldProblem]:
    yield from check_no_backsteps(device.device_path, (*path, "devicePath"))
    if volume is not None and volume.persistent_volume_claim is None and volume.ephemeral is None:
        why = f"the volume {quoted(volume.name)} cannot be a block device"
        next_step = "Use a persistentVolumeClaim or an ephemeral volume"
        yield FieldProblem(path=(*path, "name"), why=why, next_step=next_step)
    if device.name in mounted:
        why = f"the volume {quoted(device.name)} is also in volumeMounts of this container"
        yield FieldProblem(path=(*path, "name"), why=why, next_step="Keep one of the two")


def _security_problems(context: PodSecurityContext, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_id(context.run_as_user, (*path, "runAsUser"))
    yield from check_id(context.run_as_group, (*path, "runAsGroup"))
    yield from check_id(context.fs_group, (*path, "fsGroup"))
    for position, group in enumerate(context.supplemental_groups):
        yield from check_id(group, (*path, "supplementalGroups", position))
    policy = context.fs_group_change_policy
    yield from check_choice(policy, (*path, "fsGroupChangePolicy"), ("Always", "OnRootMismatch"))
    policy = context.se_linux_change_policy
    yield from check_choice(policy, (*path, "seLinuxChangePolicy"), ("MountOption", "Recursive"))


def _resource_problems(resources: ResourceRequirements, path: FieldPath) -> Iterator[FieldProblem]:
    yield from check_quantities(resources.limits, (*path, "limits"))
    yield from check_quantities(resources.requests, (*path, "requests"))
