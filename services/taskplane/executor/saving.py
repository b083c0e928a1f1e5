"""What a session gets of a new turn: the user's message, what the turn is, and the void of one that was refused."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.executor.agent import text_of
from taskplane.executor.history import MAX_CALL_BYTES, SessionLog, outcome_id
from taskplane.executor.routing import Routing
from taskplane.executor.tasklog import persistently
from taskplane.runtime.errors import NotFound

TITLE: Final = 60
# How many entries a turn that becomes a task begins with.
OPENING: Final = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """What a turn is: answered directly, or a task. `begins_session`: there was nothing in the session before it.

    `repeated`: the turn was saved before. `unapplied`: the session's tasks are not in line with its history.
    """

    answer: a2a.Message | None
    begins_session: bool
    repeated: bool
    unapplied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A new turn, before it is a task. `message` is the executor's own copy."""

    invocation_id: str
    request_hash: bytes
    context_id: str
    task_id: str
    agent: str
    message: a2a.Message
    # The version that the session must have before it is saved; 0: any.
    expected_version: int = 0

    async def decide(self, log: SessionLog, routing: Routing | None, route_timeout: float) -> Decision:
        """Saves the user's message and what its turn is, in one call where nothing has to be waited for.

        Whatever was stored first is the decision. Refused KEY_REUSED, Conflict VERSION_MISMATCH, Unavailable and the
        like are the caller's.
        """
        if routing is None or (await routing.at_sight() and self._fits(routing)):
            outcome = self._outcome(routing)
            opening = [self._user(is_task=not outcome.HasField("message")), outcome]
            stored = await self._save(log, opening, self.expected_version)
            repeated = stored.appended < 2
            if repeated:
                await unvoid(log, self.context_id, self.invocation_id, self.request_hash)
            begins = stored.appended == OPENING == stored.entry_count
            return Decision(_answer(stored, outcome), begins, repeated, stored.unapplied)
        saved = await self._save(log, [self._user(is_task=False)], self.expected_version)
        repeated = saved.appended == 0
        if repeated:
            await unvoid(log, self.context_id, self.invocation_id, self.request_hash)
            decided = await log.outcome(self.context_id, self.invocation_id)
            if decided is not None:
                answer = decided.message if decided.HasField("message") else None
                return Decision(answer, begins_session=False, repeated=True, unapplied=saved.unapplied)
        begins = saved.appended == 1 == saved.entry_count
        await routing.wait(route_timeout, () if begins else await self._history(log))
        outcome = self._outcome(routing)
        stored = await self._save(log, [outcome])
        # Much can happen while a router thinks.
        begins = begins and stored.entry_count == OPENING
        return Decision(_answer(stored, outcome), begins, repeated, stored.unapplied)

    def _fits(self, routing: Routing) -> bool:
        """Whether the message and its answer go into one call."""
        answer = routing.answer()
        return answer is None or self.message.ByteSize() + answer.ByteSize() <= MAX_CALL_BYTES

    async def _save(
        self, log: SessionLog, entries: Sequence[pb.Entry], expected_version: int = 0
    ) -> pb.AppendEntriesResponse:
        create = pb.NewSession(agent=self.agent, title=title_of(self.message))
        return await persistently(lambda: log.append(self.context_id, entries, create, expected_version))

    async def _history(self, log: SessionLog) -> list[a2a.Message]:
        return (await log.conversation(self.context_id)).messages(without={self.invocation_id})

    def _user(self, *, is_task: bool) -> pb.Entry:
        entry = pb.Entry(
            id=self.invocation_id,
            kind=pb.ENTRY_KIND_MESSAGE,
            invocation_id=self.invocation_id,
            request_hash=self.request_hash,
            message=self.message,
        )
        if is_task:
            entry.task_id, entry.generation = self.task_id, 1
            entry.message.task_id = self.task_id
        return entry

    def _outcome(self, routing: Routing | None) -> pb.Entry:
        answer = routing.answer() if routing is not None else None
        return pb.Entry(
            id=outcome_id(self.invocation_id),
            kind=pb.ENTRY_KIND_OUTCOME,
            invocation_id=self.invocation_id,
            task_id="" if answer is not None else self.task_id,
            message=answer,
        )


def _answer(stored: pb.AppendEntriesResponse, ours: pb.Entry) -> a2a.Message | None:
    """The direct answer that was stored first, if the turn has one; `ours` is the outcome that was given."""
    first = next((entry for entry in stored.known if entry.id == ours.id), ours)
    return first.message if first.HasField("message") else None


async def void(log: SessionLog, context_id: str, invocation_id: str) -> None:
    """Takes a turn that came to nothing out of the conversation."""
    await _mark(log, context_id, invocation_id, off=False)


async def unvoid(log: SessionLog, context_id: str, invocation_id: str, request_hash: bytes = b"") -> None:
    """Puts a turn back if it was voided. `request_hash`: to try it once more, so that it may come to nothing again."""
    if await log.is_void(context_id, invocation_id):
        await _mark(log, context_id, invocation_id, off=True, request_hash=request_hash)


async def _mark(log: SessionLog, context_id: str, invocation_id: str, *, off: bool, request_hash: bytes = b"") -> None:
    entry = pb.Entry(
        id=f"{invocation_id}-void-{secrets.token_hex(4)}",
        kind=pb.ENTRY_KIND_VOID,
        invocation_id=invocation_id,
        request_hash=request_hash,
        target=invocation_id,
        off=off,
    )
    try:
        await persistently(lambda: log.append(context_id, [entry]))
    except NotFound:
        return


def title_of(message: a2a.Message) -> str:
    """The first words of a message, at most 60 characters, as the title of the session it begins."""
    text = " ".join(text_of(message)[: 20 * TITLE].split())
    if len(text) <= TITLE:
        return text
    words = text[: TITLE + 1].rsplit(" ", 1)[0] if " " in text[: TITLE + 1] else text[:TITLE]
    return words[:TITLE]
