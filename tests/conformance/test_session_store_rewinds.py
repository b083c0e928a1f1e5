"""Rewinds, undos and what follows from them, at the port of the session log, on every engine."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.conformance.session_log import (
    ADA,
    BOB,
    HASH,
    OTHER_HASH,
    Sessions,
    copy,
    event,
    ids,
    message,
    opened,
    outcome,
    pushed,
    rewind,
    undo,
    user,
)
from tests.conftest import Migrated
from tests.support.additions import untimed

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Conflict, Invalid, NotFound, Refused
from taskplane.sessions import wire
from taskplane.sessions.domain import commands


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[Sessions, None]:
    """An open session log, and in it session s with the turns A, B and C."""
    async with opened(await migrated("taskplane.sessions")) as sessions:
        for name in "ABC":
            await sessions.append("s", user(name, request_hash=HASH), outcome(name, task_id="t"), copy(name, 2))
        yield sessions


async def rewound(
    sessions: Sessions, before: str, own: str, *, context_id: str = "s", expected_version: int = 0, hashed: bytes = b""
) -> commands.Rewound:
    request = pb.RewindRequest(
        context_id=context_id,
        before_invocation_id=before,
        id=own,
        request_hash=hashed,
        message=message("the request"),
        expected_version=expected_version,
    )
    return await sessions.log.rewind(wire.rewind(request, ADA))


async def undone(
    sessions: Sessions, own: str = "u", *, context_id: str = "s", expected_version: int = 0, hashed: bytes = b""
) -> commands.Rewound:
    request = pb.UndoRequest(context_id=context_id, id=own, expected_version=expected_version, request_hash=hashed)
    return await sessions.log.undo(wire.undo(request, ADA, entry_id=""))


async def mark(sessions: Sessions, seq: int) -> int:
    return (await sessions.log.mark_applied(commands.MarkApplied(scope=ADA, context_id="s", seq=seq))).applied_seq


async def cut(sessions: Sessions) -> list[str]:
    return list((await sessions.log.cut(ADA, "s"))[1].invocations)


async def test_a_rewind_is_an_entry_that_cuts(sessions: Sessions) -> None:
    """R3, R4: the whole request is in the log."""
    done = await rewound(sessions, "B", "r", hashed=HASH)
    assert (done.seq, done.done) == (10, True)
    now = done.session
    assert (now.seq, now.version, now.steered_seq, now.applied_seq, now.has_session_task) == (10, 11, 10, 0, True)
    assert await sessions.said("s") == ["A?", "A.2"]
    assert await cut(sessions) == ["B", "C"]
    stored = wire.entry((await sessions.entries("s"))[-1])
    assert (stored.id, stored.invocation_id, stored.target, stored.off) == ("r", "r", "B", False)
    assert (stored.actor, stored.request_hash, untimed(stored.message)) == ("user:ada", HASH, message("the request"))


async def test_a_repeated_rewind_gets_the_first_answer(sessions: Sessions) -> None:
    """R4: also after the history has changed, and with any expected version."""
    first = await rewound(sessions, "B", "r", hashed=HASH)
    await sessions.append("s", user("D"))
    again = await rewound(sessions, "B", "r", hashed=HASH, expected_version=1)
    assert (again.seq, again.done, again.session.seq) == (first.seq, False, 11)
    assert await sessions.said("s") == ["A?", "A.2", "D?"]


async def test_a_rewind_to_a_turn_that_is_not_in_effect_is_refused_for_good(sessions: Sessions) -> None:
    """R9: only the log changes."""
    before = await sessions.said("s")
    for _ in range(2):
        with pytest.raises(NotFound) as refused:
            await rewound(sessions, "D", "r", hashed=HASH)
        assert (refused.value.reason, refused.value.metadata) == ("INVOCATION_NOT_FOUND", {"invocation_id": "D"})
    session = await sessions.log.session(ADA, "s")
    assert (session.seq, session.version, session.steered_seq, session.has_session_task) == (10, 11, 0, False)
    assert (await sessions.entries("s"))[-1].off
    assert await sessions.said("s") == before
    await sessions.append("s", user("D"))
    with pytest.raises(NotFound):
        await rewound(sessions, "D", "r", hashed=HASH)
    assert (await rewound(sessions, "D", "r2")).done


async def test_rewinds_stack_and_a_cut_turn_cannot_be_rewound_to(sessions: Sessions) -> None:
    """R3: each further rewind cuts more."""
    await rewound(sessions, "C", "r1")
    with pytest.raises(NotFound):
        await rewound(sessions, "C", "r2")
    await rewound(sessions, "B", "r3")
    assert await sessions.said("s") == ["A?", "A.2"]


async def test_rewinding_before_a_rewind_takes_it_back(sessions: Sessions) -> None:
    """R8: ADK's rule."""
    await rewound(sessions, "B", "r1")
    await sessions.append("s", user("D"))
    await rewound(sessions, "r1", "r2")
    assert await sessions.said("s") == ["A?", "A.2", "B?", "B.2", "C?", "C.2"]
    assert await cut(sessions) == ["D"]


