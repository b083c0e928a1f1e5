"""The commands within `taskplane chat`, on a pipe and on a terminal, against a real plane."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.cli.command import PATIENCE, PROGRAM, chat_once, environment, json_of, session_of, taskplane

from taskplane.cli.slash import Command, parse_line


def talked(url: str, *lines: str, session: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
    """A chat with a pipe as its input. Its exit code is that of the first failed line."""
    options = ["--session", session] if session else []
    done = taskplane("chat", "--url", url, *options, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == code, done.stderr
    return done


def tasks_of(url: str, session: str) -> list[str]:
    """The first message of the user in each task in effect, oldest first."""
    shown = json_of(url, "session", "show", session)["tasks"]
    return [task["history"][0]["parts"][0]["text"] for task in shown if task["id"] != session]


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("hello", "hello"),
        ("a /rewind", "a /rewind"),
        ("/rewind", Command("rewind", "")),
        ("/rewind 2  and  more", Command("rewind", "2  and  more")),
        ("/", Command("", "")),
        ("//rewind 2", "/rewind 2"),
        ("///", "//"),
        ("", ""),
    ],
)
def test_a_line_is_a_message_or_a_command_and_two_slashes_escape_one(line: str, meaning: Command | str) -> None:
    assert parse_line(line) == meaning


def test_r11_a_rewind_lists_the_turns_cuts_and_prints_the_cut_text(url: str) -> None:
    session = session_of(url, "one", "two", "three")
    done = talked(url, "/rewind", "/rewind 2", "/rewind", "anew", session=session)
    lines = done.stderr.splitlines()
    assert [line.split() for line in lines if line.endswith(("  one", "  two", "  three"))] == [
        ["1", "one"],
        ["2", "two"],
        ["3", "three"],
        ["1", "one"],
    ]
    assert "  your text was: two" in lines
    assert done.stdout.endswith("three\nanew\n")
    assert tasks_of(url, session) == ["one", "anew"]


def test_r6_a_rewind_with_a_text_sends_the_text_next(url: str) -> None:
    """I3: the new turn refers to the last remaining task."""
    session = session_of(url, "one", "two")
    done = talked(url, "/rewind 2 chunks 3 8", session=session)
    assert "00000002" in done.stdout
    assert tasks_of(url, session) == ["one", "chunks 3 8"]
    first, second = json_of(url, "session", "show", session)["taskInfos"]
    task = json_of(url, "task", "get", second["taskId"])
    assert task["history"][0]["referenceTaskIds"] == [first["taskId"]]


def test_r6_after_a_rewind_with_a_text_the_answer_goes_to_the_new_task(url: str) -> None:
    """I6: the model knows the task of a turn that did not begin with a full task."""
    session = session_of(url, "one", "two")
    talked(url, "/rewind 2 ask Sure?", "yes", session=session)
    infos = json_of(url, "session", "show", session)["taskInfos"]
    assert [info["state"] for info in infos] == ["completed", "completed"]


def test_r8_undo_shows_the_cut_turns_again(url: str) -> None:
    session = session_of(url, "one", "two")
    done = talked(url, "/rewind 2", "/undo", "/undo", session=session, code=1)
    assert done.stdout == "one\ntwo\ntwo\n"
    assert done.stderr.count("you> two") == 2
    assert "NOTHING_TO_UNDO" in done.stderr
    assert tasks_of(url, session) == ["one", "two"]


def test_with_ndjson_stdout_has_events_only_and_stderr_the_errors_as_json(url: str) -> None:
    """Messages that a session or an undo shows again are not printed as events."""
    session = session_of(url, "one", "two")
    talk = ["/rewind 2", "/undo", "/sessions 1", "/nope", "three"]
    done = taskplane(
        "chat", "--url", url, "--session", session, "-o", "ndjson", stdin="".join(f"{line}\n" for line in talk)
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["task"]["id"] == session
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    (error,) = [json.loads(line)["error"] for line in done.stderr.splitlines() if line.startswith("{")]
    assert error["code"] == "UNKNOWN_COMMAND"


def test_r9_a_refused_rewind_changes_nothing_and_prints_the_reason(url: str) -> None:
    """R11: a rewind before the first message is refused."""
    session = session_of(url, "one", "two")
    done = talked(url, "/rewind 7", "/rewind 1", "/rewind two", "three", session=session, code=5)
    for reason in ("INVOCATION_NOT_FOUND", "FIRST_MESSAGE", "WRONG_ARGUMENT"):
        assert f"  {reason}\n" in done.stderr
    assert tasks_of(url, session) == ["one", "two", "three"]


def test_an_unsent_text_is_given_back(url: str) -> None:
    session = session_of(url, "one")
    done = talked(url, "/rewind 9 and then this", session=session, code=5)
    assert "INVOCATION_NOT_FOUND" in done.stderr
    assert tasks_of(url, session) == ["one"]


def test_an_unknown_command_sends_nothing_and_two_slashes_send_one(url: str) -> None:
    done = talked(url, "/rewnd 2", "/x", "//rewind is a word", "/help", "/tasks now", code=1)
    assert done.stdout == "/rewind is a word\n"
    assert "Did you mean /rewind?" in done.stderr
    assert "There is no command /x; nothing was sent." in done.stderr
    assert "/rewind N TEXT" in done.stderr
    assert "/tasks takes no argument" in done.stderr


def test_a_message_given_as_an_option_is_not_read_as_a_command(url: str) -> None:
    assert taskplane("chat", "--url", url, "-m", "/help").stdout == "/help\n"


def test_nothing_after_quit_is_sent(url: str) -> None:
    done = talked(url, "one", "/quit", "two")
    assert done.stdout == "one\n"
    assert tasks_of(url, done.stderr.split()[-1]) == ["one"]


def test_m1_the_tasks_of_the_session_are_listed_with_state_and_time(url: str) -> None:
    done = talked(url, "/tasks", "hello", "fail at once", "/tasks", code=1)
    lines = done.stderr.splitlines()
    assert "  no tasks yet" in lines
    place = next(
        index for index, line in enumerate(lines) if line.split() == ["TASK", "STATE", "CREATED", "TOOK", "ERROR"]
    )
    assert [line.split()[1] for line in lines[place + 1 : place + 3]] == ["completed", "failed"]


def test_without_a_session_undo_and_rewind_print_an_error(url: str) -> None:
    done = talked(url, "/undo", "/rewind", "/rewind 2", code=1)
    assert "NO_SESSION" in done.stderr
    assert "there is nothing to rewind yet" in done.stderr
    assert done.stdout == ""


def test_sessions_are_listed_and_switched(url: str) -> None:
    other, session = session_of(url, "the other one", "ask Well?"), session_of(url, "this one")
    done = talked(url, "/sessions", "/sessions 2", "that", "/sessions 0", session=session, code=1)
    rows = [line.split() for line in done.stderr.splitlines()]
    assert any(row[0] == "1*" and row[-2:] == ["this", "one"] for row in rows if row)
    assert any(row[0] == "2" and row[-3:] == ["the", "other", "one"] for row in rows if row)
    assert done.stdout == 'this one\nthe other one\nWell?\nYou said: "that"\n'
    assert "There is no session 0" in done.stderr
    assert done.stderr.rstrip().endswith(f"session {other}")


def test_a_new_session_is_begun(url: str) -> None:
    """The old session stays unchanged, and its open question stays open."""
    session = session_of(url, "one")
    done = talked(url, "ask Which?", "/new", "two", session=session)
    assert "  a new session begins with your next message" in done.stderr.splitlines()
    new = done.stderr.splitlines()[-1].removeprefix("session ")
    assert new != session
    assert (tasks_of(url, session), tasks_of(url, new)) == (["one", "ask Which?"], ["two"])


def test_a_session_that_was_rewound_elsewhere_is_reloaded_and_a_message_to_the_cut_task_is_not_sent(url: str) -> None:
    """I6: the text of the message is given back."""
    session = session_of(url, "one", "ask Which colour?")
    with subprocess.Popen(
        [*PROGRAM, "chat", "--url", url, "--session", session],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        assert [chat.stdout.readline() for _ in range(2)] == ["one\n", "Which colour?\n"]
        json_of(url, "session", "rewind", session, "--before-message", "2")
        _, err = chat.communicate("blue\n", PATIENCE)
    assert "Your message was not sent." in err
    assert "your text was: blue" in err
    assert tasks_of(url, session) == ["one"]


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, ours: int) -> None:
        self.ours = ours
        self._seen = b""

    def until(self, text: str) -> None:
        """Waits for this text in the output, after the text of the previous wait."""
        while text.encode() not in self._seen:
            self._seen += os.read(self.ours, 4096)
        self._seen = self._seen.partition(text.encode())[2]

    def write(self, text: str) -> None:
        """Types this text."""
        os.write(self.ours, text.encode())


@contextmanager
def terminal(url: str, session: str) -> Generator[Terminal]:
    """A chat on a terminal. Killed at the end, because typed text may be lost while the chat begins to read."""
    process, ours = pty.fork()
    if process == 0:
        os.execvpe(PROGRAM[0], [*PROGRAM, "chat", "--url", url, "--session", session], environment({"TERM": "dumb"}))
    try:
        yield Terminal(ours)
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(ours)
        os.waitpid(process, 0)


def test_r11_on_a_terminal_the_cut_text_can_be_edited_in_the_next_prompt(url: str) -> None:
    session = session_of(url, "one", "two")
    with terminal(url, session) as chat:
        chat.until("you> two")
        chat.until("you> ")
        chat.write("/rewind 2\n")
        chat.until("you> two")
        chat.write(" and a half\n")
        chat.until("two and a half")
        chat.until("you> ")
    assert tasks_of(url, session) == ["one", "two and a half"]


def test_i6_after_a_rewind_past_a_question_the_chat_asks_for_a_message_again(url: str) -> None:
    asked = chat_once(url, "ask Which?", session_of(url, "one"))
    with terminal(url, asked["contextId"]) as chat:
        chat.until("answer> ")
        chat.write("/rewind 2\n")
        chat.until("you> ask Which?")
