"""The promises of the session log (`taskplane.sessions.store`) to writers, on every engine."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.conformance.session_log import (
    ADA,
    BOB,
    HASH,
    OTHER_HASH,
    Sessions,
    copy,
    ids,
    outcome,
    rewind,
    user,
)
from tests.support.additions import untimed

from taskplane.runtime.errors import Conflict, Invalid, NotFound, Refused
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import OUTCOME, Session
from taskplane.sessions.store import EntryFilter


def create(context_id: str, **values: Any) -> commands.Create:
    return commands.Create(scope=ADA, context_id=context_id, **values)


async def test_a_session_is_created_once_and_then_updated(sessions: Sessions) -> None:
    """S4: a second creation under the id gives the session its new values."""
    first = await sessions.log.create(create("s", agent="demo", title="one", source="web"))
    assert (first.created, first.session.version, first.session.seq) == (True, 1, 0)
    again = await sessions.log.create(create("s", title="two"))
    assert (again.created, again.session.version) == (False, 2)
    assert (again.session.agent, again.session.title, again.session.source) == ("demo", "two", "web")
    same = await sessions.log.create(create("s", title="two"))
    assert (same.created, same.session) == (False, again.session)
    assert await sessions.log.session(ADA, "s") == again.session


async def test_a_rename_raises_the_version(sessions: Sessions) -> None:
    """S4: the version is raised even though the log gets no entry."""
    await sessions.log.create(create("s", agent="demo"))
    renamed = await sessions.log.update(commands.Update(scope=ADA, context_id="s", title="new"))
    assert (renamed.version, renamed.title, renamed.agent) == (2, "new", "demo")
    emptied = await sessions.log.update(commands.Update(scope=ADA, context_id="s", title="", agent="other"))
    assert (emptied.version, emptied.title, emptied.agent) == (3, "", "other")
    with pytest.raises(Invalid, match="title or agent is required"):
        await sessions.log.update(commands.Update(scope=ADA, context_id="s"))
    with pytest.raises(NotFound):
        await sessions.log.update(commands.Update(scope=ADA, context_id="unknown", title="x"))


async def test_of_concurrent_renames_at_one_version_one_succeeds(sessions: Sessions) -> None:
    """S4, R9: the others are refused with the present version, and change nothing."""
    await sessions.log.create(create("s", agent="demo"))
    answers = await asyncio.gather(
        *(
            sessions.log.update(commands.Update(scope=ADA, context_id="s", title=f"{n}", expected_version=1))
            for n in range(6)
        ),
        return_exceptions=True,
    )
    (won,) = [answer for answer in answers if isinstance(answer, Session)]
    lost = [answer for answer in answers if isinstance(answer, Conflict)]
    assert len(lost) == 5
    assert {(one.reason, one.metadata["version"]) for one in lost} == {("VERSION_MISMATCH", "2")}
    assert await sessions.log.session(ADA, "s") == won
    with pytest.raises(Invalid):
        await sessions.log.update(commands.Update(scope=ADA, context_id="s", title="x", expected_version=-1))


async def test_a_session_is_deleted_at_the_version_that_is_expected(sessions: Sessions) -> None:
    """C16: one that was written to since stays."""
    await sessions.append("s", user("A"))
    with pytest.raises(Conflict) as refused:
        await sessions.log.delete(commands.Delete(scope=ADA, context_id="s", expected_version=1))
    assert (refused.value.reason, refused.value.metadata) == ("VERSION_MISMATCH", {"version": "2"})
    assert len(await sessions.entries("s")) == 1
    with pytest.raises(Invalid):
        await sessions.log.delete(commands.Delete(scope=ADA, context_id="s", expected_version=-1))
    assert (await sessions.log.delete(commands.Delete(scope=ADA, context_id="s", expected_version=2))).version == 2


async def test_a_session_is_listed_by_a_change_of_its_tasks(sessions: Sessions) -> None:
    """T9: no version is raised, no entry added, and no time goes back."""
    for context_id in ("s", "t"):
        await sessions.append(context_id, user(context_id))
    before = await sessions.log.session(ADA, "s")
    touched = await sessions.log.touch(commands.Touch(scope=ADA, context_id="s"))
    assert touched == before._replace(updated_at=touched.updated_at) and touched.updated_at > before.updated_at
    assert await sessions.log.session(ADA, "s") == touched
    for scope, context_id in ((BOB, "s"), (ADA, "unknown")):
        with pytest.raises(NotFound):
            await sessions.log.touch(commands.Touch(scope=scope, context_id=context_id))
    assert await sessions.log.session(ADA, "s") == touched


async def test_entries_are_numbered_without_a_gap_and_kept_as_they_were_given(sessions: Sessions) -> None:
    answer = await sessions.append("s", user("A", request_hash=HASH), outcome("A"))
    assert (answer.session.seq, answer.session.version, answer.appended, list(answer.known)) == (2, 3, 2, [])
    assert (answer.session.agent, answer.session.title, answer.session.source) == ("demo", "hello", "test")
    await sessions.append("s", copy("A", 3), actor_entry := copy("A", 5, actor="executor"))
    stored = await sessions.entries("s")
    assert [entry.seq for entry in stored] == [1, 2, 3, 4]
    assert untimed(wire.entry(stored[0]).message) == user("A").message
    assert (stored[0].actor, stored[0].request_hash, stored[0].created_at > 0) == ("user:ada", HASH, True)
    shown = wire.entry(stored[3])
    shown.ClearField("created_at")
    shown.message.CopyFrom(untimed(shown.message))
    actor_entry.seq = 4
    assert shown == actor_entry


async def test_a_repeated_append_is_answered_with_the_stored_entry(sessions: Sessions) -> None:
    """C6, C10: the entry is not stored again."""
    first = await sessions.append("s", user("A", request_hash=HASH), outcome("A", "hi"))
    again = await sessions.append("s", user("A", "changed", request_hash=HASH), outcome("A", "other"))
    assert (ids(again.known), again.appended) == (["A", "A-outcome"], 0)
    assert again.session == first.session
    assert wire.entry(again.known[1]).message.parts[0].text == "hi"
    assert [wire.entry(entry).message.parts[0].text for entry in await sessions.entries("s")] == ["A?", "hi"]


async def test_an_append_returns_known_entries_whole_and_the_number_of_new_ones(sessions: Sessions) -> None:
    await sessions.append("s", user("A"), copy("A", 2))
    answer = wire.appended(await sessions.append("s", copy("A", 3), user("A")))
    assert (answer.appended, answer.entry_count, answer.version) == (1, 3, 4)
    first, _, newest = [wire.entry(entry) for entry in await sessions.entries("s")]
    assert list(answer.known) == [first]
    assert (newest.id, newest.created_at) == ("uid-A-3", answer.updated_at)


async def test_of_concurrent_outcomes_the_first_is_stored_and_all_callers_get_it(sessions: Sessions) -> None:
    """C10: a turn has one outcome."""
    await sessions.append("s", user("A"))
    answers = await asyncio.gather(*(sessions.append("s", outcome("A", f"answer {n}")) for n in range(8)))
    told = {wire.entry(answer.known[0]).message.parts[0].text for answer in answers if answer.known}
    (winner,) = [entry for entry in await sessions.entries("s") if entry.kind == OUTCOME]
    assert told == {wire.entry(winner).message.parts[0].text}
    assert sum(not answer.known for answer in answers) == 1


async def test_an_id_with_another_hash_or_in_another_session_is_refused(sessions: Sessions) -> None:
    """C10: all or none, so nothing else of the call is stored either."""
    await sessions.append("s", user("A", request_hash=HASH))
    with pytest.raises(Refused) as refused:
        await sessions.append("s", user("B"), user("A", request_hash=OTHER_HASH))
    assert refused.value.reason == "KEY_REUSED"
    with pytest.raises(Refused, match="another session"):
        await sessions.append("t", user("A", request_hash=HASH))
    assert ids(await sessions.entries("s")) == ["A"]
    with pytest.raises(NotFound):
        await sessions.log.session(ADA, "t")
    assert ids((await sessions.append("s", user("A"))).known) == ["A"]


async def test_an_entry_id_is_stored_once_if_two_sessions_append_it_at_once(sessions: Sessions) -> None:
    """C10: the other session is refused."""
    answers = await asyncio.gather(
        *(sessions.append(f"s{n}", user("A", request_hash=HASH)) for n in range(6)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert [answer.reason for answer in refused] == ["KEY_REUSED"] * 5
    assert sum(isinstance(answer, commands.Appended) for answer in answers) == 1
    assert len((await sessions.log.list(ADA, 10, "")).sessions) == 1


async def test_an_append_that_expects_another_version_is_refused_with_the_present_version(sessions: Sessions) -> None:
    """R9: nothing is stored then."""
    await sessions.append("s", user("A"))
    with pytest.raises(Conflict) as refused:
        await sessions.append("s", user("B"), expected_version=1)
    assert (refused.value.reason, refused.value.metadata) == ("VERSION_MISMATCH", {"version": "2"})
    await sessions.append("s", user("B"), expected_version=2)
    repeated = await sessions.append("s", user("B"), expected_version=2)
    assert ids(repeated.known) == ["B"]
    with pytest.raises(Conflict) as refused:
        await sessions.append("none", user("C"), expected_version=1)
    assert refused.value.metadata == {"version": "0"}


async def test_of_concurrent_appends_at_one_version_one_succeeds(sessions: Sessions) -> None:
    """R9: the others are refused."""
    await sessions.append("s", user("A"))
    answers = await asyncio.gather(
        *(sessions.append("s", rewind("A", f"r{n}"), expected_version=2) for n in range(8)), return_exceptions=True
    )
    lost = [answer for answer in answers if isinstance(answer, Conflict)]
    assert {error.metadata["version"] for error in lost} == {"3"}
    assert len(lost) == 7
    assert len(await sessions.entries("s")) == 2


async def test_without_create_the_session_must_exist(sessions: Sessions) -> None:
    with pytest.raises(NotFound) as refused:
        await sessions.append("s", user("A"), create=None)
    assert refused.value.reason == "SESSION_NOT_FOUND"
    await sessions.append("s", user("A"))
    await sessions.append("s", user("B"), create=None)


async def test_an_append_without_entries_only_creates_the_session(sessions: Sessions) -> None:
    assert (await sessions.append("s")).session.version == 1
    assert (await sessions.append("s")).session.version == 1


async def test_concurrent_appends_get_different_numbers_without_a_gap(sessions: Sessions) -> None:
    """C1 for sessions."""
    await asyncio.gather(
        *(sessions.append(f"s{n % 3}", copy(f"i{n}", 1), copy(f"i{n}", 2)) for n in range(48)),
        *(sessions.append("s0", user(f"u{n}")) for n in range(16)),
    )
    for context_id, size in (("s0", 48), ("s1", 32), ("s2", 32)):
        stored = await sessions.entries(context_id)
        assert [entry.seq for entry in stored] == list(range(1, size + 1))
        assert (await sessions.log.session(ADA, context_id)).version == size + 1
        twos = [
            (one.invocation_id, two.generation) for one, two in pairwise(stored) if one.task_id and one.generation == 1
        ]
        assert {generation for _, generation in twos} == {2}


async def test_many_callers_share_a_transaction(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Group commit: 16 callers cost far fewer transactions than appends."""
    transactions = 0
    write = sessions.engine.write

    async def counted(fn: Callable[..., Any], *args: Any) -> Any:
        nonlocal transactions
        transactions += 1
        return await write(fn, *args)

    monkeypatch.setattr(sessions.engine, "write", counted)
    await asyncio.gather(*(sessions.append(f"s{n}", user(f"A{n}"), outcome(f"A{n}")) for n in range(64)))
    assert transactions <= 8