async def test_an_undo_reverts_the_newest_rewind(sessions: Sessions) -> None:
    """R8: the cut turns are in effect again."""
    before = await sessions.said("s")
    await rewound(sessions, "C", "r1")
    await rewound(sessions, "B", "r2")
    done = await undone(sessions, "u1", expected_version=12, hashed=HASH)
    assert (done.seq, done.done, done.session.steered_seq) == (12, True, 12)
    assert await sessions.said("s") == ["A?", "A.2", "B?", "B.2"]
    again = await undone(sessions, "u1", expected_version=1, hashed=HASH)
    assert (again.seq, again.done) == (12, False)
    await sessions.append("z", user("Z"))
    for reused in (undone(sessions, "u1", hashed=OTHER_HASH), undone(sessions, "u1", context_id="z")):
        with pytest.raises(Refused) as refused:
            await reused
        assert refused.value.reason == "KEY_REUSED"
    await undone(sessions, "u2")
    assert (await sessions.said("s"), await cut(sessions)) == (before, [])
    with pytest.raises(Refused) as refused:
        await undone(sessions, "u3")
    assert refused.value.reason == "NOTHING_TO_UNDO"
    assert (await sessions.log.session(ADA, "s")).seq == 13


async def test_an_undo_is_refused_after_a_new_turn_began(sessions: Sessions) -> None:
    """R8: the reason is `TOO_LATE_TO_UNDO`."""
    await rewound(sessions, "B", "r")
    await sessions.append("s", copy("B", 9))
    await sessions.append("s", user("D"))
    with pytest.raises(Refused) as refused:
        await undone(sessions)
    assert refused.value.reason == "TOO_LATE_TO_UNDO"
    assert await sessions.said("s") == ["A?", "A.2", "D?"]


async def test_a_refused_rewind_or_undo_stores_nothing(sessions: Sessions) -> None:
    """R9: the log does not change."""
    with pytest.raises(Conflict) as conflict:
        await rewound(sessions, "B", "r", expected_version=3)
    assert conflict.value.metadata == {"version": "10"}
    with pytest.raises(Conflict):
        await undone(sessions, expected_version=3)
    await rewound(sessions, "B", "r", hashed=HASH)
    for attempt in (
        rewound(sessions, "B", "r", hashed=OTHER_HASH),
        rewound(sessions, "A", "r", hashed=HASH),
        rewound(sessions, "A", "A"),
        undone(sessions, "r"),
    ):
        with pytest.raises(Refused) as refused:
            await attempt
        assert refused.value.reason == "KEY_REUSED"
    with pytest.raises(NotFound) as unknown:
        await rewound(sessions, "B", "x", context_id="none")
    assert unknown.value.reason == "SESSION_NOT_FOUND"
    for wrong in (rewound(sessions, "", "x"), rewound(sessions, "B", ""), rewound(sessions, "B", "x", hashed=b"short")):
        with pytest.raises(Invalid):
            await wrong
    with pytest.raises(Invalid):
        await rewound(sessions, "B", "x", expected_version=-1)
    assert (await sessions.log.session(ADA, "s")).seq == 10


