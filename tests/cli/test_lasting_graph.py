"""Questions of a LangGraph graph survive a restart of the plane, with the checkpointer of the documentation."""

import signal
from pathlib import Path

import pytest
from tests.cli.command import chat_once, dev
from tests.repo.tree import ROOT

pytestmark = pytest.mark.more

EXAMPLES = ROOT / "docs" / "examples"


def test_i1_a_question_of_a_graph_is_answered_after_a_restart(tmp_path: Path) -> None:
    """I1, C14: the checkpointer leaves no thread that would keep the process alive."""
    for file in ("booking.py", "lasting_booking.py"):
        (tmp_path / file).write_bytes((EXAMPLES / file).read_bytes())
    arguments = ("--agent", "lasting_booking:graph", "--data", "data")
    with dev(*arguments, cwd=tmp_path, afresh=True) as before:
        asked = chat_once(before.url, "the night train")
        before.signal(signal.SIGTERM)
        code, rest = before.end()
        assert code == 0 and "AsyncSqliteSaver" not in rest, rest
    with dev(*arguments, cwd=tmp_path, afresh=True) as after:
        answered = chat_once(after.url, "yes", asked["contextId"])
    assert asked["state"] == "input-required"
    assert (answered["state"], answered["text"]) == ("completed", "I booked the night train.")
