"""The pages of agents of other kinds: each is followed to the letter."""

import re
import shlex
import signal
from pathlib import Path

import pytest
from tests.cli.command import dev, said, taskplane
from tests.repo.tree import ROOT

_LINKED = r"\[examples/(\w+\.py)\]\(examples/\1\)"
_PRINTED = r"^```python\n(.*?)^```$"


@pytest.mark.parametrize("name", ["functions", "langgraph"])
def test_what_a_page_says_happens(name: str, tmp_path: Path) -> None:
    """P1, I1: the example is the file that it names; it is started and talked with by the commands that are printed."""
    page = (ROOT / "docs" / f"{name}.md").read_text()
    file = re.findall(_LINKED, page)[0]
    printed = re.findall(_PRINTED, page, re.MULTILINE | re.DOTALL)[0]
    assert printed == (ROOT / "docs" / "examples" / file).read_text()
    (tmp_path / file).write_text(printed)
    (start,) = re.findall(r"^```sh\ntaskplane dev (.*)\n```$", page, re.MULTILINE)
    (talk,) = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    session = ""
    with dev(*shlex.split(start), cwd=tmp_path, afresh=True) as plane:
        for said in talk.removeprefix("$ ").split("\n$ "):
            command, _, answer = said.partition("\n")
            words = shlex.split(command.replace("$SESSION", session))[1:]
            done = taskplane(*words, env={"TASKPLANE_URL": plane.url})
            assert done.stdout.strip() == answer.strip(), (command, done.stderr)
            session = re.findall(r"session (\w+)", done.stderr)[-1]


def test_i1_a_question_of_a_graph_is_answered_after_a_restart(tmp_path: Path) -> None:
    """I1, C14: with the checkpointer that the page prints, which leaves a thread that does not keep the process."""
    page = (ROOT / "docs" / "langgraph.md").read_text()
    printed = re.findall(_PRINTED, page, re.MULTILINE | re.DOTALL)
    for file, text in zip(re.findall(_LINKED, page), printed, strict=True):
        assert text == (ROOT / "docs" / "examples" / file).read_text()
        (tmp_path / file).write_text(text)
    arguments = ("--agent", "lasting_booking:graph", "--data", "data")
    with dev(*arguments, cwd=tmp_path, afresh=True) as before:
        asked = said(before.url, "the night train")
        before.signal(signal.SIGTERM)
        code, rest = before.end()
        assert code == 0 and "AsyncSqliteSaver" not in rest, rest
    with dev(*arguments, cwd=tmp_path, afresh=True) as after:
        answered = said(after.url, "yes", asked["contextId"])
    assert asked["state"] == "input-required"
    assert (answered["state"], answered["text"]) == ("completed", "I booked the night train.")
