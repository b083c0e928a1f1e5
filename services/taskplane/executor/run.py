"""One run: an agent at work on one task under one lease. One loop: agent -> outbox -> log. Owns nothing durable."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.json_format import Error as JsonError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub, TaskStoreStub
from taskplane.executor import agent as port
from taskplane.executor.changes import MAX_MESSAGE_BYTES, Voice, status, text_size
from taskplane.executor.copies import Copier, Source, Speech
from taskplane.executor.history import SessionLog
from taskplane.executor.outbox import ItemRefused, Outbox, Stopped
from taskplane.executor.tasklog import Appender, events, patiently
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.failpoints import afp
from taskplane.runtime.principal import Principal

log = logging.getLogger(__name__)

_FINAL: Final = (port.AskInput, port.AskAuth, port.Complete, port.Fail, port.Reject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What every run of a process works with. Times in seconds."""

    store: TaskStoreStub
    queue: TaskQueueStub
    sessions: SessionLog
    copier: Copier
    appender: Appender
    # Named in every event and copy of this process.
    actor: str
    # How long a run may take where its agent does not say; 0: for ever.
    run_limit: float
    # A yield after the final change raises out of the run, instead of being logged only.
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What is known of a task that this process has just created, so that its run need not read it."""

    message: a2a.Message
    task: a2a.Task
    uncopied: Sequence[pb.UncopiedTask]
    # The session had nothing before this turn.
    begins_session: bool
    # A router that was too slow for the caller, or failed.
    routing: "asyncio.Task[a2a.Message | str | None] | None" = None


@dataclass(frozen=True, slots=True)
class _Input:
    generation: int
    invocation_id: str
    message: a2a.Message


class _AgentFailed(Exception):
    """The agent raised, or yielded what is no change."""


class Run:
    """At most one exists per (task, fence) in a process."""

    def __init__(
        self,
        ports: Ports,
        agent: port.Agent,
        record: pb.TaskRecord,
        fence: int,
        *,
        until: float,
        caller: Principal,
        fresh: Fresh | None = None,
    ) -> None:
        """`until`: monotonic time up to which the lease is certain. `fresh`: None for a task taken from the queue."""
        self.uid = record.uid
        self.task_id = record.id
        self.fence = fence
        self.cancelled = asyncio.Event()
        self.worker: asyncio.Task[None] | None = None
        self._ports = ports
        self._agent = agent
        self._record = record
        self._caller = caller
        self._fresh = fresh
        self._task = fresh.task if fresh is not None else a2a.Task()
        self._source = Source(
            uid=record.uid,
            task_id=record.id,
            context_id=record.context_id,
            invocation_id=record.invocation_id,
        )
        self._speech = self._listen(record)
        self.outbox = Outbox(
            record.uid,
            fence,
            until=until,
            ring=ports.appender.ring,
            committed=lambda item: self._speech.committed(item),
            lost=self.stop,
        )
        self._inputs: deque[_Input] = deque()
        self._consumed = record.consumed_generation
        self._known = record.consumed_generation
        self._voice = self._speak(record.invocation_id)
        self._open_id = ""
        self._open_text: list[str] = []
        self._open_size = 0
        self._last_said = ""
        # Something was said that may not be in the log yet.
        self._spoke = False
        self._artifacts: set[str] = set()
        self._limit = asyncio.timeout(None)

    def stop(self) -> None:
        """The lease is lost or the task has ended: nothing more is stored, and the agent is told to wind down."""
        self.cancelled.set()
        self.outbox.close()
        if self.worker is not None and not self.outbox.at_rest:
            self.worker.cancel()

    async def work(self) -> None:
        """Runs the agent to the end or pause of the task. Raises only what is a bug."""
        try:
            async with self._limit:
                await self._live()
        except Stopped:
            log.info("the run of task %s under fence %d was stopped", self.task_id, self.fence)
        except _AgentFailed as error:
            await self._fail("AGENT_ERROR", str(error))
        except ItemRefused as refusal:
            log.error("task %s: the store refused what its run produced: %s (%s)", self.task_id, refusal, refusal.reason)
            self.outbox.clear()
            await self._fail(refusal.reason, f"The agent failed: {refusal.message}.")
        except TimeoutError:
            if not self._limit.expired():
                raise
            await self._fail("RUN_TIMEOUT", "The agent was stopped because it took too long.")
        except NotFound:
            log.info("task %s is gone; its run ends", self.task_id)
        finally:
            self.cancelled.set()
            self.outbox.close()
            self._ports.appender.forget(self.outbox)

    async def _live(self) -> None:
        if self._fresh is not None:
            self._inputs.append(_Input(1, self._record.invocation_id, self._fresh.message))
            self._known = 1
            await self._ports.copier.uncopied(self._fresh.uncopied, self._ports.actor)
        else:
            await self._load()
        first = True
        while self._inputs:
            given = self._inputs.popleft()
            self._consumed = given.generation
            if not first:
                await self._begin_further_turn()
            if await self._turn(given, first=first):
                return
            first = False
            if not self._inputs:
                await self._read_inputs()
        raise RuntimeError(f"task {self.task_id} has a message to read, but none was found")

    async def _load(self) -> None:
        """Reads what a task from the queue is about, and says WORKING before anything has an effect."""
        response = await patiently(lambda: self._ports.store.GetTask(pb.GetTaskRequest(task_id=self.task_id)))
        self._record, self._task = response.record, response.record.task
        self._speech = self._listen(self._record)
        self._artifacts.update(artifact.artifact_id for artifact in self._task.artifacts)
        uncopied = await patiently(
            lambda: self._ports.store.ListUncopied(pb.ListUncopiedRequest(context_id=self._source.context_id))
        )
        await self._ports.copier.uncopied(uncopied.tasks, self._ports.actor)
        await self._read_inputs()
        self.outbox.put(status(a2a.TASK_STATE_WORKING))
        await self.outbox.flush()
        await self._copy()

    async def _begin_further_turn(self) -> None:
        """What was said so far becomes history, and the task is read as it stands."""
        await self.outbox.flush()
        self._spoke = False
        await self._copy()
        response = await patiently(lambda: self._ports.store.GetTask(pb.GetTaskRequest(task_id=self.task_id)))
        self._task = response.record.task

    async def _read_inputs(self) -> None:
        """Queues the user's messages that no turn has seen."""
        kinds = (pb.EVENT_KIND_CREATED, pb.EVENT_KIND_MESSAGE)

        async def read() -> list[pb.Event]:
            pages = events(self._ports.store, self.task_id, after=self._known, kinds=kinds)
            return [event async for page in pages for event in page.events]

        for event in await patiently(read):
            self._inputs.append(_Input(event.generation, event.invocation_id, _message_of(event)))
            self._known = event.generation

    async def _incoming(self) -> list[a2a.Message]:
        if self.outbox.input_generation > self._known:
            await self._read_inputs()
        messages = [given.message for given in self._inputs]
        self._inputs.clear()
        self._consumed = self._known
        return messages

    async def _turn(self, given: _Input, *, first: bool) -> bool:
        """Has the agent answer one message; whether the task is at rest then."""
        self._voice = self._speak(given.invocation_id)
        self._speech.invocation_id = given.invocation_id
        turn = port.Turn(
            task_id=self.task_id,
            context_id=self._source.context_id,
            invocation_id=given.invocation_id,
            message=given.message,
            history=await self._history(given),
            task=self._task,
            attempt=self._record.attempt,
            fence=self.fence,
            caller=self._caller,
            cancelled=self.cancelled,
            read_incoming=self._incoming,
        )
        if first:
            self._set_limit(turn)
            if self._fresh is not None and self._fresh.routing is not None:
                answer = await self._routed(self._fresh.routing)
                if answer is not None:
                    return await self._end(port.Complete(answer))
        changes = self._agent.run(turn)
        try:
            final = await self._drive(changes)
            at_rest = await self._end(final if final is not None else port.Complete())
            if final is not None and at_rest:
                await self._expect_no_more(changes)
            return at_rest
        finally:
            await _close(changes)

    async def _history(self, given: _Input) -> Sequence[a2a.Message]:
        if self._fresh is not None and self._fresh.begins_session and given.generation == 1:
            return ()
        entries = await patiently(lambda: self._ports.sessions.effective(self._source.context_id))
        unread = {given.invocation_id, *(later.invocation_id for later in self._inputs)}
        return [entry.message for entry in entries if entry.id not in unread]

    def _set_limit(self, turn: port.Turn) -> None:
        limit: float | None = self._ports.run_limit
        if isinstance(self._agent, port.Policied):
            limit = self._agent.policy(turn).run_limit or limit
        if limit:
            self._limit.reschedule(asyncio.get_running_loop().time() + limit)

    async def _routed(self, routing: "asyncio.Task[a2a.Message | str | None]") -> a2a.Message | str | None:
        try:
            return await routing
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is its failure, and ends its task
            raise _failed(error, self.task_id) from error

    async def _drive(self, changes: AsyncIterator[port.Change]) -> port.Final | None:
        """Takes what the agent yields, up to its final change; None: it returned without one."""
        outbox = self.outbox
        while True:
            try:
                change = await anext(changes)
            except StopAsyncIteration:
                return None
            except Exception as error:  # noqa: BLE001 - whatever an agent raises is its failure, and ends its task
                raise _failed(error, self.task_id) from error
            if isinstance(change, _FINAL):
                return change
            try:
                self._take(change)
            except (ValueError, TypeError, JsonError) as error:
                raise _failed(error, self.task_id) from error
            if outbox.blocked:
                await outbox.room()

    def _take(self, change: port.Change) -> None:
        """One change that ends nothing. ValueError, TypeError: it is not one that can be stored."""
        if isinstance(change, port.Text):
            if change.delta:
                self._grow(change.delta)
        elif isinstance(change, port.ArtifactChunk):
            if change.append and change.artifact_id not in self._artifacts:
                raise ValueError(f"the first chunk of artifact {change.artifact_id!r} has append=True")
            self._artifacts.add(change.artifact_id)
            self.outbox.chunk(change)
        elif isinstance(change, port.Say):
            self._say(self._message(change.message))
        elif isinstance(change, port.ToolCall):
            self._close_text()
            self._say(
                self._voice.tool("function_call", {"id": change.id, "name": change.name, "args": change.args})
            )
        elif isinstance(change, port.ToolResult):
            self._close_text()
            data = {"id": change.id, "name": change.name, "response": change.response}
            self._say(self._voice.tool("function_response", data))
        elif isinstance(change, port.Working):
            if change.text is not None:
                self.outbox.put(status(a2a.TASK_STATE_WORKING, self._voice.status_text(change.text)))
        else:
            raise TypeError(f"run yields changes, not {type(change).__name__}")

    def _grow(self, delta: str) -> None:
        if not self._open_id:
            self._open_id = self._voice.new_id()
        self._open_size += text_size(delta)
        if self._open_size > MAX_MESSAGE_BYTES:
            raise ValueError("a text is larger than 3 MiB")
        self._open_text.append(delta)
        self.outbox.text(self._voice, self._open_id, delta)

    def _message(self, given: "str | a2a.Message") -> a2a.Message:
        """The message, as the end of the open text where it has the same words; otherwise that text ends first."""
        if self._open_id:
            text = given if isinstance(given, str) else port.text_of(given)
            named = "" if isinstance(given, str) else given.message_id
            if named in ("", self._open_id) and text.strip() == "".join(self._open_text).strip():
                return self._voice.message(given, self._open_id)
            self._close_text()
        return self._voice.message(given)

    def _close_text(self) -> None:
        if self._open_id:
            self._say(self._voice.message("".join(self._open_text), self._open_id))

    def _say(self, message: a2a.Message) -> None:
        if message.message_id == self._open_id:
            self._open_id = ""
            self._open_text.clear()
            self._open_size = 0
        self._last_said = message.message_id
        self._spoke = True
        self.outbox.put(status(a2a.TASK_STATE_WORKING, message), message)

    async def _end(self, final: port.Final) -> bool:
        """Commits the end of a turn; False: a user's message is waiting, so the task goes on."""
        try:
            if isinstance(final, port.Complete):
                return await self._complete(final)
            if isinstance(final, port.AskInput):
                return await self._pause(a2a.TASK_STATE_INPUT_REQUIRED, final.message)
            if isinstance(final, port.AskAuth):
                return await self._pause(a2a.TASK_STATE_AUTH_REQUIRED, final.message)
        except (ValueError, TypeError) as error:
            raise _failed(error, self.task_id) from error
        if isinstance(final, port.Fail):
            await self._close(a2a.TASK_STATE_FAILED, final.reason, "AGENT_FAILED")
        else:
            await self._close(a2a.TASK_STATE_REJECTED, final.reason, "")
        return True

    def _has_unread(self) -> bool:
        return bool(self._inputs) or self.outbox.input_generation > self._consumed

    async def _complete(self, final: port.Complete) -> bool:
        """The last message is said and copied before the task is completed, so that who sees the end has it all."""
        message: a2a.Message | None = None
        if final.message is not None:
            message = self._message(final.message)
        elif self._open_id:
            message = self._voice.message("".join(self._open_text), self._open_id)
        if message is not None and message.message_id != self._last_said:
            self._say(message)
        if self._has_unread():
            return False
        if self._spoke:
            await self.outbox.flush()
            if self._has_unread():
                return False
            await afp("complete.after_message")
        await self._copy()
        await afp("complete.after_copy")
        return await self.outbox.finish(status(a2a.TASK_STATE_COMPLETED, message), consumed=self._consumed)

    async def _pause(self, state: a2a.TaskState, given: "str | a2a.Message") -> bool:
        message = self._message(given)
        if not self._has_unread() and await self.outbox.finish(
            status(state, message), message, consumed=self._consumed
        ):
            await self._copy_at_rest()
            return True
        self._say(message)
        return False

    async def _close(self, state: a2a.TaskState, text: str, reason: str) -> None:
        """Ends the task as failed or rejected. A text that is still open is the store's to interrupt."""
        message = self._voice.message(text)
        await self.outbox.finish(status(state, message, reason), message, consumed=self._consumed)
        await self._copy_at_rest()

    async def _fail(self, reason: str, text: str) -> None:
        try:
            await self._close(a2a.TASK_STATE_FAILED, text, reason)
        except Stopped:
            log.info("task %s had ended before its run failed", self.task_id)
        except ItemRefused as refusal:
            log.error("task %s can not even be failed (%s: %s); it is released", self.task_id, refusal.reason, refusal)
            lease = pb.Lease(task_uid=self.uid, fence=self.fence)
            await patiently(lambda: self._ports.queue.Release(pb.ReleaseRequest(leases=[lease])))

    async def _copy(self) -> None:
        if not self._speech.silent:
            self.outbox.claim_copied(await patiently(lambda: self._speech.copy(self._ports.copier)))

    async def _copy_at_rest(self) -> None:
        """The task is paused or has ended, and the caller was told; if this fails, the sweep copies it."""
        try:
            before = self._speech.copied
            copied = await self._speech.copy(self._ports.copier)
            if copied > before:
                await self._ports.copier.mark(self._source, copied)
        except PlaneError as error:
            log.warning("task %s is not copied to its session yet: %s", self.task_id, error)

    async def _expect_no_more(self, changes: AsyncIterator[port.Change]) -> None:
        """Lets the agent finish what follows its final change; a further change is its bug."""
        try:
            extra = await anext(changes)
        except StopAsyncIteration:
            return
        except Exception:
            log.exception("the agent of task %s raised after its final change", self.task_id)
            return
        text = f"the agent of task {self.task_id} yielded {extra!r} after its final change; it is discarded"
        log.critical(text)
        if self._ports.strict:
            raise RuntimeError(text)

    def _listen(self, record: pb.TaskRecord) -> Speech:
        return Speech(
            self._source,
            head=record.generation,
            copied=record.copied_generation,
            complete=record.copied_generation >= record.message_generation,
            actor=self._ports.actor,
        )

    def _speak(self, invocation_id: str) -> Voice:
        return Voice(
            task_id=self._source.task_id,
            context_id=self._source.context_id,
            invocation_id=invocation_id,
            fence=self.fence,
        )


