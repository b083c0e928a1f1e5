"""Short ways to say in a test what runs, users and runtimes write to sessions, at the port of the session log."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Entry, Scope
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.store import EntryFilter
from taskplane.storage.engine import Engine, open_engine

ADA = Scope("", "ada", "user:ada")
BOB = Scope("", "bob", "user:bob")
HASH = b"h" * 32
OTHER_HASH = b"o" * 32


def message(text: str, message_id: str = "", invocation: str = "") -> a2a.Message:
    made = a2a.Message(message_id=message_id or text[:40], role=a2a.ROLE_USER, parts=[a2a.Part(text=text)])
    if invocation:
        made.metadata.fields["kagent_invocation_id"].string_value = invocation
    return made


def user(invocation: str, text: str = "", **fields: Any) -> pb.Entry:
    """The message that begins a turn."""
    return pb.Entry(
        id=invocation,
        kind=pb.ENTRY_KIND_MESSAGE,
        invocation_id=invocation,
        message=message(text or f"{invocation}?", invocation=invocation),
        **fields,
    )


def outcome(invocation: str, text: str = "", **fields: Any) -> pb.Entry:
    """Return the outcome of a turn: a direct answer, or a task."""
    entry = pb.Entry(id=f"{invocation}-outcome", kind=pb.ENTRY_KIND_OUTCOME, invocation_id=invocation, **fields)
    if text:
        entry.message.CopyFrom(message(text, invocation=invocation))
    return entry


def copy(invocation: str, generation: int, text: str = "", **fields: Any) -> pb.Entry:
    """The copy of an event of the task that this turn created."""
    return pb.Entry(
        id=f"uid-{invocation}-{generation}",
        kind=pb.ENTRY_KIND_MESSAGE,
        invocation_id=invocation,
        task_id=f"task-{invocation}",
        task_invocation_id=invocation,
        generation=generation,
        message=message(text or f"{invocation}.{generation}", invocation=invocation),
        **fields,
    )


def rewind(target: str, own: str) -> pb.Entry:
    return pb.Entry(id=own, kind=pb.ENTRY_KIND_REWIND, invocation_id=own, target=target)


def undo(own: str) -> pb.Entry:
    return pb.Entry(id=own, kind=pb.ENTRY_KIND_UNDO, invocation_id=own)


def pushed(own: str, *messages: a2a.Message) -> pb.Entry:
    return pb.Entry(id=own, kind=pb.ENTRY_KIND_PUSHED, invocation_id=own, pushed=pb.Messages(messages=messages))


def event(entry_id: str, data: str) -> pb.Entry:
    return pb.Entry(id=entry_id, kind=pb.ENTRY_KIND_EVENT, data=data)


NEW = pb.NewSession(agent="demo", title="hello", source="test")


@dataclass
class Sessions:
    """A session log on a database of its own."""

    engine: Engine
    log: SqlSessionLog

    async def append(
        self,
        context_id: str,
        *entries: pb.Entry,
        scope: Scope = ADA,
        create: pb.NewSession | None = NEW,
        expected_version: int = 0,
    ) -> commands.Appended:
        request = pb.AppendEntriesRequest(
            context_id=context_id, entries=entries, create=create, expected_version=expected_version
        )
        return await self.log.append(wire.append(request, scope))

    async def entries(self, context_id: str, *, scope: Scope = ADA, **query: Any) -> list[Entry]:
        """All pages."""
        found: list[Entry] = []
        token = ""
        while True:
            page = await self.log.entries(scope, context_id, EntryFilter(**query, page_token=token))
            found.extend(page.entries)
            token = page.next_page_token
            if not token:
                return found

    async def effective(self, context_id: str, **query: Any) -> list[str]:
        """The ids of what is in effect."""
        return [entry.id for entry in await self.entries(context_id, effective=True, **query)]

    async def said(self, context_id: str) -> list[str]:
        """The texts of the conversation."""
        _, messages = await self.log.conversation(ADA, context_id)
        return [each.parts[0].text for each in messages]


def ids(entries: Sequence[Entry]) -> list[str]:
    return [entry.id for entry in entries]


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Sessions, None]:
    """The log over a database that has its schema."""
    async with open_engine(url) as engine, SqlSessionLog(engine) as log:
        yield Sessions(engine, log)
