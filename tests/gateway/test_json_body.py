"""Limits on the nesting of a request."""

import orjson
import pytest

from taskplane.gateway.json_body import parse_json
from taskplane.runtime.errors import Invalid


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_at_most_64_levels_are_accepted(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def body(levels: int) -> bytes:
        return (opening * levels + ("1" if opening != "[" else "") + closing * levels).encode()

    assert parse_json(body(64)) is not None
    for levels in (65, 100_000):
        with pytest.raises(Invalid) as caught:
            parse_json(body(levels))
        assert caught.value.reason == "TOO_DEEP"


def test_width_does_not_count_as_depth() -> None:
    assert len(parse_json(orjson.dumps([[{}]] * 1000))) == 1000


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b'"\\ud800"', b'{"a":1}x', b"[" * 50, b"\xff"])
def test_invalid_json_raises_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(body)
