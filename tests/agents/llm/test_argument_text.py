"""Arguments of tool calls that are read in pieces, compared with a parser that reads the whole text."""

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskplane.agents.llm.argument_text import ArgumentText
from taskplane.agents.surrogates import Surrogates

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read(encoded: str, cuts: list[int]) -> tuple[dict[str, str], bool]:
    arguments = ArgumentText()
    found: dict[str, str] = {}
    edges = [0, *sorted(cut % (len(encoded) + 1) for cut in cuts), len(encoded)]
    for start, end in itertools.pairwise(edges):
        for key, text in arguments.feed(encoded[start:end]):
            found[key] = found.get(key, "") + text
    return found, arguments.complete


@given(
    st.dictionaries(st.text(max_size=8), _JSON, max_size=5),
    st.lists(st.integers(0, 10_000), max_size=12),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@example({"a": '"\\/\b\f\n\r\t\0\u2028\U0001f600', "b": ["/\t"]}, list(range(60)), True, False, True)
def test_values_read_in_pieces_equal_the_values_of_the_whole(
    arguments: dict[str, object], cuts: list[int], ascii_only: bool, spaced: bool, slashes: bool
) -> None:
    """P5: at any cut. A text is decoded, with any escapes; another value is JSON. A null and an empty text have no
    pieces."""
    encoded = json.dumps(arguments, ensure_ascii=ascii_only, indent=1 if spaced else None)
    if slashes:
        encoded = encoded.replace("/", "\\/")
    found, complete = read(encoded, cuts)
    read_again = {
        key: text if isinstance(arguments[key], str) else json.loads(text) for key, text in found.items() if text
    }
    assert read_again == {key: value for key, value in arguments.items() if value is not None and value != ""}
    assert complete


@given(st.dictionaries(st.sampled_from(["name", "content"]), st.text(), min_size=1), st.integers(0, 10_000))
def test_truncated_arguments_are_not_complete(arguments: dict[str, str], cut: int) -> None:
    """P9: each value is a beginning of the whole one."""
    encoded = json.dumps(arguments)
    found, complete = read(encoded[: cut % len(encoded)], [])
    assert not complete
    assert all(arguments[key].startswith(text) for key, text in found.items())


@given(st.text(), st.integers(0, 100))
def test_two_halves_of_a_surrogate_pair_become_one_character(text: str, cut: int) -> None:
    """P5: the two surrogates may come in two pieces."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2))
    at = cut % (len(halves) + 1)
    surrogates = Surrogates()
    assert surrogates.join(halves[:at]) + surrogates.join(halves[at:]) + surrogates.end() == text


@pytest.mark.parametrize("encoded", ['{"content": "a\\ud83d"}', '{"content": "a\\ude00b"}', '{"content": "a\\uzzzzb"}'])
def test_an_invalid_escape_becomes_a_character_that_can_be_stored(encoded: str) -> None:
    """P5: half a surrogate pair, or an escape without hexadecimal digits, becomes U+FFFD."""
    found, complete = read(encoded, [])
    assert complete and "\ufffd" in found["content"]
    found["content"].encode()
