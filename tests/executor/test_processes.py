"""Agents in processes of their own behave like agents in the event loop, and the end of a process ends no other run."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.executor.isolated import SECRET, Worker
from tests.executor.plane import Held, Plane, Stores, eventually, open_plane, text, until

from taskplane.agents.agent import Policy, Turn
from taskplane.agents.loading import Agents
from taskplane.agents.processes import frames
from taskplane.agents.processes.child import EXIT_FENCED
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1.executor_pb2 import SubmitResponse
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.runs.outbox import MAX_WAITING
from taskplane.runtime.errors import Invalid
from taskplane.runtime.principal import Principal

HERE = "tests.executor.isolated"
WORKER = f"a={HERE}:Worker@process"
PLAIN = f"a={HERE}:Plain@process"
FAULTY = f"a={HERE}:Faulty@process"
UNEXPECTED = "The agent failed unexpectedly; its log has the cause under "


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def process_of(plane: Plane, waiting: SubmitResponse) -> int:
    """Returns the process of a run, from its first message."""
    return int((await said(plane, waiting, 1))[0])


async def said(plane: Plane, waiting: SubmitResponse, count: int) -> list[str]:
    """Returns the messages of the agent in a task, once there are that many."""

    async def read() -> list[str]:
        task = await plane.task(waiting.task.task_id)
        return [text(message) for message in (*task.history[1:], task.status.message)]

    return await eventually(read, lambda found: len(list(filter(None, found))) >= count)


async def cancel(plane: Plane, waiting: SubmitResponse) -> None:
    await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))


async def reason(plane: Plane, task: a2a.Task) -> str:
    updates = [event.event.status_update for event in await plane.events(task.id, tasks.EVENT_KIND_STATUS)]
    (end,) = [update for update in updates if update.status.state == a2a.TASK_STATE_FAILED]
    return end.metadata.fields["reason"].string_value


@pytest.mark.parametrize("agent", [WORKER, PLAIN])
async def test_an_agent_that_blocks_its_process_delays_no_other_run(stores: Stores, tmp_path: Path, agent: str) -> None:
    """P9: not even runs of the same agent: each run has its own process."""
    async with open_plane(stores, loaded=[agent]) as plane:
        waiting = await plane.submit(f"block {tmp_path}/go")
        blocked = await process_of(plane, waiting)
        process, _, main = text((await plane.run("where")).status.message).split()
        assert len({os.getpid(), blocked, int(process)}) == 3 and main == "True"
        (tmp_path / "go").touch()
        assert text((await plane.at_rest(waiting)).status.message) == "well"
    assert not lives(blocked) and not lives(int(process))


async def test_a_process_is_reused_for_the_next_run_up_to_the_idle_limit(stores: Stores) -> None:
    """P1: so an agent imports its modules once; its turns are like those of any agent."""
    async with open_plane(stores, loaded=[WORKER]) as plane:

        async def where() -> list[str]:
            return text((await plane.run("where")).status.message).split()

        # A run that begins before the earlier process is free has another one.
        _, _, main = await eventually(where, lambda found: found[1] != "1")
        assert main == "True"
        said = await plane.submit("how")
        told = text((await plane.at_rest(said)).status.message)
        assert told == "how after [], ann, 1"
        told = text((await plane.run("more", context_id=said.task.context_id)).status.message)
        assert told == "more after ['how', 'how after [], ann, 1'], ann, 1"
        assert text((await plane.run("variable")).history[-1]) == "kept"
    async with open_plane(stores, loaded=[WORKER], idle_processes=0) as plane:
        processes = [text((await plane.run("where")).status.message).split() for _ in range(2)]
        assert processes[0][0] != processes[1][0] and [count for _, count, _ in processes] == ["1", "1"]


async def test_a_canceled_run_is_closed_in_its_process_which_is_reused(stores: Stores, tmp_path: Path) -> None:
    """P8, P11: the agent sees the cancel before it is interrupted."""
    # One process is started in advance. The first run may take another one, if that is not ready.
    async with open_plane(stores, loaded=[WORKER], idle_processes=2) as plane:
        waiting = await plane.submit(f"wait {tmp_path}/told")
        process = await process_of(plane, waiting)
        await cancel(plane, waiting)
        await until(lambda: not plane.service.runs.active)
        assert (tmp_path / "told").read_text() == "cancelled: True"
        assert (await plane.task(waiting.task.task_id)).status.state == a2a.TASK_STATE_CANCELED
        assert text((await plane.run("where")).status.message).split()[0] == str(process)


async def test_a_plain_generator_in_a_process_sees_its_cancel(stores: Stores, tmp_path: Path) -> None:
    """P8: by the event of its turn."""
    async with open_plane(stores, loaded=[PLAIN]) as plane:
        waiting = await plane.submit(f"poll {tmp_path}/saw")
        await process_of(plane, waiting)
        await cancel(plane, waiting)
        await until(lambda: not plane.service.runs.active)
        assert (tmp_path / "saw").exists()


async def test_a_canceled_run_that_blocks_is_killed_and_other_runs_continue(stores: Stores, tmp_path: Path) -> None:
    """P8: the task is canceled at once; its process is given time to stop."""
    async with open_plane(stores, loaded=[WORKER], cancel_grace=0.1) as plane:
        other = await plane.submit(f"block {tmp_path}/go")
        waiting = await plane.submit(f"block {tmp_path}/never")
        process = await process_of(plane, waiting)
        await process_of(plane, other)
        await cancel(plane, waiting)
        assert (await plane.task(waiting.task.task_id)).status.state == a2a.TASK_STATE_CANCELED
        await until(lambda: len(plane.service.runs.active) == 1 and not lives(process))
        (tmp_path / "go").touch()
        assert text((await plane.at_rest(other)).status.message) == "well"


async def test_a_run_that_blocks_its_process_for_too_long_is_killed(stores: Stores, tmp_path: Path) -> None:
    """P9: and its task fails by its limit."""
    async with open_plane(stores, loaded=[WORKER], run_limit=0.3, cancel_grace=0.1) as plane:
        task = await plane.run(f"block {tmp_path}/never")
        assert task.status.state == a2a.TASK_STATE_FAILED and await reason(plane, task) == "RUN_TIMEOUT"


async def test_an_agent_in_a_process_receives_messages(stores: Stores) -> None:
    """I1: a message that it reads does not begin another turn."""
    async with open_plane(stores, loaded=[WORKER]) as plane:
        waiting = await plane.submit("listen")
        await plane.submit("more", task_id=waiting.task.task_id)
        task = await plane.at_rest(waiting)
        assert text(task.status.message) == "more" and task.status.state == a2a.TASK_STATE_COMPLETED


async def test_a_task_paused_in_a_process_continues_with_the_answer(stores: Stores) -> None:
    """I1: with its history and a new attempt of 1."""
    async with open_plane(stores, loaded=[WORKER]) as plane:
        asked = await plane.run("ask")
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        await plane.submit("this", task_id=asked.id)
        task = await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        assert text(task.status.message) == "this after ['ask', 'Which?'], ann, 1"


async def test_a_process_that_dies_fails_its_run_alone(stores: Stores, tmp_path: Path) -> None:
    """P9: under a code of its own; the next run has another process."""
    async with open_plane(stores, loaded=[FAULTY]) as plane:
        other = await plane.submit(f"block {tmp_path}/go")
        killed = await plane.submit(f"block {tmp_path}/never")
        os.kill(await process_of(plane, killed), signal.SIGKILL)
        for task, words in (
            (await plane.at_rest(killed), "it was ended by SIGKILL"),
            (await plane.run("exit the process"), "it exited with code 3"),
        ):
            assert task.status.state == a2a.TASK_STATE_FAILED and words in text(task.status.message)
            assert await reason(plane, task) == "AGENT_PROCESS_DIED"
            assert text((await plane.run("well")).status.message) == "well"
        (tmp_path / "go").touch()
        assert text((await plane.at_rest(other)).status.message) == "well"
    assert not plane.service.runs.bugs


async def test_a_fault_in_a_process_fails_the_task(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    """P9: its author finds it in the log, with the line; the process stays usable."""
    processes: set[str] = set()
    async with open_plane(stores, loaded=[FAULTY]) as plane:
        for fault, told in {
            "exception": SECRET,
            "exit": "SystemExit: 3",
            "canceled": SECRET,
            "dict": "run must yield changes, not dict",
            "say": "a message must be text or a Message, not int",
            "unreadable": "a message must be text or a Message, not Unreadable",
        }.items():
            caplog.clear()
            task = await plane.run(fault)
            assert task.status.state == a2a.TASK_STATE_FAILED
            assert text(task.status.message).startswith(UNEXPECTED) and SECRET not in str(task)
            assert await reason(plane, task) == "AGENT_ERROR"
            assert told in caplog.text and caplog.text.count("the agent of task") == 1
            assert "isolated.py" in caplog.text or fault not in ("exception", "exit", "canceled")
            processes.add(text(task.history[1]))
    assert len(processes) == 1 and not plane.service.runs.bugs


async def test_the_text_of_an_agent_error_in_a_process_reaches_the_user(stores: Stores) -> None:
    """P9: under the reason AGENT_ERROR."""
    async with open_plane(stores, loaded=[FAULTY]) as plane:
        task = await plane.run("heard")
        assert text(task.status.message) == "The disk is full."
        assert await reason(plane, task) == "AGENT_ERROR"


async def test_an_agent_in_a_process_waits_while_the_log_is_behind(stores: Stores, tmp_path: Path) -> None:
    """C13: at a yield, as in the event loop."""
    async with open_plane(stores, loaded=[WORKER]) as plane:
        held = Held(stores, "AppendEvents")
        waiting = await plane.submit(f"flood {tmp_path}/count")
        await until(lambda: plane.service.runs.active[0].outbox.blocked)
        assert int((tmp_path / "count").read_text()) <= MAX_WAITING + 1
        held.let_go.set()
        await cancel(plane, waiting)
        await until(lambda: not plane.service.runs.active)


async def test_a_drain_lets_a_run_in_a_process_finish(stores: Stores, tmp_path: Path) -> None:
    """C14: then the process ends."""
    async with open_plane(stores, loaded=[WORKER], drain_timeout=30.0) as plane:
        waiting = await plane.submit(f"block {tmp_path}/go")
        process = await process_of(plane, waiting)
        draining = asyncio.create_task(plane.service.drain())
        await until(lambda: plane.service.runs.draining)
        (tmp_path / "go").touch()
        await draining
        assert text((await plane.at_rest(waiting)).status.message) == "well"
    assert not lives(process)


async def test_a_drain_kills_the_process_of_a_run_that_blocks(stores: Stores, tmp_path: Path) -> None:
    """C14: the policy of the task decides about another run; here the task fails."""
    async with open_plane(stores, loaded=[WORKER], drain_timeout=0.0, cancel_grace=0.1) as plane:
        waiting = await plane.submit(f"block {tmp_path}/never")
        process = await process_of(plane, waiting)
    assert not lives(process)
    assert (await plane.at_rest(waiting)).status.state == a2a.TASK_STATE_FAILED


async def test_an_agent_may_ask_for_a_process_but_one_created_in_code_is_refused(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: at start if the operator asks for a process, otherwise at its first run."""
    async with open_plane(stores, loaded=[f"a={HERE}:Undecided"]) as plane:
        assert not text((await plane.run("where")).status.message).startswith(f"{os.getpid()} ")
    async with open_plane(stores, loaded=[f"a={HERE}:Undecided@none"]) as plane:
        assert text((await plane.run("where")).status.message).startswith(f"{os.getpid()} ")
    with pytest.raises(Invalid, match="created in code") as refused:
        Agents({"a": Worker()}, {"a": "process"})
    assert refused.value.reason == "BAD_AGENT" and "module:attribute" in refused.value.suggestion

    class Nameless(Worker):
        def policy(self, turn: Turn) -> Policy:
            return Policy(isolation="process")

    async with open_plane(stores, ("a", Nameless())) as plane:
        assert text((await plane.run("go")).status.message).startswith(UNEXPECTED)
    assert "agent a cannot run in a process" in caplog.text


