"""What the JSON that mooring prints means, field by field. Tests hold real answers against it."""

from __future__ import annotations

SEVERAL_FILES = "application/vnd.mooring.files+json"
"""The content type of a request that brings several manifest files, to be stored together or not at all."""

SHAPES: dict[str, dict[str, str]] = {
    "volume (`get volumes`)": {
        "name": "unique volume name; null while the volume cannot be worked out",
        "pod": "`namespace/name`",
        "pod_uid": "UID of the pod",
        "volume": "name of the volume in the pod",
        "plugin": "the volume type, such as `kubernetes.io/secret`; null while the volume cannot be worked out",
        "state": "waiting, attaching, staging, mounting, mounted, unmounting, uncertain or failed",
        "path": "where the volume is on this machine; null when nothing is there",
        "reason": "one sentence; null when mounted",
        "next_step": "what to do about it; null when there is nothing to say",
        "attempts": "how often the present step was tried",
        "mounted_at": "time (UTC); null when not mounted",
        "progress": "how far a walk over its files is, while one is under way; else null",
        "health": "what its CSI driver says is wrong with it; null when nothing is, or nobody tells",
    },
    "progress (`progress` of a volume)": {
        "group": "the group that the files are given to",
        "visited": "entries looked at so far",
        "changed": "of these, changed",
        "failed": "of these, not to be changed",
        "expected": "about how many there are: from the file system or the last walk; null when nothing tells",
        "seconds": "since it began",
        "rate": "entries a second; null at the beginning",
        "seconds_left": "an estimate; null when there is none",
    },
    "usage (`usage` of a volume, where it was asked for as `-o wide` does)": {
        "capacity": "bytes the volume's file system has",
        "available": "bytes that may still be written",
        "used": "bytes the volume holds",
        "inodes": "inodes the file system has",
        "inodes_free": "of these, free",
        "inodes_used": "inodes the volume takes",
        "complete": "false when a directory was too large to be counted to its end: `used` is then a lower bound",
    },
    "pod (`get pods`)": {
        "pod": "`namespace/name`",
        "uid": "UID of the pod",
        "ready": "whether every volume its containers use is mounted",
        "mounted": "how many are",
        "volumes": "how many its containers use",
        "cause": "one sentence; null when ready",
        "containers": "what is known of containers that `mooring run` started; null when there are none",
    },
    "claim (`get claims`)": {
        "claim": "`namespace/name`",
        "phase": "Pending, Bound or Lost",
        "volume": "the PersistentVolume it is bound to, or null",
        "class": "its StorageClass, or null",
        "access_modes": "of its volume once it is bound, else as written",
        "capacity": "of its volume once it is bound, else null",
        "reason": "why it is not bound; null when it is",
    },
    "driver (`get drivers`)": {
        "name": "of the CSI driver; null for a socket that has not told whose it is",
        "state": "waiting, registering, registered, failed or unregistering",
        "version": "of CSI, as agreed; null when not registered",
        "endpoint": "the socket of the driver itself; null when not registered",
        "node_id": "what the driver calls this node",
        "max_volumes": "how many volumes of it this node can have; null when there is no limit",
        "topology": "where the node is, as the driver sees it: labels that count as the node's own",
        "capabilities": "what its node part can do, in CSI's words; null while nobody has asked",
        "sockets": "the sockets it was seen at",
        "reason": "the step of the registration that fails, and why; null when none does",
    },
    "socket (`sockets` of a driver)": {
        "path": "in the registry directory, or as written in the settings",
        "static": "whether it is from the settings, and so the driver itself rather than a registrar",
        "state": "as of the driver",
        "type": "of the plugin, as its registrar tells",
        "endpoint": "of the plugin, as its registrar tells",
        "versions": "of CSI, as its registrar tells",
        "failing_step": "dial, get info, probe, type, validate, register or notify; null when none fails",
        "why": "what that step failed with, or what is waited for",
        "attempts": "how often it was tried since the socket was made",
    },
    "operation (`get operations`)": {
        "operation": "the kubelet's name of it, such as `volume_mount`",
        "pod": "`namespace/name`; null when it is for the whole volume",
        "volume": "unique volume name",
    },
    "event (`get events`, `events`)": {
        "last_seen": "time (UTC)",
        "type": "Normal or Warning",
        "reason": "such as FailedMount",
        "object": "`pod/name`",
        "namespace": "of the object",
        "uid": "of the object",
        "message": "what happened",
        "count": "how often",
    },
    "finding (`get findings`)": {
        "kind": "manifest, warning, leftover, record, debt, run or plugin",
        "where": "file, line and field, or path",
        "what": "what was found",
        "next_step": "what to do about it",
    },
    "diagnosis (`doctor`)": {
        "kind": (
            "orphan, unknown-pod, empty, leftover, mount, dead-mount, stacked, hidden, read-only, deleted-source, "
            "loop, staged, stray, unreadable, stale-socket, stale-lock, loop-device, data-file, record, debt, "
            "half-written, store, mode, owner, secret-on-disk, secret-swap, old-copy, broken-content, "
            "or of the machine: kernel, program, space, propagation, file-system, user-namespaces"
        ),
        "severity": "error, warning or info; what is only info leaves the exit status 0",
        "where": "path of what was found, or of the loop device",
        "what": "what it is, and why it could not be cleared when that was tried",
        "whose": "the pod or CSI volume it was of, as far as anything tells; else null",
        "holds": "the first paths that keep it from being cleared",
        "next_step": "the exact safe thing to do; null when there is nothing",
        "repair": "what `--repair` does about it, as the commands that would do the same; empty for nothing",
        "state": "found; with `--repair` also repaired, or left when it should have been cleared and was not",
    },
    "explanation (`explain`)": {
        "pod": "`namespace/name`",
        "uid": "UID of the pod",
        "ready": "whether every volume its containers use is mounted",
        "cause": "one sentence; null when ready",
        "volumes": "one object per volume: `volume`, `state`, `cause`, `next_step`, `attempts`",
    },
    "entry (`timeline`)": {
        "at": "time (UTC)",
        "volume": "name of the volume, or null for the pod as a whole",
        "what": "the operation, `refresh`, `reconstruct`, `work out`, `ownership` or `notice`",
        "result": "done, refused, not yet, unknown, found, not understood, waiting or stopped; of a notice its reason",
        "seconds": "how long it took",
        "detail": "why it did not succeed, or what was done; else null",
    },
    "key set (`GET /openid/v1/jwks`)": {
        "keys": "one object: the public key that verifies service account tokens, as RFC 7517 has it",
    },
    "OpenID configuration (`GET /.well-known/openid-configuration`)": {
        "issuer": "the `iss` of service account tokens",
        "jwks_uri": "the issuer's address of the key set",
        "response_types_supported": "`id_token`",
        "subject_types_supported": "`public`",
        "id_token_signing_alg_values_supported": "`RS256`",
    },
    "container mount (`mounts`)": {
        "container": "name of the container; init containers come first, ephemeral ones last",
        "volume": "name of the volume in the pod",
        "host_path": "what to mount or pass: a directory, file, socket or device; null for an image",
        "container_path": "where the container sees it",
        "read_only": "whether the container may only read it",
        "recursive_read_only": "whether that holds for mounts below it, too",
        "propagation": "private, rslave or rshared; null for a device",
        "device": "`major` and `minor` number of a block device; null for a mount",
        "permissions": "of a device, `r` or `mrw`; null for a mount",
        "image": "reference of the image that the container runtime mounts itself, or null",
        "image_sub_path": "the path inside that image, or null",
    },
    "run (`POST /v1/run`)": {
        "run": "identifies this run; everything that is started carries it in the label `mooring.run`",
        "uid": "UID of the pod",
        "namespace": "of the pod",
        "name": "of the pod",
        "log_directory": "where containers write, as `<container>/<attempt>.log` in the log format of CRI",
        "containers": (
            "one object per container in start order: `name`, `role` (init, sidecar or regular), `image`, `pull`, "
            "`command`, `args`, `working_dir`, `env` (values of Secrets included), `mounts`, `devices`, `user`, "
            "`group`, `groups`, `privileged`, `read_only_root`"
        ),
        "restart_policy": "Always, OnFailure or Never",
        "grace_seconds": "time between SIGTERM and SIGKILL",
    },
    "plan (`plan`)": {
        "operations": "one object each: `operation`, `pod`, `volume`, `plugin`, `path`, `risks` (list of texts)",
        "waits": "one object per volume that would wait: `pod`, `volume`, `cause`, `next_step`",
    },
}

