"""Sessions made of other ones, at the port of the session log, on every engine."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from sqlalchemy import Connection
from tests.conformance.session_log import (
    ADA,
    BOB,
    HASH,
    Sessions,
    copy,
    event,
    message,
    outcome,
    pushed,
    user,
)
from tests.support.additions import time_of, untimed

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import AlreadyExists, Invalid, NotFound
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import EVENT, Entry
from taskplane.sessions.sql import statements
from taskplane.sessions.store import PAGE_BYTES


async def fork(
    sessions: Sessions, new: str = "f", before: str = "", of: str = "s", title: str = ""
) -> commands.Created:
    return await sessions.log.fork(
        commands.Fork(scope=ADA, context_id=of, new_context_id=new, before=before, title=title)
    )


async def rewound(sessions: Sessions, before: str, own: str, context_id: str = "s") -> None:
    request = pb.RewindRequest(context_id=context_id, before_invocation_id=before, id=own)
    await sessions.log.rewind(wire.rewind(request, ADA))


async def state(sessions: Sessions, context_id: str) -> dict[str, Any]:
    return MessageToDict((await sessions.log.state(ADA, context_id))[1])


def said(entry_id: str, invocation: str, **delta: Any) -> pb.Entry:
    return event(entry_id, json.dumps({"invocation_id": invocation, "actions": {"state_delta": delta}}))


async def three_turns(sessions: Sessions) -> None:
    """Turns A and C make tasks, B is answered directly; then A's task is answered in a turn of its own."""
    await sessions.append(
        "s", user("A", request_hash=HASH, actor="user:x"), outcome("A", task_id="task-A"), copy("A", 2)
    )
    await sessions.append("s", user("B", request_hash=HASH), outcome("B", "direct"))
    await sessions.append("s", user("C", request_hash=HASH), outcome("C", task_id="t2"), copy("C", 4), copy("C", 3))
    follow_up = copy("A", 5, "A again")
    follow_up.invocation_id, follow_up.task_invocation_id = "A2", "A"
    await sessions.append("s", follow_up)


async def test_a_fork_has_the_same_conversation_as_its_source(sessions: Sessions) -> None:
    await three_turns(sessions)
    before = await sessions.said("s")
    made = await fork(sessions, title="fork")
    new = made.session
    assert (made.created, new.seq, new.version, new.title, new.agent, new.source) == (
        True,
        8,
        9,
        "fork",
        "demo",
        "test",
    )
    assert (new.has_session_task, new.steered_seq, new.applied_seq, new.unapplied) == (True, 0, 0, False)
    assert new == await sessions.log.session(ADA, "f")
    assert await sessions.said("f") == before == ["A?", "A.2", "A again", "B?", "direct", "C?", "C.3", "C.4"]
    first, *_, last = await sessions.entries("f")
    assert (first.invocation_id, first.actor, first.task_id, first.request_hash) == ("A", "user:x", "", None)
    assert (last.invocation_id, last.task_invocation_id, last.generation, last.task_id) == ("C", "C", 4, "")
    said = message("A?", invocation="A")
    said.context_id = "f"
    was = (await sessions.entries("s"))[0]
    assert untimed(wire.entry(first).message) == said
    assert time_of(wire.entry(first).message) == time_of(wire.entry(was).message)
    assert await sessions.said("s") == before
    assert (await sessions.log.session(ADA, "s")).seq == 10


async def test_a_fork_has_the_entries_in_effect_before_an_invocation(sessions: Sessions) -> None:
    await three_turns(sessions)
    await fork(sessions, before="C")
    assert await sessions.said("f") == ["A?", "A.2", "B?", "direct"]
    await rewound(sessions, "B", "r")
    await sessions.append("s", user("D"))
    await fork(sessions, "g")
    assert await sessions.said("g") == ["A?", "A.2", "D?"]
    await fork(sessions, "h", before="r")
    assert await sessions.said("h") == ["A?", "A.2", "A again", "B?", "direct", "C?", "C.3", "C.4"]
    await fork(sessions, "i", before="A")
    assert ((await sessions.log.session(ADA, "i")).seq, await sessions.said("i")) == (0, [])


async def test_a_fork_goes_on_by_itself(sessions: Sessions) -> None:
    """Its turns can be rewound, undone and forked; ids and turns of the old session are free in it."""
    await three_turns(sessions)
    await fork(sessions)
    await sessions.append("f", user("D", request_hash=HASH))
    await rewound(sessions, "B", "r", "f")
    assert await sessions.said("f") == ["A?", "A.2", "A again"]
    await sessions.log.undo(wire.undo(pb.UndoRequest(context_id="f"), ADA, entry_id="u"))
    assert (await sessions.said("f"))[-1] == "D?"
    await fork(sessions, "ff", of="f", before="C")
    assert await sessions.said("ff") == ["A?", "A.2", "A again", "B?", "direct"]
    assert len(await sessions.said("s")) == 8
    unsettled = await sessions.log.unsettled(0.0, 100)
    assert {turn.context_id for turn in unsettled.turns} == {"f"}


