"""`taskplane chat` against a real plane."""

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli.command import PATIENCE, PROGRAM, dev, environment, taskplane
from tests.support.cutting import cutting

from taskplane.worker import Worker

ASKING = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

ACTION = {"name": "pay", "args": {"sum": 3}, "description": "Pay it?"}


def pay(state: MessagesState):
    interrupt({"action_requests": [ACTION], "review_configs": []})


graph = StateGraph(MessagesState).add_node(pay).add_edge(START, "pay").compile(checkpointer=InMemorySaver())
"""


def session_of(stderr: str) -> str:
    (line,) = [line for line in stderr.splitlines() if line.startswith("session ")]
    return line.removeprefix("session ")


def test_a_single_message_prints_only_the_answer_on_stdout(url: str) -> None:
    done = taskplane("chat", "--url", url, "-m", "hello there")
    assert (done.returncode, done.stdout) == (0, "hello there\n")
    assert session_of(done.stderr)


def test_a_direct_answer_without_a_task_is_printed(url: str) -> None:
    done = taskplane("chat", "--url", url, "-m", "message just so", "-o", "json")
    assert json.loads(done.stdout)["text"] == "just so"
    assert json.loads(done.stdout)["taskId"] is None


def test_tools_and_artifact_names_go_to_stderr_and_artifact_text_to_stdout(url: str) -> None:
    tool = taskplane("chat", "--url", url, "-m", "tool")
    assert "The answer is 42." in tool.stdout
    assert "→ lookup" in tool.stderr
    assert "← lookup" in tool.stderr
    artifact = taskplane("chat", "--url", url, "-m", "artifact")
    assert "A few words.\n" in artifact.stdout
    assert "artifact: Words" in artifact.stderr


@pytest.mark.parametrize("command", ["fail", "reject"])
def test_a_failed_task_exits_1_and_shows_the_reason(url: str, command: str) -> None:
    done = taskplane("chat", "--url", url, "-m", f"{command} no luck")
    assert done.returncode == 1
    assert "no luck" in done.stdout + done.stderr


def test_i6_a_question_is_answered_on_the_same_task_and_the_next_message_refers_to_that_task(url: str) -> None:
    """I3, I5: the second message goes to the paused task, the third makes a new one that references the first."""
    asked = taskplane("chat", "--url", url, "-m", "ask Which colour?", "-o", "json")
    first = json.loads(asked.stdout)
    assert (first["state"], first["text"]) == ("input-required", "Which colour?")
    session = first["contextId"]
    answered = json.loads(taskplane("chat", "--url", url, "--session", session, "-m", "blue", "-o", "json").stdout)
    assert (answered["taskId"], answered["state"]) == (first["taskId"], "completed")
    third = json.loads(taskplane("chat", "--url", url, "--session", session, "-m", "more", "-o", "json").stdout)
    assert third["taskId"] != first["taskId"]
    assert third["contextId"] == session
    task = json.loads(taskplane("task", "get", third["taskId"], "--url", url, "-o", "json").stdout)
    assert task["history"][0]["referenceTaskIds"] == [first["taskId"]]


@pytest.mark.more
def test_a_data_question_of_a_graph_shows_its_action_with_arguments_and_description(tmp_path: Path) -> None:
    """I1: in the answer of a chat, in a shown task, and as JSON; the question has no text part."""
    (tmp_path / "asking.py").write_text(ASKING)
    with dev("--agent", "asking:graph", cwd=tmp_path, afresh=True) as plane:
        text = taskplane("chat", "--url", plane.url, "-m", "pay").stdout
        summary = json.loads(taskplane("chat", "--url", plane.url, "-m", "pay", "-o", "json").stdout)
        task = taskplane("task", "get", summary["taskId"], "--url", plane.url).stdout
    assert text.startswith('Pay it?\n\n    → pay {"sum": 3}\n\n    {\n')
    assert summary["state"] == "input-required" and summary["text"] == text.rstrip("\n")
    assert "Pay it? → pay" in task


def test_lines_of_a_pipe_are_messages_of_one_conversation(url: str) -> None:
    done = taskplane("chat", "--url", url, stdin="ask Your name?\nAda\nhello\n")
    assert done.returncode == 0
    assert done.stdout == 'Your name?\nYou said: "Ada"\nhello\n'
    tasks = json.loads(
        taskplane("task", "list", "--session", session_of(done.stderr), "--url", url, "-o", "json").stdout
    )
    assert len(tasks) == 2


def test_a_pipe_without_a_server_exits_with_3_after_its_first_message() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        done = taskplane("chat", "--url", f"http://127.0.0.1:{bound.getsockname()[1]}", stdin="hello\nmore\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("UNREACHABLE") == 1


def test_an_unknown_agent_lists_the_known_ones(url: str) -> None:
    for arguments in (("chat", "-m", "hello", "--agent", "nobody"), ("card", "check", "nobody")):
        done = taskplane(*arguments, "--url", url)
        assert done.returncode == 5
        assert "the agents are demo" in done.stderr, done.stderr


def test_ndjson_prints_the_events_from_the_task_to_its_end(url: str) -> None:
    lines = taskplane("chat", "--url", url, "-m", "chunks 3 8", "-o", "ndjson").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert "task" in events[0]
    assert sum("artifactUpdate" in event for event in events) == 3
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_ctrl_c_cancels_the_task(url: str) -> None:
    """P8: the chat shows the canceled state that the server reports."""
    with subprocess.Popen(
        [*PROGRAM, "chat", "--url", url, "-m", "slow 400", "-o", "ndjson"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        assert chat.stdout is not None
        for line in chat.stdout:
            if "artifactUpdate" in line:
                break
        chat.send_signal(signal.SIGINT)
        rest, said = chat.communicate(timeout=PATIENCE)
    assert chat.returncode == 130
    assert "canceling" in said
    assert json.loads(rest.splitlines()[-1])["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_second_ctrl_c_exits_even_if_the_server_hangs(tmp_path: Path) -> None:
    with (
        dev(cwd=tmp_path) as plane,
        subprocess.Popen(
            [*PROGRAM, "chat", "--url", plane.url, "-m", "slow 400", "-o", "ndjson"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as chat,
    ):
        assert chat.stdout is not None
        assert chat.stderr is not None
        for line in chat.stdout:
            if "artifactUpdate" in line:
                break
        plane.signal(signal.SIGSTOP)
        chat.send_signal(signal.SIGINT)
        assert "press Ctrl-C again to leave" in chat.stderr.readline()
        chat.send_signal(signal.SIGINT)
        chat.communicate(timeout=PATIENCE)
        plane.signal(signal.SIGCONT)
    assert chat.returncode == 130


async def test_p12_a_connection_cut_in_mid_stream_is_resumed_without_loss_or_repetition(url: str) -> None:
    """C5: every chunk arrives once, though the connection breaks in the middle of the bytes of an event."""
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    async with cutting(server.hostname, server.port) as proxy:
        proxy.cut_after = 9_000
        done = await asyncio.to_thread(
            taskplane, "chat", "--url", f"http://127.0.0.1:{proxy.port}", "-m", "chunks 200 32", "-o", "ndjson"
        )
        assert proxy.cuts == 1
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    texts = [
        part["text"]
        for event in events
        if "artifactUpdate" in event
        for part in event["artifactUpdate"]["artifact"]["parts"]
    ]
    assert len(texts) == 200
    assert len(set(texts)) == 200
    assert "resumed after" in done.stderr


async def test_a_task_without_a_worker_shows_the_reason_and_a_worker_then_answers(tmp_path: Path) -> None:
    """V4: a chat, a tail and the shown task give the reason, and the chat also the command to start a worker."""
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"name": "Far", "description": "d", "version": "1", "skills": []}))
    with dev("--agent", f"far=worker:{card}", cwd=tmp_path) as plane:
        at = ["--url", plane.url]
        chat = await waiting("chat", *at, "--agent", "far", "-m", "hello")
        try:
            fact = "No living process runs the agent far, so this task waits in the queue."
            assert await line(chat) == f"  {fact}"
            assert "taskplane worker --agent far=MODULE:ATTRIBUTE" in await line(chat)
            (task,) = json.loads(taskplane("task", "list", *at, "-o", "json").stdout)
            assert f"waits    {fact}" in taskplane("task", "get", task["id"], *at).stdout.splitlines()
            assert f"waits     {fact}" in taskplane("ops", "show", task["id"], *at).stdout.splitlines()
            tail = await waiting("tail", task["id"], *at)
            try:
                assert await line(tail) == f"  {fact}"
            finally:
                await ended(tail)
            async with far(plane.grpc):
                stdout, stderr = await asyncio.wait_for(chat.communicate(), PATIENCE)
            assert (chat.returncode, stdout.decode()) == (0, "hello\n")
            # A queue that is slow to assign the task shows another line first.
            assert session_of(stderr.decode())
        finally:
            await ended(chat)


async def waiting(*arguments: str) -> asyncio.subprocess.Process:
    """A command that waits for its task."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*PROGRAM, *arguments, env=environment(), stdout=pipe, stderr=pipe)


async def line(command: asyncio.subprocess.Process) -> str:
    """The next line of the standard error output of a process."""
    assert command.stderr is not None
    return (await asyncio.wait_for(command.stderr.readline(), PATIENCE)).decode().rstrip("\n")


async def ended(command: asyncio.subprocess.Process) -> None:
    if command.returncode is None:
        command.kill()
        await command.wait()


@asynccontextmanager
async def far(address: str) -> AsyncGenerator[None]:
    """A worker that repeats its messages."""

    def echo(text: str) -> str:
        return text

    stop = asyncio.Event()
    worker = Worker(echo, name="far", tasks=address, sessions=address, ops_listen="")
    serve = asyncio.create_task(worker.serve(stop))
    try:
        yield
    finally:
        stop.set()
        await serve
