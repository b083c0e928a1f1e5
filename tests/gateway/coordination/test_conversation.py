"""Long conversations: cached parts are not read again, and changed parts are never shown in their old form."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from tests.gateway.conversing import REWIND, Way, data, flat, invocation, say, texts
from tests.gateway.plane import Json, Plane, fresh, said

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as tb

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEND = Way("1.0", False)


async def session_of(plane: Plane, count: int) -> str:
    context = fresh()
    for number in range(count):
        await say(plane, SEND, context, f"t{number}")
    return context


async def paged(plane: Plane, context: str, limit: int) -> list[Json]:
    """Return the whole conversation, read page by page."""
    messages: list[Json] = []
    before = ""
    while True:
        page = await data(plane, f"/api/sessions/{context}/messages?limit={limit}&before={before}")
        messages[:0] = page["messages"]
        before = page["before"]
        if before is None:
            return messages


async def agree(plane: Plane, context: str) -> list[str]:
    """Check that the conversation equals the flattened tasks, whole and in pages, on repeated reads. Return its
    texts."""
    messages = await flat(plane, context)
    for limit in (1000, 3):
        assert await paged(plane, context, limit) == messages
    return texts(messages)


def echo(*numbers: int) -> list[str]:
    return [f"t{number}" for number in numbers for _ in range(2)]


async def test_a_growing_conversation_equals_its_flattened_tasks(plane: Plane) -> None:
    """T6."""
    context = await session_of(plane, 7)
    assert await agree(plane, context) == echo(*range(7))
    for number in range(7, 13):
        await say(plane, SEND, context, f"t{number}")
        assert await agree(plane, context) == echo(*range(number + 1))


async def test_a_task_deleted_from_the_cached_part_is_not_shown(plane: Plane) -> None:
    """T6, T3: also if another task took its position."""
    context = await session_of(plane, 7)
    await agree(plane, context)
    tasks = await data(plane, f"/api/sessions/{context}/tasks")
    await plane.http.delete(f"/api/tasks/{tasks[1]['id']}")
    gone = tasks[1]["history"][0]["messageId"]
    assert (await plane.http.get(f"/api/sessions/{context}/messages?before={gone}")).status_code == 400
    assert await agree(plane, context) == echo(0, *range(2, 7))
    await plane.http.delete(f"/api/tasks/{tasks[0]['id']}")
    await say(plane, SEND, context, "t7")
    assert await agree(plane, context) == echo(*range(2, 8))


async def test_changes_of_paused_tasks_and_documents_are_shown_at_once(plane: Plane) -> None:
    """T6, I1: a paused task among ended tasks, and a document that is replaced."""
    context = await session_of(plane, 3)
    asked = await plane.send("ask", message={"contextId": context})
    document: Any = {"id": fresh(), "contextId": context, "status": {"state": "completed"}}
    said_by_runtime = {"role": "agent", "messageId": fresh(), "parts": [{"kind": "text", "text": "one"}]}
    await plane.http.post("/api/tasks", json={**document, "history": [said_by_runtime]})
    for number in range(3, 8):
        await say(plane, SEND, context, f"t{number}")
    before = await agree(plane, context)
    assert before[6:9] == ["ask", "What is your name?", "one"]
    await plane.send("Ann", message={"taskId": asked["id"]})
    said_by_runtime["parts"] = [{"kind": "text", "text": "two"}]
    await plane.http.post("/api/tasks", json={**document, "history": [said_by_runtime]})
    assert (await agree(plane, context))[6:11] == ["ask", "What is your name?", "Ann", 'You said: "Ann"', "two"]


async def test_an_equal_message_in_a_later_turn_is_shown_again(plane: Plane) -> None:
    """T6, T12, D10: with the same content and id, at any distance between the two messages."""
    context = await session_of(plane, 7)
    first = (await flat(plane, context))[0]["messageId"]
    await agree(plane, context)
    await plane.result("SendMessage", {"message": said("t0", contextId=context) | {"messageId": first}})
    assert await agree(plane, context) == [*echo(*range(7)), "t0", "t0"]


async def test_a_rewind_is_shown_in_a_cached_conversation(plane: Plane) -> None:
    """R5, T6."""
    context = await session_of(plane, 7)
    await agree(plane, context)
    turn = await invocation(plane, context, "t2")
    await plane.result("SendMessage", SEND.params(context, "", {REWIND: turn}))
    assert await agree(plane, context) == echo(0, 1)
    await say(plane, SEND, context, "t9")
    assert await agree(plane, context) == echo(0, 1, 9)


async def test_documents_are_shown_after_the_messages_of_the_session_task(plane: Plane) -> None:
    """R5, T6: a document beside direct answers and a rewind, page by page."""
    context = await session_of(plane, 3)
    await plane.send("message direct", message={"contextId": context})
    history = [{"role": "agent", "messageId": fresh(), "parts": [{"kind": "text", "text": text}]} for text in "xyz"]
    document: Any = {"id": fresh(), "contextId": context, "status": {"state": "completed"}, "history": history}
    await plane.http.post("/api/tasks", json=document)
    before = await agree(plane, context)
    assert before == [*echo(0, 1, 2), "message direct", "direct", "x", "y", "z"]
    await plane.result("SendMessage", SEND.params(context, "", {REWIND: await invocation(plane, context, "t1")}))
    after = await agree(plane, context)
    assert after[:2] == echo(0)
    gone = (await plane.http.get(f"/api/sessions/{context}/messages?before=none")).json()
    assert (gone["code"], list(gone["fields"])) == ("NO_SUCH_MESSAGE", ["before"])


async def test_sessions_with_the_same_id_have_separate_conversations(plane: Plane) -> None:
    """T6, S4: this holds for another owner, and for a session created after a deletion."""
    context = await session_of(plane, 6)
    await agree(plane, context)
    message = said("mine", contextId=context)
    await plane.result("SendMessage", {"message": message}, x_user_id="ann")
    page = await data(plane, f"/api/sessions/{context}/messages", 200, **{"X-User-Id": "ann"})
    assert texts(page["messages"]) == ["mine", "mine"]
    await plane.http.delete(f"/api/sessions/{context}")
    for number in range(20, 26):
        await say(plane, SEND, context, f"t{number}")
    assert await agree(plane, context) == echo(*range(20, 26))


class DelayedCopies:
    """Delays the copies of the messages of one task before they reach the session, until `release` is set."""

    def __init__(self, plane: Plane, context: str) -> None:
        self.release = asyncio.Event()
        self._context = context
        self._task = ""
        channel = plane.behind.stores.channel
        channel.before.update(CreateTask=self._begin, AppendEntries=self._hold)

    async def _begin(self, request: tb.CreateTaskRequest) -> None:
        if request.context_id == self._context and not self._task:
            self._task = request.task_id

    async def _hold(self, request: sb.AppendEntriesRequest) -> None:
        if any(entry.task_id == self._task and entry.generation > 1 for entry in request.entries):
            await self.release.wait()


@pytest_asyncio.fixture(loop_scope="module")
async def running(plane: Plane) -> AsyncGenerator[tuple[DelayedCopies, str, str], None]:
    """A session with a running task that has three uncopied messages, and a later turn with a direct answer."""
    context = await session_of(plane, 1)
    copies = DelayedCopies(plane, context)
    try:
        task = await plane.send("flood 3", message={"contextId": context}, returnImmediately=True)
        async with asyncio.timeout(30):
            while len(await data(plane, f"/api/tasks/{task['id']}/messages")) < 4:
                await asyncio.sleep(0.01)
        await plane.send("message direct", message={"contextId": context})
        await say(plane, SEND, context, "t1")
        yield copies, context, task["id"]
    finally:
        copies.release.set()
        plane.behind.stores.channel.before.clear()


async def ended(plane: Plane, copies: DelayedCopies, task: str) -> None:
    """Release the copies, and wait for the end of the task, which waits for them."""
    copies.release.set()
    async with asyncio.timeout(30):
        while (await data(plane, f"/api/tasks/{task}"))["status"]["state"] != "completed":
            await asyncio.sleep(0.01)


ORDER = ["t0", "t0", "flood 3", *(f"message {n} of 3" for n in (1, 2, 3)), "message direct", "direct", "t1", "t1"]


async def test_messages_copied_after_a_direct_answer_keep_their_position(
    plane: Plane, running: tuple[DelayedCopies, str, str]
) -> None:
    """T6, R5: messages of a task are read at the position of its turn, copied or not."""
    copies, context, task = running
    for limit in (1000, 3, 1):
        assert texts(await paged(plane, context, limit)) == ORDER
    await ended(plane, copies, task)
    assert texts(await paged(plane, context, 1000)) == ORDER
    assert await agree(plane, context) == ORDER


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6, 7])
async def test_a_turn_copied_between_two_pages_is_shown_exactly_once(
    plane: Plane, running: tuple[DelayedCopies, str, str], limit: int
) -> None:
    """T6: this holds for every limit of a page."""
    copies, context, task = running
    first = await data(plane, f"/api/sessions/{context}/messages?limit={limit}")
    await ended(plane, copies, task)
    before = first["before"]
    rest = await data(plane, f"/api/sessions/{context}/messages?limit=100&before={before}")
    assert texts([*rest["messages"], *first["messages"]]) == ORDER


async def test_messages_filtered_by_kind_are_shown_once(plane: Plane) -> None:
    """T6: page by page, also in a session with a session task."""
    context = await session_of(plane, 1)
    await plane.send("message direct", message={"contextId": context})
    marked = {"contextId": context, "metadata": {"kind": "note"}}
    for text in ("one", "two", "three"):
        await plane.send(f"echo {text}", message=marked)
    wanted = ["echo one", "echo two", "echo three"]
    page = await data(plane, f"/api/sessions/{context}/messages?kind=note&limit=2")
    assert texts(page["messages"]) == wanted[1:]
    older = await data(plane, f"/api/sessions/{context}/messages?kind=note&limit=2&before={page['before']}")
    assert texts(older["messages"]) == wanted[:1] and older["before"] is None
