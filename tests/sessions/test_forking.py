"""The copies of the entries of a session that is forked, whatever its log looks like."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.session_log import ADA, message
from tests.sessions.naive import lines, names, plain
from tests.support.thorough import examples

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain.commands import Fork
from taskplane.sessions.domain.forking import copy_of, forked, to_copy
from taskplane.sessions.domain.history import InEffect, can_rewind_to, effective
from taskplane.sessions.domain.payload import messages
from taskplane.sessions.domain.replay import Line, Name
from taskplane.sessions.domain.session import PUSHED, REWIND, Entry, Session

OLD = Session("", "ada", "old", 9, 10, "demo", "title", "", False, 1, 2)
FORK = Fork(scope=ADA, context_id="old", new_context_id="new")


def stored(line: Line) -> Entry:
    """An entry with this line; a pushed history has as many messages as it lists."""
    pushed = pb.Messages(messages=[message(f"{line.seq}.{n}") for n in range(line.listed.count("\n"))])
    payload = pb.Entry(pushed=pushed).SerializeToString() if line.kind == PUSHED else b""
    fields = {name: value for name, value in line._asdict().items() if name != "task_id"}
    return Entry(
        tenant="",
        owner="ada",
        context_id="old",
        id=f"e{line.seq}",
        task_id="t",
        actor="user:ada",
        request_hash=b"h" * 32,
        payload=payload,
        created_at=3,
        **fields,
    )


def made_of(log: Sequence[Line], copies: Sequence[InEffect]) -> list[Entry]:
    new = forked(OLD, FORK, copies, 7)
    by_seq = {line.seq: line for line in log}
    return [copy_of(stored(by_seq[one.seq]), one, new, seq) for seq, one in enumerate(copies, 1)]


def lines_of(entries: Sequence[Entry]) -> list[Line]:
    return [Line(**{name: getattr(entry, name) for name in Line._fields}) for entry in entries]


def of_one_task(log: Sequence[Line]) -> bool:
    """Return whether every turn has at most one task, as those of the executor have, and no history was pushed."""
    groups: dict[Name, Name] = {}
    # The turn that created a task belongs to that task itself.
    return not any(
        line.kind == PUSHED or groups.setdefault(name, line.group) != line.group
        for line in log
        for name in (line.name, line.group)
    )


@settings(max_examples=examples(100), deadline=None)
@given(lines(), st.one_of(st.just(""), names))
def test_everything_that_was_copied_is_in_effect(log: list[Line], before: str) -> None:
    copies = to_copy(log, before)
    if copies is None:
        assert before and not can_rewind_to(log, before)
        return
    entries = made_of(log, copies)
    found = effective(lines_of(entries))
    assert sorted(one.seq for one in found) == list(range(1, len(copies) + 1))
    if copies and copies[0].kind == PUSHED:
        assert len(messages(entries[0].payload)) == len(copies[0].kept) == len(found[0].kept)
    if of_one_task(log):
        assert [one.seq for one in found] == list(range(1, len(copies) + 1))


@settings(max_examples=examples(150), deadline=None)
@given(lines(), names)
def test_a_fork_before_a_turn_equals_a_rewind_before_it(log: list[Line], before: str) -> None:
    """R3: both have the same conversation."""
    copies = to_copy(log, before)
    if copies is not None:
        assert plain(copies) == plain(effective([*log, Line(len(log) + 1, REWIND, "new", target=before)]))


def test_a_copy_keeps_its_turn_but_not_its_task_nor_its_request() -> None:
    line = Line(4, 1, "A2", "t", "A", 5, speaks=True)
    (entry,) = made_of([line], [InEffect(4, 1)])
    assert (entry.context_id, entry.seq, entry.invocation_id, entry.task_invocation_id) == ("new", 1, "A2", "A")
    assert (entry.generation, entry.actor, entry.speaks, entry.created_at) == (5, "user:ada", True, 7)
    assert (entry.task_id, entry.request_hash) == ("", None)
    assert len(entry.id) == 32
    assert made_of([line], [InEffect(4, 1)])[0].id == entry.id
