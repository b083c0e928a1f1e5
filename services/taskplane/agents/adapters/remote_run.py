"""One run of a remote agent: send a message, and follow the remote task to its end, across lost connections."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Final

from a2a.client import A2AClientError
from a2a.types import a2a_pb2 as sdk
from a2a.utils.errors import (
    A2AError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseError

from taskplane.agents.adapters.a2a_artifacts import ShownArtifacts
from taskplane.agents.adapters.a2a_messages import Spoken, is_piece
from taskplane.agents.adapters.remote_server import Server, is_transient, never_sent, readable
from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    AskAuth,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    Reject,
    Turn,
)
from taskplane.agents.deep_messages import read_as
from taskplane.agents.states import AT_REST, TERMINAL
from taskplane.api import growing_text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CURSOR, INVOCATION
from taskplane.runtime import message_times
from taskplane.runtime.backoff import growing

log = logging.getLogger(__name__)

_FINAL: Final = (AskInput, AskAuth, Complete, Fail, Reject)
_POLL_SECONDS: Final = 1.0
_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 5.0
_SEND_TRIES: Final = 4
_MOST_DOUBTFUL: Final = 1024 * 1024
# Seconds in which a stream may end after its task has ended, so that the connection can be used again.
_END_SECONDS: Final = 1.0


class RemoteRun:
    """The run of one turn at a remote agent."""

    def __init__(self, server: Server, context_key: str, turn: Turn) -> None:
        """`context_key`: of the session's state, for the conversation there."""
        self._server = server
        self._context_key = context_key
        self._turn = turn
        saved: dict[str, Any] = turn.checkpoint or {}
        self._saved = saved
        self._task_id: str = saved.get("task", "")
        self._context_id = ""
        before = turn.task if turn.task is not None and self._task_id else a2a.Task()
        self._spoken = Spoken([*before.history, before.status.message])
        self._artifacts = ShownArtifacts(before.artifacts)
        self._stream: AsyncIterator[sdk.StreamResponse] | None = None
        self._reading: asyncio.Task[sdk.StreamResponse | None] | None = None
        # The stream is one of subscribe, and not the answer to the message; an event came; the server does not stream.
        self._subscribed = False
        self._heard = False
        self._polls = False
        # Text of artifacts in the snapshot of a new stream, which the stream may send again; None: it repeats nothing.
        self._doubtful: str | None = None
        # The checkpoint has the ids.
        self._kept = False
        # The last change was final.
        self._ended = False
        # Attempts in a row to hear from the task that brought no news.
        self._misses = 0
        # Nothing is at work there any more, as far as this run knows.
        self._over = False

    async def changes(self) -> AsyncGenerator[Change]:
        """Yield the changes of the remote agent. A run that is stopped cancels the remote task, unless the task goes on
        with it elsewhere. AgentError: with the problem."""
        work = self._work()
        try:
            async for change in work:
                self._over = isinstance(change, _FINAL)
                yield change
            self._over = True
        except AgentError:
            self._over = True
            raise
        except (A2AError, ParseError, ValueError) as error:
            self._over = True
            raise readable(error) from error
        finally:
            await work.aclose()
            await self._leave()

    async def _work(self) -> AsyncGenerator[Change]:
        state = await self._turn.session.state()
        known_context = state.get(self._context_key) or ""
        self._context_id = self._saved.get("context") or known_context
        task = await self._begun()
        if task is None:
            await self._send()
        while True:
            if task is not None:
                for change in self._snapshot(task):
                    yield change
                if self._ended:
                    return
                if (pause := self._spoken.pause) is not None:
                    yield Checkpoint(self._checkpoint(asked_auth=isinstance(pause, AskAuth)))
                    yield pause
                    return
                await self._subscribe()
            while (event := await self._next()) is not None:
                if self._learn_ids(event):
                    yield Checkpoint(self._checkpoint())
                if self._context_id != known_context:
                    known_context = self._context_id
                    await self._turn.session.update_state(**{self._context_key: known_context})
                for change in await self._changes_of(event):
                    yield change
                if self._ended:
                    return
                # A task at the beginning of a stream may still be paused as it was before the message.
                if isinstance(self._spoken.pause, AskInput) and event.HasField("status_update"):
                    yield self._spoken.pause
                    return
            task = await self._after_silence()

    async def _begun(self) -> a2a.Task | None:
        """Return the remote task if it has the message of the turn already; None if the message must be sent."""
        if not self._task_id:
            return None
        again = self._saved.get("invocation") == self._turn.invocation_id
        try:
            task = await self._current()
        except TaskNotFoundError:
            if again:
                raise
            self._task_id = ""
            return None
        if again or self._has_message(task):
            return task
        if task.status.state in TERMINAL:
            if self._saved.get("asked_auth"):
                # The remote task continued by itself, and clients have not seen its end.
                return task
            self._task_id = ""
        return None

    async def _send(self) -> None:
        """Send the message, again only as long as nothing of it can have arrived."""
        turn = self._turn
        message = a2a.Message()
        message.CopyFrom(turn.message)
        message.task_id, message.context_id = self._task_id, self._context_id
        # The remote server does not know the ids of this server.
        del message.reference_task_ids[:]
        for key in (INVOCATION, message_times.KEY):
            message.metadata.fields.pop(key, None)
        request = a2a.SendMessageRequest(message=message)
        request.configuration.accepted_output_modes.extend(turn.output_modes)
        request.metadata.update(dict(turn.metadata))
        for tries_left in reversed(range(_SEND_TRIES)):
            self._stream = self._server.send(request, key=turn.invocation_id, extensions=turn.extensions)
            self._reading = asyncio.create_task(_read(self._stream))
            await asyncio.wait((self._reading,))
            error = self._reading.exception()
            if error is None or not never_sent(error) or not tries_left:
                return
            await self._wait()

    async def _subscribe(self) -> None:
        await self._close()
        self._subscribed = True
        self._doubtful = ""
        if not self._polls:
            self._stream = self._server.subscribe(self._task_id, self._turn.extensions)

    async def _next(self) -> a2a.StreamResponse | None:
        """Return the next event; None if the stream has ended, is broken or is silent."""
        if self._stream is None:
            return None
        if self._reading is None:
            self._reading = asyncio.create_task(_read(self._stream))
        done, _ = await asyncio.wait((self._reading,), timeout=self._server.silence if self._task_id else None)
        if not done:
            return None
        reading, self._reading = self._reading, None
        try:
            event = reading.result()
        except (NotImplementedError, MethodNotFoundError):
            if not self._subscribed:
                raise
            self._polls = True
            return None
        except UnsupportedOperationError:
            if not self._subscribed:
                raise
            # It has ended meanwhile.
            return None
        except A2AClientError as error:
            if not self._task_id or not is_transient(error) or (never_sent(error) and not self._subscribed):
                raise
            log.info("the stream of the remote task %s broke, reading the task instead: %s", self._task_id, error)
            return None
        if event is None:
            return None
        self._heard = True
        if not event.HasField("task"):
            self._misses = 0
        return read_as(a2a.StreamResponse, event)

    async def _after_silence(self) -> a2a.Task:
        """Return the current task after the end of its stream."""
        if not self._task_id:
            raise AgentError("The remote agent gave no answer.")
        await self._wait()
        task = await self._current()
        if not self._heard and not self._subscribed and not self._has_message(task):
            raise AgentError("The connection to the remote agent was lost before it accepted the message.")
        return task

    async def _current(self) -> a2a.Task:
        """Return the remote task, which may take several attempts. A2AError."""
        until = asyncio.get_running_loop().time() + self._server.patience
        while True:
            try:
                return await self._server.task(self._task_id)
            except A2AClientError as error:
                if not is_transient(error) or asyncio.get_running_loop().time() > until:
                    raise
                log.info("the remote task %s could not be read, will retry: %s", self._task_id, error)
            await self._wait()

    async def _wait(self) -> None:
        """Wait before the remote server is asked again: the longer, the less news there was."""
        if self._polls:
            await asyncio.sleep(_POLL_SECONDS)
        elif self._misses:
            await asyncio.sleep(growing(self._misses, _FIRST_WAIT, _LONGEST_WAIT))
        self._misses += 1

    def _learn_ids(self, event: a2a.StreamResponse) -> bool:
        """Take the ids of the remote task and conversation; return whether they are to be kept."""
        kind = event.WhichOneof("payload")
        payload: Any = getattr(event, kind) if kind else a2a.Message()
        self._context_id = payload.context_id or self._context_id
        task_id = payload.id if kind == "task" else payload.task_id
        if kind == "message" or not task_id or (task_id == self._task_id and self._kept):
            return False
        self._task_id, self._kept = task_id, True
        return True

    def _checkpoint(self, *, asked_auth: bool = False) -> dict[str, Any]:
        return {
            "task": self._task_id,
            "context": self._context_id,
            "invocation": self._turn.invocation_id,
            "asked_auth": asked_auth,
        }

    async def _changes_of(self, event: a2a.StreamResponse) -> list[Change]:
        """Return the changes of an event. After a drop, servers may send pieces of artifacts that their snapshot had:
        there the task is read instead, until it ends with the very piece that came."""
        if self._doubtful is None:
            return list(self._of(event))
        if event.HasField("task"):
            changes = list(self._of(event))
            # Servers that put it on the first task of a stream send exactly the events after that task.
            self._doubtful = None if CURSOR in event.task.metadata.fields else _texts(changes)
            return changes
        if not event.HasField("artifact_update"):
            changes = list(self._of(event))
            return [*await self._caught_up(), *changes] if self._ended or self._spoken.pause is not None else changes
        piece = "".join(part.text for part in event.artifact_update.artifact.parts)
        if piece and piece in self._doubtful:
            return []
        changes = await self._caught_up()
        shown = _texts(changes)
        self._doubtful = None if piece and shown == piece else (self._doubtful + shown)[-_MOST_DOUBTFUL:]
        return changes

    async def _caught_up(self) -> list[Change]:
        """Read the task; return the parts of its artifacts that were not shown."""
        task = await self._current()
        last = task.status.state in TERMINAL
        return [
            *self._spoken.flush(),
            *(c for each in task.artifacts for c in self._artifacts.snapshot(each, last=last)),
        ]

    def _of(self, event: a2a.StreamResponse) -> Iterator[Change]:
        match event.WhichOneof("payload"):
            case "message":
                yield from self._noting(self._spoken.status(_completed(event.message)))
            case "task":
                yield from self._snapshot(event.task)
            case "status_update":
                update = event.status_update
                yield from self._noting(
                    self._spoken.status(update.status, ends=growing_text.ENDS in update.metadata.fields)
                )
            case "artifact_update":
                yield from self._spoken.flush()
                yield from self._artifacts.update(event.artifact_update)
            case _:
                log.warning("an unknown event of the remote task %s is ignored", self._task_id)

    def _snapshot(self, task: a2a.Task) -> Iterator[Change]:
        """Yield the new parts of a snapshot of the task."""
        yield from self._spoken.snapshot(task)
        for artifact in task.artifacts:
            yield from self._artifacts.snapshot(artifact, last=task.status.state in TERMINAL)
        if task.status.state not in AT_REST and is_piece(task.status.message):
            yield from self._spoken.piece(task.status.message)
        else:
            yield from self._noting(self._spoken.status(task.status, again=True))

    def _noting(self, changes: list[Change]) -> list[Change]:
        self._ended = bool(changes) and isinstance(changes[-1], _FINAL)
        return changes

    def _has_message(self, task: a2a.Task) -> bool:
        return any(message.message_id == self._turn.message.message_id for message in task.history)

    async def _leave(self) -> None:
        """Stop following the remote task; cancel the remote task if this task has ended before it."""
        try:
            if self._over:
                await self._drain()
            else:
                async with asyncio.timeout(self._turn.cancel_grace):
                    if not self._turn.cancelled.is_set() or await self._turn.ended():
                        await self._cancel()
        except TimeoutError:
            log.warning("the remote task %s could not be canceled in time", self._task_id)
        finally:
            await self._close()

    async def _cancel(self) -> None:
        if not self._task_id and self._reading is not None:
            # It was sent; the first event has the id of the task.
            await asyncio.wait((self._reading,))
            if self._reading.exception() is None and (event := self._reading.result()) is not None:
                self._learn_ids(read_as(a2a.StreamResponse, event))
        if not self._task_id:
            return
        try:
            await self._server.cancel(self._task_id)
        except (TaskNotCancelableError, TaskNotFoundError):
            log.debug("the remote task %s had ended", self._task_id)
        except A2AError as error:
            log.warning("the remote task %s could not be canceled: %s", self._task_id, error)

    async def _drain(self) -> None:
        if self._stream is None:
            return
        self._reading = self._reading or asyncio.create_task(_read(self._stream))
        await asyncio.wait((self._reading,), timeout=_END_SECONDS)

    async def _close(self) -> None:
        """Close the stream, and with it its connection."""
        stream, self._stream = self._stream, None
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait((reading,))
            if not reading.cancelled():
                reading.exception()
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


async def _read(stream: AsyncIterator[sdk.StreamResponse]) -> sdk.StreamResponse | None:
    return await anext(stream, None)


def _texts(changes: list[Change]) -> str:
    """Return the texts of artifacts among changes."""
    return "".join(change.text or "" for change in changes if isinstance(change, ArtifactChunk))


def _completed(message: a2a.Message) -> a2a.TaskStatus:
    return a2a.TaskStatus(state=a2a.TASK_STATE_COMPLETED, message=message)
