"""Where an API server is and how to prove who we are: kubeconfig files, and what a pod of a cluster finds in itself."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from mooring.errors import InvalidInput
from mooring.kube.proxies import unusable

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """A program that prints credentials. What it is given in its environment does not show in its repr."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    hint: str = ""  # what to do when it is not installed
    gives_cluster: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A server and credentials. Secret parts do not show in its repr."""

    server: str
    certificate_authority: bytes = b""  # PEM; nothing: those that the machine trusts
    certificate_authority_file: str = ""  # where it came from and will be renewed, if it is in a file of its own
    insecure: bool = False
    server_name: str = ""  # to be expected in its certificate instead of its host
    proxy: str = field(default="", repr=False)  # its URL may hold a password
    token: str = field(default="", repr=False)
    token_file: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    client_certificate: bytes = field(default=b"", repr=False)
    client_key: bytes = field(default=b"", repr=False)
    client_certificate_file: str = ""
    client_key_file: str = ""
    exec: ExecCommand | None = None


def load(path: str, *, context: str = "") -> Access:
    """The access that a kubeconfig file describes, in its current context unless another is named."""
    try:
        with open(path, encoding="utf-8") as stream:
            written = yaml.load(stream, Loader=_LOADER)
    except OSError as error:
        raise InvalidInput("cannot read the kubeconfig", why=error.strerror or str(error), place=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "cannot read the kubeconfig", why=f"it is no YAML ({_first_line(error)})", place=path
        ) from None
    if not isinstance(written, dict):
        raise InvalidInput("cannot use the kubeconfig", why="it is empty, or no map", place=path)
    reader = _Reader(written, path)
    return reader.access(context or str(written.get("current-context") or ""))


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


class _Reader:
    def __init__(self, written: Mapping[str, Any], path: str) -> None:
        self._written = written
        self._path = path
        self._directory = os.path.dirname(os.path.abspath(path))

    def access(self, context: str) -> Access:
        if not context:
            raise self._mistake("it has no current-context", "Name one, or set current-context", "current-context")
        chosen = self._named("contexts", "context", context)
        cluster = self._named("clusters", "cluster", str(chosen.get("cluster") or ""))
        user = self._named("users", "user", str(chosen["user"])) if chosen.get("user") else {}
        self._refuse_unknown(user)
        server = str(cluster.get("server") or "")
        authority = "certificate-authority"
        if not server.startswith(("https://", "http://")):
            raise self._mistake(f"the server {server!r} is no URL", "Write it like https://host:6443", "clusters")
        return Access(
            server=server.rstrip("/"),
            certificate_authority=self._bytes(cluster, authority),
            certificate_authority_file="" if cluster.get(f"{authority}-data") else self._path_of(cluster, authority),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            server_name=str(cluster.get("tls-server-name") or ""),
            proxy=self._proxy(str(cluster.get("proxy-url") or "")),
            token=str(user.get("token") or ""),
            token_file=self._path_of(user, "tokenFile"),
            user=str(user.get("username") or ""),
            password=str(user.get("password") or ""),
            client_certificate=self._data(user, "client-certificate-data"),
            client_key=self._data(user, "client-key-data"),
            client_certificate_file=self._path_of(user, "client-certificate"),
            client_key_file=self._path_of(user, "client-key"),
            exec=self._exec(user.get("exec")),
        )

    def _refuse_unknown(self, user: Mapping[str, Any]) -> None:
        """Without these we would be somebody else than the file says."""
        if user.get("auth-provider"):
            raise self._mistake("auth-provider is no longer part of Kubernetes", "Write exec instead", "users")
        if any(user.get(name) for name in ("as", "as-uid", "as-groups", "as-user-extra")):
            why = "mooring does not act in the name of others"
            raise self._mistake(why, "Remove as, as-uid, as-groups and as-user-extra", "users")

    def _proxy(self, written: str) -> str:
        if written and (why := unusable(written)):
            raise self._mistake(f"proxy-url cannot be used: {why}", "Write it like http://host:3128", "clusters")
        return written

    def _named(self, several: str, one: str, name: str) -> Mapping[str, Any]:
        entries = self._written.get(several)
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get(one)
                return found if isinstance(found, dict) else {}
        known = ", ".join(str(entry.get("name")) for entry in entries or [] if isinstance(entry, dict)) or "none"
        raise self._mistake(f"it has no {one} named {name!r}", f"It has: {known}", several)

    def _bytes(self, holder: Mapping[str, Any], name: str) -> bytes:
        inline = self._data(holder, f"{name}-data")
        file = self._path_of(holder, name)
        if inline or not file:
            return inline
        try:
            with open(file, "rb") as stream:
                return stream.read()
        except OSError as error:
            raise InvalidInput(f"cannot read {name}", why=error.strerror or str(error), place=file) from error

    def _data(self, holder: Mapping[str, Any], name: str) -> bytes:
        try:
            return base64.b64decode("".join(str(holder.get(name) or "").split()), validate=True)
        except binascii.Error:
            raise self._mistake("it is not base64", "Write the file's content in base64", name) from None

    def _path_of(self, holder: Mapping[str, Any], name: str) -> str:
        return self._beside(str(holder.get(name) or ""))

    def _beside(self, file: str) -> str:
        """A path as written: one that is not absolute lies beside the kubeconfig."""
        return os.path.join(self._directory, file) if file else ""

    def _exec(self, written: object) -> ExecCommand | None:
        if not isinstance(written, dict):
            return None
        command = str(written.get("command") or "")
        if not command:
            raise self._mistake("exec names no command", "Write the program that prints credentials", "exec")
        if written.get("interactiveMode") == "Always":
            raise self._mistake("its exec program needs a terminal", "Use one that does not", "exec")
        pairs = written.get("env") or []
        return ExecCommand(
            api_version=str(written.get("apiVersion") or "client.authentication.k8s.io/v1"),
            command=self._beside(command) if "/" in command else command,
            arguments=tuple(str(each) for each in written.get("args") or ()),
            environment={str(each.get("name")): str(each.get("value", "")) for each in pairs if isinstance(each, dict)},
            hint=str(written.get("installHint") or ""),
            gives_cluster=bool(written.get("provideClusterInfo")),
        )

    def _mistake(self, why: str, next_step: str, where: str) -> InvalidInput:
        return InvalidInput("cannot use the kubeconfig", why=why, next_step=next_step, place=f"{self._path}: {where}")


def in_cluster(environment: Mapping[str, str], *, directory: str = SERVICE_ACCOUNT) -> Access:
    """The access that a pod of a cluster has by its service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        why = "KUBERNETES_SERVICE_HOST is not set: this is no pod of a cluster"
        raise InvalidInput("cannot find the API server", why=why, next_step="Name a file with --kubeconfig")
    file = f"{directory}/ca.crt"
    try:
        with open(file, "rb") as stream:
            authority = stream.read()
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidInput("cannot read the cluster's authority", why=why, place=file) from error
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        certificate_authority=authority,
        certificate_authority_file=file,
        token_file=f"{directory}/token",
    )
