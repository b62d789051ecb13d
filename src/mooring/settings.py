"""Every path, interval and limit in one table, from flags, environment (`MOORING_*`) and a TOML file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.errors import InvalidInput

LOG_LEVELS = ("debug", "info", "warning", "error")


def _setting(default: Any, says: str, *, least: int = 0, one_of: tuple[str, ...] = (), several: bool = False) -> Any:
    """A field with what it means and what it may be: numbers are never below `least`, `several` may be a list."""
    return field(default=default, metadata={"says": says, "least": least, "one_of": one_of, "several": several})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one instance of mooring runs. Times are seconds."""

    root: str = _setting("/var/lib/mooring", "root directory of this instance: pods, plugins, store and control socket")
    node_name: str = _setting("", "name of this node; empty takes the host name")
    log_level: str = _setting("info", "how much is logged to stderr: debug, info, warning or error", one_of=LOG_LEVELS)
    wait_timeout: float = _setting(123.0, "longest wait for a pod's volumes before the reasons are returned")
    stop_timeout: float = _setting(10.0, "how long running operations may finish when the daemon stops")
    mount_events: str = _setting(
        "auto",
        "how mounts that others change are noticed: auto (fanotify where the kernel has it), poll (of mountinfo, which"
        " takes a look at all mounts) or off",
        one_of=("auto", "poll", "off"),
    )
    resync_interval: float = _setting(60.0, "how often all volumes are looked at again; should find nothing to do")
    refresh_interval: float = _setting(600.0, "how often content volumes are compared again although nothing changed")
    backoff_initial: float = _setting(
        0.5, "pause after the first failure of an operation; doubles with each further one"
    )
    backoff_maximum: float = _setting(122.0, "longest pause between two tries of a failing operation")
    running_operations: int = _setting(64, "how many operations may run at once", least=1)
    share_work: str = _setting(
        "auto",
        "whether a second process, of some 25 MB, shares the work on files and mounts: auto (while there is a burst"
        " of it, and more than one processor), always or off",
        one_of=("auto", "always", "off"),
    )
    host_call_timeout: float = _setting(120.0, "how long a call that may hang is waited for")
    ownership_patience: float = _setting(
        30.0, "how long a walk over a volume's files takes before an event tells of it"
    )
    ownership_interval: float = _setting(60.0, "how often further events tell how far such a walk is")
    history_length: int = _setting(64, "how many entries of history are kept per volume", least=1)
    journal_size: int = _setting(8 * 1024 * 1024, "bytes of history kept on disk before the older half is dropped")
    event_lifetime: float = _setting(3600.0, "how long an Event object stays in the local store")
    issuer: str = _setting(
        "", "issuer (`iss`) of the service account tokens; empty is https://mooring.local/ with the node's name"
    )
    usage_lifetime: float = _setting(60.0, "how long figures of how full volumes are stay good")
    restart_pause: float = _setting(10.0, "pause before a container's second restart; doubles with each further one")
    restart_pause_maximum: float = _setting(300.0, "longest pause before a container is started again")
    limit_check_interval: float = _setting(
        10.0, "how often volumes of pods with a storage limit are measured; a pod above its limit is evicted"
    )
    selinux_mount: str = _setting(
        "off",
        "whether volumes of all access modes are mounted with the SELinux label of their pods (on), or only those that"
        " have ReadWriteOncePod alone (off)",
        one_of=("off", "on"),
    )
    project_quotas: str = _setting(
        "off",
        "project quotas for emptyDir volumes with a limit, where the file system has them and the pod has a user"
        " namespace: off, account (the kernel counts) or enforce (the kernel refuses to write more)",
        one_of=("off", "account", "enforce"),
    )
    plugin_registry: str = _setting(
        "", "where CSI drivers register, watched with all below it; empty is plugins_registry in the root"
    )
    csi_sockets: str = _setting(
        "", "sockets of CSI drivers that have no registrar, divided by commas; in a file also a list", several=True
    )
    health_interval: float = _setting(
        60.0, "how often CSI drivers that can tell are asked whether something is wrong with mounted volumes", least=1
    )
    csi_timeout: float = _setting(120.0, "how long a call to a CSI driver is waited for")
    attach: str = _setting(
        "auto",
        "who attaches volumes of CSI drivers that need it: external (a VolumeAttachment that others write is awaited),"
        " local (mooring asks the driver itself), or auto (external, and a driver without a CSIDriver object that"
        " cannot attach needs none)",
        one_of=("auto", "external", "local"),
    )
    force_detach: str = _setting(
        "on",
        "whether `mooring controller` takes volumes from a node that is not ready and does not say that it has"
        " unmounted them: on or off; the out-of-service taint of a node does so always",
        one_of=("on", "off"),
    )
    force_detach_after: float = _setting(360.0, "how long it waits for such a node before")
    content_strategy: str = _setting(
        "watch",
        "how a node of a cluster follows the ConfigMaps and Secrets of its pods: watch (each by itself), or get (read"
        " when a pod comes, and once a minute after that)",
        one_of=("watch", "get"),
    )
    claim_interval: float = _setting(
        60.0,
        "seconds between two looks at a bound claim and its volume, which a node of a cluster may not watch; growth is"
        " noticed by them",
    )
    offline: str = _setting(
        "on",
        "whether a node of a cluster keeps its last view of the objects it needs on disk, for a start without an API"
        " server: on or off",
        one_of=("on", "off"),
    )
    offline_secrets: str = _setting(
        "encrypted",
        "whether secrets are kept in that view: encrypted (with a key that stays in the root directory) or never",
        one_of=("encrypted", "never"),
    )
    flex_volume_directory: str = _setting(
        "", "where drivers of flexVolume are looked for, as VENDOR~DRIVER/DRIVER; empty is volumeplugins in the root"
    )
    allow_git_repo: str = _setting(
        "no", "whether gitRepo volumes are served, for which this machine runs git: no or yes", one_of=("no", "yes")
    )
    allocatable_memory: int = _setting(
        0, "bytes that memory-backed volumes may take at most; 0 takes the machine's memory"
    )
    allocatable_cpu_milli: int = _setting(0, "processor thousandths shown to downwardAPI files; 0 takes the machine's")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(text: str) -> float:
    """Seconds in texts such as `60s`, `2m3s`, `500ms`, `1.5` or `1h`."""
    position, total = 0, 0.0
    while position < len(text):
        found = _DURATION.match(text, position)
        if found is None:
            break
        total += float(found[1]) * _UNITS[found[2]]
        position = found.end()
    if not text or position != len(text):
        raise InvalidInput(
            f"cannot read the duration {text!r}",
            why="it is not a number with a unit",
            next_step="Write it like 60s or 2m",
        )
    return total