async def test_a_session_of_another_owner_does_not_exist(sessions: Sessions) -> None:
    await sessions.append("s", user("A"))
    for asked in (
        sessions.log.session(BOB, "s"),
        sessions.log.entries(BOB, "s", EntryFilter()),
        sessions.log.conversation(BOB, "s"),
        sessions.log.delete(commands.Delete(scope=BOB, context_id="s")),
        sessions.append("s", user("B"), scope=BOB, create=None),
    ):
        with pytest.raises(NotFound) as refused:
            await asked
        assert refused.value.message == "session s does not exist"
    assert list((await sessions.log.list(BOB, 10, "")).sessions) == []


async def test_owners_may_use_the_same_ids(sessions: Sessions) -> None:
    await sessions.append("s", user("A", "ada's"))
    await sessions.append("s", user("A", "bob's"), scope=BOB)
    (mine,), (theirs,) = await sessions.entries("s"), await sessions.entries("s", scope=BOB)
    assert wire.entry(mine).message.parts[0].text == "ada's"
    assert wire.entry(theirs).message.parts[0].text == "bob's"


async def test_a_deleted_session_loses_its_entries_and_frees_their_ids(sessions: Sessions) -> None:
    """S4: a new session may use the ids again."""
    await sessions.append("s", user("A"), outcome("A"))
    await sessions.append("t", user("B"))
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    with pytest.raises(NotFound):
        await sessions.log.session(ADA, "s")
    with pytest.raises(NotFound):
        await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    assert (await sessions.append("u", user("A"))).session.seq == 1
    assert (await sessions.append("s", user("C"))).session.seq == 1
    assert ids(await sessions.entries("t")) == ["B"]
