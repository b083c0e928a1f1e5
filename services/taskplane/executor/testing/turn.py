"""One turn of an agent, run by a real executor over stores that are in memory.

Whatever an executor does with an agent it does here: routing, threads, status texts, artifacts, failures, cancellation.
Only the stores are small ones: nothing is written, rewinds and other sessions do not exist, and no lease is ever lost.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1 import sessions_pb2, sessions_pb2_grpc
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1 import tasks_pb2_grpc
from taskplane.executor import agent as port
from taskplane.executor import servicer
from taskplane.executor.adapters.detection import adapt
from taskplane.executor.composition import ExecutorRoom, open_executor
from taskplane.executor.loading import Agents
from taskplane.executor.settings import ExecutorSettings
from taskplane.executor.testing.recording import Recorder, recorded
from taskplane.executor.testing.result import MadeArtifact, TurnResult
from taskplane.executor.testing.sessions import MemorySession
from taskplane.executor.testing.tasks import OWNER, TENANT, Kept, MemoryTasks, status_texts
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.message_metadata import INVOCATION
from taskplane.runtime.plain_json import plain
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal
from taskplane.runtime.services import Services
from taskplane.runtime.storable import dumped
from taskplane.runtime.struct_values import to_value

Said = str | a2a.Message

_NAME: Final = "agent"
_CONTEXT: Final = "session"
_STATES: Final = {
    a2a.TASK_STATE_COMPLETED: "completed",
    a2a.TASK_STATE_FAILED: "failed",
    a2a.TASK_STATE_REJECTED: "rejected",
    a2a.TASK_STATE_CANCELED: "canceled",
    a2a.TASK_STATE_INPUT_REQUIRED: "input-required",
    a2a.TASK_STATE_AUTH_REQUIRED: "auth-required",
}
_MANY: Final = 1_000_000


class TurnRun:
    """A turn that a test goes through step by step; `turn_of` makes it. It begins with the first call."""

    def __init__(
        self,
        room: ExecutorRoom,
        executor: AgentExecutorStub,
        store: MemoryTasks,
        session: MemorySession,
        recorder: Recorder,
        begin: "Callable[[], Any]",
        timeout: float,
    ) -> None:
        self._room = room
        self._executor = executor
        self._store = store
        self._session = session
        self._recorder = recorder
        self._begin = begin
        self._timeout = timeout
        self._submitting: asyncio.Task[pb.SubmitResponse] | None = None
        self._task_id = ""
        self._seen = 0
        self._said = 0

    @property
    def changes(self) -> Sequence[port.Change]:
        """Return what the agent has yielded until now, in order."""
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
        sent = self._store.named(self._task_id).record.input_generation
        for run in self._room.runs.active:
            # As the next renewal of the lease would tell it.
            run.outbox.input_generation = max(run.outbox.input_generation, sent)

    async def answer(self, text: Said) -> TurnResult:
        """Answer the question with which the task waits, and return the end of the turn that this begins."""
        await self.result()
        self._seen = len(self._recorder.changes)
        self._said = len(self._store.named(self._task_id).record.task.history) + 1
        self._recorder.error = None
        await self._send(text)
        return await self.result()

    async def cancel(self) -> TurnResult:
        """Cancel the task, where the agent is held up or wherever it is, and return the end."""
        self._start()
        await self._submitted()
        runs = list(self._room.runs.active)
        await self._store.cancel(self._task_id)
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
            ended = await self._end()
        if self._room.runs.bugs:
            bug = self._room.runs.bugs[0]
            self._room.runs.bugs.clear()
            raise bug
        return self._answered(ended) if isinstance(ended, a2a.Message) else self._ended(ended)

    async def leave(self) -> None:
        """Stop the turn, if it has not come to its end."""
        self._recorder.let_go()
        if self._submitting is not None:
            self._submitting.cancel()
            with suppress(asyncio.CancelledError):
                await self._submitting
        for run in self._room.runs.active:
            run.stop()

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
        await self._executor.Submit(pb.SubmitRequest(request=a2a.SendMessageRequest(message=message)))

    async def _end(self) -> "Kept | a2a.Message":
        response = await self._submitted()
        if response.HasField("message"):
            return response.message
        kept = await self._store.at_rest(self._task_id)
        workers = [run.worker for run in self._room.runs.active if run.worker is not None]
        if workers:
            # The agent may do more after its final change, and when it is closed.
            await asyncio.wait(workers)
        return kept

    def _answered(self, message: a2a.Message) -> TurnResult:
        text = port.text_of(message)
        told = [change.figures for change in self._recorder.changes if isinstance(change, port.Usage)]
        return self._result(state="answered", text=text, messages=(message,), direct_answer=text, usage=_sums(told))

    def _ended(self, kept: Kept) -> TurnResult:
        task = a2a.Task()
        task.CopyFrom(kept.record.task)
        said = [message for message in task.history[self._said :] if message.role == a2a.ROLE_AGENT]
        status = task.status.message
        if task.status.HasField("message") and all(message.message_id != status.message_id for message in said):
            said.append(status)
        texts = [text for message in said if (text := port.text_of(message))]
        return self._result(
            state=_STATES[kept.record.state],
            text="\n".join(texts),
            messages=tuple(said),
            reason=_reason(kept),
            task=task,
            artifacts={artifact.artifact_id: _artifact(artifact) for artifact in task.artifacts},
            status_texts=tuple(status_texts(kept.events)),
            usage=_sums(kept.usage.values()),
        )

    def _result(self, **found: Any) -> TurnResult:
        changes = self._recorder.changes
        points = [change.data for change in changes if isinstance(change, port.Checkpoint)]
        values: dict[str, Any] = {
            "reason": "",
            "artifacts": {},
            "status_texts": (),
            "direct_answer": None,
            "task": None,
            **found,
        }
        return TurnResult(
            changes=tuple(changes[self._seen :]),
            error=self._recorder.error,
            checkpoint=points[-1] if points else None,
            session_events=self._session.events,
            session_state=dict(self._session.state),
            **values,
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
    """Open a turn of an agent that nothing was asked of yet: `async with turn_of(agent, "hello") as turn:`.

    `agent`: whatever `--agent` may name: an agent, a class or function without arguments that makes one, or an object
    that an adapter makes one of. `history`: what was said before, of which the texts are the user's and the agent's in
    turn. `incoming`: messages that arrive before the agent asks for them. `referenced`: tasks that the message refers
    to, such as the `task` of an earlier result. `checkpoint`: the data of the newest Checkpoint of a run that was lost.
    A turn with `incoming` or `checkpoint` has a task from the beginning, so that a Router is not asked.
    `session_events`, `session_state`: what an agent runtime left in the session. `metadata`, `output_modes`,
    `extensions`: those of the request. `timeout`: seconds until a turn that does not end fails the test. `settings`:
    of the executor, for example `cancel_grace=1.0`. Invalid: it is no agent, as `taskplane dev` would say.
    """
    given = adapt(agent, _NAME)
    recorder = Recorder()
    # The methods that they lack are refused as UNIMPLEMENTED.
    store = MemoryTasks()  # type: ignore[abstract]
    session = MemorySession(_CONTEXT)  # type: ignore[abstract]
    session.begin([_message(each, role) for each, role in _in_turn(history)], session_events, session_state or {})
    for task in referenced:
        store.keep(task)
    asked = _message(message, a2a.ROLE_USER)
    asked.context_id = _CONTEXT
    asked.reference_task_ids.extend(task.id for task in referenced)
    services = Services(policy=_policy(tasks.DESCRIPTOR, sessions_pb2.DESCRIPTOR))
    services.add(tasks_pb2_grpc.add_TaskStoreServicer_to_server, store)
    services.add(tasks_pb2_grpc.add_TaskQueueServicer_to_server, store)
    services.add(sessions_pb2_grpc.add_SessionHistoryServicer_to_server, session)
    ours = Services(policy=servicer.POLICY)
    values: dict[str, Any] = {
        "agents": (_NAME,),
        "strict_agents": True,
        "drain_timeout": 0.0,
        "route_timeout": timeout,
        "renew_every": timeout,
        "uncopied_every": _MANY,
        "blocked_after": 0.0,
        "history_cache_bytes": 0,
        **settings,
    }
    async with (
        InProcessChannel(services) as stores,
        InProcessChannel(ours) as channel,
        open_executor(
            ExecutorSettings(**values),
            ours,
            stores,
            stores,
            secrets.token_hex(8),
            agents=Agents({_NAME: recorded(given, recorder)}),
        ) as room,
    ):
        executor = AgentExecutorStub(client(channel, identity=Principal(TENANT, OWNER, f"user:{OWNER}")))
        request = pb.SubmitRequest(request=a2a.SendMessageRequest(message=asked), extensions=extensions)
        request.request.configuration.accepted_output_modes.extend(output_modes)
        if metadata is not None:
            request.request.metadata.CopyFrom(to_value(plain(dict(metadata)))[0].struct_value)

        async def begin() -> pb.SubmitResponse:
            if not incoming and checkpoint is None:
                return await executor.Submit(request)
            created = _created(request)
            further = [_further(created.task_id, number, each) for number, each in enumerate(incoming, 1)]
            encoded = b"" if checkpoint is None else _encoded(checkpoint)
            store.queue(created, further, encoded)
            return pb.SubmitResponse(task=pb.TaskReference(task_id=created.task_id, context_id=_CONTEXT))

        run = TurnRun(room, executor, store, session, recorder, begin, timeout)
        try:
            yield run
        finally:
            await run.leave()
            room.runs.bugs.clear()


async def run_turn(agent: Any, message: Said = "hello", *, answers: Sequence[Said] = (), **options: Any) -> TurnResult:
    """Run a turn of an agent to its end and return what became of it. `answers`: those to its questions, in order.

    `options` and errors as those of `turn_of` and of `TurnRun.result`. With answers the changes are those of all turns.
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


