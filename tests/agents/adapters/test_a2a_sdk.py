"""Executors of the A2A SDK: cases beyond the scenarios of all adapters."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.compat.v0_3 import types as old
from a2a.helpers import new_task_from_user_message, new_text_artifact, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import AgentCard as SdkCard
from a2a.types import Part, TaskState
from a2a.utils.errors import InvalidParamsError
from tests.executor.plane import Held, Stores, open_plane, shown, text, until

from taskplane.agents.adapters import adapt
from taskplane.agents.agent import Policy
from taskplane.agents.loading import load_agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Invalid

Work = Callable[[RequestContext, EventQueue], Awaitable[None]]


class Doing(AgentExecutor):
    """Does the given work; remembers its contexts, and how it was stopped."""

    def __init__(self, work: Work, *, stop: Work | None = None) -> None:
        self.contexts: list[RequestContext] = []
        self.stops: list[RequestContext] = []
        self._work = work
        self._stop = stop

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.contexts.append(context)
        await self._work(context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.stops.append(context)
        if self._stop is not None:
            await self._stop(context, event_queue)


def updater(context: RequestContext, events: EventQueue) -> TaskUpdater:
    return TaskUpdater(events, context.task_id or "", context.context_id or "")


async def begin(context: RequestContext, events: EventQueue) -> TaskUpdater:
    if context.current_task is None:
        assert context.message is not None
        await events.enqueue_event(new_task_from_user_message(context.message))
    return updater(context, events)


async def ran(stores: Stores, executor: AgentExecutor, words: str = "go", **options: Any) -> a2a.Task:
    async with open_plane(stores, ("a", adapt(executor, "a"))) as plane:
        return await plane.run(words, **options)


async def test_a_single_message_is_a_direct_answer_without_a_task(stores: Stores) -> None:
    """P2: as on the SDK's server; the executor was started once."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        await events.enqueue_event(new_text_message(f"Hello, {context.get_user_input()}."))

    executor = Doing(work)
    async with open_plane(stores, ("a", adapt(executor, "a"))) as plane:
        answer = await plane.submit("Ann")
        assert text(answer.message) == "Hello, Ann." and not answer.HasField("task")
        assert await plane.conversation(answer.message.context_id) == ["Ann", "Hello, Ann."]
    assert len(executor.contexts) == 1


async def test_an_execution_begun_while_routing_continues_in_its_task(stores: Stores) -> None:
    """P2: it is neither repeated nor stopped when the task is created."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        await (await begin(context, events)).complete(new_text_message("done"))

    executor = Doing(work)
    task = await ran(stores, executor)
    assert task.status.state == a2a.TASK_STATE_COMPLETED and len(executor.contexts) == 1


async def test_an_executor_gets_the_same_context_as_on_the_server_of_the_sdk(stores: Stores) -> None:
    """P1, I1, I3: ids, texts, options of the request, the caller, referenced tasks; from the second message on the
    task, paused with its question, and without that message."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        if context.get_user_input() == "go":
            await task.requires_input(new_text_message("Whom?"))
        else:
            await task.complete(new_text_message("done"))

    executor = Doing(work)
    async with open_plane(stores, ("a", adapt(executor, "a"))) as plane:
        other = await plane.run("other", agent="a")
        request = a2a.SendMessageRequest(message=a2a.Message(message_id="m-1", role=a2a.ROLE_USER))
        request.message.parts.add(text="go")
        request.message.reference_task_ids.append(other.id)
        request.message.context_id = other.context_id
        request.configuration.accepted_output_modes.append("text/markdown")
        request.metadata["level"] = 3
        asked = await plane.at_rest(
            await plane.executor().Submit(_submit(request, extensions=["https://example.org/extension"]))
        )
        await plane.run("Ann", task_id=asked.id, context_id=asked.context_id)
    _, first, second = executor.contexts
    assert (first.task_id, first.context_id) == (asked.id, asked.context_id) and first.current_task is None
    assert first.message is not None and first.message.message_id == "m-1"
    assert first.metadata == {"level": 3.0} and first.requested_extensions == {"https://example.org/extension"}
    assert first.configuration is not None and list(first.configuration.accepted_output_modes) == ["text/markdown"]
    assert (first.tenant, first.call_context.user.user_name) == ("tenant", "ann")
    assert first.call_context.user.is_authenticated
    assert [task.id for task in first.related_tasks] == [other.id]
    task = second.current_task
    assert task is not None and task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert task.status.message.parts[0].text == "Whom?"
    assert [message.parts[0].text for message in task.history] == ["go"] and second.get_user_input() == "Ann"


