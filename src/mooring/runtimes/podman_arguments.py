"""The words of podman's command line, as pure functions. No variable's value is ever among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mooring.errors import Refused
from mooring.manager.container_mounts import Propagation
from mooring.runtimes.interface import ContainerPlan, MountPlan, RunPlan
from mooring.runtimes.mount_words import long_mount
from mooring.runtimes.records import RuntimeOptions

_GUARDED = frozenset(("PATH", "HOME", "USER", "TMPDIR", "LANG", "NOTIFY_SOCKET", "REGISTRY_AUTH_FILE"))
_GUARDED_PREFIXES = (
    *("BUILDAH_", "CONTAINER", "DBUS_", "DOCKER_", "GO", "LC_", "LD_", "LISTEN_", "PODMAN_", "SSL_", "STORAGE_"),
    *("XDG_", "_CONTAINERS_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """How variables reach podman: as lines of a file, or in its own environment, each named by an argument."""

    lines: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def container_name(run: str, container: str, attempt: int) -> str:
    return f"mooring-{run}-{container}-{attempt}"


def global_options(options: RuntimeOptions) -> list[str]:
    """What every call begins with."""
    return [*(["--runtime", options.oci_runtime] if options.oci_runtime else []), *options.options]


def pass_variables(container: ContainerPlan) -> Passed:
    """Plain values go into a file. Others, which versions of podman read differently, through its environment.

    A variable that podman itself heeds never does: with a value that no file can hold it is refused.
    """
    lines: list[str] = []
    environment: dict[str, str] = {}
    for name, value in sorted(container.env.items()):
        if _is_plain(name) and _is_plain(value):
            lines.append(f"{name}={value}")
        elif name in _GUARDED or name.startswith(_GUARDED_PREFIXES):
            why = f"podman itself heeds {name!r}, and cannot be given a value with quotes, line ends or outer blanks"
            raise Refused(f"cannot start container {container.name!r}", why=why, next_step="Use a plain value")
        else:
            environment[name] = value
    return Passed(lines=tuple(lines), environment=environment)


def _is_plain(text: str) -> bool:
    return text == text.strip() and not any(each in text for each in "\n\r\"'\\#`$")


def create_arguments(
    plan: RunPlan, container: ContainerPlan, attempt: int, options: RuntimeOptions, passed: Passed, file: str
) -> list[str]:
    """`podman create`, with the variables of `file` and those that are passed in the environment."""
    log = f"{plan.log_directory}/{plan.log_path(container.name, attempt)}"
    words = ["create", "--name", container_name(plan.run, container.name, attempt), "--pull", "never"]
    words += [
        "--network",
        "host",
        "--http-proxy=false",
        "--restart",
        "no",
        "--log-driver",
        "k8s-file",
        "--log-opt",
        f"path={log}",
    ]
    words += _each("--label", (f"{key}={value}" for key, value in plan.labels(container.name, attempt).items()))
    words += _each("--ulimit", options.ulimits)
    words += ["--env-file", file] if passed.lines else []
    words += _each("--env", passed.environment)
    words += _identity(container)
    words += ["--workdir", container.working_dir] if container.working_dir else []
    for mount in container.mounts:
        words += mount_arguments(mount)
    for device in container.devices:
        words += ["--device", f"{device.host_path}:{device.container_path}:{device.permissions}"]
    words += ["--entrypoint", json.dumps(container.command)] if container.command else []
    return [*words, container.image, *container.args]


def _each(option: str, values: Iterable[str | int]) -> list[str]:
    return [word for value in values for word in (option, str(value))]


def _identity(container: ContainerPlan) -> list[str]:
    words: list[str] = []
    if container.user is not None:
        group = f":{container.group}" if container.group is not None else ""
        words += ["--user", f"{container.user}{group}"]
    words += _each("--group-add", container.groups)
    words += ["--privileged"] if container.privileged else []
    # As in Kubernetes a read-only root has no writable places that nobody asked for.
    return [*words, *(["--read-only", "--read-only-tmpfs=false"] if container.read_only_root else [])]


def mount_arguments(mount: MountPlan) -> list[str]:
    if mount.image is not None:
        sub_path = [f"subpath={mount.image_sub_path}"] if mount.image_sub_path else []
        return long_mount("type=image", f"source={mount.image}", f"destination={mount.container_path}", *sub_path)
    fields = ["type=bind", f"source={mount.host_path}", f"destination={mount.container_path}"]
    fields += ["ro=true"] if mount.read_only else []
    propagation = "rprivate" if mount.propagation is Propagation.PRIVATE else mount.propagation.value
    fields += [f"bind-propagation={propagation}", *(["relabel=shared"] if mount.relabel else [])]
    return long_mount(*fields)
