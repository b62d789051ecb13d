"""The key that signs tokens: one file, made once, never replaced."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mooring.controllers.signing_key import load_or_make
from mooring.errors import Refused

PRIVATE = serialization.PrivateFormat.PKCS8
PEM = serialization.Encoding.PEM
OPEN = serialization.NoEncryption()


def write(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_the_key_is_made_once_for_its_owner_only_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "service-account.key"
    made = load_or_make(str(path))
    text = path.read_bytes()
    assert text.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make(str(path)).key_set_entry == made.key_set_entry
    assert path.read_bytes() == text
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_a_killed_process_left_beside_the_key_does_not_hinder(tmp_path: Path) -> None:
    path = tmp_path / "service-account.key"
    (tmp_path / "service-account.key.new").write_bytes(b"half a k")
    load_or_make(str(path))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is not a private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", "it is not a private key in PEM"),
        (
            rsa.generate_private_key(65537, 2048).private_bytes(
                PEM, PRIVATE, serialization.BestAvailableEncryption(b"hunter2")
            ),
            "it is not a private key in PEM",
        ),
        (
            rsa.generate_private_key(65537, 1024).private_bytes(PEM, PRIVATE, OPEN),
            "it is not an RSA key of at least 2048 bits",
        ),
        (
            ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PRIVATE, OPEN),
            "it is not an RSA key of at least 2048 bits",
        ),
    ],
    ids=["empty", "damaged", "encrypted", "too short", "of another type"],
)
def test_a_key_that_cannot_be_used_is_told_and_left_alone(tmp_path: Path, data: bytes, why: str) -> None:
    path = write(tmp_path / "k", data)
    with pytest.raises(Refused) as caught:
        load_or_make(str(path))
    assert caught.value.what == "cannot sign service account tokens"
    assert caught.value.why == f"the key in '{path}' cannot be used: {why}"
    assert "hunter2" not in str(caught.value)
    assert path.read_bytes() == data


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k"
    load_or_make(str(path))
    path.chmod(0o640)
    with pytest.raises(Refused, match=r"others than its owner may use the file \(mode 0640\).*chmod 600"):
        load_or_make(str(path))


def test_a_key_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file or directory, when it should be made"):
        load_or_make(str(tmp_path / "absent" / "k"))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    load_or_make(str(tmp_path / "k"))
    (tmp_path / "link").symlink_to(tmp_path / "k")
    with pytest.raises(Refused, match="cannot be used"):
        load_or_make(str(tmp_path / "link"))


def test_nothing_of_the_key_is_in_its_repr(tmp_path: Path) -> None:
    key = load_or_make(str(tmp_path / "k"))
    assert repr(key) == f"SigningKey({key.key_id!r})"
