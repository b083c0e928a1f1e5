"""The pages of agents of other kinds: each is followed to the letter."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.command import dev, taskplane
from tests.repo.tree import ROOT


@pytest.mark.parametrize("name", ["functions", "langgraph"])
def test_what_a_page_says_happens(name: str, tmp_path: Path) -> None:
    """P1, I1: the example is the file that it names; it is started and talked with by the commands that are printed."""
    page = (ROOT / "docs" / f"{name}.md").read_text()
    (file,) = re.findall(r"\[examples/(\w+\.py)\]\(examples/\1\)", page)
    (printed,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
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
