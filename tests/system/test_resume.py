"""A stream cut at any position continues from there: nothing missing, repeated or out of order."""

import asyncio

import pytest
from tests.system.plane import Plane, on_both_engines
from tests.system.wire import Sse, client, stream, task_of, text_message

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.channel import client as wrapped
from taskplane.runtime.channel import connect
from taskplane.runtime.principal import Principal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), on_both_engines]

EVENTS = 200
# created, working, the chunks, completed
COMMAND = f"chunks {EVENTS - 3} 16"


async def whole(plane: Plane) -> list[Sse]:
    async with (
        client(plane.url) as http,
        stream(http, "SendStreamingMessage", {"message": text_message(COMMAND)}) as events,
    ):
        return [event async for event in events]


async def test_a_stream_resumes_by_last_event_id_at_every_position(plane: Plane) -> None:
    """P12, C3, C4, C5, W10: cut after k of 200 events, for every k, during the task and after its end."""
    reference = await whole(plane)
    assert [event.generation for event in reference] == list(range(1, EVENTS + 1))
    task_id = task_of(reference)["id"]
    incarnation = reference[0].id.rpartition("-")[0]
    missing = repeated = reordered = 0
    async with client(plane.url) as http:
        for cut in range(EVENTS + 1):
            header = {"Last-Event-ID": f"{incarnation}-{cut}"}
            async with stream(http, "SubscribeToTask", {"id": task_id}, **header) as events:
                rest = [event async for event in events]
            numbers = [event.generation for event in rest]
            missing += len(set(range(cut + 1, EVENTS + 1)) - set(numbers))
            repeated += len(numbers) - len(set(numbers))
            reordered += numbers != sorted(numbers)
            assert [event.result for event in rest[-3:]] == [event.result for event in reference[cut:][-3:]]
    print(f"cut at {EVENTS + 1} positions: missing, repeated, reordered = {missing}, {repeated}, {reordered}")
    assert (missing, repeated, reordered) == (0, 0, 0)


async def test_a_stream_resumes_while_the_task_runs(plane: Plane) -> None:
    """P12: cut in mid-stream, resumed at once, many times over."""
    async with client(plane.url) as http:
        numbers: list[int] = []
        cursor, task_id = "", ""
        async with stream(http, "SendStreamingMessage", {"message": text_message("slow 12")}) as events:
            async for event in events:
                task_id = task_id or task_of([event])["id"]
                numbers.append(event.generation)
                cursor = event.id
                if len(numbers) == 3:
                    break
        ended = False
        while not ended:
            header = {"Last-Event-ID": cursor}
            async with stream(http, "SubscribeToTask", {"id": task_id}, **header) as events:
                async for event in events:
                    numbers.append(event.generation)
                    cursor = event.id
                    if len(numbers) % 3 == 0:
                        break
                else:
                    ended = True
        assert numbers == list(range(1, 16))


async def test_a_watch_over_grpc_resumes_at_every_position(plane: Plane) -> None:
    """P12, C3: by `WatchTask`."""
    reference = await whole(plane)
    task_id = task_of(reference)["id"]
    incarnation = reference[0].id.rpartition("-")[0]
    local = Principal(tenant="default", owner="local", actor="local")
    async with connect(plane.tasks_target) as channel:
        stub = rpc.TaskStoreStub(wrapped(channel, identity=local))

        async def rest(cut: int) -> list[int]:
            request = pb.WatchTaskRequest(task_id=task_id, cursor=f"{incarnation}-{cut}", stop_at=[3])  # type: ignore[list-item]
            numbers: list[int] = []
            ended = False
            async for answer in stub.WatchTask(request):
                assert not ended
                numbers += [event.generation for event in answer.events.events]
                ended = answer.HasField("end")
            assert ended
            return numbers

        found = await asyncio.gather(*(rest(cut) for cut in range(EVENTS + 1)))
    assert found == [list(range(cut + 1, EVENTS + 1)) for cut in range(EVENTS + 1)]


@pytest.mark.parametrize(("cursor", "reason"), [("zzzzzzzzzz-3", "foreign"), ("{incarnation}-999", "ahead")])
async def test_an_unusable_cursor_is_answered_with_a_marked_snapshot(plane: Plane, cursor: str, reason: str) -> None:
    """C4: never a silent gap."""
    reference = await whole(plane)
    task_id = task_of(reference)["id"]
    incarnation = reference[0].id.rpartition("-")[0]
    header = {"Last-Event-ID": cursor.format(incarnation=incarnation)}
    async with (
        client(plane.url) as http,
        stream(http, "SubscribeToTask", {"id": task_id}, **header) as events,
    ):
        rest = [event async for event in events]
    task = task_of(rest)
    assert reason in task["metadata"]["taskplane.dev/resync"].lower()
    assert rest[0].generation == EVENTS
    assert len(rest) == 1