async def test_concurrent_rewinds_are_decided_one_after_the_other(sessions: Sessions) -> None:
    """R9: each rewind is decided in the transaction that stores its entry."""
    answers = await asyncio.gather(*(rewound(sessions, "B", f"r{n}") for n in range(6)), return_exceptions=True)
    assert sum(isinstance(answer, commands.Rewound) for answer in answers) == 1
    assert [error.reason for error in answers if isinstance(error, NotFound)] == ["INVOCATION_NOT_FOUND"] * 5
    assert len(ids(await sessions.entries("s"))) == 15


async def test_a_session_is_listed_as_changed_until_its_rewind_is_applied(sessions: Sessions) -> None:
    """R4: the answer to an append tells that a rewind is not applied, and the sweep finds it."""
    assert not wire.appended(await sessions.append("s", user("D"))).unapplied
    steering = [pushed("p", message("A?", invocation="A")), rewind("A", "r"), undo("u"), event("e1", "{}")]
    for seq, entry in enumerate(steering, 11):
        answer = wire.appended(await sessions.append("s", entry))
        assert answer.unapplied
        assert (await sessions.log.session(ADA, "s")).steered_seq == min(seq, 13)
    await sessions.append("s", event("e2", '{"actions": {"rewind_before_invocation_id": "A"}}'))
    assert (await sessions.log.session(ADA, "s")).steered_seq == 15
    await sessions.append("t", user("E"), rewind("E", "q"), scope=BOB)
    await sessions.append("u", user("F"), outcome("F", "direct"))
    expected = list(await sessions.log.unapplied(10))
    assert [one[:3] for one in expected] == [("", "ada", "s"), ("", "bob", "t")]
    assert list(await sessions.log.unapplied(1)) == expected[:1]
    assert list(await sessions.log.unapplied(1, expected[0])) == expected[1:]
    assert not await sessions.log.unapplied(10, expected[1])
    version = (await sessions.log.session(ADA, "s")).version
    assert [await mark(sessions, seq) for seq in (13, 12, 15, 0)] == [13, 13, 15, 15]
    assert list(await sessions.log.unapplied(10)) == expected[1:]
    assert (await sessions.log.session(ADA, "s")).version == version
    assert not wire.appended(await sessions.append("s", user("G"))).unapplied
    with pytest.raises(Invalid) as refused:
        await mark(sessions, 17)
    assert refused.value.reason == "BEYOND_HEAD"
    with pytest.raises(NotFound):
        await sessions.log.mark_applied(commands.MarkApplied(scope=BOB, context_id="s", seq=1))
    for limit, place in ((0, None), (1001, None), (10, expected[0]._replace(updated_at=1 << 62))):
        with pytest.raises(Invalid):
            await sessions.log.unapplied(limit, place)


async def test_marking_beyond_the_newest_rewind_marks_the_newest_rewind(sessions: Sessions) -> None:
    await rewound(sessions, "C", "r1")
    await sessions.append("s", user("D"))
    assert await mark(sessions, 11) == 10
    await rewound(sessions, "B", "r2")
    assert [one[:3] for one in await sessions.log.unapplied(10)] == [("", "ada", "s")]


async def test_cut_invocations_are_shown_to_their_owner_only(sessions: Sessions) -> None:
    with pytest.raises(NotFound):
        await sessions.log.cut(BOB, "s")
    with pytest.raises(NotFound):
        await sessions.log.rewind(wire.rewind(pb.RewindRequest(context_id="s", before_invocation_id="A", id="r"), BOB))
