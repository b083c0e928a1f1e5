"""The testing kit and a served plane: the same agents give the same events, task and session in both."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Final, cast

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from tests.executor.odd_turns import CHANGES, SCRIPTS, Odd, OddRouter, OddThread
from tests.executor.plane import eventually, holds

from taskplane.agents.agent import Text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.message_metadata import PARTIAL, USAGE
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.cli.composition import PlaneSettings, open_plane
from taskplane.executor.settings import ExecutorSettings
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime import message_times
from taskplane.runtime.channel import client, connect
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.principal import Principal
from taskplane.sessions.settings import SessionsSettings
from taskplane.tasks.settings import TasksSettings
from taskplane.testing import TurnResult, TurnRun, turn_of

AGENTS: Final[Mapping[str, type]] = {"odd": Odd, "thread": OddThread, "router": OddRouter}
AT_REST: Final = [3, 4, 5, 6, 7, 8]
# Names of fields that differ between planes.
TIMES: Final = {"created_at", "timestamp", "generation", "actor", "traceparent", message_times.KEY}

# Agent, and the messages of the user: the first one, then answers.
CASES: Final[Sequence[tuple[str, Sequence[str]]]] = [
    *(("odd", [name]) for name in (*CHANGES, *SCRIPTS)),
    ("odd", ["pauses", "auth", "pauses", "end"]),
    ("odd", ["text that a question ends", "usage and a question", "usage"]),
    *(("thread", [name]) for name in ("policy raises", "policy is none", "artifact that grows", "checkpoints")),
    *(
        ("router", [name])
        for name in (
            *("direct", "direct with a zero", "direct with an id", "direct without parts", "direct of 4 MiB"),
            *("direct raises", "direct of another type", "goes on", "failure", "artifact that is replaced"),
        )
    ),
    # The last case, since every later session has its state of the user and of the agent.
    ("odd", ["state"]),
]


@dataclass(frozen=True, slots=True)
class Seen:
    """A turn in its stores, without names and times that differ between planes."""

    answer: Any
    task: Any
    events: Sequence[Any]
    entries: Sequence[Any]
    state: Any


class Side:
    """The services of a plane, called as a user."""

    def __init__(self, executor: AgentExecutorStub, store: TaskStoreStub, history: SessionHistoryStub) -> None:
        self.executor = executor
        self.store = store
        self.history = history

    async def talk(self, agent: str, said: Sequence[a2a.Message], context_id: str) -> pb.SubmitResponse:
        """Sends a message, answers as long as the task waits, and returns once it is at rest."""
        response = pb.SubmitResponse()
        for message in said:
            message.context_id = context_id
            message.task_id = response.task.task_id
            request = pb.SubmitRequest(agent=agent, request=a2a.SendMessageRequest(message=message))
            response = await self.executor.Submit(request)
            if response.HasField("task"):
                watch = tasks.WatchTaskRequest(task_id=response.task.task_id, stop_at=AT_REST, end_only=True)  # type: ignore[arg-type]
                async for _ in self.store.WatchTask(watch):
                    pass
        return response

    async def seen(self, response: pb.SubmitResponse, context_id: str) -> Seen:
        """Returns the turn in the stores."""
        record, events = tasks.TaskRecord(), list[tasks.Event]()
        task_id = response.task.task_id
        if task_id:
            record = (await self.store.GetTask(tasks.GetTaskRequest(task_id=task_id))).record
            events.extend((await self.store.ListEvents(tasks.ListEventsRequest(task_id=task_id, limit=1000))).events)
        listing = sessions.ListEntriesRequest(context_id=context_id, effective=True)
        # The message of a failure is copied after its end.
        listed = await eventually(
            lambda: self.history.ListEntries(listing),
            lambda found: any(entry.generation == record.message_generation for entry in found.entries),
        )
        state = (await self.history.GetState(sessions.GetStateRequest(context_id=context_id))).state
        turns = dict.fromkeys(entry.invocation_id for entry in listed.entries)
        names = {task_id: "TASK", context_id: "CONTEXT"}
        names.update({turn: f"TURN {number}" for number, turn in enumerate(turns, 1)})

        def plain(message: Message) -> Any:
            text = json.dumps(_timeless(MessageToDict(message, preserving_proto_field_name=True)))
            for name, general in names.items():
                text = text.replace(name, general) if name else text
            return json.loads(text)

        entries = [(entry.kind, plain(entry.message), entry.data) for entry in listed.entries]
        shown = plain(response.message), plain(record.task), _joined(map(plain, events))
        return Seen(*shown, entries, to_dict(state))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {key: _timeless(each) for key, each in given.items() if key not in TIMES}
    if isinstance(value, str):
        return re.sub("under request [0-9a-f]+", "under request", value)
    if isinstance(value, list):
        return [_timeless(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _joined(events: Iterable[Any]) -> Sequence[Any]:
    """Returns the events with the pieces of a growing text as one, independent of their division into appends."""
    joined: list[Any] = []
    for event in events:
        message = _partial(event)
        before = _partial(joined[-1]) if joined else None
        if message and before and message["message_id"] == before["message_id"]:
            before["parts"][0]["text"] += message["parts"][0]["text"]
        else:
            joined.append(event)
    return joined


def _partial(event: Any) -> Any:
    message = event.get("event", {}).get("status_update", {}).get("status", {}).get("message")
    return message if message and message.get("metadata", {}).get(PARTIAL) else None


async def in_kit(agent: str, said: Sequence[a2a.Message]) -> tuple[TurnResult, Seen]:
    """Returns a turn in the kit, and its data in the stores."""
    first, *answers = said
    async with turn_of(AGENTS[agent](), first) as turn:
        result = await turn.result()
        for answer in answers:
            result = await turn.answer(answer)
        return result, await kept(turn, result)


async def kept(turn: TurnRun, result: TurnResult) -> Seen:
    """Returns the data of a turn in the stores of the kit."""
    plane = turn._plane  # pyright: ignore[reportPrivateUsage]
    response = pb.SubmitResponse()
    if result.task is None:
        response.message.CopyFrom(result.messages[0])
    else:
        response.task.task_id = result.task.id
    return await Side(plane.executor, plane.tasks, plane.sessions).seen(response, "session")


def result_fields(result: TurnResult) -> Any:
    """Returns the fields of a result that an author reads."""
    texts = {name: made.text for name, made in result.artifacts.items()}
    answer = result.messages[0].parts[0].text if result.direct_answer is not None else None
    return result.state, result.reason, texts, result.usage, result.session_state, answer


def plane_fields(there: Seen) -> Any:
    """Returns the same fields of a plane."""
    if not there.task:
        return "answered", "", {}, {}, there.state, there.answer["parts"][0]["text"]
    state = there.task["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
    (*_, reason) = [
        event["event"]["status_update"].get("metadata", {}).get("reason", "")
        for event in there.events
        if "status_update" in event.get("event", {})
    ]
    made = there.task.get("artifacts", [])
    texts = {each["artifact_id"]: "".join(part.get("text", "") for part in each["parts"]) for each in made}
    return state, reason, texts, there.task.get("metadata", {}).get(USAGE, {}), there.state, None


def user_texts(texts: Sequence[str]) -> list[a2a.Message]:
    """Returns messages of the user with these texts."""
    return [
        a2a.Message(message_id=f"user-{number}", role=a2a.ROLE_USER, parts=[a2a.Part(text=text)])
        for number, text in enumerate(texts, 1)
    ]


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[Side]:
    """The plane that `taskplane dev` opens, called through its port."""
    settings = PlaneSettings(
        tasks=TasksSettings(database_url=f"sqlite:///{folder / 'tasks.db'}"),
        sessions=SessionsSettings(database_url=f"sqlite:///{folder / 'sessions.db'}"),
        executor=ExecutorSettings(
            agents=tuple(f"{name}={found.__module__}:{found.__name__}" for name, found in AGENTS.items()),
            route_timeout=60.0,
        ),
        gateway=GatewaySettings(port=0),
        grpc_listen="127.0.0.1:0",
    )
    async with open_plane(settings) as plane, connect(plane.grpc.address) as channel:
        called = client(channel, identity=Principal("default", "user", "user"))
        yield Side(AgentExecutorStub(called), TaskStoreStub(called), SessionHistoryStub(called))


@pytest.mark.more
async def test_the_kit_and_a_plane_give_the_same_events_and_the_same_task(tmp_path: Path) -> None:
    """P14: also for an agent that breaks the rules of the port, so that its test fails as well."""
    different: dict[str, list[str]] = {}
    async with served(tmp_path) as plane:
        for number, (agent, texts) in enumerate(CASES):
            context_id = f"context-{number:03}"
            response = await plane.talk(agent, user_texts(texts), context_id)
            there = await plane.seen(response, context_id)
            result, here = await in_kit(agent, user_texts(texts))
            fields = [f.name for f in fields_of(Seen) if getattr(here, f.name) != getattr(there, f.name)]
            if fields or result_fields(result) != plane_fields(there):
                different[f"{agent}: {', '.join(texts)}"] = fields
    assert not different


async def test_a_canceled_turn_is_the_same_in_the_kit_and_in_a_plane(tmp_path: Path) -> None:
    """P14, P8: earlier messages stay, with the figures and the open text."""
    (said,) = user_texts(["waits"])
    said.context_id = "there"
    async with served(tmp_path) as plane:
        request = pb.SubmitRequest(agent="odd", request=a2a.SendMessageRequest(message=said))
        response = await plane.executor.Submit(request)
        await shows(plane.store, response.task.task_id, "as far as")
        await plane.store.CancelTask(tasks.CancelTaskRequest(task_id=response.task.task_id))
        there = await plane.seen(response, "there")
    async with turn_of(Odd(), user_texts(["waits"])[0]) as turn:
        await turn.until(Text)
        store = turn._plane.tasks  # pyright: ignore[reportPrivateUsage]
        (record,) = (await store.ListTasks(tasks.ListTasksRequest())).records
        whole = asyncio.create_task(turn.result())
        await shows(store, record.id, "as far as")
        result = await turn.cancel()
        assert await whole == result
        here = await kept(turn, result)
    assert (here, result_fields(result)) == (there, plane_fields(there))
    assert result.text == "begun\nas far as"


async def shows(store: TaskStoreStub, task_id: str, words: str) -> None:
    """Waits until clients have seen these words."""
    request = tasks.ListEventsRequest(task_id=task_id)
    await eventually(lambda: store.ListEvents(request), lambda found: any(holds(each, words) for each in found.events))
