"""Reads everything about a root directory and its machine once, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from mooring.doctor import below_mounts, data_files, listeners, loops, users
from mooring.doctor.checks import environment
from mooring.doctor.snapshot import Bound, Entry, Flavour, Knowledge, Machine, Survey, Use
from mooring.doctor.store_image import read_store
from mooring.doctor.tree import TreeReader
from mooring.errors import InvalidInput
from mooring.host.answers import has_server
from mooring.host.health import Answer
from mooring.host.interface import FileKind, MountFacts
from mooring.host.linux import LinuxHost
from mooring.host.mount_table import MountTable
from mooring.host.paths import Paths
from mooring.host.programs import find_program

TREES = (
    *("pods", "plugins", "plugins_registry"),
    *("runs", "intents", "debts", "store"),
    *("pki", "device-plugins", "pod-resources"),
)
"""The directories in a root directory that are read to the bottom."""
_MOORINGS = frozenset(
    ("mooring.lock", "mooring.sock", "store", "intents", "debts", "runs", "boot-id", "history.jsonl", "offline")
)
_KUBELETS = frozenset(("cpu_manager_state", "memory_manager_state", "device-plugins", "pod-resources", "pki"))
_EITHERS = frozenset(("pods", "plugins", "plugins_registry"))


def usable_root(root: str, answers: Callable[[str], Answer]) -> str:
    """The root directory without links in its path; `InvalidInput` when there is none to look at."""
    what = f"cannot examine {root!r}"
    if answers(root) is not Answer.WELL:
        raise InvalidInput(what, why="the file system it is on does not answer", next_step="Bring its server back")
    try:
        real = os.path.realpath(root, strict=True)
        if not stat.S_ISDIR(os.stat(real).st_mode):
            raise InvalidInput(what, why="it is not a directory", next_step="Name a root directory with --root")
        names = frozenset(os.listdir(real))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidInput(what, why=why, next_step="Name a root directory that can be read with --root") from error
    if not names & (_MOORINGS | _EITHERS):
        why = "it is empty" if not names else "it is neither mooring's nor a kubelet's: it has no pods and no plugins"
        raise InvalidInput(what, why=why, next_step="Name the root directory of either with --root")
    return real


def flavour_of(names: Iterable[str]) -> Flavour:
    """Whose root directory it is, by the names in it."""
    found = frozenset(names)
    if not found & _MOORINGS:
        return Flavour.KUBELET
    return Flavour.MIXED if found & _KUBELETS else Flavour.MOORING


class Surveyor:
    """Looks at one root directory, as often as it is asked to."""

    def __init__(
        self, host: LinuxHost, root: str, *, manager: str = "", known: Mapping[str, str] | None = None
    ) -> None:
        self.host, self.root, self.paths = host, root, Paths(root)
        self._manager, self._known = manager, known

    def survey(self) -> Survey:
        table = MountTable(self.host.mounts())
        below = [mount for mount in table.mounts if self._is_below(mount.path)]
        answers = below_mounts.ask_all(self.host.answers, [m for m in below if table.at(m.path) is m])
        reader = TreeReader(self.host.features, self.root, lambda path: table.at(path) is not None)
        reader.read_top("")
        flavour = flavour_of(reader.entries[self.root].names)
        for name in TREES:
            if answers.get(f"{self.root}/{name}", Answer.WELL) is Answer.WELL:
                reader.read_top(name)
        files = data_files.read_all(self.root, reader.entries)
        uses, bounds = self.users()
        store = read_store(f"{self.paths.store_dir}/objects.db")
        survey = Survey(
            root=self.root,
            flavour=flavour,
            entries=reader.entries,
            mounts=table,
            knowledge=Knowledge(),
            machine=self._machine(),
            boot=self.host.boot_id(),
            store=store,
            records=data_files.intents(self.root, files),
            answers=answers,
            covered=below_mounts.hidden_names(self.host.features, table, below),
            empty_mounts=frozenset(m.id for m in below if self._is_empty_tmpfs(table, answers, m)),
            sources={m.id: place for m in below if (place := self._source(table, answers, m))},
            uses=uses,
            bounds=bounds,
            loops=loops.loops_below(self.root, table),
            silent_sockets=_silent(reader.entries),
            dangling=_dangling(reader.entries, table),
            files=files,
        )
        return replace(survey, knowledge=self._knowledge(survey))

    def users(self) -> tuple[tuple[Use, ...], tuple[Bound, ...]]:
        """Who uses what lies below the root directory now."""
        table = MountTable(self.host.mounts())
        return users.uses(self.root), users.bounds(self._devices(table), table)

    def _is_below(self, path: str) -> bool:
        return path.startswith(f"{self.root.rstrip('/')}/")

    def _is_empty_tmpfs(self, table: MountTable, answers: Mapping[str, Answer], mount: MountFacts) -> bool:
        return (
            mount.fs_type == "tmpfs"
            and mount.root == "/"
            and table.at(mount.path) is mount
            and answers.get(mount.path) is Answer.WELL
            and len(table.tree_of(mount.id)) == 1
            and below_mounts.is_empty(mount.path)
        )

    def _source(self, table: MountTable, answers: Mapping[str, Answer], mount: MountFacts) -> str:
        if table.at(mount.path) is not mount or answers.get(mount.path) is not Answer.WELL:
            return ""
        return below_mounts.source_of(table, mount)

    def _devices(self, table: MountTable) -> set[int]:
        places = (self.root, *(f"{self.root.rstrip('/')}/{name}" for name in TREES))
        return {mount.device for place in places if (mount := table.holding(place)) is not None}

    def _machine(self) -> Machine:
        return Machine(
            features=self.host.features,
            file_systems=_file_systems(),
            programs=frozenset(name for name in environment.PROGRAMS if find_program(name) is not None),
            usage=self.host.file_system_usage(self.root),
            superuser=os.geteuid() == 0,
            user_namespaces=_number("/proc/sys/user/max_user_namespaces", 1) > 0
            and _number("/proc/sys/kernel/unprivileged_userns_clone", 1) > 0,
            swap=_has_swap(),
        )

    def _knowledge(self, survey: Survey) -> Knowledge:
        runs = data_files.runs(self.root, survey.entries, survey.files)
        pods = {**survey.store.pods, **runs, **(self._known or {})}
        names = {**data_files.names(survey), **{uid: name for uid, name in pods.items() if name}}
        manager = self._manager or (users.kubelet_at(self.root) if survey.flavour is not Flavour.MOORING else "")
        why = ""
        if survey.flavour is not Flavour.MOORING:
            why = "there is no source of pods to ask: only the kubelet knows them"
        elif self._known is None and manager:
            why = "the daemon that runs here does not tell its pods"
        elif self._known is None and survey.store.trouble:
            why = f"the store that would tell cannot be read: {survey.store.trouble}"
        elif self._known is None and not survey.store.exists:
            why = "there is no store that would tell"
        return Knowledge(pods=pods, certain=not why, why=why, names=names, manager=manager)


def _silent(entries: Mapping[str, Entry]) -> frozenset[str]:
    sockets = (path for path, entry in entries.items() if entry.kind is FileKind.SOCKET and not entry.mounted)
    return frozenset(path for path in sockets if listeners.is_silent(path))


def _dangling(entries: Mapping[str, Entry], table: MountTable) -> frozenset[str]:
    """Links to block devices whose target is not there; a target on a file system that may not answer is not asked."""
    found: set[str] = set()
    for path, entry in entries.items():
        if entry.kind is not FileKind.LINK or "/volumeDevices/" not in path:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), entry.text))
        mount = table.holding(target)
        if mount is None or has_server(mount.fs_type):
            continue
        try:
            os.lstat(target)
        except (FileNotFoundError, NotADirectoryError):
            found.add(path)
        except OSError:
            continue
    return frozenset(found)


def _file_systems() -> frozenset[str]:
    with suppress(OSError), open("/proc/filesystems", encoding="ascii") as file:
        return frozenset(line.split()[-1] for line in file if line.strip())
    return frozenset()


def _number(path: str, otherwise: int) -> int:
    with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        return int(file.read())
    return otherwise


def _has_swap() -> bool:
    with suppress(OSError), open("/proc/swaps", encoding="utf-8", errors="replace") as file:
        return len(file.readlines()) > 1
    return False
