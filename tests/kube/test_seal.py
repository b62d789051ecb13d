"""The seal on secrets, and the key that stays on the node."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mooring.errors import Refused
from mooring.kube.seal import KEY_BYTES, Seal, SealBroken, load_or_make


def test_what_is_sealed_opens_with_the_same_key_and_purpose(tmp_path: Path) -> None:
    path = str(tmp_path / "root" / "key")
    sealed = load_or_make(path).close(b"hunter2", about=b"one")
    assert b"hunter2" not in sealed
    assert load_or_make(path).open(sealed, about=b"one") == b"hunter2"


def test_the_same_bytes_never_look_the_same_twice(tmp_path: Path) -> None:
    seal = load_or_make(str(tmp_path / "key"))
    assert seal.close(b"hunter2", about=b"") != seal.close(b"hunter2", about=b"")


@pytest.mark.parametrize("sealed", [b"", b"short", b"x" * 40])
def test_bytes_that_nobody_sealed_do_not_open(sealed: bytes) -> None:
    with pytest.raises(SealBroken):
        Seal(bytes(KEY_BYTES)).open(sealed, about=b"")


def test_neither_another_key_nor_another_purpose_nor_a_changed_byte_opens_it() -> None:
    sealed = Seal(bytes(KEY_BYTES)).close(b"hunter2", about=b"one")
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for seal, about, given in (
        (Seal(b"k" * KEY_BYTES), b"one", sealed),
        (Seal(bytes(KEY_BYTES)), b"two", sealed),
        (Seal(bytes(KEY_BYTES)), b"one", changed),
    ):
        with pytest.raises(SealBroken):
            seal.open(given, about=about)


def test_only_the_owner_can_use_the_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    load_or_make(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["key"]
    key = path.read_bytes()
    path.chmod(0o644)
    load_or_make(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == key


def test_a_damaged_key_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"half a k")
    (tmp_path / "key.new").write_bytes(b"of a process that was killed")
    sealed = load_or_make(str(path)).close(b"hunter2", about=b"")
    assert load_or_make(str(path)).open(sealed, about=b"") == b"hunter2"


def test_a_key_that_cannot_be_made_is_refused_with_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot use the key"):
        load_or_make(str(tmp_path / "file" / "key"))


def test_nothing_of_the_key_is_shown() -> None:
    assert repr(Seal(b"k" * KEY_BYTES)) == "Seal()"