async def test_an_agent_that_cannot_be_loaded_in_its_process_fails_its_run(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: the cause is in the log."""
    async with open_plane(stores, loaded=[f"a={HERE}:OnceOnly@process"]) as plane:
        for _ in range(2):
            task = await plane.run("go")
            assert text(task.status.message).startswith(UNEXPECTED)
            assert await reason(plane, task) == "AGENT_ERROR"
    assert SECRET in caplog.text


def test_a_process_ends_if_its_executor_stalls_beyond_the_lease(tmp_path: Path) -> None:
    """C8: another executor may run the task by then."""
    turn = {
        "task_id": "t",
        "context_id": "c",
        "invocation_id": "i",
        "message": a2a.Message(parts=[a2a.Part(text=f"block {tmp_path}/never")]),
        "history": (),
        "task": None,
        "attempt": 1,
        "fence": 1,
        "caller": Principal("t", "ann", "ann"),
    }
    load = frames.Load(source=WORKER.partition("@")[0], allow_crash=False, path=sys.path, log_level="INFO")
    begin = frames.Begin(turn=turn, method="run", until=time.monotonic(), request_id="", traceparent="")
    program = [sys.executable, "-m", "taskplane.agents.processes.child", "a"]
    ours, theirs = socket.socketpair()
    with theirs, subprocess.Popen(program, stdin=theirs.fileno()) as process, ours:
        for frame in (load, begin, frames.Next(), frames.Next()):
            ours.sendall(frames.framed(frame))
        assert process.wait(30) == EXIT_FENCED
