"""The generation or version that a header `If-Match` names."""

import pytest

from taskplane.gateway.limits import parse_if_match
from taskplane.runtime.errors import Invalid


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("*", 0), ("7", 7), ('"7"', 7), ('W/"7"', 7), ("abc-7", 7), ('"abc-17"', 17)],
)
def test_if_match_is_parsed_as_a_number(text: str, number: int) -> None:
    assert parse_if_match(text, "version") == number


@pytest.mark.parametrize("text", ["x", '"x"', "0", "1.5", '"1", "2"', "9" * 19, "²"])
def test_an_invalid_if_match_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="version"):
        parse_if_match(text, "version")