def _policy(*files: FileDescriptor) -> dict[str, Access]:
    return {
        f"/{service.full_name}/{method.name}": Access.USER
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
    }


def _in_turn(history: Sequence[Said]) -> "Iterator[tuple[Said, a2a.Role.ValueType]]":
    for index, each in enumerate(history):
        yield each, a2a.ROLE_AGENT if index % 2 else a2a.ROLE_USER


def _message(given: Said, role: "a2a.Role.ValueType") -> a2a.Message:
    message = a2a.Message(message_id=secrets.token_hex(8), role=role)
    if isinstance(given, str):
        message.parts.add(text=given)
    else:
        message.MergeFrom(given)
    return message


def _created(request: pb.SubmitRequest) -> tasks.CreateTaskRequest:
    invocation, task_id = secrets.token_hex(8), secrets.token_hex(8)
    message = request.request.message
    message.task_id = task_id
    message.metadata.fields[INVOCATION].string_value = invocation
    return tasks.CreateTaskRequest(
        invocation_id=invocation,
        task_id=task_id,
        context_id=_CONTEXT,
        agent=_NAME,
        message=message,
        metadata=request.request.metadata if request.request.HasField("metadata") else None,
        options=tasks.TurnOptions(
            accepted_output_modes=request.request.configuration.accepted_output_modes, extensions=request.extensions
        ),
    )


def _further(task_id: str, number: int, text: Said) -> tasks.AddMessageRequest:
    message = _message(text, a2a.ROLE_USER)
    message.task_id, message.context_id = task_id, _CONTEXT
    return tasks.AddMessageRequest(task_id=task_id, invocation_id=f"{task_id}-{number}", message=message)


def _encoded(checkpoint: Any) -> bytes:
    return dumped(port.Checkpoint(checkpoint).data).encode()


def _reason(kept: Kept) -> str:
    fields = kept.events[-1].event.status_update.metadata.fields
    return fields["reason"].string_value if "reason" in fields else ""


def _artifact(artifact: a2a.Artifact) -> MadeArtifact:
    return MadeArtifact(
        id=artifact.artifact_id,
        name=artifact.name,
        description=artifact.description,
        parts=tuple(artifact.parts),
        metadata=to_dict(artifact.metadata),
    )
