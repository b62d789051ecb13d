"""How the programs of a control plane are told about each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything of one control plane lies and listens."""

    directory: Path
    etcd_port: int
    peer_port: int
    server_port: int
    manager_port: int

    @property
    def etcd(self) -> str:
        return f"https://{HOST}:{self.etcd_port}"

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self.server_port}"

    @property
    def manager(self) -> str:
        return f"https://{HOST}:{self.manager_port}"

    def file(self, name: str) -> str:
        return str(self.directory / name)


def etcd(layout: Layout) -> list[str]:
    peer = f"https://{HOST}:{layout.peer_port}"
    tls = {
        "cert-file": layout.file("server.crt"),
        "key-file": layout.file("server.key"),
        "trusted-ca-file": layout.file("ca.crt"),
        "client-cert-auth": "true",
    }
    return _written(
        {
            "data-dir": layout.file("etcd"),
            "listen-client-urls": layout.etcd,
            "advertise-client-urls": layout.etcd,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            **tls,
            **{f"peer-{name}": value for name, value in tls.items()},
            "unsafe-no-fsync": "true",  # a killed process loses nothing by it; a machine without power ends the rig
            "logger": "zap",
            "log-level": "warn",
        }
    )


def kube_apiserver(layout: Layout) -> list[str]:
    return _written(
        {
            "etcd-servers": layout.etcd,
            "etcd-cafile": layout.file("ca.crt"),
            "etcd-certfile": layout.file("server.crt"),
            "etcd-keyfile": layout.file("server.key"),
            "bind-address": HOST,
            "advertise-address": HOST,
            "secure-port": str(layout.server_port),
            "endpoint-reconciler-type": "none",  # an endpoint on the loopback would be refused
            "tls-cert-file": layout.file("server.crt"),
            "tls-private-key-file": layout.file("server.key"),
            "client-ca-file": layout.file("ca.crt"),
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": layout.file("service-account.pub"),
            "service-account-signing-key-file": layout.file("service-account.key"),
            "service-cluster-ip-range": "10.0.0.0/24",
            "allow-privileged": "true",
            "shutdown-delay-duration": "0s",
        }
    )


def kube_controller_manager(layout: Layout) -> list[str]:
    return _written(
        {
            "kubeconfig": layout.file("controller-manager.kubeconfig"),
            "bind-address": HOST,
            "secure-port": str(layout.manager_port),
            "tls-cert-file": layout.file("server.crt"),
            "tls-private-key-file": layout.file("server.key"),
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": layout.file("service-account.key"),
            "root-ca-file": layout.file("ca.crt"),
            "cluster-signing-cert-file": layout.file("ca.crt"),
            "cluster-signing-key-file": layout.file("ca.key"),
        }
    )


def _written(flags: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