async def test_a_fork_copies_the_messages_of_a_pushed_history_that_are_in_effect(sessions: Sessions) -> None:
    """R7: rewound messages of the history are left out."""
    await sessions.append("s", user("A"))
    listing = [
        message("p1", invocation="A"),
        message("p2", invocation="B"),
        message("p3"),
        message("p4", invocation="A"),
    ]
    await sessions.append("s", pushed("p", *listing), user("C"))
    await rewound(sessions, "B", "r")
    assert await sessions.said("s") == ["p1", "p4"]
    made = await fork(sessions)
    assert (made.session.steered_seq, made.session.applied_seq) == (1, 1)
    assert await sessions.said("f") == ["p1", "p4"]
    await sessions.append("f", user("D"))
    await rewound(sessions, "D", "r2", "f")
    assert await sessions.said("f") == ["p1", "p4"]
    await rewound(sessions, "A", "r3", "f")
    assert await sessions.said("f") == []


async def test_a_fork_has_the_state_of_its_events_and_shares_the_wider_ones(sessions: Sessions) -> None:
    """R12: in the order in which they were written, also where turns overlap."""
    await sessions.append("s", said("e1", "A", x=1), said("e2", "B", x=2), said("e3", "A", x=3, **{"user:u": 1}))
    await sessions.append("s", said("e4", "B", y=1), said("e5", "C", x=9, **{"user:u": 2}))
    expected = {"x": 3, "y": 1, "user:u": 2}
    await fork(sessions, before="C")
    assert [entry.id for entry in await sessions.entries("s", effective=True, kinds=[EVENT])][:2] == ["e1", "e2"]
    assert await state(sessions, "f") == expected
    await sessions.append("f", said("f1", "D", y=None))
    assert await state(sessions, "f") == {"x": 3, "user:u": 2}
    await rewound(sessions, "D", "r", "f")
    assert await state(sessions, "f") == expected
    await rewound(sessions, "B", "r2", "f")
    assert await state(sessions, "f") == {"x": 1, "user:u": 2}
    assert await state(sessions, "s") == {"x": 9, "y": 1, "user:u": 2}


async def test_a_repeated_fork_is_answered_with_the_existing_session(sessions: Sessions) -> None:
    await three_turns(sessions)
    await fork(sessions, before="C")
    await sessions.append("f", user("X"))
    await rewound(sessions, "A", "r")
    again = await fork(sessions, before="C")
    assert (again.created, again.session) == (False, await sessions.log.session(ADA, "f"))
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    assert not (await fork(sessions, before="C")).created
    assert len(await sessions.said("f")) == 5


async def test_of_concurrent_forks_one_creates_the_session(sessions: Sessions) -> None:
    await three_turns(sessions)
    answers = await asyncio.gather(*(fork(sessions) for _ in range(6)))
    assert sorted(answer.created for answer in answers) == [False] * 5 + [True]
    assert len({answer.session for answer in answers}) == 1
    assert len(await sessions.entries("f")) == 8


async def test_an_impossible_fork_is_refused_and_stores_nothing(sessions: Sessions) -> None:
    await three_turns(sessions)
    await rewound(sessions, "C", "r")
    for before, of in (("C", "s"), ("nobody", "s"), ("", "none")):
        with pytest.raises(NotFound) as refused:
            await fork(sessions, before=before, of=of)
        assert refused.value.reason == ("INVOCATION_NOT_FOUND" if before else "SESSION_NOT_FOUND")
    with pytest.raises(NotFound):
        await sessions.log.fork(commands.Fork(scope=BOB, context_id="s", new_context_id="f"))
    with pytest.raises(NotFound):
        await sessions.log.session(ADA, "f")
    await fork(sessions)
    await sessions.append("t", user("T"))
    for new, before in (("f", "B"), ("s", ""), ("t", "")):
        with pytest.raises(AlreadyExists) as exists:
            await fork(sessions, new, before=before)
        assert exists.value.reason == "SESSION_EXISTS"
    for wrong in (fork(sessions, ""), fork(sessions, "x" * 256), fork(sessions, "x", title="\0")):
        with pytest.raises(Invalid):
            await wrong


async def test_a_long_session_is_copied_some_megabytes_at_a_time(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 700, 100):
        await sessions.append("s", *(user(f"i{n}") for n in range(first, first + 100)))
    for n in range(6):
        await sessions.append("s", user(f"big{n}", "x" * 3_000_000))
    sizes: list[int] = []
    insert_entries = statements.insert_entries

    def counted(conn: Connection, entries: Sequence[Entry]) -> None:
        sizes.append(sum(len(entry.payload or b"") for entry in entries))
        insert_entries(conn, entries)

    monkeypatch.setattr(statements, "insert_entries", counted)
    assert (await fork(sessions)).session.seq == 706
    assert len(sizes) >= 5
    assert max(sizes) <= PAGE_BYTES
    assert [entry.invocation_id for entry in await sessions.entries("f")] == [
        entry.invocation_id for entry in await sessions.entries("s")
    ]
