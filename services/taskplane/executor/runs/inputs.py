"""The user's messages to one task, in the order in which a run answers them."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.runs.given_ids import UsedIds
from taskplane.executor.runs.outbox import Outbox
from taskplane.executor.task_log import events
from taskplane.runtime.retry import retry_until_reachable


@dataclass(frozen=True, slots=True)
class Input:
    """One message of the user, and the turn that it began."""

    generation: int
    invocation_id: str
    message: a2a.Message
    # With the metadata of the request in any case.
    options: pb.TurnOptions
    traceparent: str = ""


class Inputs:
    """The user's messages that a run reads. `consumed`: the generation of the newest message that was read."""

    def __init__(self, store: TaskStoreStub, record: pb.TaskRecord, outbox: Outbox, used: UsedIds) -> None:
        """`used` gets the ids of the messages that become known."""
        self.consumed = record.consumed_generation
        self._store = store
        self._record = record
        self._outbox = outbox
        self._used = used
        # Generation of the newest message that is consumed or waits here; the outbox knows of newer messages.
        self._known = record.consumed_generation
        self._waiting: deque[Input] = deque()

    def begin(self, message: a2a.Message, options: pb.TurnOptions) -> None:
        """Add the message that created the task, which need not be read."""
        self._waiting.append(Input(1, self._record.invocation_id, message, options))
        self._used.add(message.message_id)
        self._known = 1

    @property
    def unread(self) -> bool:
        """Return whether a message is known that was not read, so that the task may neither complete nor pause."""
        return bool(self._waiting) or self._outbox.input_generation > self.consumed

    def unread_invocations(self) -> Iterable[str]:
        """Return the invocations of the messages that were not read."""
        return [given.invocation_id for given in self._waiting]

    async def next(self) -> Input:
        """Take the oldest message that was not read.

        RuntimeError: the store announced a message and does not have it.
        """
        if not self._waiting:
            await self._read()
        if not self._waiting:
            raise RuntimeError(f"task {self._record.id} has an unread message, but none was found")
        given = self._waiting.popleft()
        self.consumed = given.generation
        return given

    async def incoming(self) -> list[a2a.Message]:
        """Take every message that was not read."""
        if self._outbox.input_generation > self._known:
            await self._read()
        messages = [given.message for given in self._waiting]
        self._waiting.clear()
        self.consumed = self._known
        return messages

    async def _read(self) -> None:
        kinds = (pb.EVENT_KIND_CREATED, pb.EVENT_KIND_MESSAGE)

        async def read() -> list[pb.Event]:
            pages = events(self._store, self._record.id, after=self._known, kinds=kinds)
            return [event async for page in pages for event in page.events]

        for event in await retry_until_reachable(read):
            message = _message_of(event)
            self._waiting.append(
                Input(event.generation, event.invocation_id, message, _options_of(event), event.traceparent)
            )
            self._used.add(message.message_id)
            self._known = event.generation


def _message_of(event: pb.Event) -> a2a.Message:
    if event.kind == pb.EVENT_KIND_CREATED:
        return event.event.task.history[0]
    if event.event.HasField("message"):
        return event.event.message
    return event.event.status_update.status.message


def _options_of(event: pb.Event) -> pb.TurnOptions:
    options = pb.TurnOptions()
    options.CopyFrom(event.options)
    if event.kind == pb.EVENT_KIND_CREATED and event.event.task.HasField("metadata"):
        options.metadata.CopyFrom(event.event.task.metadata)
    return options
