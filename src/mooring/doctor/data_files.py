"""The small files that tell something: data files of CSI, records, runs, and what names pods that are gone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from mooring.doctor.snapshot import DataFile, Entry, Flavour, RecordFacts, Survey
from mooring.host import records
from mooring.host.durable_files import NEW
from mooring.host.interface import FileKind

_NAMES = frozenset(("vol_data.json", "iscsi.json", "etc-hosts"))
_STATES = ("cpu_manager_state", "memory_manager_state")
_RECORDS = ("intents/", "debts/", "runs/")
_MOST_BYTES = 1 << 20
_MOST_HISTORY = 32 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_POD_LOGS = "/var/log/pods"


def read_all(root: str, entries: Mapping[str, Entry]) -> dict[str, DataFile]:
    """Every file that may tell something. Files of volumes are not among them."""
    inside = f"{root.rstrip('/')}/"
    chosen = [
        path
        for path, entry in entries.items()
        if entry.kind is FileKind.FILE and not entry.mounted and _tells(path.removeprefix(inside))
    ]
    return {path: _read(path) for path in sorted(chosen)}


def _tells(relative: str) -> bool:
    if relative in _STATES or relative.startswith(_RECORDS):
        return relative.count("/") <= 1 and not relative.endswith((NEW, ".lock"))
    parts = relative.split("/")
    if parts[-1] not in _NAMES:
        return False
    if parts[0] == "pods":
        in_csi_volume = parts[2:4] == ["volumes", "kubernetes.io~csi"] and len(parts) == 6
        return in_csi_volume or (len(parts) == 3 and parts[2] == "etc-hosts")
    return parts[:2] == ["plugins", "kubernetes.io"]


def _read(path: str) -> DataFile:
    try:
        with open(os.open(path, _READ), "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return DataFile(path=path, trouble=error.strerror or str(error))
    if len(data) > _MOST_BYTES:
        return DataFile(path=path, trouble=f"it is larger than {_MOST_BYTES >> 20} MiB")
    return DataFile(path=path, data=data)


def json_object(file: DataFile) -> dict[str, object]:
    """The object in a file; ValueError says in words what is wrong with it."""
    if file.trouble:
        raise ValueError(file.trouble)
    if not file.data.strip(b"\0 \t\r\n"):
        raise ValueError("it is empty" if not file.data else "it holds nothing but zeros or blanks")
    try:
        found = json.loads(file.data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("it holds no object")
    return found


def volume_of(file: DataFile | None) -> str:
    """Which volume a `vol_data.json` is about, in words; empty when it does not tell."""
    if file is None:
        return ""
    try:
        body = json_object(file)
    except ValueError:
        return ""
    driver, handle, name = (body.get(key) for key in ("driverName", "volumeHandle", "specVolID"))
    called = f" ({name})" if isinstance(name, str) and name else ""
    return f"volume {handle!r} of CSI driver {driver!r}{called}" if driver and handle else ""


def volume_key(survey: Survey, path: str) -> tuple[str, str] | None:
    """Driver and handle in a `vol_data.json`, which tell whether two of them are about one volume."""
    file = survey.files.get(path)
    if file is None:
        return None
    try:
        body = json_object(file)
    except ValueError:
        return None
    return str(body.get("driverName", "")), str(body.get("volumeHandle", ""))


def data_file_of(survey: Survey, path: str) -> DataFile | None:
    """The data file of a stage, or of a block volume's directory."""
    return survey.files.get(f"{path}/vol_data.json") or survey.files.get(f"{path}/data/vol_data.json")


def record_trouble(file: DataFile) -> str:
    """Why a file among the records is none; empty when it is a good one."""
    if file.trouble:
        return file.trouble
    if not file.path.endswith(".record"):
        return "it is no record"
    try:
        records.decode(file.data)
    except ValueError as error:
        return str(error)
    return ""


def intents(root: str, files: Mapping[str, DataFile]) -> tuple[RecordFacts, ...]:
    """What the intent records tell."""
    found: list[RecordFacts] = []
    for path, file in files.items():
        if path.startswith(f"{root.rstrip('/')}/intents/") and not record_trouble(file):
            body = {name: str(value or "") for name, value in records.decode(file.data).items()}
            found.append(
                RecordFacts(
                    file=path,
                    path=body.get("path", ""),
                    volume=body.get("volume", ""),
                    pod=body.get("pod", ""),
                    owner=body.get("owner", ""),
                )
            )
    return tuple(found)


def runs(root: str, entries: Mapping[str, Entry], files: Mapping[str, DataFile]) -> dict[str, str]:
    """Pods whose containers may run, with their names as far as the record tells; one that is damaged counts too."""
    directory = f"{root.rstrip('/')}/runs"
    found: dict[str, str] = {}
    for name in entries[directory].names if directory in entries else ():
        if name.endswith(".json"):
            pod: object = ""
            with suppress(ValueError, KeyError):
                pod = json_object(files[f"{directory}/{name}"]).get("pod", "")
            found[name.removesuffix(".json")] = str(pod or "")
    return found


def names(survey: Survey) -> dict[str, str]:
    """Names of pods by UID, also of those that are gone: from the history, from records, and on a kubelet's node
    from the directories of its logs and the hosts files it wrote."""
    found: dict[str, str] = {}
    if survey.flavour is not Flavour.MOORING:
        found.update(_from_hosts_files(survey))
        found.update(_from_logs())
    found.update(_from_history(f"{survey.root.rstrip('/')}/history.jsonl"))
    found.update({record.pod: record.owner for record in survey.records if record.pod and record.owner})
    return found


def _from_logs() -> Iterable[tuple[str, str]]:
    with suppress(OSError):
        for name in os.listdir(_POD_LOGS):
            namespace, _, rest = name.partition("_")
            pod, _, uid = rest.rpartition("_")
            if namespace and pod and uid:
                yield uid, f"{namespace}/{pod}"


def _from_hosts_files(survey: Survey) -> Iterable[tuple[str, str]]:
    """A kubelet writes the pod's own name into the line after those that every hosts file has."""
    for path, file in survey.files.items():
        relative = survey.below(path).split("/")
        lines = file.data.decode("utf-8", "replace").splitlines()
        own = [line.split("\t") for line in lines if line and not line.startswith("#") and "localhost" not in line]
        if relative[-1] == "etc-hosts" and lines and "Kubernetes-managed" in lines[0] and own:
            last = own[-1]
            if len(last) > 1 and not last[0].startswith(("fe00:", "ff0")):
                yield relative[1], last[1]


def _from_history(path: str) -> Iterable[tuple[str, str]]:
    try:
        with open(os.open(path, _READ), "rb") as file:
            data = file.read(_MOST_HISTORY)
    except OSError:
        return
    for line in data.splitlines():
        with suppress(ValueError, AttributeError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("pod_name"):
                yield str(entry["pod"]), str(entry["pod_name"])
