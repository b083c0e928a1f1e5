"""Short ways to say in a test what executors, users and the sweep do to tasks, at the port of the task log."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.storage.engine import Engine, open_engine
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import Change, read_message
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.task import WORKING, Event, Row, Scope
from taskplane.tasks.pages import MAX_EVENTS, EventFilter
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.store import Renewed
from taskplane.tasks.wire import read_changes

ADA = Scope(tenant="", owner="ada", actor="ada")
BOB = Scope(tenant="", owner="bob", actor="bob")
# Further away than any test lasts, microseconds.
HOUR = 3_600_000_000

T = TypeVar("T")


def message(text: str, message_id: str, *, role: int = a2a.ROLE_AGENT, partial: bool = False) -> a2a.Message:
    made = a2a.Message(message_id=message_id, role=role)  # type: ignore[arg-type]
    made.parts.add().text = text
    if partial:
        made.metadata.fields["kagent_adk_partial"].bool_value = True
    return made


def status(state: int, said: a2a.Message | None = None) -> pb.Change:
    change = pb.Change()
    change.status.status.state = state  # type: ignore[assignment]
    if said is not None:
        change.status.status.message.CopyFrom(said)
    return change


def chunk(text: str, artifact_id: str = "a", *, append: bool = False) -> pb.Change:
    change = pb.Change()
    change.artifact.artifact.artifact_id = artifact_id
    change.artifact.artifact.parts.add().text = text
    change.artifact.append = append
    return change


def status_text(text: str, message_id: str) -> pb.Change:
    change = pb.Change()
    change.status_text.status.state = WORKING  # type: ignore[assignment]
    change.status_text.status.message.CopyFrom(message(text, message_id))
    return change


def checkpoint(data: bytes) -> pb.Change:
    return pb.Change(checkpoint=data)


def changed(*changes: pb.Change) -> list[Change]:
    """The changes as an operation has them."""
    return read_changes(changes, "changes")


def only(kind: type[T], answer: object) -> T:
    """`answer`, which must be of this kind."""
    assert isinstance(answer, kind), answer
    return answer


@dataclass
class Plane:
    """A task log on a database of its own, and what it announced."""

    engine: Engine
    log: SqlTaskLog
    commits: list[Committed] = field(default_factory=list[Committed])
    _numbers: Any = field(default_factory=lambda: count(1))

    def creation(self, **given: Any) -> commands.Create:
        """An operation that makes a new task, running under a lease of `p1` unless said otherwise."""
        number = next(self._numbers)
        name = given.pop("name", f"t{number}")
        claim_for = given.get("claim_for", "p1")
        values: dict[str, Any] = {
            "scope": ADA,
            "uid": hashlib.sha256(f"{name}-{number}".encode()).hexdigest()[:32],
            "salt": f"salt{number}",
            "task_id": name,
            "invocation_id": f"{name}-i1",
            "request_hash": b"first",
            "agent": "demo",
            "context_id": "c1",
            "message": read_message(message("hello", f"{name}-m1", role=a2a.ROLE_USER)),
            "on_orphan": int(pb.ON_ORPHAN_FAIL),
            "max_attempts": 3,
            "claim_for": claim_for,
            "changes": changed(status(WORKING)) if claim_for else [],
        }
        values |= {"lease_until": 1 << 60} | given
        return commands.Create(**values)

    async def create(self, **given: Any) -> Row:
        return only(commands.Created, await self.log.submit(self.creation(**given))).row

    async def queued(self, **given: Any) -> Row:
        return await self.create(claim_for="", **given)

    async def append(self, row: Row, *changes: pb.Change, **given: Any) -> commands.Appended:
        """An item of the executor that holds the lease now, with the next number."""
        return only(commands.Appended, await self.log.submit(await self.item(row, *changes, **given)))

    async def grow(self, row: Row, chunks: int, size: int) -> commands.Appended:
        """An item of `chunks` pieces of one artifact, of `size` characters each; the first one of all begins it."""
        begun = (await self.log.row_by_uid(row.uid)).artifact_id == "a"
        pieces = [chunk("x" * size, append=begun or number > 0) for number in range(chunks)]
        return await self.append(row, *pieces)

    async def item(self, row: Row, *changes: pb.Change, **given: Any) -> commands.Append:
        now = await self.log.row_by_uid(row.uid)
        number = (now.item_number or 0) + 1 if now.item_fence == now.fence else 1
        values: dict[str, Any] = {"actor": "agent:demo", "task_uid": row.uid, "fence": now.fence, "number": number}
        values |= {"changes": changed(*changes)} | given
        return commands.Append(**values)

    async def complete(self, row: Row, text: str = "done") -> commands.Appended:
        input_generation = (await self.log.row_by_uid(row.uid)).input_generation
        said = message(text, f"{row.id}-final")
        return await self.append(row, status(a2a.TASK_STATE_COMPLETED, said), consumed_generation=input_generation)

    async def pause(self, row: Row) -> commands.Appended:
        input_generation = (await self.log.row_by_uid(row.uid)).input_generation
        asked = message("which one?", f"{row.id}-ask-{input_generation}")
        return await self.append(
            row, status(a2a.TASK_STATE_INPUT_REQUIRED, asked), consumed_generation=input_generation
        )

    def saying(
        self, row: Row, invocation: str, text: str = "and more", request_hash: bytes = b"more"
    ) -> commands.AddMessage:
        return commands.AddMessage(
            scope=Scope(row.tenant, row.owner, row.owner),
            task_id=row.id,
            invocation_id=invocation,
            request_hash=request_hash,
            message=read_message(message(text, f"{invocation}-m", role=a2a.ROLE_USER)),
        )

    async def say(self, row: Row, invocation: str, **given: Any) -> commands.Added:
        return only(commands.Added, await self.log.submit(self.saying(row, invocation, **given)))

    async def cancel(self, row: Row) -> Row:
        return only(commands.Done, await self.log.submit(commands.Cancel(scope=ADA, task_id=row.id))).row

    async def claim(self, row: Row, process: str = "p2") -> Row | None:
        until = await self.log.now() + HOUR
        answer = await self.log.submit(commands.Claim(task_uid=row.uid, process_id=process, lease_until=until))
        return None if answer is None else only(commands.Done, answer).row

    async def renew(self, *rows: Row, process: str = "p1", until: int | None = None) -> Sequence[Renewed]:
        """Renews the leases that these rows name, for an hour unless said otherwise."""
        until = await self.log.now() + HOUR if until is None else until
        return await self.log.renew(process, [(row.uid, row.fence) for row in rows], until)

    async def until(self, row: Row) -> int:
        """The end of its lease."""
        (lease,) = [each for each in await self.log.held() if each.task_uid == row.uid]
        return lease.lease_until

    async def orphan(self, row: Row, **given: Any) -> Row | None:
        now = await self.log.row_by_uid(row.uid)
        op = commands.Orphan(task_uid=row.uid, process_id=now.lease_owner or "", fence=now.fence, **given)
        answer = await self.log.submit(op)
        return None if answer is None else only(commands.Done, answer).row

    async def put(self, task_id: str, text: str, state: int = a2a.TASK_STATE_WORKING, **given: Any) -> commands.Done:
        return only(commands.Done, await self.log.submit(self.document(task_id, text, state, **given)))

    def document(self, task_id: str, text: str, state: int = a2a.TASK_STATE_WORKING, **given: Any) -> commands.Put:
        number = next(self._numbers)
        task = a2a.Task(id=task_id, context_id="c-doc")
        task.status.state = state  # type: ignore[assignment]
        task.artifacts.add(artifact_id="doc").parts.add().text = text
        values: dict[str, Any] = {"scope": ADA, "uid": f"document{number:024d}", "salt": "salt", "task": task}
        values |= given
        return commands.Put(**values)

    async def mark(self, seq: int, *cut: str, context_id: str = "c1", scope: Scope = ADA) -> list[str]:
        """Brings the session in line with its entry `seq`, after which these turns are cut; ids of what changed."""
        op = commands.MarkSuperseded(scope=scope, context_id=context_id, steered_seq=seq, cut=frozenset(cut))
        return [row.id for row in only(commands.Marked, await self.log.submit(op)).rows]

    async def all_events(self, row: Row) -> Sequence[Event]:
        return (await self.log.events(Scope(row.tenant, row.owner, ""), row.id, EventFilter(limit=MAX_EVENTS)))[1]

    async def check(self, row: Row) -> Row:
        """Check what holds at any time for a managed task: numbers without a gap, one end, and the task is its fold."""
        found, task = await self.log.get(Scope(row.tenant, row.owner, ""), row.id)
        events = await self.all_events(row)
        assert [event.generation for event in events] == list(range(1, found.generation + 1))
        assert task == fold(a2a.Task(), events)
        assert task.status.state == found.state
        assert sum(len(event.payload) for event in events) == found.event_bytes
        return found


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncGenerator[Plane, None]:
    """A plane on a database that has the schema already."""
    async with open_engine(url) as engine:
        commits: list[Committed] = []
        async with SqlTaskLog(engine, on_commit=commits.append, **settings) as log:
            yield Plane(engine, log, commits)
