"""Bounds between an executor and the process of an agent: frames, environment and left-over processes."""

import asyncio
import json
import os
import pickle
import signal
import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from tests.executor.isolated import Evil
from tests.executor.plane import Plane, Stores, eventually, open_plane, text, until
from tests.executor.test_processes import HERE, cancel, lives, reason, said

from taskplane.agents.agent import (
    ArtifactChunk,
    AskAuth,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    Reject,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Working,
)
from taskplane.agents.faults import AgentProcessGarbled
from taskplane.agents.processes import reports
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

pytestmark = pytest.mark.more

HOSTILE = f"a={HERE}:Hostile@process"
GARBLED = "AGENT_PROCESS_GARBLED"
MIB = 1024 * 1024


def forget_peak() -> None:
    """The peak of this process's memory is that from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> int:
    """A figure of the memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def framed(head: bytes, pieces: bytes = b"") -> bytes:
    """The bytes of a frame with this head and these pieces."""
    return struct.pack(">II", 4 + len(head) + len(pieces), len(head)) + head + pieces


async def failed(plane: Plane, message: str) -> tuple[str, str]:
    """Returns the reason and the text of the agent's failed task."""
    task = await plane.run(message)
    assert task.status.state == a2a.TASK_STATE_FAILED
    return await reason(plane, task), text(task.status.message)


async def processes(plane: Plane, message: str) -> list[int]:
    """Returns the process of the agent and its children."""
    waiting = await plane.submit(message)
    started: list[int] = json.loads((await said(plane, waiting, 1))[0])
    assert len(started) == 4
    return started


async def test_an_endless_frame_takes_no_memory_and_fails_its_run_at_once(stores: Stores) -> None:
    """P9: the executor reads no more than the largest frame; the next run has another process."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        await plane.run("well")
        forget_peak()
        before = memory("VmRSS")
        assert await failed(plane, "endless") == (
            GARBLED,
            "The process of the agent ended unexpectedly: it sent a frame of 268,435,456 bytes,"
            " more than the 8,388,608 allowed, and was killed.",
        )
        assert memory("VmHWM") - before < 32 * MIB
        assert text((await plane.run("well")).status.message) == "well"


async def test_a_change_that_is_too_large_is_refused_in_the_process_of_the_agent(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: its author finds it in the log."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        await plane.run("well")
        forget_peak()
        before = memory("VmRSS")
        assert (await failed(plane, "large"))[0] == "AGENT_ERROR"
        assert memory("VmHWM") - before < 32 * MIB
    assert "a frame of 268,435,456 bytes or more cannot be sent" in caplog.text and "isolated.py" in caplog.text


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        (b"This is no frame.", b""),
        (b"", b""),
        (b"[]", b""),
        (b"\xff", b""),
        (b"[" * 100_000, b""),
        (b'["Yielded",["Text",{"delta":{"text":7}}],[]]', b""),
        (b'["Yielded",["Turn",{}],[]]', b""),
        (b'["Yielded",["Text",{"delta":5}],[]]', b""),
        (b'["Yielded",["Usage",{"figures":[]}],[]]', b""),
        (b'["Yielded",["Say",{"message":{"Message":0}}],[1]]', b"\xff"),
        (b'["Call",[1,"_send",{"json":0}],[2]]', b"[]"),
        (b'["Call",[1,"artifact",{"json":0}],[2]]', b"[]"),
        (b'["Ended",[],[9]]', b""),
        (b'["Ended",[],[]]', b"more"),
        (b'["Raised",["a",{"json":0},{"json":0}],[3]]', b'"a"'),
    ],
)
async def test_bytes_that_are_not_a_frame_fail_the_run_at_once(stores: Stores, head: bytes, pieces: bytes) -> None:
    """P9: under their own reason, and nothing of them is run."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        code, words = await failed(plane, f"raw {framed(head, pieces).hex()}")
        assert code == GARBLED and "that are not a frame" in words


