"""Where everything lies below the root directory: the kubelet's own layout, and mooring's few files beside it.

Names come from manifests and drivers, so every one that becomes part of a path is checked: a pod called `..` gets a
ValueError and never a directory.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache

_NOT_A_NAME = frozenset(("", ".", ".."))


@lru_cache(maxsize=4096)  # a pod's names are asked for again and again while it is worked on
def checked_component(name: str) -> str:
    """Return the name when it can stand alone as one path component."""
    if name in _NOT_A_NAME or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} cannot be part of a path: a name is not empty, not '.' or '..', and has no '/'")
    return name


def checked_relative(path: str) -> str:
    """Return the path when each of its components is a name, so that it cannot lead out of where it is appended."""
    for name in path.split("/"):
        checked_component(name)
    return path


@lru_cache(maxsize=256)
def escape_plugin_name(name: str) -> str:
    """Return a plugin name as one directory name: `kubernetes.io/secret` becomes `kubernetes.io~secret`."""
    return name.replace("/", "~")


def unescape_plugin_name(name: str) -> str:
    """Return the plugin name that a directory name stands for."""
    return name.replace("~", "/")


class Paths:
    """The places below one root directory. Pure text: nothing is looked up or made."""

    __slots__ = ("_pods", "root")

    def __init__(self, root: str) -> None:
        if not root.startswith("/") or "\0" in root or posixpath.normpath(root) != root or root.startswith("//"):
            raise ValueError(f"root directory {root!r} is not a clean absolute path such as '/var/lib/mooring'")
        self.root = root
        self._pods = f"{root.rstrip('/')}/pods"

    # -- mooring's own files -------------------------------------------------------------------------------------
    @property
    def socket(self) -> str:
        """The control socket."""
        return self._below("mooring.sock")

    @property
    def store_dir(self) -> str:
        """The directory of the local object store."""
        return self._below("store")

    @property
    def lock_file(self) -> str:
        """The file whose lock says that a manager runs here."""
        return self._below("mooring.lock")

    @property
    def history_file(self) -> str:
        """The file that remembers what happened to volumes, one JSON line each."""
        return self._below("history.jsonl")

    @property
    def service_account_key(self) -> str:
        """The private key that signs service account tokens."""
        return self._below("service-account.key")

    # -- runs of pods --------------------------------------------------------------------------------------------
    @property
    def runs_dir(self) -> str:
        """Records of pods whose containers mooring started."""
        return self._below("runs")

    def run_record(self, uid: str) -> str:
        """What is known of a pod's run."""
        return f"{self.runs_dir}/{checked_component(uid)}.json"

    def run_lock(self, uid: str) -> str:
        """The file whose lock is held by whoever starts a container of a pod, or decides that none is started."""
        return f"{self.runs_dir}/{checked_component(uid)}.lock"

    def run_logs_dir(self, uid: str) -> str:
        """What a pod's containers write, one directory per container."""
        return f"{self.runs_dir}/{checked_component(uid)}"

    @property
    def intents_dir(self) -> str:
        """Records of what was begun on volumes and is not proven to be undone."""
        return self._below("intents")

    @property
    def debts_dir(self) -> str:
        """Records of mounts that were taken away from under their users."""
        return self._below("debts")

    @property
    def flex_volume_dir(self) -> str:
        """Where drivers of FlexVolumes are looked for unless another directory is set."""
        return self._below("volumeplugins")

    # -- plugins -------------------------------------------------------------------------------------------------
    @property
    def plugins_dir(self) -> str:
        """Per-plugin data of the node, and the sockets of CSI drivers."""
        return self._below("plugins")

    @property
    def registry_dir(self) -> str:
        """Where drivers put their registration sockets."""
        return self._below("plugins_registry")

    def plugin_dir(self, plugin: str) -> str:
        """The node-wide directory of a plugin. The plugin name is not escaped here: it is two levels."""
        return f"{self.plugins_dir}/{checked_relative(plugin)}"

    def plugin_devices_dir(self, plugin: str) -> str:
        """Where a plugin keeps its global block maps."""
        return f"{self.plugin_dir(plugin)}/volumeDevices"

    # -- pods ----------------------------------------------------------------------------------------------------
    @property
    def pods_dir(self) -> str:
        return self._pods

    def pod_dir(self, uid: str) -> str:
        return f"{self._pods}/{checked_component(uid)}"

    def pod_volumes_dir(self, uid: str) -> str:
        """Filesystem volumes of a pod, one directory per plugin."""
        return f"{self._pods}/{checked_component(uid)}/volumes"

    def pod_volume_dir(self, uid: str, plugin: str, volume: str) -> str:
        """A volume as the containers see it: a directory or a mount point."""
        escaped = checked_component(escape_plugin_name(plugin))
        return f"{self._pods}/{checked_component(uid)}/volumes/{escaped}/{checked_component(volume)}"

    def pod_devices_dir(self, uid: str) -> str:
        """Block volumes of a pod, one directory per plugin."""
        return f"{self._pods}/{checked_component(uid)}/volumeDevices"

    def pod_device_dir(self, uid: str, plugin: str) -> str:
        """The directory with a pod's links to the devices of one plugin."""
        return f"{self.pod_devices_dir(uid)}/{checked_component(escape_plugin_name(plugin))}"

    def pod_device(self, uid: str, plugin: str, volume: str) -> str:
        """The link to a pod's block device."""
        return f"{self.pod_device_dir(uid, plugin)}/{checked_component(volume)}"

    def pod_plugins_dir(self, uid: str) -> str:
        """What plugins keep for a pod beside its volumes."""
        return f"{self._pods}/{checked_component(uid)}/plugins"

    def pod_plugin_dir(self, uid: str, plugin: str, volume: str) -> str:
        """What a plugin keeps for one volume of a pod, such as the `ready` file of an emptyDir."""
        escaped = checked_component(escape_plugin_name(plugin))
        return f"{self._pods}/{checked_component(uid)}/plugins/{escaped}/{checked_component(volume)}"

    def pod_subpaths_dir(self, uid: str) -> str:
        """The bind mounts made for `subPath`, by volume, container and number of the volume mount."""
        return f"{self._pods}/{checked_component(uid)}/volume-subpaths"

    def pod_subpath(self, uid: str, volume: str, container: str, index: int) -> str:
        """The bind mount for volume mount number `index` of a container."""
        names = f"{checked_component(volume)}/{checked_component(container)}/{index}"
        return f"{self.pod_subpaths_dir(uid)}/{names}"

    def pod_containers_dir(self, uid: str) -> str:
        """Termination logs, one directory per container."""
        return f"{self.pod_dir(uid)}/containers"

    def _below(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"
