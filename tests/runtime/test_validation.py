"""The rules for ids, names and hosts that every process applies alike."""

import pytest

from taskplane.runtime.bounds import Range
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import (
    MAX_ID,
    MOST_WRONG,
    WrongFields,
    broken_id_rule,
    has_control,
    invalid,
    is_id,
    is_loopback,
    is_request_id,
    is_segment,
)


@pytest.mark.parametrize("character", ["\0", "\t", "\n", "\x1f", "\x7f", "\x80", "\x9f", "\ud800", "\udfff"])
def test_no_id_has_a_control_character(character: str) -> None:
    """U+0000 to U+001F, U+007F to U+009F, and the halves of a surrogate pair."""
    assert has_control(f"a{character}b")
    assert not is_id(f"a{character}b")
    assert broken_id_rule(f"a{character}b") == "must not contain control characters"


@pytest.mark.parametrize("value", ["a", "a b", "ä/ö", "\u2028", "\u00a0", "\U0001f600", "x" * MAX_ID])
def test_an_id_may_have_any_other_character(value: str) -> None:
    """Also those that Python does not call printable, such as U+2028."""
    assert is_id(value)
    assert not broken_id_rule(value)


def test_an_id_has_1_to_255_characters() -> None:
    """Characters, not bytes."""
    assert not is_id("")
    assert not broken_id_rule("")
    assert is_id("ä" * 255)
    assert not is_id("ä" * 256)
    assert broken_id_rule("ä" * 256) == "must have at most 255 characters"


def test_two_ids_are_no_segment_of_a_path() -> None:
    """A client removes them from the path before it sends it."""
    assert [value for value in (".", "..", "...", ".a", "a..", "") if not is_segment(value)] == [".", ".."]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_these_hosts_are_loopback(host: str) -> None:
    """With and without the brackets of a URL."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "[::]", "10.0.0.1", "127.example.com", "localhost.example"])
def test_no_other_host_is_loopback(host: str) -> None:
    """Also not one whose name only looks like an address of loopback."""
    assert not is_loopback(host)


def test_a_request_id_is_short_ascii_without_spaces() -> None:
    """So it can stand in a header and in a line of the log."""
    assert all(map(is_request_id, ["a", "x" * 128, "req_1.2:3/4+5=6-7"]))
    assert not any(map(is_request_id, ["", "x" * 129, "a b", "a\n", "ä", "a%"]))


def test_all_wrong_fields_of_a_request_are_in_one_error_each_with_its_first_rule() -> None:
    wrong = WrongFields()
    wrong.ids({"a": "", "b": "x" * 256, "c": "fine", "d": "\n"})
    wrong.ids({"e": "", "f": "x" * 255}, required=False)
    wrong.segment("g", "..")
    wrong.add("g", "is unknown")
    wrong.request_hash("h", b"short")
    wrong.at_least("i", 0, 1)
    with pytest.raises(Invalid) as refused:
        wrong.check()
    assert refused.value.reason == "INVALID_ARGUMENT"
    assert refused.value.fields == {
        "a": "is required",
        "b": "must have at most 255 characters",
        "d": "must not contain control characters",
        "g": "must not be . or ..",
        "h": "must have 32 bytes (SHA-256)",
        "i": "must be at least 1",
    }
    assert refused.value.message.startswith("a is required; b must have")
    assert refused.value.message.endswith("; and 1 more")


def test_a_missing_id_among_short_ones_is_a_wrong_field() -> None:
    wrong = WrongFields()
    wrong.ids({"a": "fine", "b": ""})
    assert wrong.found == {"b": "is required"}


def test_a_request_without_wrong_fields_passes() -> None:
    wrong = WrongFields()
    wrong.ids({"a": "x" * 200, "b": "\u00a0" * 200})
    wrong.ids({"c": ""}, required=False)
    wrong.within("d", 5, Range(5, 5))
    wrong.check()


@pytest.mark.parametrize("value", [0.5, 11, float("nan"), float("inf")])
def test_a_number_outside_its_range_is_a_wrong_field(value: float) -> None:
    wrong = WrongFields()
    wrong.within("age", value, Range(1, 10, "seconds"))
    assert wrong.found == {"age": "must be 1 to 10 seconds"}


def test_an_error_names_at_most_50_fields() -> None:
    """So a large request has no larger answer."""
    wrong = WrongFields()
    for number in range(1000):
        wrong.add(f"field{number}", "is wrong")
    assert list(wrong.found) == [f"field{number}" for number in range(MOST_WRONG)]


def test_a_wrong_body_is_named_as_such() -> None:
    assert invalid({"": "must be an object"}).message == "the body must be an object"
