"""`taskplane session` against a real plane: list, show, rename, delete."""

import json
import os
import pty
import subprocess

import pytest
from tests.cli.command import PATIENCE, PROGRAM, chat_once, environment, json_of, session_of, taskplane


def test_t9_sessions_are_listed_with_title_agent_state_tasks_and_time(url: str) -> None:
    session = session_of(url, "a session of its own", "fail once")
    (row,) = [row for row in json_of(url, "session", "list") if row["id"] == session]
    assert (row["title"], row["agent"], row["lastState"]) == ("a session of its own", "demo", "failed")
    assert (row["taskCount"], row["taskCounts"]) == (2, {"completed": 1, "failed": 1})
    lines = taskplane("session", "list", "--url", url).stdout.splitlines()
    assert lines[0].split() == ["SESSION", "UPDATED", "AGENT", "STATE", "TASKS", "TITLE"]
    cells = next(line for line in lines if line.startswith(session)).split()
    assert cells[0] == session
    assert cells[3:] == ["demo", "failed", "2", "a", "session", "of", "its", "own"]


def test_a_waiting_session_is_listed_with_the_state_of_its_task(url: str) -> None:
    session = session_of(url, "ask Are you sure?")
    (line,) = [line for line in taskplane("session", "list", "--url", url).stdout.splitlines() if session in line]
    assert line.split()[4] == "input-required"


def test_sessions_are_searched_by_title_in_any_case_and_limited(url: str) -> None:
    first, second = session_of(url, "Pelican one"), session_of(url, "the pelican two")
    found = json_of(url, "session", "list", "--search", "PELICAN")
    assert [session["id"] for session in found] == [second, first]
    lines = taskplane("session", "list", "--search", "pelican", "--limit", "1", "--url", url, "-o", "ndjson").stdout
    assert [json.loads(line)["id"] for line in lines.splitlines()] == [second]
    nothing = taskplane("session", "list", "--search", "no such title %", "--url", url)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "No sessions.\n")


def test_m1_a_session_is_shown_with_its_turns_and_the_infos_of_its_tasks(url: str) -> None:
    session = session_of(url, "hello there", "fail for a reason")
    shown = json_of(url, "session", "show", session)
    assert [task["id"] for task in shown["tasks"]] == [info["taskId"] for info in shown["taskInfos"]]
    assert [info["state"] for info in shown["taskInfos"]] == ["completed", "failed"]
    assert shown["taskInfos"][1]["error"]
    text = taskplane("session", "show", session, "--url", url).stdout
    lines = text.splitlines()
    assert lines[0] == f"session  {session}  hello there"
    turns = [line.split(maxsplit=3) for line in lines if line.startswith("turn ")]
    assert [(turn[1], turn[3]) for turn in turns] == [("1", "hello there"), ("2", "fail for a reason")]
    heads = [
        line.split() for line in lines if line.split()[:2] in (["TASK", "STATE"], [shown["tasks"][1]["id"], "failed"])
    ]
    assert heads[0] == ["TASK", "STATE", "CREATED", "TOOK", "ERROR"]
    assert "s" in heads[1]
    assert "user     hello there" in lines


def test_t6_a_shown_session_has_each_message_once_also_with_a_direct_answer(url: str) -> None:
    session = session_of(url, "hello there", "message straight away")
    text = taskplane("session", "show", session, "--url", url).stdout
    assert text.count("user     hello there") == 1
    assert text.count("straight away") == 3, "in the list of turns, as the message and as the answer"


def test_m6_a_session_without_tasks_is_shown(url: str) -> None:
    session = session_of(url, "message only words")
    assert json_of(url, "session", "show", session)["taskInfos"] == []


def test_a_session_is_renamed(url: str) -> None:
    session = session_of(url, "badly named")
    done = taskplane("session", "rename", session, "Well named", "--url", url)
    assert (done.returncode, done.stdout) == (0, f"session  {session}  Well named\n")
    assert json_of(url, "session", "list", "--search", "Well named")[0]["id"] == session
    assert json_of(url, "session", "rename", session, "Better")["name"] == "Better"


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nothing"],
        ["rename", "nothing", "x"],
        ["rewind", "nothing", "--before", "x"],
        ["undo", "nothing"],
        ["fork", "nothing"],
        ["delete", "nothing", "--yes"],
    ],
)
def test_a_session_that_does_not_exist_exits_5(url: str, arguments: list[str]) -> None:
    done = taskplane("session", *arguments, "--url", url)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("✗ ")


def test_without_a_terminal_a_session_is_deleted_only_with_yes(url: str) -> None:
    session = session_of(url, "to be deleted")
    refused = taskplane("session", "delete", session, "--url", url, stdin="y\n")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert json_of(url, "session", "show", session)["tasks"]
    done = taskplane("session", "delete", session, "--yes", "--url", url, "-o", "json")
    assert json.loads(done.stdout) == {"id": session, "deleted": True}
    assert taskplane("session", "show", session, "--url", url).returncode == 5


@pytest.mark.parametrize(("answer", "exit_code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_delete_asks_for_confirmation(url: str, answer: str, exit_code: int) -> None:
    session = session_of(url, "asked about")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "session", "delete", session, "--url", url],
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        question = b""
        while not question.endswith(b"? [y/N] "):
            question += os.read(process.stderr.fileno(), 100)
        os.write(ours, f"{answer}\n".encode())
        process.communicate(timeout=PATIENCE)
    os.close(ours)
    assert question == b'Delete "asked about" with 1 task permanently? [y/N] '
    assert process.returncode == exit_code
    assert taskplane("session", "show", session, "--url", url).returncode == (5 if exit_code == 0 else 0)


def test_i5_a_message_after_session_show_answers_the_open_question(url: str) -> None:
    """A command that only reads a session does not change the destination of its next message."""
    asked = chat_once(url, "ask Which?")
    json_of(url, "session", "show", asked["contextId"])
    assert chat_once(url, "this", asked["contextId"])["taskId"] == asked["taskId"]
