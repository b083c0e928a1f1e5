"""Texts are cut to fit a line."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from taskplane.cli.render import columns, content_of, log_line, one_line, text_of
from taskplane.client.events import classify, read_message
from taskplane.client.task_log import Logged

TIME = "2030-01-02T03:04:05.678901Z"


def test_a_long_text_of_many_lines_is_one_short_line() -> None:
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("x" * 20, 10) == "x" * 9 + "…"


def test_columns_are_aligned_and_the_last_is_ragged() -> None:
    assert columns([["A", "B"], ["long", "x"]]) == "A     B\nlong  x"


def test_columns_fit_the_terminal() -> None:
    """The widest columns are cut, and short ones stay whole."""
    rows = [["SESSION", "STATE", "TITLE"], ["0123456789abcdef" * 2, "working", "a rather long title of a session"]]
    for width in (80, 60, 40):
        lines = columns(rows, width).splitlines()
        assert max(map(len, lines)) <= width and "working" in lines[1]
        assert len({line.index("STATE" if "STATE" in line else "working") for line in lines}) == 1
    assert columns(rows, 200) == columns(rows)
    five = [[column * 20 for column in "ABCDE"]]
    assert max(map(len, columns(five, 40).splitlines())) <= 40
    (cut, *_) = columns(rows, 40).splitlines()[1].split()
    assert cut.endswith("…") and rows[1][0].startswith(cut[:-1])


def test_columns_that_cannot_fit_stay_readable() -> None:
    assert columns([["abcdefghijkl", "abcdefghijkl"]], 5) == "abcd…  abcd…"


def test_a_line_of_the_log_has_the_distance_to_the_event_before() -> None:
    record = {"generation": 7, "time": TIME, "kind": "checkpoint", "event": None}
    before = datetime.fromisoformat(TIME) - timedelta(milliseconds=250)
    line = log_line(Logged("x-7", 7, record, None), before.astimezone(UTC))
    assert line.endswith(".678  +0.250s  #7  checkpoint")


def test_an_artifact_update_reads_as_its_name_and_content() -> None:
    parts = [{"text": "ab"}, {"data": {"k": 1}}, {"raw": "AA==", "filename": "f.bin"}]
    update = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": parts}}}
    assert text_of(classify(update)) == 'a: ab{"k": 1}<f.bin>'


def _asked(data: object, *texts: str) -> str:
    return content_of(read_message({"messageId": "m", "parts": [*({"text": each} for each in texts), {"data": data}]}))


@pytest.mark.parametrize(
    "question",
    [
        {"action_requests": [{"name": "pay", "args": {"sum": 3}, "description": "Pay it?"}], "review_configs": []},
        {"calls": [{"id": "1", "name": "pay", "args": {"sum": 3}, "kind": "approval", "description": "Pay it?"}]},
        [{"action_request": {"action": "pay", "args": {"sum": 3}}, "config": {}, "description": "Pay it?"}],
        {"value": [{"name": "pay", "args": {"sum": 3}, "description": "Pay it?"}]},
        {"question": "Pay it?", "action": "pay", "arguments": {"sum": 3}},
    ],
)
def test_a_question_that_is_data_reads_as_description_action_and_arguments_and_then_as_json(question: object) -> None:
    words, call, rest = _asked(question).split("\n\n", 2)
    assert (words, call) == ("Pay it?", '    → pay {"sum": 3}')
    assert json.loads(rest) == question


def test_data_without_an_action_is_json_below_the_text() -> None:
    assert _asked({"n": 3}, "So:") == 'So:\n\n    {\n      "n": 3\n    }'
    for other in (None, 3, "a", [], [1]):
        assert json.loads(_asked(other)) == other


def test_data_is_not_repeated_if_the_text_names_its_actions() -> None:
    question = {"calls": [{"name": "pay", "args": {"sum": 3}}]}
    assert _asked(question, "May pay(sum=3) be called?") == "May pay(sum=3) be called?"
    assert "→ pay" in _asked(question, "May it?")
