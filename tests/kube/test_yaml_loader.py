"""The hardened YAML dialect: what scalars mean, where things stand, and what is refused."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube import yaml_syntax
from mooring.kube.yaml_builder import DEEPEST_NESTING, MOST_FAULTS, Document
from mooring.kube.yaml_loader import LARGEST_FILE, read_documents
from mooring.kube.yaml_syntax import YamlFault


@dataclass(frozen=True)
class Loaded:
    documents: tuple[Document, ...]
    faults: tuple[YamlFault, ...]


def load_documents(text: bytes) -> Loaded:
    faults: list[YamlFault] = []
    return Loaded(tuple(read_documents(text, faults)), tuple(faults))


def load_one(text: str) -> Any:
    loaded = load_documents(text.encode())
    assert loaded.faults == ()
    (document,) = loaded.documents
    return document.data


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("yes", True),
        ("Off", False),
        ("TRUE", True),
        ("~", None),
        ("Null", None),
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("-7", -7),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        (".5", 0.5),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("0899", "0899"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9223372036854775807", 2**63 - 1),
        ("99999999999999999999", 1e20),
        ("0x", "0x"),
        ("0x_", "0x_"),
        ("=", "="),
        ("10.0.0.1", "10.0.0.1"),
        ("1Gi", "1Gi"),
        ('"0644"', "0644"),
        ("'yes'", "yes"),
        ("!!str 0644", "0644"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("!!float 12", 12),
    ],
)
def test_a_scalar_means_what_kubernetes_takes_it_for(written: str, meaning: object) -> None:
    value = load_one(f"key: {written}\n")["key"]
    assert value == meaning
    assert type(value) is type(meaning)


def test_documents_are_counted_as_in_the_file_and_empty_ones_are_left_out() -> None:
    loaded = load_documents(b"# nothing\n---\n---\na: 1\n---\n# a comment\n---\nb: 2\n...\n")
    assert [(document.number, document.line, document.data) for document in loaded.documents] == [
        (2, 4, {"a": 1}),
        (4, 8, {"b": 2}),
    ]


def test_every_field_knows_its_line() -> None:
    (document,) = load_documents(b"spec:\n  volumes:\n  - name: a\n  -\n    name: b\n    emptyDir: {}\n").documents
    assert document.line_of(()) == 1
    assert document.line_of(("spec", "volumes")) == 2
    assert document.line_of(("spec", "volumes", 0, "name")) == 3
    assert document.line_of(("spec", "volumes", 1, "emptyDir")) == 6


def test_a_field_that_is_not_written_has_the_line_of_what_is_around_it() -> None:
    (document,) = load_documents(b"spec:\n  volumes:\n  - name: a\n").documents
    assert document.line_of(("spec", "volumes", 0, "emptyDir", "medium")) == 3
    assert document.line_of(("spec", "volumes", 7, "name")) == 2
    assert document.line_of(("status",)) == 1


def test_aliases_stand_for_their_anchor_with_the_lines_of_the_anchor() -> None:
    (document,) = load_documents(b"base: &base\n  a: 1\ncopy: *base\n").documents
    assert document.data == {"base": {"a": 1}, "copy": {"a": 1}}
    assert document.line_of(("copy",)) == 3
    assert document.line_of(("copy", "a")) == 2


def test_merged_maps_give_way_to_written_keys_and_earlier_maps_to_none() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  a: 3\n"
    assert load_one(text)["z"] == {"a": 3, "b": 1, "c": 2}
    assert load_one("x: &x {a: 1}\nz: {<<: *x}\n")["z"] == {"a": 1}


def test_a_quoted_double_less_than_is_an_ordinary_key() -> None:
    assert load_one('"<<": {a: 1}') == {"<<": {"a": 1}}


def test_anchors_end_with_their_document() -> None:
    loaded = load_documents(b"a: &a 1\n---\nb: *a\n")
    assert [(fault.document, fault.line) for fault in loaded.faults] == [(2, 3)]


def test_json_is_read_with_its_escapes() -> None:
    data = {"text": 'a "quoted" \\ud83d \\ /path', "smile": "😀", "list": [1, 2.5, None, True], "tab": "\t"}
    assert load_one(json.dumps(data)) == data
    assert load_one(json.dumps(data, indent="\t")) == data
    assert load_one('{"path": "\\/etc"}') == {"path": "/etc"}


def test_lone_halves_of_a_surrogate_pair_are_refused() -> None:
    assert load_documents(b'{"a": "\\ud83d"}').faults != ()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_all_json_is_read_as_json(value: object) -> None:
    assert load_one(json.dumps({"value": value})) == {"value": value}


def test_without_libyaml_manifests_are_read_all_the_same_and_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    yaml_syntax._parser_type.cache_clear()
    try:
        with pytest.warns(UserWarning, match="without libyaml"):
            assert load_one("mode: 0644") == {"mode": 420}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load_documents(b"a:\n\tb: 1\n").faults[0].line == 2
            assert load_documents(b'a: "b').faults[0].line == 1
            assert load_documents(b"a: \x00").faults != ()
            assert load_documents(b'a: "\\ud83d"').faults[0].why == "an escape sequence stands for half a character"
    finally:
        yaml_syntax._parser_type.cache_clear()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a:\n\tb: 1\n", 2, "a tab stands where YAML expects spaces (column 1)"),
        ("a: @b\n", 1, "a value may not begin with this character (column 4)"),
        ('a: 1\nb: "x\nc: 2\n', 2, "the quote that opens in line 2 is never closed"),
        ("a:\n  b: 1\n   c: 2\n", 3, 'a ": " stands where no key can be (column 5)'),
        ("a: [1, 2\nb: 3\n", 2, "the list that opens in line 1 is not closed, or lacks a comma (column 2)"),
        ('{"a": 1\n "b": 2}', 2, "the map that opens in line 1 is not closed, or lacks a comma (column 5)"),
        ("- a\nb: c\n", 2, "the list that begins in line 1 is broken off (column 1)"),
        ("a:\n    b: 1\n  c: 2\n", 3, "the indentation does not fit the map that begins in line 1 (column 3)"),
        ("a: 1\nb\n", 3, "a key has no value (column 1)"),
        ("a: [1,\n", 2, "a value is missing or not finished (column 1)"),
        ('a: "\\q"\n', 1, "an escape sequence is not known (column 5)"),
        ("a: !x!y z\n", 1, "a tag is not known (column 4)"),
        ("a: !!binary aGVsbG8=\n", 1, "a tag is used that no manifest needs"),
        ("a: !!int text\n", 1, "a value does not fit its tag"),
        ("a: !!set {b}\n", 1, "a tag is used that no manifest needs"),
        ("a: \x01\n", 1, "it contains control characters, which YAML does not allow"),
        ("a: *nowhere\n", 1, "an alias has no anchor before it"),
        ("a: &a\n  b: *a\n", 2, "an alias stands inside what it stands for"),
        ("a: 1\nb: 2\na: 3\n", 3, 'the key "a" is already set in line 1'),
        ("8080: web\n", 1, "a key is not a text"),
        ("yes: web\n", 1, "a key is not a text"),
        ("{a: 1}: web\n", 1, "a key is not a text"),
        ("a: {<<: 1}\n", 1, 'what "<<" merges is not a map'),
    ],
)
def test_a_fault_has_a_line_and_a_reason(text: str, line: int, why: str) -> None:
    (fault,) = load_documents(text.encode()).faults
    assert (fault.line, fault.why) == (line, why)


def test_faults_that_leave_the_file_readable_are_all_found() -> None:
    faults = load_documents(b"a: {b: 1, b: 2}\n---\nc:\n- d: 1\n- e: 1\n  e: 2\n").faults
    assert [(fault.document, fault.line, fault.path) for fault in faults] == [(1, 1, ("a", "b")), (2, 6, ("c", 1, "e"))]


def test_a_file_full_of_faults_is_not_read_to_the_end() -> None:
    assert len(load_documents(b"a: 1\n" * 10_000).faults) == MOST_FAULTS + 1


def test_text_that_is_not_utf8_is_refused_with_its_line() -> None:
    (fault,) = load_documents(b"a: 1\nb: \xff\xfe\n").faults
    assert (fault.line, fault.why) == (2, "the byte 0xff at position 8 is not UTF-8 text")


def test_a_file_beyond_the_limit_is_not_parsed() -> None:
    (fault,) = load_documents(b"#" * (LARGEST_FILE + 1)).faults
    assert "10 MiB is the most" in fault.why
    assert load_documents(b"#" * LARGEST_FILE).faults == ()


@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? "])
def test_deep_nesting_is_refused(opening: str) -> None:
    faults = load_documents((opening * 100_000).encode()).faults
    assert faults[-1].why == f"it is nested more than {DEEPEST_NESTING} levels deep"


def test_the_deepest_nesting_allowed_is_read() -> None:
    assert load_documents(b"[" * DEEPEST_NESTING + b"]" * DEEPEST_NESTING).faults == ()


def test_nesting_through_aliases_counts_as_nesting() -> None:
    lines = ["a0: &a0 []"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200)]
    (fault,) = load_documents("\n".join(lines).encode()).faults
    assert "levels deep" in fault.why


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (fault,) = load_documents("\n".join(lines).encode()).faults
    assert fault.why == "its aliases stand for more than 100000 values"


def test_merged_laughs_are_refused_as_well() -> None:
    keys = ", ".join(f"k{n}: 1" for n in range(200))
    lines = [f"base: &base {{{keys}}}"] + [f"c{n}: {{<<: *base}}" for n in range(900)]
    (fault,) = load_documents("\n".join(lines).encode()).faults
    assert fault.why == "its aliases stand for more than 100000 values"


def test_more_than_a_thousand_aliases_are_refused() -> None:
    (fault,) = load_documents(b"a: &a 1\nb: [" + b"*a, " * 1001 + b"]").faults
    assert fault.why == "there are more than 1000 aliases"


@pytest.mark.parametrize("text", ["a: *hunter2", "a: !hunter2 b", "a: !hun!ter2 b", 'a: "hunter2', "a: @hunter2"])
def test_no_fault_repeats_what_may_be_a_secret(text: str) -> None:
    (fault,) = load_documents(text.encode()).faults
    assert "hun" not in fault.why + fault.next_step
