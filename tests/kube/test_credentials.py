"""Credentials that change while they are used."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from rig.certificates import Authority

from mooring.errors import InvalidInput, NotYet
from mooring.kube.credentials import Credentials
from mooring.kube.kubeconfig import Access, ExecCommand

SERVER = "https://host:6443"


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def credentials(clock: Clock | None = None, **fields: object) -> Credentials:
    clock = clock or Clock()
    return Credentials(Access(server=SERVER, **fields), clock=clock, wall=clock)  # type: ignore[arg-type]


async def test_without_anything_nothing_is_shown() -> None:
    assert await credentials().authorization() is None


async def test_a_token_and_a_password_are_shown_as_they_are() -> None:
    assert await credentials(token="t").authorization() == "Bearer t"
    assert await credentials(user="me", password="p").authorization() == f"Basic {base64.b64encode(b'me:p').decode()}"
    assert credentials(token="t").refused("Bearer t") is False, "there is no other"


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "token"
    file.write_text("one\n")
    held = credentials(clock, token_file=str(file))
    assert await held.authorization() == "Bearer one"
    file.write_text("two\n")
    assert await held.authorization() == "Bearer one"
    clock.now += 60
    assert await held.authorization() == "Bearer two"


async def test_a_token_file_is_read_again_at_once_when_its_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    held = credentials(token_file=str(file))
    shown = await held.authorization()
    file.write_text("two")
    assert held.refused(shown)
    assert await held.authorization() == "Bearer two"


async def test_a_late_refusal_of_an_older_token_does_not_touch_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    held = credentials(token_file=str(file))
    first = await held.authorization()
    file.write_text("two")
    held.refused(first)
    assert await held.authorization() == "Bearer two"
    file.write_text("three")
    held.refused(first)
    assert await held.authorization() == "Bearer two"


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda file: file.write_text(""), lambda file: file.write_bytes(b"\xff")]
)
async def test_a_token_file_that_is_gone_or_broken_for_a_moment_does_not_matter(tmp_path: Path, damage: object) -> None:
    clock, file = Clock(), tmp_path / "token"
    file.write_text("one")
    held = credentials(clock, token_file=str(file))
    await held.authorization()
    assert callable(damage)
    damage(file)
    clock.now += 61
    assert await held.authorization() == "Bearer one"


async def test_a_token_file_that_never_was_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match="No such file"):
        await credentials(token_file=str(tmp_path / "missing")).authorization()
    (tmp_path / "empty").touch()
    with pytest.raises(NotYet, match="it is empty"):
        await credentials(token_file=str(tmp_path / "empty")).authorization()


async def test_a_token_in_the_kubeconfig_is_used_while_its_file_cannot_be_read(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "token"
    held = credentials(clock, token="inline", token_file=str(file))
    assert await held.authorization() == "Bearer inline"
    file.write_text("fresh")
    clock.now += 60
    assert await held.authorization() == "Bearer fresh"
    file.unlink()
    clock.now += 60
    assert await held.authorization() == "Bearer fresh", "it is newer than the one in the kubeconfig"


# -- programs ----------------------------------------------------------------------------------------------------------
def program(directory: Path, script: str, **fields: object) -> ExecCommand:
    path = directory / "login"
    path.write_text(f"#!/bin/sh\ncd {directory}\n{script}\n")
    path.chmod(0o755)
    return ExecCommand(api_version="client.authentication.k8s.io/v1", command=str(path), **fields)  # type: ignore[arg-type]


def printing(status: Mapping[str, object]) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(answer)}\nEND\n"


async def test_a_program_is_run_once_and_its_token_held(tmp_path: Path) -> None:
    held = credentials(exec=program(tmp_path, "echo run >>runs\n" + printing({"token": "t"})))
    shown = await asyncio.gather(*(held.authorization() for _ in range(5)))
    assert set(shown) == {"Bearer t"}
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_a_program_is_run_again_when_its_token_expires_or_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    script = "echo run >>runs\n" + printing({"token": "t", "expirationTimestamp": "1970-01-01T00:20:00Z"})
    held = credentials(clock, exec=program(tmp_path, script))
    shown = await held.authorization()
    clock.now = 1199
    await held.authorization()
    assert (tmp_path / "runs").read_text() == "run\n"
    clock.now = 1000
    held.refused(shown)
    await held.authorization()
    clock.now = 1200
    await held.authorization()
    assert (tmp_path / "runs").read_text() == "run\n" * 3


async def test_a_program_is_told_what_it_is_asked_for(tmp_path: Path) -> None:
    script = 'printf %s "$KUBERNETES_EXEC_INFO" >info; printf %s "$REGION$1" >rest\n' + printing({"token": "t"})
    command = program(tmp_path, script, environment={"REGION": "north"}, arguments=("east",), gives_cluster=True)
    await credentials(exec=command, certificate_authority=b"authority").authorization()
    assert (tmp_path / "rest").read_text() == "northeast"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": SERVER, "certificate-authority-data": base64.b64encode(b"authority").decode()},
        },
    }


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "status 3. Install it"),
        ("echo nonsense", "no ExecCredential"),
        ("echo '{}'", "neither a token nor a certificate"),
        (printing({}), "neither a token nor a certificate"),
        (printing({"token": "t", "expirationTimestamp": "tomorrow"}), "'tomorrow' is no time"),
    ],
)
async def test_a_program_that_fails_is_told(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(NotYet, match="login") as failure:
        await credentials(exec=program(tmp_path, script, hint="Install it")).authorization()
    assert words in str(failure.value)


async def test_a_program_that_is_not_there_is_told_with_how_to_get_it() -> None:
    command = ExecCommand(api_version="v1", command="/does/not/exist", hint="Install it")
    with pytest.raises(NotYet, match="Install it"):
        await credentials(exec=command).authorization()


async def test_a_program_does_not_outlive_who_asked_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    held = credentials(exec=program(tmp_path, "echo $$ >started; exec tail -f /dev/null"))
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(held.authorization())
        number = int(await asyncio.to_thread((tmp_path / "started").read_text))
        asking.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


# -- TLS ---------------------------------------------------------------------------------------------------------------
async def test_a_server_is_verified_unless_it_is_said_otherwise() -> None:
    usual = await credentials().tls()
    assert usual is not None
    assert (usual.verify_mode, usual.check_hostname) == (ssl.CERT_REQUIRED, True)
    careless = await credentials(insecure=True).tls()
    assert careless is not None
    assert (careless.verify_mode, careless.check_hostname) == (ssl.CERT_NONE, False)


async def test_without_https_there_is_no_tls() -> None:
    clock = Clock()
    assert await Credentials(Access(server="http://host"), clock=clock, wall=clock).tls() is None


async def test_only_the_authority_of_the_kubeconfig_is_trusted() -> None:
    authority = b"# K\xc3\xb6ln\n" + Authority().pair.certificate
    context = await credentials(certificate_authority=authority).tls()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


async def test_certificate_files_are_read_again_when_they_are_replaced(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"

    def renew() -> None:
        pair = authority.sign("me")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    renew()
    held = credentials(client_certificate_file=str(certificate), client_key_file=str(key))
    first = await held.tls()
    assert await held.tls() is first, "connections are kept"
    certificate.unlink()
    renew()
    assert await held.tls() is not first


async def test_certificate_files_that_are_replaced_one_by_one_are_used_once_they_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    old, new = authority.sign("me"), authority.sign("me")
    certificate.write_bytes(old.certificate)
    key.write_bytes(old.key)
    held = credentials(client_certificate_file=str(certificate), client_key_file=str(key))
    first = await held.tls()
    certificate.unlink()
    assert await held.tls() is first
    certificate.write_bytes(new.certificate)
    assert await held.tls() is first, "it does not belong to the key"
    assert await held.tls() is first
    assert caplog.text.count("certificates of before") == 1
    key.write_bytes(new.key)
    assert await held.tls() is not first


async def test_an_authority_in_a_file_is_read_again_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    old, new = Authority("old").pair.certificate, Authority("new").pair.certificate
    file.write_bytes(old)
    held = credentials(certificate_authority=old, certificate_authority_file=str(file))
    first = await held.tls()
    file.write_bytes(old + new)
    both = await held.tls()
    assert both is not None
    assert len(both.get_ca_certs()) == 2
    file.write_bytes(b"")
    assert await held.tls() is both, "nobody else is trusted instead"
    file.unlink()
    assert await held.tls() is both
    assert first is not both


async def test_a_certificate_and_its_key_are_never_in_a_file_that_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Authority().sign("me")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert await credentials(client_certificate=pair.certificate, client_key=pair.key).tls() is not None


async def test_a_program_may_print_another_certificate(tmp_path: Path) -> None:
    clock, pair = Clock(), Authority().sign("me")
    status = {
        "clientCertificateData": pair.certificate.decode(),
        "clientKeyData": pair.key.decode(),
        "expirationTimestamp": "1970-01-01T00:20:00Z",
    }
    held = credentials(clock, exec=program(tmp_path, printing(status)))
    first = await held.tls()
    assert await held.authorization() is None
    clock.now = 1300
    await held.authorization()
    assert await held.tls() is first, "it is the same certificate"


async def test_a_certificate_that_cannot_be_used_is_told() -> None:
    with pytest.raises(InvalidInput, match="kubeconfig"):
        await credentials(client_certificate=b"nonsense", client_key=b"nonsense").tls()
    with pytest.raises(InvalidInput, match="kubeconfig"):
        await credentials(certificate_authority=b"nonsense").tls()
    with pytest.raises(InvalidInput, match="is empty"):
        await credentials(certificate_authority=b"\xff").tls()
    with pytest.raises(InvalidInput, match="No such file"):
        await credentials(client_certificate_file="/does/not/exist").tls()
