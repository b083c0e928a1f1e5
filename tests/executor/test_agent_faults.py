"""Faulty agents fail their task with a plain sentence, and never end the executor."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.executor.plane import Held, Plane, Stores, open_plane, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
    AgentCard,
    AgentError,
    ArtifactChunk,
    Change,
    Complete,
    Fail,
    Message,
    Part,
    Policy,
    Reject,
    Say,
    Text,
    Turn,
    Working,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

SECRET = "password=hunter2"
UNEXPECTED = "The agent failed unexpectedly; its log has the cause under "
Fault = Callable[[], Any]


def _raise(error: BaseException) -> None:
    raise error


FAULTS: dict[str, Fault] = {
    "exception": lambda: _raise(RuntimeError(SECRET)),
    "exit": lambda: sys.exit(3),
    "canceled": lambda: _raise(asyncio.CancelledError(SECRET)),
    "closed": lambda: _raise(GeneratorExit(SECRET)),
    "text": lambda: Text(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "working": lambda: Working(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "fail": lambda: Fail(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "reject": lambda: Reject(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "say": lambda: Say(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "complete": lambda: Complete(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "chunk": lambda: ArtifactChunk("a", text=5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "none": lambda: None,
    "dict": lambda: {"text": "words"},
}


async def _fails(plane: Plane, words: str = "go") -> a2a.Task:
    task = await plane.run(words)
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message).startswith(UNEXPECTED)
    assert SECRET not in str(task)
    updates = [event.event.status_update for event in await plane.events(task.id, tasks.EVENT_KIND_STATUS)]
    (end,) = [update for update in updates if update.status.state == a2a.TASK_STATE_FAILED]
    assert end.metadata.fields["reason"].string_value == "AGENT_ERROR"
    return task


async def _lives(plane: Plane) -> None:
    """Checks that the executor works and that no run is left."""
    await until(lambda: not plane.service.runs.active)
    assert not plane.service.runs.bugs


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_an_agent_fails_its_own_task_only(
    stores: Stores, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """P9: the author finds it in the log; the text for clients points there."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "well":
            yield Complete("well")
            return
        yield FAULTS[fault]()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        await _fails(plane)
        assert text((await plane.run("well")).status.message) == "well"
        await _lives(plane)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[2] is not None or fault in ("none", "dict")


@pytest.mark.parametrize("fault", ["exception", "exit", "canceled", "closed"])
async def test_a_fault_before_the_first_change_fails_its_own_task_only(stores: Stores, fault: str) -> None:
    """P9: in a `run` that is not a generator, in a policy and in a router."""

    class Faulty:
        card = AgentCard(name="faulty", version="1")

        def run(self, turn: Turn) -> AsyncIterator[Change]:
            result: AsyncIterator[Change] = FAULTS[fault]()
            return result

        def policy(self, turn: Turn) -> Any:
            return FAULTS[fault]()

    class Routed(Faulty):
        async def route(self, turn: Turn) -> Message | str | None:
            answer: str | None = FAULTS[fault]()
            return answer

    for agent in (Faulty(), Routed()):
        async with open_plane(stores, ("a", agent)) as plane:
            await _fails(plane)
            await _lives(plane)


@pytest.mark.parametrize("returned", [None, [], 5, "words"], ids=str)
async def test_a_run_that_is_not_a_generator_fails_its_task(stores: Stores, returned: Any) -> None:
    """P9: the executor serves other tasks."""

    class Plain:
        card = AgentCard(name="plain", version="1")

        def run(self, turn: Turn) -> Any:
            return returned

    async with open_plane(stores, ("a", Plain())) as plane:
        await _fails(plane)
        await _lives(plane)


async def _a_policy() -> Policy:
    return Policy()


POLICIES: dict[str, Fault] = {
    "none": lambda: None,
    "text": lambda: "queue",
    "dict": lambda: {"strategy": "queue"},
    "strategy": lambda: Policy(strategy="nonsense"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "attempts": lambda: Policy(max_attempts=-1),
    "many attempts": lambda: Policy(max_attempts=10**12),
    "coroutine": _a_policy,
    "exit": lambda: sys.exit(4),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "exception": lambda: _raise(ValueError(SECRET)),
}


@pytest.mark.parametrize("capacity", [64, 1])
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_task_with_an_invalid_policy_fails_before_it_runs(
    stores: Stores, caplog: pytest.LogCaptureFixture, policy: str, capacity: int
) -> None:
    """P9: also if it waits for its run first; the log names the policy."""
    began, let_go = asyncio.Event(), asyncio.Event()

    class Nonsense(Scripted):
        def policy(self, turn: Turn) -> Any:
            return POLICIES[policy]() if turn.text == "go" else Policy()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        assert turn.text == "first"
        began.set()
        await let_go.wait()
        yield Complete("well")

    async with open_plane(stores, ("a", Nonsense(script)), capacity=capacity) as plane:
        await plane.submit("first")
        await began.wait()
        reference = await plane.submit("go")
        let_go.set()
        task = await plane.at_rest(reference)
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message).startswith(UNEXPECTED) and SECRET not in str(task)
        await _lives(plane)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the policy of agent a" in str(record.exc_info and record.exc_info[1])