ROUTES: dict[str, str] = {
    "GET /healthz": "200 while the daemon lives",
    "GET /readyz": "200 once every source of pods has been heard, else 503",
    "GET /metrics": "metrics in Prometheus' text format",
    "GET /.well-known/openid-configuration": "who issues service account tokens, and how",
    "GET /openid/v1/jwks": "the public key that verifies service account tokens, as a JSON Web Key Set",
    "GET /v1/pods": "array of pods",
    "GET /v1/volumes[?usage=1]": "array of volumes, on demand with how full they are",
    "GET /v1/claims": "array of claims",
    "GET /v1/drivers": "array of CSI drivers",
    "GET /v1/operations": "array of operations under way",
    "GET /v1/events": "array of events; with `?follow=1` a stream of JSON lines",
    "GET /v1/findings": "array of findings",
    "GET /v1/explain?pod=POD[&volume=NAME]": "an explanation",
    "GET /v1/timeline?pod=POD[&volume=NAME]": "array of entries, also of a pod that is gone",
    "GET /v1/describe?kind=pod|volume&name=NAME": "one pod or volume with everything known of it",
    "POST /v1/apply[?origin=NAME]": (
        "stores the manifests in the body, all or none; `created`, `changed`, `unchanged`. Several files come as "
        '`{"files": [{"origin": …, "text": …}]}` with content type `application/vnd.mooring.files+json`'
    ),
    "POST /v1/delete[?origin=NAME]": (
        "deletes the objects that the body names, sent as for apply; `deleted`, `missing`, and `written_in`: the "
        "files that still name what was deleted"
    ),
    "POST /v1/mounts?pod=POD[&recursive_read_only=no]": (
        "prepares the sub-paths of a pod; array of container mounts. `no` tells that the container runtime cannot make "
        "mounts recursively read-only"
    ),
    "POST /v1/run?pod=POD": (
        "writes the record that the caller is going to start the pod's containers, and answers with a run. The body is "
        "an object with `runtime` (podman or cri), `options`, `recursive_read_only` and `images` (what it can do)"
    ),
    "POST /v1/run/end?uid=UID&run=RUN": "the caller's containers are removed; `done`, and `cause` if some may be left",
    "POST /v1/wait?pod=POD&for=mounted|unmounted&timeout=SECONDS": "`done`, and the explanation when it is false",
    "POST /v1/down?timeout=SECONDS": "ends containers, unmounts everything, stops; `done`, `left`, `containers` by pod",
}