async def _close(self, state: a2a.TaskState, text: str, reason: str) -> None:
        """Ends the task as failed or rejected. A text that is still open is the store's to interrupt."""
        message = self._voice.message(text)
        await self.outbox.finish(status(state, message, reason), message, consumed=self._consumed)
        await self._copy_at_rest()

    async def _fail(self, reason: str, text: str) -> None:
        try:
            await self._close(a2a.TASK_STATE_FAILED, text, reason)
        except Stopped:
            log.info("task %s had ended before its run failed", self.task_id)
        except ItemRefused as refusal:
            log.error("task %s can not even be failed (%s: %s); it is released", self.task_id, refusal.reason, refusal)
            lease = pb.Lease(task_uid=self.uid, fence=self.fence)
            await patiently(lambda: self._ports.queue.Release(pb.ReleaseRequest(leases=[lease])))

    async def _copy(self) -> None:
        if not self._speech.silent:
            self.outbox.claim_copied(await patiently(lambda: self._speech.copy(self._ports.copier)))

    async def _copy_at_rest(self) -> None:
        """The task is paused or has ended, and the caller was told; if this fails, the sweep copies it."""
        try:
            before = self._speech.copied
            copied = await self._speech.copy(self._ports.copier)
            if copied > before:
                await self._ports.copier.mark(self._source, copied)
        except PlaneError as error:
            log.warning("task %s is not copied to its session yet: %s", self.task_id, error)

    async def _expect_no_more(self, changes: AsyncIterator[port.Change]) -> None:
        """Lets the agent finish what follows its final change; a further change is its bug."""
        try:
            extra = await anext(changes)
        except StopAsyncIteration:
            return
        except Exception:
            log.exception("the agent of task %s raised after its final change", self.task_id)
            return
        text = f"the agent of task {self.task_id} yielded {extra!r} after its final change; it is discarded"
        log.critical(text)
        if self._ports.strict:
            raise RuntimeError(text)

    def _listen(self, record: pb.TaskRecord) -> Speech:
        return Speech(
            self._source,
            head=record.generation,
            copied=record.copied_generation,
            complete=record.copied_generation >= record.message_generation,
            actor=self._ports.actor,
        )

    def _speak(self, invocation_id: str) -> Voice:
        return Voice(
            task_id=self._source.task_id,
            context_id=self._source.context_id,
            invocation_id=invocation_id,
            fence=self.fence,
        )


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats an idempotent call until a part that cannot be reached is back; other errors are the caller's."""
    backoff = Backoff()
    while True:
        try:
            return await call()
        except RETRYABLE as error:
            log.warning("a call is tried again: %s", error)
            await backoff.pause(error)


async def _close(changes: AsyncIterator[port.Change]) -> None:
    close = getattr(changes, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception:
        log.exception("an agent raised while its run was closed")


def _failed(error: Exception, task_id: str) -> _AgentFailed:
    log.error("the agent of task %s failed", task_id, exc_info=error)
    return _AgentFailed(f"The agent failed: {str(error)[:500] or type(error).__name__}")


def _message_of(event: pb.Event) -> a2a.Message:
    if event.kind == pb.EVENT_KIND_CREATED:
        return event.event.task.history[0]
    if event.event.HasField("message"):
        return event.event.message
    return event.event.status_update.status.message
