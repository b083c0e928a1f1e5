"""Short ways to say in a test what an executor or a user does to a task, at the level of the rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import final_message as marks
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.domain.commands import Found, Known, Write, Writes
from taskplane.tasks.domain.decide import decide
from taskplane.tasks.domain.fold import Said, fold, text_so_far
from taskplane.tasks.domain.needs import (
    needs_artifacts,
    needs_final_message,
    needs_lease,
    needs_lost_messages,
    needs_open_text,
)
from taskplane.tasks.domain.task import SUBMITTED, WORKING, Event, Row, Scope
from taskplane.tasks.wire import read_changes

SCOPE = Scope(tenant="", owner="ada", actor="ada")


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


def final_message(state: int, said: a2a.Message, consumed: int) -> pb.Change:
    """What a run says last before it ends or pauses its task as `state`."""
    change = status(WORKING, said)
    fields = change.status.metadata.fields
    fields[marks.STATE].string_value = a2a.TaskState.Name(state)  # type: ignore[arg-type]
    fields[marks.READ].number_value = consumed
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


def create(*, claim_for: str = "p1", on_orphan: int = 1, max_attempts: int = 3) -> commands.Create:
    return commands.Create(
        scope=SCOPE,
        uid="u1",
        salt="salt",
        task_id="t1",
        invocation_id="i1",
        request_hash=b"h1",
        agent="demo",
        context_id="c1",
        message=read_message(message("hello", "m-user", role=a2a.ROLE_USER)),
        on_orphan=on_orphan,
        max_attempts=max_attempts,
        changes=read_changes([status(WORKING)], "changes") if claim_for else [],
        claim_for=claim_for,
        lease_until=1_000,
    )


@dataclass
class Log:
    """One task's log in memory: what a store would keep, so that the rules can be driven without one."""

    row: Row | None = None
    events: list[Event] = field(default_factory=list[Event])
    said: dict[int, Said] = field(default_factory=dict[int, Said])
    lease_until: int | None = None
    now: int = 100
    number: int = 0

    def do(self, op: commands.Operation) -> commands.Answer | PlaneError:
        self.now += 10
        outcome = decide(self._found(op), op, self.now)
        if isinstance(outcome, Writes):
            for write in outcome.writes:
                self.row = write.row
                self.events.extend(write.events)
            return outcome.answer
        if isinstance(outcome, Write):
            self.row = outcome.row
            self.events.extend(outcome.events)
            self.said.update(outcome.said or {})
            self.lease_until = outcome.lease_until or self.lease_until
            return outcome.answer
        return outcome

    def append(
        self, *changes: pb.Change, consumed: int = 0, copied: int = 0, fence: int | None = None
    ) -> commands.Appended:
        assert self.row is not None
        self.number += 1
        answer = self.do(
            commands.Append(
                actor="agent:demo",
                task_uid="u1",
                fence=self.row.fence if fence is None else fence,
                number=self.number,
                changes=read_changes(changes, "changes"),
                consumed_generation=consumed,
                copied_generation=copied,
            )
        )
        assert isinstance(answer, commands.Appended)
        return answer

    def say(self, text: str, invocation: str, message_id: str = "m-more") -> commands.Answer | PlaneError:
        return self.do(
            commands.AddMessage(
                scope=SCOPE,
                task_id="t1",
                invocation_id=invocation,
                request_hash=b"h",
                message=read_message(message(text, message_id, role=a2a.ROLE_USER)),
            )
        )

    def mark(self, seq: int, *cut: str) -> Sequence[Row]:
        """Brings the task in line with its session, from which these turns are cut; it, if that changed it."""
        op = commands.MarkSuperseded(scope=SCOPE, context_id="c1", steered_seq=seq, cut=frozenset(cut))
        answer = self.do(op)
        assert isinstance(answer, commands.Marked)
        return answer.rows

    def task(self) -> a2a.Task:
        return fold(a2a.Task(), self.events)

    @property
    def state(self) -> int:
        return self.row.state if self.row is not None else SUBMITTED

    def _found(self, op: commands.Operation) -> Found:
        row = self.row
        if isinstance(op, commands.MarkSuperseded):
            cut = any(event.invocation_id in op.cut for event in self.events)
            text = None
            if row is not None and needs_open_text(row, op):
                text = text_so_far(self.events, row.partial_id or "")
            return Found(None, others=[Found(row, open_text=text, cut=cut)])
        known = None
        if isinstance(op, (commands.Create, commands.AddMessage)):
            for event in self.events:
                if event.invocation_id == op.invocation_id:
                    known = Known("u1", event.generation, event.request_hash or b"")
        open_text = None
        lost: list[str] = []
        if row is not None and needs_open_text(row, op):
            open_text = text_so_far(self.events, row.partial_id or "")
        if row is not None and needs_lost_messages(row, op):
            lost = [
                a2a.StreamResponse.FromString(event.payload).status_update.status.message.message_id
                for event in self.events
                if event.fence == row.fence and event.speaks and event.invocation_id is None
            ]
        final_message = None
        if row is not None and needs_final_message(row, op):
            said = self.events[row.message_generation - 1]
            if said.fence == row.fence:
                final_message = a2a.StreamResponse.FromString(said.payload).status_update
        asked = needs_artifacts(row, op) if row is not None else ()
        return Found(
            row=row,
            known=known,
            known_row=row if known else None,
            open_text=open_text,
            lost_messages=lost,
            final_message=final_message,
            lease_until=self.lease_until if row is not None and needs_lease(row, op) else None,
            artifacts={each.artifact_id for each in self.task().artifacts if each.artifact_id in asked}
            if asked
            else set(),
        )


def started(**kwargs: int) -> Log:
    """A task that an executor has begun to work on."""
    log = Log()
    answer = log.do(create(**kwargs))  # type: ignore[arg-type]
    assert isinstance(answer, commands.Created)
    return log