@pytest.mark.parametrize("frame", [b'["Ended",[],[]]', b'["Closed",[""],[]]'])
async def test_unrequested_answers_of_a_process_do_not_harm_the_next_run(stores: Stores, frame: bytes) -> None:
    """P9: they fail their own run, unless it completed before."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        task = await plane.run(f"raw {(framed(frame) * 3).hex()}")
        if task.status.state == a2a.TASK_STATE_FAILED:
            assert await reason(plane, task) == GARBLED
        assert text((await plane.run("well")).status.message) == "well"


async def test_no_pickle_of_an_agent_is_read_in_the_executor(stores: Stores, tmp_path: Path) -> None:
    """P9: neither as a change nor as a frame."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        made = {name: tmp_path / name for name in ("change", "frame")}
        await plane.run(f"pickle {made['change']}")
        pickled = pickle.dumps(Evil(str(made["frame"])))
        for length in (4, 8):
            await plane.run(f"raw {(len(pickled).to_bytes(length) + pickled).hex()}")
        assert not await asyncio.to_thread(lambda: [path for path in made.values() if path.exists()])


async def test_values_that_are_not_json_are_converted_as_in_the_event_loop(stores: Stores) -> None:
    """P1: in every place of a change; a session event is refused in the process in the same way."""
    told: list[list[Any]] = []
    async with open_plane(stores, loaded=[f"a={HERE}:Values@process", f"b={HERE}:Values@none"]) as plane:
        for agent in ("a", "b"):
            task = await plane.run("go", agent=agent)
            assert text(task.status.message) == "This is no JSON."
            calls = [MessageToDict(message.parts[0].data) for message in task.history[1:3]]
            converted = [
                MessageToDict(message.metadata).get("taskplane.dev/converted") for message in task.history[1:3]
            ]
            (artifact,) = task.artifacts
            told.append([calls, converted, MessageToDict(artifact.parts[0].data), MessageToDict(artifact.metadata)])
    assert told[0] == told[1]
    assert told[0][0][0]["args"]["uuid"] == "00000000-0000-0000-0000-000000000001"


