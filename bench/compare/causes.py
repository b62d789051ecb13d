"""Causes of failures as kinds with names, so that the words of two programs can be compared.

Each side has a table: a pattern of what it says, and the kind of failure with the names that matter. A text that no
pattern knows becomes a cause that names its side, which never equals one of the other side: a new message must be
given its place here before anybody can say that both mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Table = Sequence[tuple[re.Pattern[str], str]]


def _table(*rows: tuple[str, str]) -> Table:
    return [(re.compile(pattern, re.DOTALL), cause) for pattern, cause in rows]


_NO_OBJECT = "there is no {kind} {name}"
_NO_KEY = "there is no key {key}"
_NOT_FOUND = "there is no path {path}"
_NO_DRIVER = "driver {name} is not registered"
_NO_PLUGIN = "no plugin serves the volume"
_NO_PLACE = "{path} cannot be made"
_NO_CONTAINER = "there is no container {name}"
_WRONG_TYPE = "{path} is not a {type}"
_NO_MODE = "driver {name} does not offer mode {mode}"
_NOT_BOUND = "the claim is not bound"
_NOT_OWNER = "claim {name} was not made for the pod"
_NOT_ATTACHED = "the volume is not attached"
_UNMOUNTABLE = "cannot be mounted as {type}"
_DRIVER_SAYS = "the driver says {code}"
_WRONG_USE = "{mode} does not go with {field}"
_MEDIUM = "unknown medium {name}"
_NEITHER = "neither a directory nor a device"
_NO_DEVICE = "{path} is not a device"
_PATHS_COLLIDE = "a path is both a file and a directory"
_TOO_LONG = "a name is too long"
_NO_HUGE_PAGES_WANTED = "no container requests huge pages"
_FLEX_SAYS = "the FlexVolume driver says: {words}"
_NOT_OF_THIS_NODE = "the volume is not for this node"
_GIT = "gitRepo is switched off"
_NO_TRUST = "no trust bundle is selected"
_NO_PROGRAM = "a program is not installed"
_NO_INITIATOR = "iscsi cannot log in"
_NO_FC_DISK = "no Fibre Channel disk"
_FORMER_CLAIM = "the volume belongs to an earlier claim"
_DOUBLY_BOUND = "the volume is bound to another claim"

_KUBELET = _table(
    (r'(?P<kind>configmap|secret|clustertrustbundle)(?:s|\.\S+)? "(?P<name>[^"]+)" not found', _NO_OBJECT),
    (r'(?P<kind>persistentvolumeclaim)s "(?P<name>[^"]+)" not found', _NO_OBJECT),
    (r"references non-existent (?:config|secret) key: (?P<key>\S+)$", _NO_KEY),
    (r"container (?P<name>\S+) not found$", _NO_CONTAINER),
    (r"hostPath type check failed: (?P<path>\S+) is not a (?P<type>.+)$", _WRONG_TYPE),
    (r"open (?P<path>/srv/\S+): no such file or directory$", _NO_PLACE),
    (r'path "(?P<path>[^"]+)" does not exist$', _NOT_FOUND),
    (r"lstat (?P<path>\S+): no such file or directory$", _NOT_FOUND),
    (r"only directory and block device are supported$", _NEITHER),
    (r"MapDevice failed\. devicePath: (?P<path>[^,]+),.*(?:not a block device|failed to bind mount)", _NO_DEVICE),
    (r"volumes/kubernetes\.io~\w+/\w+/\.\.\d{4}\S+: (?:file exists|not a directory|is a directory)$", _PATHS_COLLIDE),
    (r"filenames must be less than or equal to 255 characters$", _TOO_LONG),
    (r"no matching NodeSelectorTerms", _NOT_OF_THIS_NODE),
    (r"driver name (?P<name>\S+) not found in the list of registered CSI drivers", _NO_DRIVER),
    (r'volume mode "(?P<mode>\w+)" not supported by driver (?P<name>\S+) ', _NO_MODE),
    (r"rpc error: code = (?P<code>\w+) desc", _DRIVER_SAYS),
    (r"mount failed: exit status 32\n.*Mounting arguments: -t (?P<type>\S+) ", _UNMOUNTABLE),
    (r"mount command failed, status: \w+, reason: (?P<words>.*)$", _FLEX_SAYS),
    (r"unattached volumes=\[", _NOT_ATTACHED),
    (r"PVC is not bound$", _NOT_BOUND),
    (r"its pv\.Spec\.ClaimRef\.UID \S+ does not point to claim\.UID", _FORMER_CLAIM),
    (r"PVC (?P<name>\S+) was not created for pod \S+ \(pod is not owner\)$", _NOT_OWNER),
    (r"has volumeMode (?P<mode>\w+), but is specified in (?P<field>\w+)$", _WRONG_USE),
    (r"no volume plugin matched$", _NO_PLUGIN),
    (r'unknown storage medium "(?P<name>[^"]+)"$', _MEDIUM),
    (r"there is no resource request for huge pages$", _NO_HUGE_PAGES_WANTED),
    (r"git-repo volume plugin has been disabled", _GIT),
    (r"combination of signerName and labelSelector matched zero ClusterTrustBundles$", _NO_TRUST),
    (r"executable file not found in \$PATH", _NO_PROGRAM),
    (r"iscsi", _NO_INITIATOR),
    (r"fc disk", _NO_FC_DISK),
)
_MOORING = _table(
    (r'(?P<kind>configmap|secret|clustertrustbundle) "(?P<name>[^"]+)" not found', _NO_OBJECT),
    (r'(?P<kind>persistentvolumeclaim)s "(?P<name>[^"]+)" not found', _NO_OBJECT),
    (r"its (?P<kind>Secret) '[^/]+/(?P<name>[^']+)' does not exist$", _NO_OBJECT),
    (r"references non-existent (?:config|secret) key: (?P<key>\S+)$", _NO_KEY),
    (r"container '(?P<name>[^']+)' not found$", _NO_CONTAINER),
    (r"hostPath type check failed: (?P<path>\S+) is not a (?P<type>.+) \([^)]*\)$", _WRONG_TYPE),
    (r"(?P<path>/srv/\S+) cannot be created: the directory it belongs into does not exist$", _NO_PLACE),
    (r"path '(?P<path>[^']+)' does not exist$", _NOT_FOUND),
    (r"only directories and block devices are supported, and '[^']+' is neither", _NEITHER),
    (r"'(?P<path>[^']+)' is no block device, and volumeMode is Block", _NO_DEVICE),
    (r"Not a directory at \S+/\.\.\d{4}", _PATHS_COLLIDE),
    (r"it names no file$", _PATHS_COLLIDE),
    (r"one of its elements is longer than 255 bytes$", _TOO_LONG),
    (r"(?P<path>\S+) cannot be created: a link to nothing stands there", _NO_PLACE),
    (r"no matching NodeSelectorTerms", _NOT_OF_THIS_NODE),
    (r"cannot publish volume '[^']+': it waits for driver '(?P<name>[^']+)' to register$", _NO_DRIVER),
    (r"cannot stage volume '[^']+': it waits for driver '(?P<name>[^']+)' to register$", _NO_DRIVER),
    (r"driver '(?P<name>[^']+)' does not serve volumes of mode '(?P<mode>\w+)'$", _NO_MODE),
    (r"cannot (?:stage|publish) volume '[^']+': (?P<code>[A-Z_]+): ", _DRIVER_SAYS),
    (r"cannot mount '\S+' as '(?P<type>[^']+)' at", _UNMOUNTABLE),
    (r"mount failed: exit status 32.*unknown filesystem type '(?P<type>\w+)'", _UNMOUNTABLE),
    (r"mount command failed, status: \w+, reason: (?P<words>.*)$", _FLEX_SAYS),
    (r"cannot attach volume '[^']+': there is no VolumeAttachment", _NOT_ATTACHED),
    (r"ClaimRef\.UID '[^']+' does not point to claim\.UID", _FORMER_CLAIM),
    (r"PVC is not bound: two claims are bound to the same volume", _DOUBLY_BOUND),
    (r"PVC is not bound", _NOT_BOUND),
    (r"PVC (?P<name>\S+) was not created for pod \S+ \(pod is not owner\)$", _NOT_OWNER),
    (r"has volumeMode (?P<mode>\w+), but is specified in (?P<field>\w+)$", _WRONG_USE),
    (r"no volume plugin matched", _NO_PLUGIN),
    (r"unknown storage medium '(?P<name>[^']+)'$", _MEDIUM),
    (r"its medium is 'HugePages', and no container requests huge pages$", _NO_HUGE_PAGES_WANTED),
    (r"the setting allow_git_repo is off$", _GIT),
    (r"ClusterTrustBundles of signer '[^']+': the labelSelector selects none$", _NO_TRUST),
    (r"cannot run '[^']+'[:,] it is not installed$", _NO_PROGRAM),
    (r"iscsi", _NO_INITIATOR),
    (r"no Fibre Channel disk found", _NO_FC_DISK),
    (r"this machine has set no huge pages of (?P<size>\w+) aside", "no huge pages of {size} are set aside"),
)
_OPERATION = re.compile(r"^\w+\.\w+ (?:initialization |check )?failed for volume \"[^\"]+\" : ")

_SEVERAL = re.compile(r"; (?=cannot )")


def of_kubelet(text: str) -> list[str]:
    """The causes in a message of the kubelet; several stand in brackets."""
    said = _OPERATION.sub("", text)
    if said.startswith("[") and said.endswith("]"):
        return [cause for part in said[1:-1].split(", ") for cause in of_kubelet(part)]
    return [_first(_KUBELET, said) or f"the kubelet says: {said}"]


def of_mooring(text: str) -> list[str]:
    """The causes in what mooring says of a volume; several are divided by semicolons."""
    return [_first(_MOORING, part) or f"mooring says: {part}" for part in _SEVERAL.split(text)]


def _first(table: Table, text: str) -> str | None:
    for pattern, cause in table:
        if found := pattern.search(text):
            return cause.format_map(dict(_names(found)))
    return None


def _names(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """What was captured. Kinds and codes are written in several ways: small letters without hyphens it is."""
    for name, value in found.groupdict().items():
        yield name, re.sub("[^a-z]", "", value.lower()) if name in ("kind", "code") else value
