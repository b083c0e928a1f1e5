"""What every adapter can do, tried in the same way with each: one small agent per adapter, and one set of scenarios.

To add an adapter, write a module `agent_NAME.py` in this folder that has

    ADAPTER = Adapter("NAME", serving(make))

where `make(gate)` returns what `taskplane.executor.adapters.adapt` takes: an agent, written as one is written for that
library, that answers these messages, whose words are fixed:

    hello NAME   completes with "Hello, NAME."
    count        a growing text "one two three", in pieces, with which it completes
    ask          asks "What is your name?"; completes with "Hello, ANSWER." when it is answered
    slow         a growing text "begun", shown at once; then waits for the gate; completes with "finished"
    fail         raises an exception with SECRET as its text
    artifact     an artifact named "Report" with the text "one two three" in one chunk or several; then completes

The gate is a file, so that an agent in another process or language sees it, too: `await gate.passed()`, `gate.block()`
in a thread, or look for the file `gate.path`. What is not served by an executor with an agent in it, such as a worker
elsewhere, takes a function of its own in place of `serving(make)`, see `Open`.

What an adapter cannot do is named with its reason, by the keys of SCENARIOS: `Adapter("NAME", ..., cannot={"ask": "its
executors have no way to ask"})`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.executor.plane import Plane, Stores, eventually, open_plane, open_stores, text

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.adapters import adapt
from taskplane.executor.agent import Policy
from taskplane.runtime.errors import Unavailable

SECRET: Final = "password=hunter2"
QUESTION: Final = "What is your name?"
COUNTED: Final = "one two three"

_LEASE: Final = 1.5
# What an executor asks of the stores while it works.
_CALLS: Final = ("Renew", "AppendEvents", "Release", "Claim", "GetTask", "AppendEntries", "ListUncopied")


class Gate:
    """What a slow agent waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> None:
        self.path.touch()

    @property
    def is_open(self) -> bool:
        return self.path.exists()

    async def passed(self) -> None:
        while not self.is_open:
            await asyncio.sleep(0.005)

    def block(self) -> None:
        while not self.is_open:
            time.sleep(0.005)


class Open(Protocol):
    """Opens an executor that serves the agent under each of these names, with that policy."""

    def __call__(
        self, stores: Stores, gate: Gate, policies: Mapping[str, Policy]
    ) -> AbstractAsyncContextManager[Plane]: ...


@dataclass(frozen=True)
class Adapter:
    """An adapter in the scenarios."""

    name: str
    open: Open
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])


def serving(make: Callable[[Gate], Any]) -> Open:
    """Serves what `make` returns in an executor of this process."""

    @asynccontextmanager
    async def opened(stores: Stores, gate: Gate, policies: Mapping[str, Policy]) -> AsyncGenerator[Plane]:
        agents = [(name, adapt(make(gate), name, policy)) for name, policy in policies.items()]
        async with open_plane(stores, *agents) as plane:
            yield plane

    return opened


ONE: Final = {"a": Policy()}


