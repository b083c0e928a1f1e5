"""`taskplane tail --session` against a real plane."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cli.command import PATIENCE, PROGRAM, chat_once, environment, json_of, session_of, taskplane
from tests.support.cutting import cutting

from taskplane.cli.session_tail import watched_line
from taskplane.client.sessions import Watched


class Tail:
    """A `tail --session` at work."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, *words: str) -> None:
        """Reads up to a line that has all these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if all(word in line for word in words):
                return
        raise AssertionError(f"it ended before {words}: {self.lines}")

    def end(self) -> str:
        """Reads up to the end of the command, and returns its stderr."""
        # Not `communicate`, which skips the data that was read from the pipe together with the last line.
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.lines += self.process.stdout.read().splitlines()
        err = self.process.stderr.read()
        self.process.wait(PATIENCE)
        return err


@contextmanager
def following(url: str, session: str, *options: str) -> Generator[Tail]:
    """A tail that has shown its first snapshot."""
    with subprocess.Popen(
        [*PROGRAM, "tail", "--session", session, "--url", url, *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            tail = Tail(process)
            tail.until("snapshot")
            yield tail
        finally:
            process.kill()


def test_m5_a_session_is_followed_line_by_line_until_it_is_deleted(url: str) -> None:
    """R8: rewinds and undos of other clients are shown with the invocations that are cut now."""
    session = session_of(url, "one")
    with following(url, session) as tail:
        chat_once(url, "ask Why?", session)
        tail.until("entry-added", "Why?")
        json_of(url, "session", "rewind", session, "--before-message", "2")
        tail.until("task-state-changed", "superseded")
        json_of(url, "session", "undo", session)
        tail.until("rewound", "cut: nothing")
        json_of(url, "session", "delete", session, "--yes")
        err = tail.end()
    assert (tail.process.returncode, err) == (0, f"Session {session} was deleted.\n")
    names = [line.split("  ")[1] for line in tail.lines]
    assert names[0] == "snapshot"
    assert {"task-received", "task-state-changed", "entry-added", "rewound"} <= set(names)
    # A slow client gets the current state of a task instead of each change.
    assert any("input-required" in line for line in tail.lines)


def test_m5_for_programs_every_event_is_one_json_object_with_its_name(url: str) -> None:
    session = session_of(url, "one")
    with following(url, session, "-o", "ndjson") as tail:
        task = chat_once(url, "two", session)["taskId"]
        tail.until("completed")
        json_of(url, "session", "delete", session, "--yes")
        tail.end()
    events = [json.loads(line) for line in tail.lines]
    assert [info["state"] for info in events[0]["tasks"]] == ["completed"]
    received = next(event for event in events if event["event"] == "task-received")
    assert (received["taskId"], received["createdAt"][:2]) == (task, "20")
    message = next(event["message"] for event in events if event["event"] == "entry-added")
    assert message["parts"][0]["text"] == "two"


async def test_m5_a_broken_connection_is_resumed_with_a_new_snapshot(url: str) -> None:
    session = await asyncio.to_thread(session_of, url, "one")
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None

    async with cutting(server.hostname, server.port) as proxy:

        def followed(cut: asyncio.Event, loop: asyncio.AbstractEventLoop) -> tuple[Tail, str]:
            with following(f"http://127.0.0.1:{proxy.port}", session, "-o", "ndjson") as tail:
                loop.call_soon_threadsafe(cut.set)
                tail.until("snapshot")
                chat_once(url, "two", session)
                tail.until("completed")
                json_of(url, "session", "delete", session, "--yes")
                return tail, tail.end()

        cut = asyncio.Event()
        following_it = asyncio.create_task(asyncio.to_thread(followed, cut, asyncio.get_running_loop()))
        await cut.wait()
        proxy.cut()
        tail, err = await following_it
    assert tail.process.returncode == 0
    assert "resumed with a new snapshot" in err
    events = [json.loads(line) for line in tail.lines]
    assert [event["event"] for event in events[:2]] == ["snapshot", "snapshot"]
    assert sum(event["event"] == "task-received" for event in events) == 1


def test_a_session_that_does_not_exist_exits_5(url: str) -> None:
    done = taskplane("tail", "--session", "nothing", "--url", url)
    assert (done.returncode, done.stdout) == (5, "")


@pytest.mark.parametrize("arguments", [[], ["task", "--session", "s"], ["--session", "s", "--after", "x-1"]])
def test_tail_needs_either_a_task_or_a_session(arguments: list[str]) -> None:
    done = taskplane("tail", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "WHAT_TO_FOLLOW" in done.stderr


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("snapshot", {"version": 3, "tasks": []}, "snapshot  version 3  tasks: none"),
        (
            "snapshot",
            {"version": 3, "tasks": [{"taskId": "a", "state": "completed"}, {"taskId": "b", "state": "working"}]},
            "snapshot  version 3  tasks: 1 completed, 1 working",
        ),
        (
            "task-state-changed",
            {"taskId": "a", "state": "failed", "error": "no\nluck"},
            "task-state-changed  a  failed  no luck",
        ),
        ("rewound", {"version": 9, "cut": ["i", "k"]}, "rewound  version 9  cut: i, k"),
        ("something-new", {"x": 1}, 'something-new  {"x": 1}'),
    ],
)
def test_a_line_has_the_event_and_its_subject(name: str, data: dict[str, Any], line: str) -> None:
    now = datetime(2030, 1, 2, 3, 4, 5, 678_901)
    assert watched_line(Watched(name, data), now) == f"03:04:05.678  {line}"
