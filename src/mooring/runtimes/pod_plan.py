"""What to start for a pod, worked out from its manifest, its mounts and its environment; nothing is touched."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.errors import Refused
from mooring.kube.objects.pod import Container, ContainerSecurityContext, Pod, PodSecurityContext
from mooring.manager.container_mounts import ContainerDevice, ContainerMount, ContainerView
from mooring.manager.environment import EnvironmentSources, work_out_environment
from mooring.manager.expansion import expand_known
from mooring.runtimes.interface import ContainerPlan, DevicePlan, MountPlan, Pull, Role, RunPlan

DEFAULT_GRACE_SECONDS = 30
_PULLS = {None: Pull.MISSING, "IfNotPresent": Pull.MISSING, "Always": Pull.ALWAYS, "Never": Pull.NEVER}


def plan_run(
    pod: Pod,
    views: Sequence[ContainerView],
    sources: EnvironmentSources,
    *,
    run: str,
    log_directory: str,
    extra_groups: Sequence[int],
    images: bool,
) -> RunPlan:
    """The plan of a run. An error that names the container when one of them cannot be started as it is written.

    `images` says whether the runtime can mount images. Ephemeral containers are for debugging and are not started.
    """
    seen = {view.container: view for view in views}
    grace = pod.spec.termination_grace_period_seconds
    containers = [
        *((each, Role.SIDECAR if each.restart_policy == "Always" else Role.INIT) for each in pod.spec.init_containers),
        *((each, Role.REGULAR) for each in pod.spec.containers),
    ]
    return RunPlan(
        run=run,
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        log_directory=log_directory,
        containers=tuple(
            _container(pod, container, role, seen[container.name], sources, extra_groups, images)
            for container, role in containers
        ),
        restart_policy=pod.spec.restart_policy or "Always",
        grace_seconds=grace if grace is not None else DEFAULT_GRACE_SECONDS,
    )


def _container(
    pod: Pod,
    container: Container,
    role: Role,
    view: ContainerView,
    sources: EnvironmentSources,
    extra_groups: Sequence[int],
    images: bool,
) -> ContainerPlan:
    if not container.image:
        raise _refusal(container, "it names no image", "Write `image: …` beside its name")
    environment = work_out_environment(pod, container, sources)
    if environment.problems:
        first = environment.problems[0]
        raise _refusal(container, f"{first.what}: {first.why}", first.next_step)
    own = container.security_context or ContainerSecurityContext()
    shared = pod.spec.security_context or PodSecurityContext()
    user = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    group = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    if group is not None and user is None:
        raise _refusal(container, "runAsGroup needs runAsUser", "Write both")
    return ContainerPlan(
        name=container.name,
        role=role,
        image=container.image,
        pull=_pull(container),
        command=tuple(expand_known(word, environment.values) for word in container.command),
        args=tuple(expand_known(word, environment.values) for word in container.args),
        working_dir=container.working_dir,
        env=environment.values,
        mounts=tuple(_mount(container, mount, images) for mount in view.mounts),
        devices=tuple(_device(device) for device in view.devices),
        user=user,
        group=group,
        groups=_groups(shared, extra_groups),
        privileged=bool(own.privileged),
        read_only_root=bool(own.read_only_root_filesystem),
    )


def _refusal(container: Container, why: str, next_step: str = "") -> Refused:
    return Refused(f"cannot start container {container.name!r}", why=why, next_step=next_step)


def _pull(container: Container) -> Pull:
    found = _PULLS.get(container.image_pull_policy)
    if found is None:
        raise _refusal(container, f"unknown imagePullPolicy {container.image_pull_policy!r}")
    return found


def _groups(shared: PodSecurityContext, extra: Sequence[int]) -> tuple[int, ...]:
    """The pod's own supplemental groups, then its fsGroup, then those that its volumes ask for; each once."""
    own = [*shared.supplemental_groups, *([shared.fs_group] if shared.fs_group is not None else []), *extra]
    return tuple(dict.fromkeys(own))


def _mount(container: Container, mount: ContainerMount, images: bool) -> MountPlan:
    if mount.image is not None and not images:
        what = f"cannot show volume {mount.name!r} to container {container.name!r}"
        why = f"the container runtime cannot mount images, such as {mount.image!r}"
        raise Refused(what, why=why, next_step="Use podman, containerd 2.1 or newer, or CRI-O 1.31 or newer")
    return MountPlan(
        volume=mount.name,
        container_path=mount.container_path,
        host_path=mount.host_path,
        image=mount.image,
        image_sub_path=mount.image_sub_path,
        read_only=mount.read_only,
        recursive_read_only=mount.recursive_read_only,
        propagation=mount.propagation,
        relabel=mount.selinux_relabel,
    )


def _device(device: ContainerDevice) -> DevicePlan:
    return DevicePlan(container_path=device.container_path, host_path=device.host_path, permissions=device.permissions)