async def send(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores, adapter.open(stores, gate, ONE) as plane:
        task = await plane.run("hello Ann")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert text(task.status.message) == "Hello, Ann."
        assert await plane.conversation(task.context_id) == ["hello Ann", "Hello, Ann."]
        again = await plane.run("hello Bob", context_id=task.context_id)
        assert text(again.status.message) == "Hello, Bob."
        assert await plane.conversation(task.context_id) == ["hello Ann", "Hello, Ann.", "hello Bob", "Hello, Bob."]


async def stream(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores, adapter.open(stores, gate, ONE) as plane:
        task = await plane.run("count")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        said = [e.event.status_update.status.message for e in await plane.events(task.id, tasks.EVENT_KIND_STATUS)]
        grown = [text(message) for message in said if "kagent_adk_partial" in message.metadata.fields]
        assert "".join(grown) == COUNTED
        assert await plane.conversation(task.context_id) == ["count", COUNTED]
        assert text(task.status.message) == COUNTED


async def ask(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores, adapter.open(stores, gate, ONE) as plane:
        asked = await plane.run("ask")
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        assert text(asked.status.message) == QUESTION
        answered = await plane.run("Ann", task_id=asked.id, context_id=asked.context_id)
        assert answered.id == asked.id and answered.status.state == a2a.TASK_STATE_COMPLETED
        assert text(answered.status.message) == "Hello, Ann."
        # A tool that asks is a call beside the question.
        spoken = [words for words in await plane.conversation(asked.context_id) if words]
        assert spoken == ["ask", QUESTION, "Ann", "Hello, Ann."]


async def cancel(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores:
        async with adapter.open(stores, gate, ONE) as plane:
            task_id = (await plane.submit("slow")).task.task_id
            await shown(plane, task_id, "begun")
            await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
            task = await plane.reaches(task_id, a2a.TASK_STATE_CANCELED)
            assert task.status.state == a2a.TASK_STATE_CANCELED
            gate.open()
        events = (await stores.tasks().ListEvents(tasks.ListEventsRequest(task_id=task_id, limit=1000))).events
        states = [e.event.status_update.status.state for e in events if e.event.HasField("status_update")]
        assert states[-1] == a2a.TASK_STATE_CANCELED and states.count(a2a.TASK_STATE_CANCELED) == 1
        assert events[-1].kind == tasks.EVENT_KIND_STATUS and not any(holds(e, "finished") for e in events)


async def fail(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores, adapter.open(stores, gate, ONE) as plane:
        task = await plane.run("fail")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message) and task.status.message.metadata.fields["reason"].string_value
        assert not any(holds(event, SECRET) for event in await plane.events(task.id))


async def artifact(adapter: Adapter, directory: Path) -> None:
    gate = Gate(directory / "gate")
    async with open_stores(directory) as stores, adapter.open(stores, gate, ONE) as plane:
        task = await plane.run("artifact")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        (made,) = task.artifacts
        assert made.name == "Report" and "".join(part.text for part in made.parts) == COUNTED
        updates = [e.event.artifact_update for e in await plane.events(task.id, tasks.EVENT_KIND_ARTIFACT)]
        assert "".join(part.text for update in updates for part in update.artifact.parts) == COUNTED
        assert [update.append for update in updates] == [False] + [True] * (len(updates) - 1)


async def takeover(adapter: Adapter, directory: Path) -> None:
    """The executor is cut off in mid-run: another one runs the task again, or it fails, as the policy says."""
    gate, policies = Gate(directory / "gate"), {"again": Policy(on_orphan="rerun"), "once": Policy()}
    async with open_stores(directory, lease_ttl=_LEASE) as stores, adapter.open(stores, gate, policies) as lost:
        again, once = [(await lost.submit("slow", agent=name)).task.task_id for name in policies]
        for task_id in (again, once):
            await shown(lost, task_id, "begun")

        async def cut_off(request: object) -> None:
            raise Unavailable("this executor is cut off")

        stores.channel.before.update(dict.fromkeys(_CALLS, cut_off))
        gate.open()
        other = Stores(stores.services)
        async with adapter.open(other, gate, policies) as survivor:
            task = await survivor.reaches(again, a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED)
            assert task.status.state == a2a.TASK_STATE_COMPLETED and text(task.status.message) == "finished"
            assert (await survivor.record(again)).attempt == 2
            interrupted = [m for m in task.history if m.metadata.fields["interrupted"].bool_value]
            assert [text(message) for message in interrupted] == ["begun"]
            failed = await survivor.reaches(once, a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED)
            assert failed.status.state == a2a.TASK_STATE_FAILED
            assert failed.status.message.metadata.fields["reason"].string_value == "EXECUTOR_LOST"
        await other.channel.close()
        stores.channel.before.clear()


async def shown(plane: Plane, task_id: str, words: str) -> None:
    """Waits until clients have seen these words of a task."""
    await eventually(lambda: plane.events(task_id), lambda events: any(holds(event, words) for event in events))


def holds(event: tasks.Event, words: str) -> bool:
    return words.encode() in event.SerializeToString()


SCENARIOS: Final[Mapping[str, Callable[[Adapter, Path], Awaitable[None]]]] = {
    "send": send,
    "stream": stream,
    "ask": ask,
    "cancel": cancel,
    "fail": fail,
    "artifact": artifact,
    "takeover": takeover,
}
