"""What a CRI runtime is sent for a plan, as pure functions."""

from __future__ import annotations

from mooring.manager.container_mounts import Propagation
from mooring.runtimes.interface import ContainerPlan, MountPlan, RunPlan
from mooring.stubs import cri_pb2 as cri

_MASKED = ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")
MASKED_PATHS = (*(f"/proc/{name}" for name in (*_MASKED, "timer_stats")), "/sys/firmware")
READ_ONLY_PATHS = tuple(f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"))
"""What a container does not see or may not change unless it is privileged: `procMount: Default` of Kubernetes."""

_PROPAGATIONS = {
    Propagation.PRIVATE: cri.PROPAGATION_PRIVATE,
    Propagation.RSLAVE: cri.PROPAGATION_HOST_TO_CONTAINER,
    Propagation.RSHARED: cri.PROPAGATION_BIDIRECTIONAL,
}


def sandbox_config(plan: RunPlan) -> cri.PodSandboxConfig:
    """The sandbox of a run: the machine's network, and all else of its own."""
    privileged = any(container.privileged for container in plan.containers)
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=plan.name, uid=plan.uid, namespace=plan.namespace),
        log_directory=plan.log_directory,
        labels={**_pod_labels(plan), **plan.labels()},
        linux=cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=_namespaces(), privileged=privileged)
        ),
    )


def _pod_labels(plan: RunPlan) -> dict[str, str]:
    """What a kubelet writes, for tools that look for it."""
    return {
        "io.kubernetes.pod.name": plan.name,
        "io.kubernetes.pod.namespace": plan.namespace,
        "io.kubernetes.pod.uid": plan.uid,
    }


def _namespaces() -> cri.NamespaceOption:
    return cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER, ipc=cri.POD)


def container_config(plan: RunPlan, container: ContainerPlan, attempt: int) -> cri.ContainerConfig:
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=attempt),
        image=cri.ImageSpec(image=container.image, user_specified_image=container.image),
        command=container.command,
        args=container.args,
        working_dir=container.working_dir,
        envs=[cri.KeyValue(key=name, value=value) for name, value in sorted(container.env.items())],
        mounts=[_mount(mount) for mount in container.mounts],
        devices=[
            cri.Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in container.devices
        ],
        labels={
            **_pod_labels(plan),
            "io.kubernetes.container.name": container.name,
            **plan.labels(container.name, attempt),
        },
        log_path=plan.log_path(container.name, attempt),
        linux=cri.LinuxContainerConfig(security_context=_security(container)),
    )


def _security(container: ContainerPlan) -> cri.LinuxContainerSecurityContext:
    profile = cri.SecurityProfile.Unconfined if container.privileged else cri.SecurityProfile.RuntimeDefault
    return cri.LinuxContainerSecurityContext(
        privileged=container.privileged,
        namespace_options=_namespaces(),
        run_as_user=_number(container.user),
        run_as_group=_number(container.group),
        readonly_rootfs=container.read_only_root,
        supplemental_groups=container.groups,
        masked_paths=() if container.privileged else MASKED_PATHS,
        readonly_paths=() if container.privileged else READ_ONLY_PATHS,
        seccomp=cri.SecurityProfile(profile_type=profile),
    )


def _number(value: int | None) -> cri.Int64Value | None:
    return cri.Int64Value(value=value) if value is not None else None


def _mount(mount: MountPlan) -> cri.Mount:
    return cri.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path or "",
        readonly=mount.read_only,
        selinux_relabel=mount.relabel,
        propagation=_PROPAGATIONS[mount.propagation],
        recursive_read_only=mount.recursive_read_only,
        image=cri.ImageSpec(image=mount.image) if mount.image is not None else None,
        image_sub_path=mount.image_sub_path,
    )


def can_mount_images(name: str, version: str) -> bool:
    """Whether a runtime mounts images as volumes; CRI has no other way to tell than its name and version."""
    numbers = tuple(
        int(part) for part in version.lstrip("v").split("-")[0].split("~")[0].split(".")[:2] if part.isdigit()
    )
    least = {"containerd": (2, 1), "cri-o": (1, 31)}.get(name)
    return least is not None and numbers >= least
