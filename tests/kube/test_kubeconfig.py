"""Kubeconfig files, and what a pod finds in itself."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.errors import InvalidInput
from mooring.kube import kubeconfig
from mooring.kube.kubeconfig import Access, ExecCommand


def write(
    directory: Path,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": "https://host:6443", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "usual", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "usual",
        **changes,
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_least_file_names_a_server_only(tmp_path: Path) -> None:
    assert kubeconfig.load(write(tmp_path)) == Access(server="https://host:6443")


def test_everything_about_the_cluster_is_read(tmp_path: Path) -> None:
    cluster = {
        "server": "https://host:6443/",
        "certificate-authority-data": encoded("authority"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    assert kubeconfig.load(write(tmp_path, cluster=cluster)) == Access(
        server="https://host:6443",
        certificate_authority=b"authority",
        server_name="kubernetes",
        proxy="http://proxy:3128",
        insecure=True,
    )


def test_files_that_are_not_absolute_lie_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"authority")
    user = {"client-certificate": "me.pem", "client-key": "/keys/me.key", "tokenFile": "token"}
    access = kubeconfig.load(write(tmp_path, cluster={"certificate-authority": "ca.pem"}, user=user))
    assert access.certificate_authority == b"authority"
    assert access.certificate_authority_file == str(tmp_path / "ca.pem")
    assert access.client_certificate_file == str(tmp_path / "me.pem")
    assert access.client_key_file == "/keys/me.key"
    assert access.token_file == str(tmp_path / "token")


def test_data_in_the_file_goes_before_a_file(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "missing", "certificate-authority-data": encoded("authority")}
    access = kubeconfig.load(write(tmp_path, cluster=cluster))
    assert (access.certificate_authority, access.certificate_authority_file) == (b"authority", "")


def test_data_may_be_broken_into_lines(tmp_path: Path) -> None:
    lines = "\n".join(encoded("certificate")[at : at + 4] for at in range(0, 16, 4))
    assert (
        kubeconfig.load(write(tmp_path, user={"client-certificate-data": lines})).client_certificate == b"certificate"
    )


def test_a_program_for_credentials_is_described_in_full(tmp_path: Path) -> None:
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--for", 7],
        "env": [{"name": "REGION", "value": "north"}],
        "installHint": "Install login",
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    assert kubeconfig.load(write(tmp_path, user={"exec": command})).exec == ExecCommand(
        api_version="client.authentication.k8s.io/v1",
        command=str(tmp_path / "bin/login"),
        arguments=("--for", "7"),
        environment={"REGION": "north"},
        hint="Install login",
        gives_cluster=True,
    )


def test_a_program_without_a_slash_is_looked_for_in_the_path(tmp_path: Path) -> None:
    found = kubeconfig.load(write(tmp_path, user={"exec": {"command": "login"}})).exec
    assert found is not None
    assert found.command == "login"


def test_another_context_may_be_chosen(tmp_path: Path) -> None:
    contexts = [{"name": "other", "context": {"cluster": "here"}}]
    assert kubeconfig.load(write(tmp_path, contexts=contexts), context="other").server == "https://host:6443"


def test_secrets_do_not_show(tmp_path: Path) -> None:
    user: dict[str, Any] = {
        "token": "hidden-1",
        "username": "me",
        "password": "hidden-2",
        "client-key-data": encoded("hidden-3"),
    }
    user |= {"exec": {"command": "login", "env": [{"name": "PIN", "value": "hidden-4"}]}}
    cluster = {"proxy-url": "http://me:hidden-5@proxy:3128"}
    assert "hidden" not in repr(kubeconfig.load(write(tmp_path, cluster=cluster, user=user)))


def test_the_password_of_a_proxy_does_not_show_in_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no HTTP proxy") as mistake:
        kubeconfig.load(write(tmp_path, cluster={"proxy-url": "socks5://me:hidden@proxy"}))
    assert "hidden" not in str(mistake.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"current-context": ""}, "current-context"),
        ({"current-context": "lost"}, "no context named 'lost'. It has: usual"),
        ({"clusters": []}, "no cluster named 'here'. It has: none"),
        ({"users": None}, "no user named 'me'"),
        ({"cluster": {"server": "host:6443"}}, "https://host:6443"),
        ({"cluster": {"proxy-url": "socks5://host"}}, "no HTTP proxy"),
        ({"cluster": {"proxy-url": "https://host"}}, "cannot be encrypted"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, "No such file"),
        ({"user": {"client-key-data": "%%%"}}, "not base64"),
        ({"user": {"exec": {"args": []}}}, "names no command"),
        ({"user": {"exec": {"command": "login", "interactiveMode": "Always"}}}, "needs a terminal"),
        ({"user": {"auth-provider": {"name": "oidc"}}}, "Write exec instead"),
        ({"user": {"as": "somebody"}}, "in the name of others"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(InvalidInput) as mistake:
        kubeconfig.load(path)
    assert words in str(mistake.value)
    assert str(tmp_path) in mistake.value.place


@pytest.mark.parametrize("content", [b"", b"- a list", b"a: [", b"\xff\xfe\x00"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="kubeconfig"):
        kubeconfig.load(str(path))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        kubeconfig.load(str(tmp_path / "missing"))


def test_a_pod_finds_its_server_and_its_token(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert kubeconfig.in_cluster(environment, directory=str(tmp_path)) == Access(
        server="https://[fd00::1]:6443",
        certificate_authority=b"authority",
        certificate_authority_file=f"{tmp_path}/ca.crt",
        token_file=f"{tmp_path}/token",
    )


def test_outside_of_a_cluster_there_is_nothing_to_find(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--kubeconfig"):
        kubeconfig.in_cluster({}, directory=str(tmp_path))
    with pytest.raises(InvalidInput, match="authority"):
        kubeconfig.in_cluster({"KUBERNETES_SERVICE_HOST": "host"}, directory=str(tmp_path))
