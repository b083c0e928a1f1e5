"""What every worker must do, whatever it is written in, as a client sees it over HTTP."""

import asyncio

import httpx
from tests.system.wire import Json, call, data, result, send, state_of, stream, text_message, texts_of, until

Task = Json


async def answers(http: httpx.AsyncClient) -> None:
    """A text streams word by word, and the session has the conversation when its client is told of the end."""
    async with stream(http, "SendStreamingMessage", {"message": text_message("one two three")}) as events:
        found = [event async for event in events]
    said = [event.result.get("statusUpdate", {}).get("status", {}).get("message") for event in found]
    texts = [message["parts"][0]["text"] for message in said if message]
    last = found[-1]
    assert state_of(last) == "TASK_STATE_COMPLETED" and texts[-1] == "one two three"
    context = last.result["statusUpdate"]["contextId"]
    history = await data(http, f"/api/sessions/{context}/effective_history")
    assert [each["parts"][0]["text"] for each in history["messages"]] == ["one two three"] * 2


async def makes_artifacts(http: httpx.AsyncClient) -> None:
    """Chunks of an artifact arrive one after the other and make one artifact."""
    async with stream(http, "SendStreamingMessage", {"message": text_message("slow 3")}) as events:
        found = [event async for event in events]
    chunks = [event.result["artifactUpdate"] for event in found if "artifactUpdate" in event.result]
    last = found[-1]
    assert state_of(last) == "TASK_STATE_COMPLETED"
    assert len(chunks) == 3 and chunks[-1]["lastChunk"] and not chunks[0].get("append")
    sent = "".join(part["text"] for chunk in chunks for part in chunk["artifact"]["parts"])
    assert sent == whole(3)
    has_its_artifact(await result(http, "GetTask", {"id": last.result["statusUpdate"]["taskId"]}), 3)


def whole(count: int) -> str:
    """What `slow N` makes: of each chunk its number in eight digits, twice."""
    return "".join(f"{index:08d}" * 2 for index in range(count))


def has_its_artifact(task: Task, count: int) -> None:
    """A task of `slow N` completed with one whole artifact."""
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    (artifact,) = task["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == whole(count)


async def asks(http: httpx.AsyncClient) -> None:
    """A question waits for its answer, which goes on in the same task."""
    asked = (await send(http, "ask Who are you?"))["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    names = {"taskId": asked["id"], "contextId": asked["contextId"]}
    answered = (await send(http, "Ann", **names))["task"]
    assert answered["id"] == asked["id"] and answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts_of(answered) == ["ask Who are you?", "Who are you?", "Ann", 'You said: "Ann"']


async def fails(http: httpx.AsyncClient) -> None:
    """A failure ends the task, and its reason is shown."""
    failed = (await send(http, "fail on purpose"))["task"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert texts_of(failed)[-1] == "on purpose"


async def begins_slowly(http: httpx.AsyncClient, count: int) -> Task:
    """A task that makes an artifact of so many chunks, once the first is there."""
    params = {"message": text_message(f"slow {count}"), "configuration": {"returnImmediately": True}}
    task = dict((await result(http, "SendMessage", params))["task"])

    async def begun() -> bool:
        return bool((await result(http, "GetTask", {"id": task["id"]})).get("artifacts"))

    await until(begun)
    return task


async def is_canceled(http: httpx.AsyncClient, task: Task) -> None:
    """A cancel is final, and nothing comes after it."""
    canceled = await result(http, "CancelTask", {"id": task["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    again = await call(http, "CancelTask", {"id": task["id"]})
    assert "error" in again


async def ends(http: httpx.AsyncClient, task: Task, timeout: float = 30.0) -> Task:
    """The task once it has ended."""

    async def ended() -> Task | None:
        found = await result(http, "GetTask", {"id": task["id"]})
        over = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"}
        return found if found["status"]["state"] in over else None

    return dict(await until(ended, timeout))


async def answers_a_message_that_comes_meanwhile(http: httpx.AsyncClient) -> None:
    """A message to a task that works is answered before it completes."""
    task = await begins_slowly(http, 3)
    names = {"taskId": task["id"], "contextId": task["contextId"]}
    await asyncio.wait_for(send(http, "and this", **names), 30)
    done = await ends(http, task)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts_of(done)[-1] == 'You said: "and this"'