@pytest.mark.parametrize("late", ["exit", "canceled", "closed", "exception"])
async def test_a_fault_after_the_end_changes_nothing(stores: Stores, late: str) -> None:
    """C7: after its final change, or while it is closed."""

    async def after(turn: Turn) -> AsyncIterator[Change]:
        yield Complete("well")
        FAULTS[late]()

    async def closing(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        finally:
            FAULTS[late]()

    for script in (after, closing):
        async with open_plane(stores, ("a", Scripted(script))) as plane:
            task = await plane.run("go")
            assert text(task.status.message) == "well" or script is closing
            await _lives(plane)


async def test_the_text_of_an_agent_error_or_a_fail_reaches_the_user(stores: Stores) -> None:
    """P9: a text with the same words is not repeated, a complete one not marked as interrupted."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("The disk is full.")
        if turn.text == "raise":
            raise AgentError("Try again tomorrow.")
        yield Fail("The disk is full." if turn.text == "same" else "Try again tomorrow.")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        for words, said, marks in (
            ("same", ["The disk is full."], [False]),
            ("other", ["The disk is full.", "Try again tomorrow."], [False, False]),
            ("raise", ["The disk is full.", "Try again tomorrow."], [True, False]),
        ):
            task = await plane.run(words)
            assert task.status.state == a2a.TASK_STATE_FAILED
            messages = [*task.history[1:], task.status.message]
            assert [text(message) for message in messages] == said
            assert ["interrupted" in message.metadata.fields for message in messages] == marks
            await _lives(plane)
            assert (await plane.conversation(task.context_id))[1:] == said


@pytest.mark.parametrize(("size", "fits"), [(1024 * 1024, True), (1024 * 1024 + 1, False)])
@pytest.mark.parametrize("content", ["text", "raw", "letters"])
async def test_a_chunk_of_more_than_one_mebibyte_fails_its_task(
    stores: Stores, content: str, size: int, fits: bool
) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        match content:
            case "text":
                yield ArtifactChunk("a", text="x" * size)
            case "raw":
                yield ArtifactChunk("a", raw=b"x" * size)
            case _:
                yield ArtifactChunk("a", text="é" * (size // 2) + "x" * (size % 2))

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        if not fits:
            await _fails(plane)
            return
        reference = (await plane.submit("go")).task
        await until(lambda: not plane.service.runs.active)
        task = await plane.task(reference.task_id)
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert len(task.artifacts[0].parts[0].raw or task.artifacts[0].parts[0].text.encode()) == size


async def test_a_canceled_run_logs_no_error(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    """P8: the task is canceled, and the executor serves other tasks."""
    begun = asyncio.Event()
    forever: Callable[[], Awaitable[Any]] = asyncio.Event().wait

    async def script(turn: Turn) -> AsyncIterator[Change]:
        begun.set()
        await forever()
        yield Complete()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await begun.wait()
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
        await _lives(plane)
        assert (await plane.task(reference.task.task_id)).status.state == a2a.TASK_STATE_CANCELED
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("caught", [True, False])
@pytest.mark.parametrize("by_itself", [True, False])
async def test_an_agent_that_is_cancelled_by_its_own_code_gets_the_exception(
    stores: Stores, caught: bool, by_itself: bool
) -> None:
    """P9: by its own timeout, or the cancellation of its current task, while it waits for the log."""
    ended = asyncio.Event()
    held = Held(stores, "AppendEvents")

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if by_itself:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_later(0.05, task.cancel)
        try:
            async with asyncio.timeout(None if by_itself else 0.05):
                while True:
                    yield Say("x" * 2000)
        except (TimeoutError, asyncio.CancelledError) as error:
            assert isinstance(error, TimeoutError) is not by_itself
            ended.set()
            if not caught:
                raise
            yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await asyncio.wait_for(ended.wait(), 30)
        held.let_go.set()
        task = await plane.at_rest(reference)
        if caught:
            assert text(task.status.message) == "well"
        else:
            assert text(task.status.message).startswith(UNEXPECTED)
        await _lives(plane)


async def test_an_agent_that_cancels_its_task_at_the_end_does_not_cancel_its_run(stores: Stores) -> None:
    """P9: the end is committed meanwhile."""
    mine: list[asyncio.Task[Any]] = []
    held = Held(stores, "AppendEvents")

    async def script(turn: Turn) -> AsyncIterator[Change]:
        task = asyncio.current_task()
        assert task is not None
        mine.append(task)
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await held.reached.wait()
        mine[0].cancel()
        held.let_go.set()
        assert text((await plane.at_rest(reference)).status.message) == "well"
        await _lives(plane)


@pytest.mark.parametrize("said", ["a\0b", "a\ud800b", "\0"], ids=ascii)
async def test_the_text_of_an_agent_error_can_be_stored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """P9: characters that no database stores are replaced."""
    # Pytest could not pass its captured output between processes.
    monkeypatch.setattr(logging.getLogger("taskplane.agents.faults"), "disabled", True)

    async def script(turn: Turn) -> AsyncIterator[Change]:
        raise AgentError(said)
        yield Complete()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message) == "".join(c if c in "ab" else "\ufffd" for c in said)
        await _lives(plane)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"run_limit": "x"}, "run_limit"),
        ({"run_limit": float("nan")}, "run_limit"),
        ({"run_limit": -5}, "run_limit"),
        ({"max_attempts": "x"}, "max_attempts"),
        ({"max_attempts": 1.5}, "max_attempts"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_attempts": 10**12}, "max_attempts"),
        ({"strategy": "nonsense"}, "nonsense"),
    ],
    ids=str,
)
def test_an_invalid_policy_cannot_be_created(fields: dict[str, Any], named: str) -> None:
    """P9: the error names the wrong field."""
    with pytest.raises((TypeError, ValueError), match=named):
        Policy(**fields)


@pytest.mark.parametrize("error", [SystemExit(9), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("how", ["awaited", "group", "forgotten", "callback", "stop"])
async def test_an_exit_in_the_thread_of_an_agent_ends_no_other_run(
    stores: Stores, error: BaseException, how: str
) -> None:
    """P9: an await of a task that exits raises its exception, and the loop of the thread continues."""

    async def leave() -> None:
        await asyncio.sleep(0)
        raise error

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text != "well":
            match how:
                case "awaited":
                    await asyncio.ensure_future(leave())
                case "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(leave())
                case "forgotten":
                    await asyncio.wait([asyncio.ensure_future(leave())])
                case "callback":
                    asyncio.get_running_loop().call_soon(_raise, error)
                case _:
                    asyncio.get_running_loop().stop()
            await asyncio.sleep(0)
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script, policy=Policy(isolation="thread")))) as plane:
        if how in ("awaited", "group"):
            await _fails(plane)
        else:
            assert text((await plane.run("go")).status.message) == "well"
        assert text((await plane.run("well")).status.message) == "well"
        await _lives(plane)


REFUSED = Message(message_id="a\0b", parts=[Part(text="said")])


@pytest.mark.parametrize(
    "change",
    [ArtifactChunk("a\0b", text="x"), Say(REFUSED), Fail(REFUSED), Complete(REFUSED)],
    ids=lambda change: type(change).__name__,
)
async def test_a_change_that_the_store_refuses_fails_its_task_with_a_plain_sentence(
    stores: Stores, caplog: pytest.LogCaptureFixture, change: Change
) -> None:
    """P9: the text of the store is in the log."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield change

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        await _fails(plane)
        await _lives(plane)
    assert any("changes[" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Fail(""), "The agent failed and gave no reason."),
        (Reject(" "), "The agent rejected the task and gave no reason."),
    ],
    ids=repr,
)
async def test_an_end_without_a_reason_has_a_default_text(stores: Stores, change: Change, said: str) -> None:
    """P9: a failure and a rejection each have one."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield change

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        assert text((await plane.run("go")).status.message) == said


async def test_a_change_after_the_time_limit_is_dropped(stores: Stores) -> None:
    """P8, P9: the task fails with the text of the time limit."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if turn.text == "returns":
                yield Text("heard")
        if turn.text == "completes":
            yield Complete("heard")

    async with open_plane(stores, ("a", Scripted(script, policy=Policy(run_limit=0.05)))) as plane:
        for words in ("completes", "returns"):
            task = await plane.run(words)
            assert text(task.status.message) == "The agent was stopped because it exceeded its time limit."
            assert "heard" not in str(task)
        await _lives(plane)


async def test_an_exception_that_is_its_own_cause_fails_its_task(stores: Stores) -> None:
    """P9: `raise error from error` makes such an exception."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        error = RuntimeError(SECRET)
        error.__cause__ = error
        raise error
        yield Complete()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        await _fails(plane)
        await _lives(plane)
