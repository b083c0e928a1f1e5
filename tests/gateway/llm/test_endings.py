"""Ends of turns of the llm agent as clients see them: cancels, open connections and tool servers."""

import asyncio
import shlex
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.agents.llm.processes import command, is_gone
from tests.executor.plane import until
from tests.gateway.conversing import STREAMS, Way, name_of, state_of
from tests.gateway.llm.served import Served, kinds, log, open_served, task_id, writing
from tests.gateway.llm.tool_server import open_tool_server
from tests.gateway.plane import GROWING, Event, fresh
from tests.support.scripted_model import Answer, Cut, Delta, Request, calls, hang, refused, text
from tests.support.sdk_server import Serving
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANCEL = {"0.3": "tasks/cancel", "1.0": "CancelTask"}
SUBSCRIBE = {"0.3": "tasks/resubscribe", "1.0": "SubscribeToTask"}
each_version = pytest.mark.parametrize("way", STREAMS, ids=name_of)

HALF = writing("half", then=tuple(hang()))
MOMENTS: dict[str, Any] = {
    "answer": {"route": [Delta("half"), *hang()]},
    "text": {"work": [Delta("half"), *hang()]},
    "tool": {"work": calls(("think", {"word": "half"}))},
    "blocking tool": {"work": calls(("block", {"word": "half"}))},
    "artifact": {"work": HALF},
    "forced artifact": {"work": text("Ready."), "artifact": HALF},
}


class Thread:
    """A blocking tool that runs in a thread, and its state."""

    def __init__(self) -> None:
        self.release, self.returned = threading.Event(), threading.Event()

    def block(self, word: str) -> str:
        """Block."""
        self.release.wait(20)
        self.returned.set()
        return "too late"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thread() -> Thread:
    return Thread()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools() -> AsyncGenerator[Serving]:
    async with open_tool_server() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pid_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools") / "pid"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    tmp_path_factory: pytest.TempPathFactory, tools: Serving, pid_file: Path, thread: Thread
) -> AsyncGenerator[Served]:
    def make(served: Served) -> dict[str, Any]:
        async def think(word: str) -> str:
            """Think."""
            return await served.think()

        late = shlex.join(["sh", "-c", f"sleep 6; exec {command(pid_file)}"])
        servers = [f"{tools.url}/mcp", command(pid_file), late]
        return {
            "llm": served.agent(tools=[think, thread.block]),
            "slow": served.agent(tools=[], direct_within=0.05),
            "tools": served.agent(tools=[], mcp=servers[:1], artifact="auto"),
            "processes": served.agent(tools=[], mcp=servers[1:2], artifact="auto"),
            "late-process": served.agent(tools=[], mcp=servers[2:], artifact="auto"),
            "brief": served.agent(tools=[], mcp=servers[:1], run_limit=1.0),
        }

    async with open_served(tmp_path_factory.mktemp("plane"), make) as found:
        yield found


@each_version
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_cancel_stops_a_turn_at_every_stage(served: Served, thread: Thread, way: Way, moment: str) -> None:
    """P13, P8: the connection to the model is closed, every stream ends with `canceled`, and nothing is stored later,
    not even by a tool that continues in its thread."""
    plane = served.plane
    served.answers(**MOMENTS[moment])
    path = "/agents/slow" if moment == "answer" else "/"
    found: list[Event] = []
    second: asyncio.Task[list[Event]] | None = None
    canceled: asyncio.Task[Any] | None = None
    async with (
        asyncio.timeout(20),
        plane.stream(way.method, way.params(fresh(), "write"), path=path, **GROWING) as events,
    ):
        async for event in events:
            found.append(event)
            if canceled is None and "half" in str(event.data):
                id_ = task_id(found)
                subscribed = plane.streamed(SUBSCRIBE[way.version], {"id": id_}, last_event_id=found[0].id, **GROWING)
                second = asyncio.create_task(subscribed)
                canceled = asyncio.create_task(plane.result(CANCEL[way.version], {"id": id_}))
        assert second is not None and canceled is not None
        assert await second == found[1:]
        answer = await canceled
        assert state_of(answer) == "canceled"
        if "tool" not in moment:
            await served.model.requests[-1].closed.wait()
    assert [state_of(thing) for kind, thing in kinds(found) if kind == "status-update"].count("canceled") == 1
    assert state_of(kinds(found)[-1][1]) == "canceled"
    asked = len(served.model.requests)
    await until(lambda: not plane.behind.executor.runs.active and not served.thinking)
    if moment == "blocking tool":
        thread.release.set()
        await until(thread.returned.is_set)
        thread.release.clear()
        thread.returned.clear()
    logged = await log(plane, task_id(found))
    assert state_of(logged[-1]["event"]["statusUpdate"]) == "canceled" and "too late" not in str(logged)
    assert logged[-1]["generation"] == int(found[-1].id.rpartition("-")[2])
    assert state_of(await plane.result("GetTask", {"id": task_id(found)})) == "canceled"
    assert (await plane.error(CANCEL[way.version], {"id": task_id(found)}))["code"] == -32002
    assert len(served.model.requests) == asked