async def test_a_whole_task_in_one_event_is_stored(stores: Stores) -> None:
    """P5: its artifacts with their metadata, its status, and its message."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        task.status.state = TaskState.TASK_STATE_COMPLETED
        task.status.message.CopyFrom(new_text_message("done"))
        task.artifacts.append(new_text_artifact("Report", "one two", artifact_id="r"))
        task.artifacts[0].metadata["pages"] = 2
        await events.enqueue_event(task)

    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_COMPLETED and text(task.status.message) == "done"
    assert task.artifacts[0].name == "Report" and task.artifacts[0].metadata["pages"] == 2


async def test_a_long_artifact_is_cut_into_chunks_that_can_be_stored(stores: Stores) -> None:
    """P5, P7: 3 MiB in one event, though a chunk has at most 1 MiB."""
    long = "é" * (3 * 512 * 1024)

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        await task.add_artifact([Part(text=long), Part(data={"number_value": 1})], "r", last_chunk=True)
        await task.complete()

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        task_id = (await plane.submit("go")).task.task_id
        await plane.reaches(task_id, a2a.TASK_STATE_COMPLETED)
        task = await plane.task(task_id)
    assert [part.WhichOneof("content") for part in task.artifacts[0].parts] == ["text", "data"]
    assert task.artifacts[0].parts[0].text == long


async def test_an_executor_waits_while_the_log_is_behind(stores: Stores) -> None:
    """P7: backpressure reaches the executor."""
    sent = 0

    async def work(context: RequestContext, events: EventQueue) -> None:
        nonlocal sent
        task = await begin(context, events)
        for _ in range(3000):
            await task.update_status(TaskState.TASK_STATE_WORKING, new_text_message("more"))
            sent += 1
        await task.complete()

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        held = Held(stores, "AppendEvents")
        reference = await plane.submit("go")
        await held.reached.wait()
        await until(lambda: all(run.outbox.blocked for run in plane.service.runs.active))
        assert 0 < sent < 2000
        held.let_go.set()
        await plane.at_rest(reference)
    assert sent == 3000


async def test_a_request_for_input_followed_by_more_events_does_not_pause_the_task(stores: Stores) -> None:
    """P2, I1: an executor may ask for input or authentication and continue without an answer; its question is stored
    once, and a login elsewhere is shown at once."""
    logged_in = asyncio.Event()

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        await task.requires_input(new_text_message("Who are you?"))
        await task.requires_auth(new_text_message("Open https://example.org/login"))
        await logged_in.wait()
        await task.complete(new_text_message("done"))

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        reference = await plane.submit("go")
        await shown(plane, reference.task.task_id, "example.org/login")
        logged_in.set()
        task = await plane.at_rest(reference)
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert await plane.conversation(task.context_id) == [
            "go",
            "Who are you?",
            "Open https://example.org/login",
            "done",
        ]


async def test_a_pause_for_authentication_ends_the_run(stores: Stores) -> None:
    """I1: like a pause for input."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        await (await begin(context, events)).requires_auth(new_text_message("Log in"))

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_AUTH_REQUIRED and text(task.status.message) == "Log in"
        assert await plane.conversation(task.context_id) == ["go", "Log in"]


async def test_a_cancel_reaches_an_executor_while_it_executes(stores: Stores) -> None:
    """P8, P11: `cancel` comes first and may send events, `execute` is cancelled after it, and both end."""
    order: list[str] = []

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        await task.start_work(new_text_message("begun"))
        try:
            await asyncio.Event().wait()
        finally:
            order.append("execute ends")

    async def stop(context: RequestContext, events: EventQueue) -> None:
        order.append("cancel")
        await updater(context, events).cancel()
        order.append("cancel ends")

    executor = Doing(work, stop=stop)
    async with open_plane(stores, ("a", adapt(executor, "a"))) as plane:
        task_id = (await plane.submit("go")).task.task_id
        await shown(plane, task_id, "begun")
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        await until(lambda: not plane.service.runs.active)
        assert (await plane.task(task_id)).status.state == a2a.TASK_STATE_CANCELED
    assert order == ["cancel", "cancel ends", "execute ends"]
    assert executor.stops[0].message is None and executor.stops[0].task_id == task_id


async def test_a_hanging_cancel_is_stopped(stores: Stores) -> None:
    """P8, P11: after the `cancel_grace` of the executor."""
    ended = asyncio.Event()

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        await task.start_work(new_text_message("begun"))
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def stop(context: RequestContext, events: EventQueue) -> None:
        await asyncio.Event().wait()

    async with open_plane(stores, ("a", adapt(Doing(work, stop=stop), "a")), cancel_grace=0.2) as plane:
        task_id = (await plane.submit("go")).task.task_id
        await shown(plane, task_id, "begun")
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        await until(lambda: not plane.service.runs.active)
        assert ended.is_set()


async def test_an_executor_that_returns_without_a_final_event_completes_its_task(stores: Stores) -> None:
    """P3: on the SDK's server its task would work for ever."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        await (await begin(context, events)).start_work(new_text_message("That is all."))

    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_COMPLETED


async def test_an_executor_that_sends_nothing_fails_its_task(stores: Stores) -> None:
    """P9: as on the SDK's server."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        return

    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_FAILED and text(task.status.message) == "The agent gave no answer."


async def _other_task(context: RequestContext, events: EventQueue) -> None:
    await begin(context, events)
    await TaskUpdater(events, "other", context.context_id or "").complete()


async def _other_context(context: RequestContext, events: EventQueue) -> None:
    await begin(context, events)
    await TaskUpdater(events, context.task_id or "", "other").complete()


