"""Deleting a session leaves no task without a session. S4, C6. Deleted words: see `test_deleted_words`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import BOB, Held, Plane, Stores, eventually, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import ArtifactChunk, AskInput, Change, Complete, Fail, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import NotFound, Unavailable

SCRIPTS: dict[str, list[Change]] = {
    "says": [Complete("answer")],
    "streams": [Text("an"), Text("swer")],
    "is silent": [ArtifactChunk("a", text="x"), Complete()],
    "asks": [AskInput("which?")],
    "fails": [Fail("no")],
    "is wrong": [ArtifactChunk("a", text="x", append=True)],
}


def scripted(changes: list[Change]) -> Scripted:
    async def run(turn: Turn) -> AsyncIterator[Change]:
        for change in changes:
            yield change

    return Scripted(run)


async def delete(plane: Plane, context_id: str = "c") -> None:
    await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id=context_id))


async def there(plane: Plane) -> tuple[bool, list[str]]:
    """Whether the session is there, and its tasks."""
    listed = await plane.stores.tasks().ListTasks(tasks.ListTasksRequest(context_id="c"))
    ids = [record.id for record in listed.records]
    try:
        await plane.stores.sessions().GetSession(sessions.GetSessionRequest(context_id="c"))
    except NotFound:
        return False, ids
    return True, ids


async def submit_under_deletion(plane: Plane) -> str:
    """Returns the id of a task that is committed only after the deletion of its session has returned."""
    held = Held(plane.stores, "CreateTask")
    sending = asyncio.create_task(plane.submit("one", context_id="c"))
    await held.reached.wait()
    await eventually(lambda: there(plane), lambda found: found[0])
    await delete(plane)
    assert await there(plane) == (False, [])
    held.let_go.set()
    return (await sending).task.task_id


@pytest.mark.parametrize("earlier", [False, True], ids=["begins the session", "goes on"])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_task_created_after_its_session_was_deleted_is_deleted_by_its_run(
    stores: Stores, name: str, earlier: bool
) -> None:
    """S4: the last listing of the deletion could not see the task, with any output of the run."""
    agent = scripted(SCRIPTS[name])
    async with open_plane(stores, ("a", agent)) as plane:
        if earlier:
            await plane.run("zero", context_id="c")
        agent.turns.clear()
        task_id = await submit_under_deletion(plane)
        await eventually(lambda: there(plane), lambda found: found == (False, []))
        with pytest.raises(NotFound):
            await plane.task(task_id)
        # A run that reads the conversation notices the deletion before it begins.
        assert len(agent.turns) == (0 if earlier else 1)


async def test_a_queued_task_created_after_its_session_was_deleted_is_deleted(stores: Stores) -> None:
    """S4: it has no run, so the executor that took the message checks the session."""
    async with open_plane(stores, ("a", scripted(SCRIPTS["says"])), capacity=0) as plane:
        await submit_under_deletion(plane)
        await eventually(lambda: there(plane), lambda found: found == (False, []))


@pytest.mark.parametrize("earlier", [False, True], ids=["begins the session", "goes on"])
async def test_no_message_is_marked_as_copied_before_the_session_was_seen_after_the_task_exists(
    stores: Stores, earlier: bool
) -> None:
    """C6: otherwise a task without a session would look like a copied task."""
    go_on = asyncio.Event()

    async def run(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("a", text="x")
        if turn.text == "one":
            await go_on.wait()

    async with open_plane(stores, ("a", Scripted(run))) as plane:
        if earlier:
            await plane.run("zero", context_id="c")
        reference = await plane.submit("one", context_id="c")
        record = await eventually(
            lambda: plane.record(reference.task.task_id), lambda record: len(record.task.artifacts) == 1
        )
        assert record.copied_generation == (1 if earlier else 0)
        go_on.set()
        await plane.at_rest(reference)
        assert (await plane.record(record.id)).copied_generation == 1


async def test_the_task_of_a_lost_run_gets_a_new_session_if_its_own_was_deleted(stores: Stores) -> None:
    """C6, C9: the next copy of the task creates the session again."""

    async def run(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("a", text="x")
        await asyncio.Event().wait()

    async with open_plane(stores, ("a", Scripted(run)), drain_timeout=0.0) as plane:
        task_id = await submit_under_deletion(plane)
        await eventually(lambda: plane.task(task_id), lambda task: len(task.artifacts) == 1)
    async with open_plane(stores, ("a", Scripted(run))) as plane:
        await eventually(lambda: there(plane), lambda found: found == (True, [task_id]))
        said = await eventually(lambda: plane.conversation("c"), lambda said: len(said) == 2)
        assert said[0] == "one" and "lost" in said[1]


async def test_a_failed_deletion_of_a_session_is_finished_by_a_repeat(stores: Stores) -> None:
    """S4: also if the session is deleted and a task exists."""
    async with open_plane(stores, ("a", scripted(SCRIPTS["says"]))) as plane:
        await plane.run("one", context_id="c")
        calls = 0

        async def fail(request: Any) -> None:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise Unavailable("the store is away")

        stores.channel.before["GetSession"] = fail
        held = Held(stores, "CreateTask")
        sending = asyncio.create_task(plane.submit("two", context_id="c"))
        await held.reached.wait()
        await eventually(lambda: plane.conversation("c"), lambda said: "two" in said)
        with pytest.raises(Unavailable):
            await delete(plane)
        del stores.channel.before["GetSession"]
        document = a2a.Task(id="left", context_id="c", status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING))
        await stores.tasks().PutTask(tasks.PutTaskRequest(task=document))
        await delete(plane)
        assert await there(plane) == (False, [])
        with pytest.raises(NotFound):
            await delete(plane)
        held.let_go.set()
        await sending
        await eventually(lambda: there(plane), lambda found: found == (False, []))


async def test_a_task_with_copied_messages_is_not_deleted_if_its_session_is_missing(stores: Stores) -> None:
    """The session is deleted in the store directly, after the task was copied."""
    async with open_plane(stores, ("a", scripted(SCRIPTS["asks"]))) as plane:
        asked = await plane.run("one", context_id="c")
        await eventually(lambda: plane.record(asked.id), lambda record: record.copied_generation > 1)
        await stores.sessions().DeleteSession(sessions.DeleteSessionRequest(context_id="c"))
        again = await plane.run("two", task_id=asked.id)
        assert text(again.status.message) == "which?"
        assert await there(plane) == (False, [asked.id])


async def delete_task(plane: Plane, task_id: str) -> None:
    await plane.executor().DeleteTask(pb.DeleteTaskRequest(task_id=task_id))


async def test_a_task_without_a_session_and_a_document_can_be_deleted(stores: Stores) -> None:
    async with open_plane(stores, ("a", scripted(SCRIPTS["says"]))) as plane:
        task = await plane.run("go", context_id="c")
        await stores.sessions().DeleteSession(sessions.DeleteSessionRequest(context_id="c"))
        document = a2a.Task(id="d", context_id="c", status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING))
        await stores.tasks().PutTask(tasks.PutTaskRequest(task=document))
        for task_id in (task.id, "d"):
            await delete_task(plane, task_id)
        assert await there(plane) == (False, [])


async def test_deleting_the_task_of_another_user_is_not_found(stores: Stores) -> None:
    """I3: the task is not canceled either."""
    async with open_plane(stores, ("a", scripted(SCRIPTS["asks"]))) as plane:
        task = await plane.run("go", context_id="c")
        with pytest.raises(NotFound):
            await plane.executor(BOB).DeleteTask(pb.DeleteTaskRequest(task_id=task.id))
        assert (await plane.record(task.id)).state == a2a.TASK_STATE_INPUT_REQUIRED
