"""Agents that block: in a thread of their own they delay no other run; in the event loop the log names them."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest
from tests.executor.plane import Plane, Stores, open_plane, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AgentCard, Change, Complete, Policy, Say, Turn
from taskplane.agents.loading import load_agents
from taskplane.agents.threads import THREAD
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1.executor_pb2 import SubmitResponse
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Invalid
from taskplane.runtime.guard import EXIT_STUCK

IN_THREAD = Policy(isolation="thread")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(THREAD)]


class Blocking:
    """Blocks its thread at `block` until `let_go`, and otherwise answers with its thread. A plain generator."""

    card = AgentCard(name="blocking", version="1")

    def __init__(self) -> None:
        self.blocks, self.let_go = threading.Event(), threading.Event()
        self.closed: list[str] = []

    def run(self, turn: Turn) -> Iterator[Change]:
        try:
            yield Say(threading.current_thread().name)
            if turn.text == "block":
                self.blocks.set()
                self.let_go.wait()
            yield Complete("well")
        finally:
            self.closed.append(threading.current_thread().name)


def asynchronous(blocking: Blocking) -> Scripted:
    """The same as an async generator that is to run in a thread."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for change in blocking.run(turn):
            await asyncio.sleep(0)
            yield change

    return Scripted(script, policy=IN_THREAD)


@asynccontextmanager
async def blocked(stores: Stores, blocking: Blocking, *, plain: bool) -> AsyncGenerator[tuple[Plane, SubmitResponse]]:
    """A plane of this agent, with a task that blocks."""
    async with open_plane(stores, ("a", blocking if plain else asynchronous(blocking))) as plane:
        waiting = await plane.submit("block")
        await asyncio.to_thread(blocking.blocks.wait, 30)
        yield plane, waiting


@pytest.mark.parametrize("plain", [True, False])
async def test_an_agent_that_blocks_its_thread_delays_no_other_run(stores: Stores, plain: bool) -> None:
    """P9: it continues after the block, and its thread ends with its run."""
    blocking = Blocking()
    async with blocked(stores, blocking, plain=plain) as (plane, waiting):
        assert text((await plane.run("go")).status.message) == "well"
        blocking.let_go.set()
        task = await plane.at_rest(waiting)
        assert text(task.status.message) == "well"
        assert text(task.history[1]).startswith(THREAD)
        await until(lambda: not threads())
    assert len(blocking.closed) == 2 and all(name.startswith(THREAD) for name in blocking.closed)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_canceled_run_is_closed_in_its_thread(stores: Stores, plain: bool) -> None:
    """P8, P11: the task is canceled at once, though the agent blocks; later changes are discarded."""
    blocking = Blocking()
    async with blocked(stores, blocking, plain=plain) as (plane, waiting):
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))
        blocking.let_go.set()
        await until(lambda: not plane.service.runs.active and not threads())
        task = await plane.task(waiting.task.task_id)
        assert task.status.state == a2a.TASK_STATE_CANCELED
    assert len(blocking.closed) == 1


async def test_an_agent_in_a_thread_receives_messages_and_its_cancel(stores: Stores) -> None:
    """I1, P8: as in the event loop of the process."""
    heard: list[str] = []
    reads = threading.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("ready")
        while not (more := await turn.incoming()):
            await asyncio.sleep(0.01)
        heard.extend(map(text, more))
        reads.set()
        try:
            await asyncio.Event().wait()
        finally:
            heard.append(f"cancelled: {turn.cancelled.is_set()}")
        yield Complete()

    async with open_plane(stores, ("a", Scripted(script, policy=IN_THREAD))) as plane:
        waiting = await plane.submit("go")
        await plane.submit("more", task_id=waiting.task.task_id)
        await asyncio.to_thread(reads.wait, 30)
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))
        await until(lambda: not plane.service.runs.active and not threads())
    assert heard == ["more", "cancelled: True"]