NO_DEFAULTS: Mapping[str, object] = {}


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    file: str | None = None,
    defaults: Mapping[str, object] = NO_DEFAULTS,
) -> Settings:
    """Settings from the strongest to the weakest: flags, environment, TOML file, the caller's defaults, our own.

    A variable that is set to nothing counts as not set.
    """
    chosen: dict[str, object] = dict(defaults)
    if file is not None:
        chosen.update(_from_file(file))
    for name in _FIELDS:
        variable = f"MOORING_{name.upper()}"
        if environment.get(variable):
            chosen[name] = _convert(name, environment[variable], place=f"environment variable {variable}")
    chosen.update({name: value for name, value in flags.items() if value is not None})
    return Settings(**chosen)  # type: ignore[arg-type]


def _from_file(file: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - 2 ms that only who has such a file should pay

    try:
        with open(file, "rb") as stream:
            table = tomllib.load(stream)
    except OSError as error:
        raise InvalidInput("cannot read the settings file", why=error.strerror or str(error), place=file) from error
    except ValueError as error:  # TOMLDecodeError, or bytes that are no text
        raise InvalidInput("cannot read the settings file", why=f"it is not TOML ({error})", place=file) from error
    unknown = sorted(table.keys() - _FIELDS.keys())
    if unknown:
        known = ", ".join(_FIELDS)
        raise InvalidInput(
            f"unknown setting {unknown[0]!r}",
            why="mooring has no such setting",
            next_step=f"Known are: {known}",
            place=file,
        )
    return {name: _convert(name, value, place=f"{file}: {name}") for name, value in table.items()}


def _convert(name: str, value: object, *, place: str) -> object:
    wanted = type(_FIELDS[name].default)
    try:
        if wanted is float:
            return _at_least(name, parse_duration(str(value)))
        if wanted is int:
            return _at_least(name, int(str(value)))
    except InvalidInput as error:
        raise InvalidInput(error.what, why=error.why, next_step=error.next_step, place=place) from error
    except ValueError as error:
        raise InvalidInput(f"cannot read {value!r}", why="a whole number is expected", place=place) from error
    if isinstance(value, list) and _FIELDS[name].metadata["several"]:
        value = ",".join(map(str, value))
    if not isinstance(value, str):
        raise InvalidInput(f"cannot read {value!r}", why="a text is expected", place=place)
    known = _FIELDS[name].metadata["one_of"]
    if known and value not in known:
        next_step = f"Write one of {', '.join(known)}"
        raise InvalidInput(f"cannot use {value!r}", why="it is not known", next_step=next_step, place=place)
    return value


def _at_least(name: str, number: float) -> float:
    least: int = _FIELDS[name].metadata["least"]
    if number < least:
        raise InvalidInput(f"cannot use {number:g}", why=f"{least} is the least")
    return number


_FIELDS = {each.name: each for each in dataclasses.fields(Settings)}