async def test_the_output_of_an_agent_is_not_read_as_frames(stores: Stores) -> None:
    """P9: its standard input is empty."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        assert text((await plane.run("print")).status.message) == "''"


async def test_an_agent_gets_the_listed_variables_and_no_secrets(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: neither those of the plane nor keys of others; the log names withheld variables, without their values."""
    caplog.set_level("INFO")
    for name, value in {
        "TASKPLANE_EXECUTOR_INTERNAL_SECRET": "s1",
        "TASKPLANE_TASKS_DATABASE_URL": "postgresql://u:p@h/d",
        "TASKPLANE_LLM_PROMPT": "for the agent llm",
        "OPENAI_API_KEY": "s2",
        "MY_KEY": "named",
        "OTHER_KEY": "s3",
        "ONE": "named",
        "HTTPS_PROXY": "http://user:s4@proxy",
        "http_proxy": "http://proxy",
        "LC_ALL": "C.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    async with open_plane(stores, loaded=[HOSTILE], process_environment=("MY_*", "ONE", "TASKPLANE_*")) as plane:
        given: dict[str, Any] = json.loads(text((await plane.run("environment")).status.message))
    assert given["MY_KEY"] == given["ONE"] == "named"
    assert given["PATH"] == os.environ["PATH"] and given["LC_ALL"] == "C.UTF-8" and given["http_proxy"]
    names = {"OPENAI_API_KEY", "OTHER_KEY", "HTTPS_PROXY", *(name for name in given if name.startswith("TASKPLANE_"))}
    assert not names & given.keys()
    assert "OPENAI_API_KEY, OTHER_KEY" in caplog.text and "s2" not in caplog.text


@pytest.mark.parametrize("message", ["wait", "block"])
async def test_no_process_of_a_killed_run_stays(stores: Stores, message: str) -> None:
    """P8: neither its children, nor those in sessions of their own, nor orphans."""
    async with open_plane(stores, loaded=[HOSTILE], cancel_grace=0.5, idle_processes=0) as plane:
        waiting = await plane.submit(message)
        started: list[int] = json.loads((await said(plane, waiting, 1))[0])
        assert len(started) == 4 and all(map(lives, started))
        await cancel(plane, waiting)
        await until(lambda: not any(map(lives, started)))


@pytest.mark.parametrize("message", ["exit", "wait"])
async def test_no_child_of_a_dead_process_stays(stores: Stores, message: str) -> None:
    """P9: after an exit and after a kill."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:
        started = await processes(plane, message)
        if message == "wait":
            os.kill(started[0], signal.SIGKILL)
        await until(lambda: not any(map(lives, started)))


async def test_no_process_of_an_ended_executor_stays(stores: Stores) -> None:
    """C14: nor of an idle agent, whose children live until then."""
    async with open_plane(stores, loaded=[HOSTILE]) as plane:

        async def children() -> list[int]:
            started: list[int] = json.loads(text((await plane.run("children")).status.message))
            return started

        started = await eventually(children, lambda found: all(map(lives, found)))
    await until(lambda: not any(map(lives, started)))


@pytest.mark.parametrize(
    "change",
    [
        Working(),
        Working("Reads"),
        Text("half \ud83d"),
        Text("ä" * 3 * MIB),
        Say(a2a.Message(parts=[a2a.Part(raw=b"\0\1")])),
        ArtifactChunk("a", raw=b"\xff" * MIB, name="n", metadata={"deep": [{"n": 2**70}]}, extensions=["u"], last=True),
        ArtifactChunk("a", parts=[a2a.Part(text="one"), a2a.Part(url="two")], append=True, mergeable=False),
        ArtifactChunk("a", data={"k": [1, 2.5, None, True, "\n"]}),
        ToolCall("1", "f", {"text": "x" * 3 * MIB}),
        ToolResult("1", "f", 2.5),
        Checkpoint({"at": 1}),
        Usage({"tokens": 3}),
        AskInput("?"),
        AskAuth(a2a.Message(message_id="m")),
        Complete(),
        Complete("well"),
        Fail("no"),
        Reject("no"),
    ],
    ids=lambda change: type(change).__name__,
)
async def test_every_change_is_unchanged_after_framing(change: Change) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(reports.framed(reports.Yielded(change)))
    assert await reports.receive(reader) == reports.Yielded(change)


@pytest.mark.parametrize(
    "change",
    [
        Text("x" * (reports.MAX_FRAME + 1)),
        Text("ä" * (reports.MAX_FRAME // 2 + 1)),
        Say(a2a.Message(parts=[a2a.Part(raw=b"x" * (reports.MAX_FRAME + 1))])),
        ArtifactChunk("a", raw=b"x" * (reports.MAX_FRAME + 1)),
        ArtifactChunk("a", parts=[a2a.Part(text="x" * MIB)] * 9),
        ToolCall("1", "f", {"text": "x" * (reports.MAX_FRAME + 1)}),
        ArtifactChunk("a", text="t", extensions=["x" * 200] * 50_000),
    ],
    ids=["text", "bytes of a text", "message", "bytes", "pieces", "data", "head"],
)
def test_no_frame_is_larger_than_the_limit_of_the_executor(change: Change) -> None:
    """P9: a large field of any kind is refused before it is sent."""
    with pytest.raises(ValueError, match="cannot be sent to the executor, which accepts at most 8,388,608"):
        reports.framed(reports.Yielded(change))


async def test_a_piece_of_a_frame_is_used_once() -> None:
    """P9: so that a short frame cannot become a large value."""
    reader = asyncio.StreamReader()
    reader.feed_data(framed(b'["Yielded",["ToolCall",{"id":{"json":0},"name":"","args":{"json":0}}],[2]]', b"[]"))
    with pytest.raises(AgentProcessGarbled, match="not a frame"):
        await reports.receive(reader)
