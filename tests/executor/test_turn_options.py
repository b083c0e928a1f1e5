"""Options of a request reach the agent besides the message, in every run of its turn."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.executor.plane import Plane, open_plane, open_stores, said, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AskInput, Change, Complete, Policy, Say, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

URI = "https://example.com/"


async def tells(turn: Turn) -> AsyncIterator[Change]:
    """Yields its options, as a question if the message asks for one."""
    shown = json.dumps([turn.metadata, [*turn.output_modes], [*turn.extensions]])
    yield AskInput(shown) if turn.text == "ask" else Complete(shown)


async def send(plane: Plane, words: str, number: int, task_id: str = "") -> pb.SubmitResponse:
    """Sends a message with options that differ from those of all other requests."""
    request = pb.SubmitRequest(
        request=a2a.SendMessageRequest(
            message=said(words, task_id=task_id),
            configuration=a2a.SendMessageConfiguration(accepted_output_modes=[f"text/{number}"]),
        ),
        extensions=[f"{URI}{number}"],
    )
    request.request.metadata.update({"number": number})
    return await plane.executor().Submit(request)


def options(number: int) -> list[Any]:
    return [{"number": number}, [f"text/{number}"], [f"{URI}{number}"]]


def shown(message: a2a.Message) -> Any:
    return json.loads(text(message))


async def test_the_options_of_a_request_survive_the_queue_and_a_pause(tmp_path: Path, database_url: str) -> None:
    """P2, I1: a queued task gets the options of its request, and after a pause those of the answer."""
    async with open_stores(tmp_path, database_url=database_url) as stores:
        async with open_plane(stores, ("a", Scripted(tells)), capacity=0) as plane:
            waiting = await send(plane, "ask", 1)
        async with open_plane(stores, ("a", Scripted(tells))) as plane:
            asked = await plane.at_rest(waiting)
            assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED and shown(asked.status.message) == options(1)
            answered = await plane.at_rest(await send(plane, "so", 2, asked.id))
            assert shown(answered.status.message) == options(2)
            # The options of the first request are the metadata of the task.
            assert answered.metadata.fields["number"].number_value == 1


async def test_each_turn_of_a_run_gets_the_options_of_its_own_request(tmp_path: Path) -> None:
    """I1: also the turn of a message that came while the task ran; none of the first turn stay."""
    going = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "first":
            await going.wait()
        yield Say(json.dumps([turn.metadata, [*turn.output_modes], [*turn.extensions]]))

    async with open_stores(tmp_path) as stores, open_plane(stores, ("a", Scripted(script))) as plane:
        waiting = await send(plane, "first", 1)
        await send(plane, "second", 2, waiting.task.task_id)
        await plane.submit("third", task_id=waiting.task.task_id)
        going.set()
        task = await plane.at_rest(waiting)
        told = [shown(message) for message in (*task.history, task.status.message) if message.role == a2a.ROLE_AGENT]
        assert told == [options(1), options(2), [{}, [], []]]


async def test_an_agent_in_a_process_gets_the_options_of_its_request(tmp_path: Path) -> None:
    """P2: isolation changes nothing about a turn."""
    async with (
        open_stores(tmp_path) as stores,
        open_plane(stores, loaded=["a=tests.executor.isolated:Options@process"]) as plane,
    ):
        task = await plane.at_rest(await send(plane, "go", 1))
        assert shown(task.status.message) == options(1)


async def test_the_queue_and_pause_limits_of_an_agent_fail_its_tasks(tmp_path: Path) -> None:
    """P9: by the policy at the beginning of the turn."""
    policy = Policy(queue_limit=0.05, pause_limit=0.05)

    async def ended(plane: Plane) -> str:
        task = await plane.reaches((await plane.submit("ask")).task.task_id, a2a.TASK_STATE_FAILED)
        (*_, end) = await plane.events(task.id, tasks.EVENT_KIND_STATUS)
        return end.event.status_update.metadata.fields["reason"].string_value

    async with open_stores(tmp_path, sweep_every=0.05, lease_ttl=1.0) as stores:
        async with open_plane(stores, ("a", Scripted(tells, policy=policy)), capacity=0) as plane:
            assert await ended(plane) == "QUEUE_TIMEOUT"
        async with open_plane(stores, ("a", Scripted(tells, policy=policy))) as plane:
            assert await ended(plane) == "PAUSE_TIMEOUT"
