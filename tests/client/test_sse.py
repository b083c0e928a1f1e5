"""The decoder of server-sent events."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskplane.client.sse import SseDecoder, SseEvent

STREAM = (
    b": hello\n\nid: a-1\ndata: {}\n\n: ping\n: ping\n"
    b"id: a-2\r\ndata: one\r\ndata: two\r\n\r\nevent: error\rdata: x\r\r"
)
EVENTS = [SseEvent("{}", "a-1", ""), SseEvent("one\ntwo", "a-2", ""), SseEvent("x", "a-2", "error")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    decoder = SseDecoder()
    places = [0, *sorted(cuts), len(STREAM)]
    got = [event for start, end in pairwise(places) for event in decoder.feed(STREAM[start:end])]
    got += decoder.feed(b"\n")
    assert got == EVENTS


def test_a_comment_or_an_id_alone_makes_no_event() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b": ping\n\nid: a-7\n\n") == []
    assert decoder.last_id == "a-7"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0c", "\x1c"])
def test_line_separators_of_unicode_do_not_end_a_line(separator: str) -> None:
    assert SseDecoder().feed(f'data: "a{separator}b"\n\n'.encode())[0].data == f'"a{separator}b"'


def test_an_incomplete_event_is_dropped() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"id: a-1\ndata: {}\n") == []
