"""Quantities, against the examples and rules of the Kubernetes documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.quantity import Notation, Quantity, parse_quantity


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0", 0),
        ("1", 10**9),
        (3, 3 * 10**9),
        (0.5, 5 * 10**8),
        ("5n", 5),
        ("5u", 5000),
        ("500m", 5 * 10**8),
        ("1.5", 1_500_000_000),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("2k", 2000 * 10**9),
        ("3M", 3 * 10**15),
        ("1E", 10**27),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1e-3", 10**6),
        (1e20, 2**63 * 10**9 - 10**9),
        ("1Ki", 1024 * 10**9),
        ("0.5Gi", 2**29 * 10**9),
        ("2Ei", 2**61 * 10**9),
        ("-1Mi", -(2**20) * 10**9),
        ("+7", 7 * 10**9),
    ],
)
def test_every_notation_is_read_exactly(written: str | int | float, nano: int) -> None:
    assert parse_quantity(written).nano == nano


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1000", "1k"),
        ("1.5", "1500m"),
        ("0.5Gi", "512Mi"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("12e2", "1200"),
        ("0Mi", "0"),
        ("-2048", "-2048"),
        ("-2Ki", "-2Ki"),
        ("1E", "1E"),
        ("10n", "10n"),
    ],
)
def test_the_canonical_form_has_the_greatest_suffix_and_no_fraction(written: str, canonical: str) -> None:
    assert str(parse_quantity(written)) == canonical


def test_value_and_milli_round_away_from_zero() -> None:
    assert parse_quantity("1m").value == 1
    assert parse_quantity("-1m").value == -1
    assert parse_quantity("1500u").milli == 2
    assert parse_quantity("250m").milli == 250


def test_what_is_finer_than_a_billionth_is_rounded_up() -> None:
    assert parse_quantity("0.0000000001") == parse_quantity("1n")
    assert parse_quantity("1e-99999999999999999999") == parse_quantity("1n")


@pytest.mark.parametrize("written", ["16Ei", "1e19", "1e99999999999999999999"])
def test_what_is_too_great_for_kubernetes_becomes_the_greatest_amount(written: str) -> None:
    assert parse_quantity(written).value == 2**63 - 1


def test_equal_amounts_in_different_notations_are_equal() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024") == parse_quantity("1.024e3")
    assert parse_quantity("1G") < parse_quantity("1Gi")
    assert len({parse_quantity("1000m"), parse_quantity("1")}) == 1


def test_sums_and_differences_keep_the_notation_of_the_left_side() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1024Mi")) == "2Gi"
    assert str(parse_quantity("1") - parse_quantity("250m")) == "750m"
    assert str(-parse_quantity("2Ki")) == "-2Ki"


@pytest.mark.parametrize(
    "written", ["", "Gi", "1 Gi", "ten", "1.2.3", "1e", "--1", "1ki", "0x10", "1_000", "٣", "\n1", "1\n", True]
)
def test_what_is_no_quantity_is_refused_with_a_sentence(written: str | bool) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(written)


def test_a_unit_in_bytes_is_answered_with_the_units_that_exist() -> None:
    with pytest.raises(ValueError, match=r"10G \(decimal\) and 10Gi \(binary\)"):
        parse_quantity("10GB")
    with pytest.raises(ValueError, match=r"5k \(decimal\) and 5Ki \(binary\)"):
        parse_quantity("5kb")


def test_an_endless_text_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="a text of 5000 characters") as caught:
        parse_quantity("9" * 5000)
    assert len(str(caught.value)) < 200


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(Notation))
def test_the_canonical_form_means_the_same_amount(units: int, notation: Notation) -> None:
    quantity = Quantity(units * 10**9, notation)
    assert parse_quantity(str(quantity)) == quantity


@given(st.integers(-(10**20), 10**20))
def test_fractions_survive_the_canonical_form(nano: int) -> None:
    assert parse_quantity(str(Quantity(nano))).nano == nano
