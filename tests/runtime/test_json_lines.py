"""JSON on one line, whatever its texts contain."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskplane.cli.render import dump
from taskplane.client.answers import parsed
from taskplane.client.sse import SseDecoder
from taskplane.runtime import logs
from taskplane.runtime.json_lines import encode, encode_text

TEXTS = st.text(st.characters() | st.sampled_from("\u2028\u2029\x85\x1c\x0b\r\n\0\u2027\u202a\xc2\x86"))
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(), lambda one: st.lists(one) | st.dictionaries(TEXTS, one)
)


@given(VALUES)
def test_any_value_is_one_line_and_reads_back_as_it_was(value: Any) -> None:
    written = encode(value)
    assert len((b"x" + written).decode().splitlines()) == 1 and json.loads(written) == value
    text = encode_text(value)
    assert len(f"x{text}".splitlines()) == 1 and json.loads(text) == value


def test_the_output_of_commands_and_the_log_are_one_line_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(dump({"a": "b\u2028c\x85"}, indent=False).splitlines()) == 1
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "b\u2028c\u2029d\x85e", (), None)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.setup(human=False)
        root.handle(record)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "b\u2028c\u2029d\x85e"


def test_the_terminal_client_reads_breaks_that_a_server_writes_as_they_are() -> None:
    found = SseDecoder().feed('data: "a\u2028b\u2029c\x85d"\n\n'.encode())
    assert [event.data for event in found] == ['"a\u2028b\u2029c\x85d"']


def test_the_terminal_client_shows_numbers_as_the_server_writes_them() -> None:
    written = '{"a": 100000000000000000000, "b": 9007199254740993, "c": 1e+21}'
    assert dump(parsed("http://x", written), indent=False) == written