async def test_a_unary_send_is_answered_with_the_canceled_task(served: Served) -> None:
    """P8, P1: a client that waits for the end gets the cancel of another client."""
    plane, context = served.plane, fresh()
    served.answers(work=[Delta("half"), *hang()])
    sent = asyncio.create_task(plane.send("write", message={"contextId": context}))
    await until(lambda: "work" in served.stages and served.model.requests[-1].begun.is_set())
    # The request for the work starts before the agent has decided, so the task may appear later.
    async with asyncio.timeout(20):
        while not (tasks := (await plane.result("ListTasks", {"contextId": context}))["tasks"]):
            await asyncio.sleep(0.02)
    await plane.result("CancelTask", {"id": tasks[0]["id"]})
    assert state_of(await sent) == "canceled"


ADD = calls(("add", {"a": 2, "b": 3}))
WAIT = calls(("wait", {}))
# The answer of the model to the result of a sum. Without one it calls a tool that waits.
FINAL_MESSAGE: dict[str, Answer] = {"completed": text("Five."), "failed": refused(401), "cut": [Delta("half"), Cut()]}


@pytest.mark.parametrize(
    ("agent", "end"),
    [
        *(("tools", end) for end in ("completed", "failed", "cut", "canceled")),
        *(("processes", end) for end in ("completed", "cut", "canceled") if THOROUGH or end == "cut"),
        ("brief", "too long"),
        *([("late-process", "completed")] if THOROUGH else []),
    ],
)
async def test_tool_servers_are_disconnected_at_every_end_of_a_turn(
    served: Served, tools: Serving, pid_file: Path, agent: str, end: str
) -> None:
    """P11: an HTTP connection is closed, and the process of a stdio server has exited. A server that starts slowly is
    waited for."""
    plane = served.plane
    was_open: list[bool] = []

    def is_open() -> bool:
        return not is_gone(pid_file)() if "process" in agent else bool(tools.connections)

    def work(request: Request) -> Answer:
        was_open.append(is_open())
        return ADD if len(was_open) == 1 else FINAL_MESSAGE.get(end, WAIT)

    served.answers(work=work)
    found: list[Event] = []
    sent = Way("1.0", True).params(fresh(), "work")
    async with asyncio.timeout(30), plane.stream("SendStreamingMessage", sent, path=f"/agents/{agent}") as events:
        async for event in events:
            found.append(event)
            if end == "canceled" and "'name': 'wait'" in str(event.data):
                await plane.result("CancelTask", {"id": task_id(found)})
    assert state_of(kinds(found)[-1][1]) == {"cut": "failed", "too long": "failed"}.get(end, end)
    assert was_open == [True, True] or end == "too long"
    await until(lambda: not is_open())
    if end == "completed":
        (result,) = [thing for _, thing in kinds(found) if "function_response" in str(thing)]
        assert "5" in str(result["status"]["message"]["parts"])


@pytest.mark.asyncio(loop_scope="function")
async def test_tool_servers_are_disconnected_when_the_executor_stops(tmp_path: Path) -> None:
    """P11: also during a turn."""
    async with open_tool_server() as tools:

        def make(served: Served) -> dict[str, Any]:
            return {"llm": served.agent(tools=[], mcp=[f"{tools.url}/mcp"])}

        async with open_served(tmp_path, make, drain_timeout=0.0) as served:
            served.answers(work=WAIT)
            context = fresh()
            await served.plane.send("work", message={"contextId": context}, returnImmediately=True)
            await until(lambda: bool(tools.connections) and served.model.requests[-1].answered)
        await until(lambda: not tools.connections)