async def _message_after_task(context: RequestContext, events: EventQueue) -> None:
    await begin(context, events)
    await events.enqueue_event(new_text_message("hello"))


async def _appended_to_nothing(context: RequestContext, events: EventQueue) -> None:
    await (await begin(context, events)).add_artifact([Part(text="x")], "r", append=True)


@pytest.mark.parametrize("work", [_other_task, _other_context, _message_after_task, _appended_to_nothing])
async def test_an_event_that_the_server_of_the_sdk_refuses_fails_the_task(stores: Stores, work: Work) -> None:
    """P9: an event of another task, a message on a task, a chunk of an artifact without a beginning."""
    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert task.status.message.metadata.fields["reason"].string_value == "AGENT_ERROR"


async def test_the_text_of_a_protocol_error_is_shown_to_the_user(stores: Stores) -> None:
    """P9: as on the SDK's server; the text of any other exception is not."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        raise InvalidParamsError(message="Name a city.")

    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_FAILED and text(task.status.message) == "Name a city."


async def test_a_failed_or_rejected_task_has_the_text_of_the_executor(stores: Stores) -> None:
    """P9: as its status message."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        message = new_text_message("Not today.")
        await (task.reject(message) if context.get_user_input() == "reject" else task.failed(message))

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        rejected, failed = await plane.run("reject"), await plane.run("fail")
    assert rejected.status.state == a2a.TASK_STATE_REJECTED and text(rejected.status.message) == "Not today."
    assert failed.status.state == a2a.TASK_STATE_FAILED and text(failed.status.message) == "Not today."


async def test_an_executor_with_the_policy_of_a_thread_runs_in_a_thread(stores: Stores) -> None:
    """P1: no part of it runs in the event loop."""
    threads: set[str] = set()

    async def work(context: RequestContext, events: EventQueue) -> None:
        threads.add(threading.current_thread().name)
        await (await begin(context, events)).complete(new_text_message("done"))

    agent = adapt(Doing(work), "a", Policy(isolation="thread"))
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert all(name.startswith("taskplane-agent") for name in threads)


async def test_an_event_from_another_event_loop_fails_at_once(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    """P9: the log has the remedy, which works."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        task = await begin(context, events)
        here = asyncio.get_running_loop()

        def elsewhere() -> None:
            said = task.update_status(TaskState.TASK_STATE_WORKING, new_text_message("from there"))
            if context.get_user_input() == "rightly":
                asyncio.run_coroutine_threadsafe(said, here).result(10)
            else:
                asyncio.run(said)

        await asyncio.to_thread(elsewhere)
        await task.complete(new_text_message("done"))

    async with open_plane(stores, ("a", adapt(Doing(work), "a"))) as plane:
        async with asyncio.timeout(20):
            wrongly = await plane.run("wrongly")
        assert wrongly.status.state == a2a.TASK_STATE_FAILED
        assert "run_coroutine_threadsafe" in caplog.text
        rightly = await plane.run("rightly")
        assert rightly.status.state == a2a.TASK_STATE_COMPLETED
        assert "from there" in await plane.conversation(rightly.context_id)


async def test_events_of_an_older_sdk_are_refused_with_the_remedy(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: 0.3 code needs an environment of its own."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        part = old.Part(root=old.TextPart(text="hello"))
        await events.enqueue_event(old.Message(message_id="m", role=old.Role.agent, parts=[part]))  # type: ignore[arg-type]

    task = await ran(stores, Doing(work))
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "a2a-sdk 0.3" in caplog.text and "remote agent" in caplog.text


def test_code_of_an_older_sdk_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: the code cannot be imported; the error names a remote agent as the way to serve it."""
    for number, line in enumerate(
        ("from a2a.types import TextPart", "from a2a.server.apps import A2AStarletteApplication")
    ):
        (tmp_path / f"written_for_0_3_{number}.py").write_text(f"{line}\n")
        monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
        with pytest.raises(Invalid, match="could not be imported") as refused:
            load_agents([f"written_for_0_3_{number}:agent"])
        assert "a2a-sdk 0.3" in refused.value.suggestion and "remote agent" in refused.value.suggestion


def test_an_agent_has_the_card_of_its_executor_or_one_made_of_its_name() -> None:
    """P1: made of name and docstring. The interfaces of the executor's card are left out."""

    async def work(context: RequestContext, events: EventQueue) -> None:
        return

    plain = adapt(Doing(work), "worker").card
    assert (plain.name, plain.version) == ("worker", "1") and plain.description.startswith("Does the given work")
    executor = Doing(work)
    executor.agent_card = SdkCard(name="Painter", version="3")  # type: ignore[attr-defined]
    executor.agent_card.supported_interfaces.add(url="http://elsewhere")  # type: ignore[attr-defined]
    card = adapt(executor, "worker").card
    assert (card.name, card.version, len(card.supported_interfaces)) == ("Painter", "3", 0)


def _submit(request: a2a.SendMessageRequest, **fields: Any) -> Any:
    return pb.SubmitRequest(request=request, **fields)
