"""`taskplane dev --reload`: new turns get new code, and errors in the code of the agent are printed."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.command import PATIENCE, Dev, chat_once, dev, taskplane

AGENT = """
import asyncio, pathlib
from taskplane.agents.agent import AgentCard, ArtifactChunk, Complete
from .words import WORD

class Agent:
    card = AgentCard(name="Agent", description=f"Says {WORD}.", version="1")

    async def run(self, turn):
        if turn.text.startswith("/"):
            print("begun", flush=True)
            while not pathlib.Path(turn.text).exists():
                await asyncio.sleep(0.01)
        yield Complete(WORD)
"""


UNSPEAKABLE = """
class Odd(Exception):
    def __str__(self):
        raise self

raise Odd
"""


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(textwrap.dedent(text))


def until(plane: Dev, marker: str) -> list[str]:
    """The lines up to the first one that has `marker`."""
    lines: list[str] = []
    for line in plane.output:
        lines.append(line)
        if marker in line:
            return lines
    raise AssertionError("".join(lines))


def begin(plane: Dev, text: str) -> str:
    """Sends a message and returns the id of its task, without waiting for the task."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer: dict[str, Any] = httpx.post(plane.url, json=body, timeout=PATIENCE).json()
    until(plane, "begun")
    return str(answer["result"]["task"]["id"])


def end_of(plane: Dev, task_id: str) -> str:
    """The last words of a task, once it has ended."""
    taskplane("tail", task_id, "--url", plane.url)
    found = json.loads(taskplane("task", "get", task_id, "--url", plane.url, "-o", "json").stdout)
    return str(found["status"]["message"]["parts"][0]["text"])


def description(plane: Dev) -> str:
    return str(httpx.get(f"{plane.url}/.well-known/agent-card.json").json()["description"])


def test_new_turns_get_new_code_and_after_a_broken_edit_the_old_code_stays_in_use(tmp_path: Path) -> None:
    """P14: for a package of several modules. Running turns keep their code, the card is updated, errors have file and
    line."""
    write(tmp_path, {"pack/__init__.py": "", "pack/agent.py": AGENT, "pack/words.py": 'WORD = "one"\n'})
    go = tmp_path / "go"
    with dev("--agent", "pack.agent:Agent", "--reload", cwd=tmp_path) as plane:
        assert (chat_once(plane.url, "hi")["text"], description(plane)) == ("one", "Says one.")
        running = begin(plane, str(go))

        write(tmp_path, {"pack/words.py": 'WORD = "two"\n'})
        until(plane, "Agent reloaded")
        assert (chat_once(plane.url, "hi")["text"], description(plane)) == ("two", "Says two.")
        go.touch()
        assert end_of(plane, running) == "one"

        write(tmp_path, {"pack/words.py": '\nWORD = = "three"\n'})
        told = "".join(until(plane, "stays in use"))
        assert "SyntaxError: invalid syntax (pack/words.py:2)" in told and 'WORD = = "three"' in told
        assert "BAD_AGENT" in told and "Traceback" not in told
        assert chat_once(plane.url, "hi")["text"] == "two"

        write(tmp_path, {"pack/words.py": "from pack.more import WORD\n"})
        assert "No module named 'pack.more' (pack/words.py:1)" in "".join(until(plane, "stays in use"))
        write(tmp_path, {"pack/more.py": 'raise LookupError("half")\n'})
        assert "LookupError: half (pack/more.py:1)" in "".join(until(plane, "stays in use"))
        for odd, name in (("raise KeyboardInterrupt", "KeyboardInterrupt"), (UNSPEAKABLE, "Odd")):
            write(tmp_path, {"pack/more.py": odd})
            assert f"{name} (pack/more.py:" in "".join(until(plane, "stays in use"))
        write(tmp_path, {"pack/more.py": 'WORD = "four"\n'})
        until(plane, "Agent reloaded")
        assert chat_once(plane.url, "hi")["text"] == "four"

        # The only module of a new folder: no other file of the folder is known.
        write(tmp_path, {"extra/most.py": 'raise LookupError("new")\n'})
        write(tmp_path, {"pack/words.py": "from extra.most import WORD\n"})
        assert "LookupError: new (extra/most.py:1)" in "".join(until(plane, "stays in use"))
        write(tmp_path, {"extra/most.py": 'WORD = "five"\n'})
        until(plane, "Agent reloaded")
        assert chat_once(plane.url, "hi")["text"] == "five"