async def test_a_plain_generator_sees_its_cancel_while_it_blocks(stores: Stores) -> None:
    """P8: it checks the event in the thread whose loop it blocks."""
    begun, saw = threading.Event(), threading.Event()

    class Polling:
        card = AgentCard(name="polling", version="1")

        def run(self, turn: Turn) -> Iterator[Change]:
            begun.set()
            while not turn.cancelled.is_set():
                saw.wait(0.005)
            saw.set()
            yield Complete()

    async with open_plane(stores, ("a", Polling())) as plane:
        waiting = await plane.submit("go")
        await asyncio.to_thread(begun.wait, 30)
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))
        await until(lambda: not plane.service.runs.active and not threads())
    assert saw.is_set()


async def test_an_agent_in_a_thread_keeps_its_context_variables_between_steps(stores: Stores) -> None:
    """P1: as in the event loop of the process, so that it may reset a variable."""
    variable: ContextVar[str] = ContextVar("variable", default="")

    async def script(turn: Turn) -> AsyncIterator[Change]:
        token = variable.set("kept")
        yield Say("so far")
        yield Say(variable.get())
        variable.reset(token)

    async with open_plane(stores, ("a", Scripted(script, policy=IN_THREAD))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert [text(message) for message in task.history[1:]] == ["so far", "kept"]


@pytest.mark.parametrize(
    "error",
    [RuntimeError("secret"), SystemExit(3), GeneratorExit(), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=repr,
)
async def test_a_fault_in_a_thread_fails_the_task(stores: Stores, error: BaseException) -> None:
    """P9: and ends its thread."""

    class Faulty:
        card = AgentCard(name="faulty", version="1")

        def run(self, turn: Turn) -> Iterator[Change]:
            yield Say("so far")
            if isinstance(error, SystemExit):
                sys.exit(error.code)
            raise error

    async with open_plane(stores, ("a", Faulty())) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_FAILED and "secret" not in text(task.status.message)
        await until(lambda: not plane.service.runs.active and not threads())


async def test_an_agent_that_blocks_the_event_loop_is_logged_with_its_stack(stores: Stores) -> None:
    """P9: by a thread, while the agent blocks; the log has the remedy."""
    told: list[str] = []
    noticed = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            noticed.set()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        noticed.wait(30)
        yield Complete("well")

    logger = logging.getLogger("taskplane.executor.runs.blocking")
    handler = Listening(logging.ERROR)
    logger.addHandler(handler)
    try:
        async with open_plane(stores, ("slow", Scripted(script)), blocked_after=0.1) as plane:
            assert text((await plane.run("go")).status.message) == "well"
    finally:
        logger.removeHandler(handler)
    assert told[0].startswith("the agent slow has blocked the event loop for ")
    assert Path(__file__).name in told[0] and "noticed.wait(30)" in told[0] and "@thread" in told[0]


BLOCKED = """
import asyncio, time
from taskplane.executor.runs.blocking import noticing_blocks
async def main():
    with noticing_blocks(0, 0.5):
        print("here", flush=True)
        {body}
asyncio.run(main())
"""


def test_a_process_that_is_blocked_beyond_its_limit_ends() -> None:
    """P9, C14: a supervisor starts another one; the output has the stack."""
    program = [sys.executable, "-c", BLOCKED.format(body="time.sleep(60)")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == EXIT_STUCK
    assert "BLOCKED_LIMIT" in done.stderr and 'File "<string>"' in done.stderr


def test_a_stopped_process_does_not_count_as_blocked() -> None:
    """C8: its event loop continues with the process."""
    body = "await asyncio.get_running_loop().run_in_executor(None, input); await asyncio.sleep(1)"
    program = [sys.executable, "-c", BLOCKED.format(body=body)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        # The limit goes by while nothing of the process moves.
        time.sleep(1.5)
        process.send_signal(signal.SIGCONT)
        process.communicate("\n", timeout=30)
        assert process.returncode == 0


async def test_the_operator_may_run_an_agent_in_a_thread() -> None:
    """P9: by the name of the agent; an isolation that there is not is refused at start."""
    hosted = load_agents(["quiet=demo@thread", "demo"])
    assert [one.isolation for one in hosted.by_name.values()] == ["thread", ""]
    with pytest.raises(Invalid) as refused:
        load_agents(["demo@threat"])
    assert "did you mean 'thread'?" in refused.value.suggestion
    with pytest.raises(ValueError, match="isolation must be one of"):
        Policy(isolation="loop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
