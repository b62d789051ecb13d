"""Service account tokens of the real daemon: written for their readers only, and verified over the socket."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.node.daemon.conftest import Daemon, pod

from mooring.daemon.client import Client
from mooring.testing.verified_tokens import verified_claims

pytestmark = pytest.mark.node

TOKEN = "token: projected: {sources: [{serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}}]}"
OWNED = "  securityContext: {runAsUser: 1234, fsGroup: 5678}"
USED = "  securityContext: {runAsUser: 1234}"


def key_set(daemon: Daemon) -> Any:
    return Client(daemon.root).get("/openid/v1/jwks")


def token(daemon: Daemon, name: str) -> str:
    return (daemon.path(f"{name}/token") / "token").read_text()


def readers(path: Path) -> tuple[int, int, int]:
    facts = os.stat(path)
    return stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid


def test_a_token_is_verified_over_the_socket_and_speaks_of_its_pod(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", TOKEN))
    daemon.up("web")
    claims = verified_claims(token(daemon, "web"), key_set(daemon))
    assert claims["iss"] == Client(daemon.root).get("/.well-known/openid-configuration")["issuer"]
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 600)
    assert claims["kubernetes.io"]["pod"]["name"] == "web"
    assert claims["kubernetes.io"]["node"]["name"] == "here"


def test_only_the_pods_user_and_group_may_read_a_token(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("open", TOKEN) + pod("used", TOKEN, spec=USED) + pod("owned", TOKEN, spec=OWNED))
    daemon.up("open", "used", "owned")
    found = {name: readers(daemon.path(f"{name}/token") / "token") for name in ("open", "used", "owned")}
    assert found == {"open": (0o644, 0, 0), "used": (0o600, 1234, 0), "owned": (0o640, 1234, 5678)}


def test_a_token_lies_in_memory_only_and_the_key_is_for_root_only(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", TOKEN))
    daemon.up("web")
    assert str(daemon.path("web/token")) in daemon.mounts()
    assert readers(Path(daemon.root, "service-account.key")) == (0o600, 0, 0)
    assert token(daemon, "web") not in daemon.log()


def test_a_restart_keeps_the_key_and_issues_the_token_anew(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", TOKEN))
    daemon.up("web")
    keys, before = key_set(daemon), token(daemon, "web")
    daemon.end(signal.SIGKILL)
    daemon.up("web")
    assert key_set(daemon) == keys
    daemon.until(lambda: token(daemon, "web") != before)
    verified_claims(before, keys)
    verified_claims(token(daemon, "web"), keys)


def test_a_pod_with_an_account_nobody_made_says_so(daemon: Daemon) -> None:
    daemon.write("a.yaml", pod("web", TOKEN, spec="  serviceAccountName: clerk"))
    daemon.done("up", daemon.manifests, "--detach", "--node-name", "here")
    ended = daemon.run("wait", "web", "--timeout", "0.5s")
    assert ended.status == 1
    assert "serviceaccount \"clerk\" not found in namespace 'default'" in ended.err
    daemon.write("b.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: clerk}\n")
    daemon.mounted("web")


def test_a_plan_issues_nothing_and_makes_no_key(daemon: Daemon) -> None:
    path = daemon.write("a.yaml", pod("web", TOKEN))
    plan = daemon.json("plan", path)
    assert plan["waits"] == []
    assert [row["volume"] for row in plan["operations"]] == ["token"]
    assert not Path(daemon.root, "service-account.key").exists()
