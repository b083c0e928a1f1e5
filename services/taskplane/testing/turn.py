"""One turn of an agent, run by a real executor over the real stores with temporary databases."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from taskplane.agents import agent as port
from taskplane.agents.adapters.detection import adapt
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.settings import ExecutorSettings
from taskplane.runtime.errors import NotFound, Refused
from taskplane.runtime.plain_json import plain
from taskplane.runtime.struct_values import to_value
from taskplane.testing.found import at_rest, found_of_session, found_of_task, message_ids, read_task
from taskplane.testing.given import fill_session, keep_task, queue_task
from taskplane.testing.plane import AGENT, CONTEXT, Plane, open_plane
from taskplane.testing.recording import Recorder, recorded
from taskplane.testing.result import TurnResult

Said = str | a2a.Message


class TurnRun:
    """A turn that a test goes through step by step; `turn_of` makes it. It begins with the first call."""

    def __init__(
        self,
        plane: Plane,
        recorder: Recorder,
        begin: Callable[[], Coroutine[Any, Any, pb.SubmitResponse]],
        timeout: float,
    ) -> None:
        self._plane = plane
        self._runs = plane.service.runs
        self._recorder = recorder
        self._begin = begin
        self._timeout = timeout
        self._submitting: asyncio.Task[pb.SubmitResponse] | None = None
        self._task_id = ""
        self._seen = 0
        # The ids of messages of earlier turns.
        self._before: Set[str] = frozenset()

    @property
    def changes(self) -> Sequence[port.Change]:
        """Return the changes of the agent until now, in order."""
        return tuple(self._recorder.changes)

    async def until(self, wanted: "type[Any] | Callable[[port.Change], bool]") -> port.Change:
        """Return the agent's next change of a type, or for which a function returns true, and hold the agent up there.

        The agent stands at that `yield` until the next call. AssertionError: the turn came to its end without one.
        """
        test: Callable[[port.Change], bool] = (
            (lambda change: isinstance(change, wanted)) if isinstance(wanted, type) else wanted
        )
        found = self._recorder.look_for(test)
        self._start()
        ending = asyncio.create_task(self._end())
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.wait((found, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        if found.done():
            return found.result()
        result = await self.result()
        raise AssertionError(f"the turn ended without such a change: {result}")

    async def say(self, text: Said) -> None:
        """Send a message while the agent is at work: `turn.incoming()` returns it, or it begins the next turn."""
        self._start()
        await self._send(text)
        request = tasks.GetTaskRequest(task_id=self._task_id, history_length=0)
        sent = (await self._plane.tasks.GetTask(request)).record.input_generation
        for run in self._runs.active:
            # The next renewal of the lease would report the same.
            run.outbox.input_generation = max(run.outbox.input_generation, sent)

    async def answer(self, text: Said) -> TurnResult:
        """Answer the question of the paused task, and return the end of the turn that the answer begins.

        NotFound: there is no task. Refused: the task has ended.
        """
        asked = await self.result()
        if asked.task is None:
            raise NotFound("no task waits for an answer: the agent has answered directly", reason="TASK_NOT_FOUND")
        self._seen = len(self._recorder.changes)
        self._before = message_ids(asked.task)
        self._recorder.error = None
        await self._send(text)
        return await self.result()

    async def cancel(self) -> TurnResult:
        """Cancel the task, where the agent is held up or wherever it is, and return the end."""
        self._start()
        await self._submitted()
        runs = self._runs.active
        try:
            await self._plane.tasks.CancelTask(tasks.CancelTaskRequest(task_id=self._task_id))
        except Refused as error:
            # It has ended before.
            if error.reason != "TERMINAL":
                raise
        for run in runs:
            await run.cancelled.wait()
        return await self.result()

    async def result(self) -> TurnResult:
        """Wait until the task has ended or waits for its user, or the agent has answered directly, and return that.

        TimeoutError: it takes longer than `timeout` seconds. RuntimeError: the agent yielded after its final change.
        """
        self._recorder.let_go()
        self._start()
        async with asyncio.timeout(self._timeout):
            answer = await self._end()
        if self._runs.bugs:
            bug = self._runs.bugs[0]
            self._runs.bugs.clear()
            raise bug
        return await (self._ended() if answer is None else self._answered(answer))

    async def leave(self) -> None:
        """Stop the turn, if it has not come to its end."""
        if self._submitting is not None:
            self._submitting.cancel()
            with suppress(asyncio.CancelledError):
                await self._submitting
        for run in self._runs.active:
            run.stop()
        self._recorder.let_go()
        # At once, so that no policy has the turn run again.
        await self._plane.service.drain()

    def _start(self) -> None:
        if self._submitting is None:
            self._submitting = asyncio.create_task(self._begin())

    async def _submitted(self) -> pb.SubmitResponse:
        assert self._submitting is not None
        response = await asyncio.shield(self._submitting)
        self._task_id = response.task.task_id
        return response

    async def _send(self, text: Said) -> None:
        await self._submitted()
        message = _message(text, a2a.ROLE_USER)
        message.task_id = self._task_id
        await self._plane.executor.Submit(pb.SubmitRequest(request=a2a.SendMessageRequest(message=message)))

    async def _end(self) -> a2a.Message | None:
        """Wait for the end of the turn; return the answer of a Router."""
        response = await self._submitted()
        if response.HasField("message"):
            return response.message
        await at_rest(self._plane, self._task_id)
        workers = [run.worker for run in self._runs.active if run.worker is not None]
        if workers:
            # The agent may do more after its final change, and when it is closed.
            await asyncio.wait(workers)
        return None

    async def _answered(self, message: a2a.Message) -> TurnResult:
        text = port.text_of(message)
        told = [change.figures for change in self._recorder.changes if isinstance(change, port.Usage)]
        return await self._result(
            state="answered",
            text=text,
            reason="",
            messages=(message,),
            artifacts={},
            status_texts=(),
            usage=_sums(told),
            checkpoint=None,
            direct_answer=text,
            task=None,
        )

    async def _ended(self) -> TurnResult:
        task = await read_task(self._plane, self._task_id)
        found = await found_of_task(self._plane, task, self._before)
        return await self._result(direct_answer=None, **found)

    async def _result(self, **found: Any) -> TurnResult:
        return TurnResult(
            changes=tuple(self._recorder.changes[self._seen :]),
            error=self._recorder.error,
            **found,
            **await found_of_session(self._plane),
        )


def _sums(told: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for figures in told:
        for name, value in figures.items():
            sums[name] = sums.get(name, 0) + value
    return sums


@asynccontextmanager
async def turn_of(
    agent: Any,
    message: Said = "hello",
    *,
    history: Sequence[Said] = (),
    incoming: Sequence[Said] = (),
    referenced: Sequence[a2a.Task] = (),
    checkpoint: Any = None,
    session_events: Sequence[Mapping[str, Any]] = (),
    session_state: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    output_modes: Sequence[str] = (),
    extensions: Sequence[str] = (),
    timeout: float = 60.0,
    **settings: Any,
) -> AsyncGenerator[TurnRun]:
    """Open a turn of an agent: `async with turn_of(agent, "hello") as turn:`. The first call of `turn` sends the
    message.

    `agent`: any object that `--agent` may name: an agent, a class or function without arguments that returns an agent,
    or an object for which there is an adapter. `history`: the earlier messages; texts alternate between user and
    agent. `incoming`: messages that arrive before the agent asks for them. `referenced`: tasks that the message refers
    to, such as the `task` of an earlier result. `checkpoint`: the data of the newest Checkpoint of a run that was lost.
    A turn with `incoming` or `checkpoint` has a task from the beginning, so that a Router is not asked.
    `session_events`, `session_state`: events and state of the session before the turn; the state is stored in the first
    event, or in an event of its own. `metadata`, `output_modes`, `extensions`: of the request. `timeout`: seconds after
    which a turn that does not end fails the test. `settings`: of the executor, for example `cancel_grace=1.0`. Invalid:
    `agent` is not an agent, with the text of `taskplane dev`. PlaneError: the stores refuse the arguments.
    """
    given = adapt(agent, AGENT)
    recorder = Recorder()
    asked = _message(message, a2a.ROLE_USER)
    asked.context_id = CONTEXT
    asked.reference_task_ids.extend(task.id for task in referenced)
    request = pb.SubmitRequest(request=a2a.SendMessageRequest(message=asked), extensions=extensions)
    request.request.configuration.accepted_output_modes.extend(output_modes)
    if metadata is not None:
        request.request.metadata.CopyFrom(to_value(plain(dict(metadata)))[0].struct_value)
    values: dict[str, Any] = {
        "agents": (AGENT,),
        "strict_agents": True,
        "drain_timeout": 1.0,
        "route_timeout": timeout,
        "blocked_after": 0.0,
        **settings,
    }
    async with open_plane(recorded(given, recorder), ExecutorSettings(**values)) as plane:
        said = [_message(each, role) for each, role in _alternating(history)]
        await fill_session(plane, said, session_events, session_state or {})
        for task in referenced:
            await keep_task(plane, task)

        async def begin() -> pb.SubmitResponse:
            if not incoming and checkpoint is None:
                return await plane.executor.Submit(request)
            further = [_message(each, a2a.ROLE_USER) for each in incoming]
            record = await queue_task(plane, request, further, checkpoint)
            return pb.SubmitResponse(task=pb.TaskReference(task_id=record.id, context_id=CONTEXT))

        run = TurnRun(plane, recorder, begin, timeout)
        try:
            yield run
        finally:
            await run.leave()
            plane.service.runs.bugs.clear()


async def run_turn(agent: Any, message: Said = "hello", *, answers: Sequence[Said] = (), **options: Any) -> TurnResult:
    """Run a turn of an agent to its end and return its result. `answers`: the answers to its questions, in order.

    `options` and errors as in `turn_of` and `TurnRun.result`. With answers the result has the changes of all turns.
    """
    async with turn_of(agent, message, **options) as turn:
        result = await turn.result()
        changes = list(result.changes)
        for answer in answers:
            result = await turn.answer(answer)
            changes += result.changes
        return replace(result, changes=tuple(changes))


def run_turn_sync(agent: Any, message: Said = "hello", **options: Any) -> TurnResult:
    """Run a turn as `run_turn` does, from code that is not asynchronous, such as a plain test function."""
    return asyncio.run(run_turn(agent, message, **options))


def _alternating(history: Sequence[Said]) -> "Iterator[tuple[Said, a2a.Role.ValueType]]":
    for index, each in enumerate(history):
        yield each, a2a.ROLE_AGENT if index % 2 else a2a.ROLE_USER


def _message(given: Said, role: "a2a.Role.ValueType") -> a2a.Message:
    message = a2a.Message(message_id=secrets.token_hex(8), role=role)
    if isinstance(given, str):
        message.parts.add(text=given)
    else:
        message.MergeFrom(given)
    return message
