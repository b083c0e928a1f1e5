"""The limits on the nesting of a request."""

import orjson
import pytest

from taskplane.gateway.json_body import parse_json
from taskplane.runtime.errors import Invalid


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_sixty_four_levels_are_taken_and_one_more_is_not(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def body(levels: int) -> bytes:
        return (opening * levels + ("1" if opening != "[" else "") + closing * levels).encode()

    assert parse_json(body(64)) is not None
    for levels in (65, 100_000):
        with pytest.raises(Invalid) as caught:
            parse_json(body(levels))
        assert caught.value.reason == "TOO_DEEP"


def test_a_wide_document_is_not_a_deep_one() -> None:
    assert len(parse_json(orjson.dumps([[{}]] * 1000))) == 1000


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b'"\\ud800"', b'{"a":1}x', b"[" * 50, b"\xff"])
def test_what_is_no_json_is_a_value_error_and_never_worse(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(body)
