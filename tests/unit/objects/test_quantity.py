from collections.abc import Callable
from decimal import ROUND_UP, Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.quantity import (
    AMOUNT_MAX,
    INT64_MAX,
    QuantityError,
    _parsed,
    milli_value,
    nano_value,
    resource_amounts,
    value,
)

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
numbers = st.decimals(min_value=0, max_value=10**9, places=6).map(lambda d: format(d, "f"))


@pytest.mark.parametrize(
    ("quantity", "units", "thousandths"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1.5", 2, 1500),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+5", 5, 5000),
        ("007", 7, 7000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1e3", 1000, 1000000),
        ("1E3", 1000, 1000000),
        ("1E", 10**18, INT64_MAX),
        ("1Ei", 2**60, INT64_MAX),
        ("12e-3", 1, 12),
        ("1n", 1, 1),
        ("0.0001n", 1, 1),
        ("1e-40", 1, 1),
        ("1000001u", 2, 1001),
        ("-1.5Gi", -1610612736, -1610612736000),
        ("-100m", -1, -100),
        (1, 1, 1000),
        (0.1, 1, 100),
        (2.5e-05, 1, 1),
        (" 7 ", 7, 7000),
        # Odd, but Kubernetes reads these as nothing.
        (".", 0, 0),
        ("m", 0, 0),
        ("e3", 0, 0),
    ],
)
def test_value_of_every_form(quantity: str | float, units: int, thousandths: int) -> None:
    assert (value(quantity), milli_value(quantity)) == (units, thousandths)


@pytest.mark.parametrize(
    "text",
    ["", " ", "12x", "1.2.3", "1e", "1e1.5", "K", "1mi", "1 Gi", "--1", "0x10", "１", "1_000", "nan"],
)
def test_text_that_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        value(text)


@pytest.mark.parametrize("text", ["8Ei", "1e19", "1e999999999999", "9223372036854775808", "9" * 900])
def test_more_than_int64_holds_is_its_largest_number(text: str) -> None:
    assert value(text) == milli_value(text) == INT64_MAX
    assert value(f"-{text}") == -INT64_MAX


def test_absurdly_long_number_is_refused() -> None:
    with pytest.raises(QuantityError, match="5000 digits"):
        value("9" * 5000)


def test_resource_amounts_are_in_thousandths_for_cpu_and_units_for_the_rest() -> None:
    assert resource_amounts({"cpu": "250m", "memory": "1Gi", "example.com/gpu": 2}) == {
        "cpu": 250,
        "memory": 2**30,
        "example.com/gpu": 2,
    }


@pytest.mark.parametrize("text", ["8Ei", "1e30", "9223372036854775807"])
def test_amounts_of_resources_leave_room_for_sums(text: str) -> None:
    assert set(resource_amounts({"cpu": text, "memory": text}).values()) == {AMOUNT_MAX}
    assert set(resource_amounts({"cpu": f"-{text}", "memory": f"-{text}"}).values()) == {-AMOUNT_MAX}
    assert 127 * AMOUNT_MAX < INT64_MAX
    assert 100 * AMOUNT_MAX < INT64_MAX


@given(number=numbers, suffix=st.sampled_from(sorted(FACTORS)))
def test_rounding_up_agrees_with_exact_fractions(number: str, suffix: str) -> None:
    exact = Fraction(number) * FACTORS[suffix]
    assert value(number + suffix) == min(ceil(exact), INT64_MAX)
    assert milli_value(number + suffix) == min(ceil(exact * 1000), INT64_MAX)
    assert nano_value(number + suffix) == ceil(exact * 10**9)


@given(number=numbers, exponent=st.integers(-12, 9), letter=st.sampled_from("eE"))
def test_exponents_agree_with_decimal(number: str, exponent: int, letter: str) -> None:
    exact = Decimal(number).scaleb(exponent).quantize(Decimal(1), rounding=ROUND_UP)
    assert value(f"{number}{letter}{exponent}") == min(int(exact), INT64_MAX)


@given(number=st.floats(min_value=0, max_value=1e15))
def test_numbers_count_as_they_are_written(number: float) -> None:
    assert value(number) == ceil(Fraction(repr(number)))


@given(st.text("0123456789.+-eEnumkKMGTPi \u0664", max_size=8))
def test_the_quick_way_for_plain_quantities_says_the_same(text: str) -> None:
    assert _answer(nano_value, text) == _answer(lambda text: _parsed(text, 9), text)


def _answer(read: Callable[[str], int], text: str) -> int | str:
    try:
        return read(text)
    except QuantityError as problem:
        return str(problem)