IN_PROCESS = """
import atexit, os, pathlib, time
from taskplane.agents.agent import AgentCard, Complete

WORD = "one"

@atexit.register
def leave():
    print("left", WORD, os.getpid(), flush=True)

class Agent:
    card = AgentCard(name="Agent", version="1")

    def run(self, turn):
        if turn.text.startswith("/"):
            print("begun", flush=True)
            while not pathlib.Path(turn.text).exists():
                time.sleep(0.01)
        yield Complete(f"{WORD} {os.getpid()}")
"""


def test_an_agent_in_processes_gets_new_processes(tmp_path: Path) -> None:
    """P14, P9: a process with a run keeps its code and gets no further turn. Processes without a run end."""
    write(tmp_path, {"agent.py": IN_PROCESS})
    go = tmp_path / "go"
    with dev("--agent", "agent:Agent@process", "--reload", cwd=tmp_path) as plane:
        idle = chat_once(plane.url, "hi")["text"]
        assert chat_once(plane.url, "hi")["text"] == idle
        running = begin(plane, str(go))
        # The new file has the same size, and perhaps the same second of change.
        write(tmp_path, {"agent.py": IN_PROCESS.replace("one", "two")})
        until(plane, "Agent reloaded")
        word, process = chat_once(plane.url, "hi")["text"].split()
        assert word == "two"
        go.touch()
        assert end_of(plane, running) == idle
        until(plane, f"left {idle}")
        assert chat_once(plane.url, "hi")["text"] == f"two {process}"


FAULTY = """
from taskplane.agents.agent import AgentCard, Complete

def fetch(page):
    raise ValueError(f"no page {page}")

class Faulty:
    card = AgentCard(name="Faulty", version="1")

    async def run(self, turn):
        if turn.text == "wrong":
            yield "a text"
        if turn.text == "raise":
            fetch(3)
        yield Complete("well")
        if turn.text == "after":
            yield Complete("more")

class Threaded(Faulty):
    def run(self, turn):
        if turn.text == "wrong":
            yield "a text"
        fetch(4)
        yield Complete("well")
"""


def test_p9_a_fault_of_an_agent_shows_file_and_line_and_only_the_authors_part_of_the_traceback(tmp_path: Path) -> None:
    """P9: with the name of the agent and the task, whether the agent runs in a thread or a process."""
    write(tmp_path, {"faulty.py": FAULTY})
    agents = ("faulty:Faulty", "faulty:Threaded", "apart=faulty:Faulty@process")
    options = [option for agent in agents for option in ("--agent", agent)]
    with dev(*options, cwd=tmp_path) as plane:

        def log(agent: str, text: str, marker: str) -> dict[str, Any]:
            taskplane("chat", "--url", plane.url, "--agent", agent, "-m", text)
            line: dict[str, Any] = json.loads(until(plane, marker)[-1])
            assert line["agent"] == agent and line["task_id"] in line["message"]
            return line

        for agent, number in (("Faulty", 5), ("Threaded", 5), ("apart", 5)):
            line = log(agent, "raise", "ValueError: no page")
            assert f"failed at faulty.py:{number}: ValueError: no page" in line["message"]
            assert "in run" in line["traceback"] and "in fetch" in line["traceback"]
            assert "taskplane/executor" not in line["traceback"].partition("in fetch")[0].replace(str(tmp_path), "")
        for agent, number in (("Faulty", 12), ("Threaded", 22), ("apart", 12)):
            line = log(agent, "wrong", "yield changes, not str")
            assert f"failed at faulty.py:{number}: " in line["message"]
        assert "at faulty.py:17 after its final change" in log("Faulty", "after", "after its final change")["message"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\nclass Agent(:\n", "SyntaxError: invalid syntax (agent.py:2)"),
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name' (agent.py:1)"),
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (agent.py:2)"),
        (AGENT.replace("from .words import WORD", "WORD = 1").replace("AgentCard(", "dict("), "(agent.py:6)"),
    ],
)
def test_code_that_cannot_be_loaded_is_refused_with_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    """P14: the command ends at start, with the exit code of wrong usage."""
    write(tmp_path, {"agent.py": text})
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--agent", "agent:Agent", cwd=tmp_path)
    assert done.returncode == 2
    (problem,) = [line for line in done.stderr.splitlines() if line.startswith("✗ agent 'agent:Agent': ")]
    assert told in problem and "Traceback" not in done.stderr
