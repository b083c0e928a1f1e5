"""Restarts and lost processes, after which tasks of the SDK's server stay as they were or fail."""

import asyncio
from pathlib import Path

import httpx
from tests.peer.peers import Asking, Executions, Held, begun, in_state, sdk_on_sqlite
from tests.system.plane import running
from tests.system.recorder import COMPLETED, Record, Recorder
from tests.system.wire import Sse, call, client, send, stream, text_message, texts_of

QUESTIONS = 20
FAILED = "TASK_STATE_FAILED"


async def grown(record: Record, events: int) -> None:
    """Returns once a client has seen so many events."""
    async with asyncio.timeout(30):
        while len(record.generations) < events:
            await asyncio.sleep(0.02)


async def test_w4_after_the_loss_of_an_executor_every_task_and_every_stream_ends(tmp_path: Path) -> None:
    """W4: by the policy of each: one fails, one is run again. There a task that was at work stays so after a
    restart, and a client that follows it still waits when all of ours have ended."""
    seen = Executions()
    file = tmp_path / "sdk.db"
    async with sdk_on_sqlite(Held(seen), file) as peer, client(peer.url) as http:
        left = (await begun(http, "wait"))["id"]
    async with sdk_on_sqlite(Held(seen), file) as peer, client(peer.url) as there:
        assert await in_state(there, left, "TASK_STATE_WORKING")
        told = asyncio.Queue[Sse]()
        waiting = asyncio.create_task(follow(there, left, told))
        assert (await told.get()).result["task"]["id"] == left
        states = await ends_after_a_kill(tmp_path)
        assert states == {"slow 60": FAILED, "rerun 4": COMPLETED}
        assert not waiting.done() and told.empty()
        assert await in_state(there, left, "TASK_STATE_WORKING") and seen.begun == 1
        waiting.cancel()


async def follow(http: httpx.AsyncClient, task_id: str, told: asyncio.Queue[Sse]) -> None:
    """Put the events of a task into a queue."""
    async with stream(http, "SubscribeToTask", {"id": task_id}) as events:
        async for event in events:
            await told.put(event)


async def ends_after_a_kill(folder: Path) -> dict[str, str]:
    """Kill an executor in mid-run; the last state that a client of each of its tasks sees."""
    async with running("four", folder) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        async with asyncio.TaskGroup() as group:
            for text in ("slow 60", "rerun 4"):
                group.create_task(recorder.follow(text))
                await asyncio.sleep(0)
                await grown(recorder.records[-1], 3)
            await plane.kill("executor")
            await plane.start("executor")
        assert recorder.faults() == []
        assert {record.reconnects for record in recorder.records} == {0}
        return {record.text: record.state for record in recorder.records}


async def test_w7_a_follow_up_with_the_task_id_alone_is_answered_after_a_restart(tmp_path: Path) -> None:
    """W7: 20 of 20, in their contexts, after a SIGKILL. There the follow-up, answered
    before, is refused after it, and its task fails."""
    file = tmp_path / "sdk.db"
    async with sdk_on_sqlite(Asking(), file) as peer, client(peer.url) as http:
        first, second = [(await send(http, "ask"))["task"]["id"] for _ in range(2)]
        assert (await send(http, "blue", taskId=first))["task"]["status"]["state"] == COMPLETED
    async with sdk_on_sqlite(Asking(), file) as peer, client(peer.url) as http:
        refused = await call(http, "SendMessage", {"message": text_message("blue", taskId=second)})
        assert refused["error"]["code"] == -32602
        assert await in_state(http, second, FAILED)
    async with running("one", tmp_path) as plane:
        async with client(plane.url) as http:
            asked = await asyncio.gather(*(send(http, "ask") for _ in range(QUESTIONS)))
        await plane.kill("dev")
        await plane.start("dev")
        async with client(plane.url) as http:
            answers = (send(http, "blue", taskId=each["task"]["id"]) for each in asked)
            for before, after in zip(asked, await asyncio.gather(*answers), strict=True):
                task = after["task"]
                assert (task["id"], task["contextId"]) == (before["task"]["id"], before["task"]["contextId"])
                assert texts_of(task) == ["ask", "What is your name?", "blue", 'You said: "blue"']
