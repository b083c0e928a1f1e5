"""What the session log promises (`taskplane.sessions.store`), on every engine."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
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

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Conflict, Invalid, NotFound, Refused
from taskplane.sessions import wire
from taskplane.sessions.domain import operations as ops
from taskplane.sessions.domain.limits import PAGE_BYTES
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME
from taskplane.sessions.store import EntryFilter


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[Sessions, None]:
    """An open session log."""
    async with opened(await migrated("taskplane.sessions")) as sessions:
        yield sessions


def create(context_id: str, **values: str) -> ops.Create:
    return ops.Create(scope=ADA, context_id=context_id, **values)


async def test_a_session_is_created_once_and_then_updated(sessions: Sessions) -> None:
    """S4."""
    first = await sessions.log.create(create("s", agent="demo", title="one", source="web"))
    assert (first.created, first.session.version, first.session.seq) == (True, 1, 0)
    again = await sessions.log.create(create("s", title="two"))
    assert (again.created, again.session.version) == (False, 2)
    assert (again.session.agent, again.session.title, again.session.source) == ("demo", "two", "web")
    same = await sessions.log.create(create("s", title="two"))
    assert (same.created, same.session) == (False, again.session)
    assert await sessions.log.session(ADA, "s") == again.session


async def test_a_rename_raises_the_version(sessions: Sessions) -> None:
    """S4."""
    await sessions.log.create(create("s", agent="demo"))
    renamed = await sessions.log.update(ops.Update(scope=ADA, context_id="s", title="new"))
    assert (renamed.version, renamed.title, renamed.agent) == (2, "new", "demo")
    emptied = await sessions.log.update(ops.Update(scope=ADA, context_id="s", title="", agent="other"))
    assert (emptied.version, emptied.title, emptied.agent) == (3, "", "other")
    with pytest.raises(Invalid, match="nothing is to be changed"):
        await sessions.log.update(ops.Update(scope=ADA, context_id="s"))
    with pytest.raises(NotFound):
        await sessions.log.update(ops.Update(scope=ADA, context_id="unknown", title="x"))


async def test_entries_are_numbered_without_a_gap_and_kept_as_they_were_given(sessions: Sessions) -> None:
    answer = await sessions.append("s", user("A", request_hash=HASH), outcome("A"))
    assert (answer.session.seq, answer.session.version, answer.known) == (2, 3, frozenset())
    assert (answer.session.agent, answer.session.title, answer.session.source) == ("demo", "hello", "test")
    await sessions.append("s", copy("A", 3), actor_entry := copy("A", 5, actor="executor"))
    stored = await sessions.entries("s")
    assert [entry.seq for entry in stored] == [1, 2, 3, 4]
    assert wire.entry(stored[0]).message == user("A").message
    assert (stored[0].actor, stored[0].request_hash, stored[0].created_at > 0) == ("user:ada", HASH, True)
    shown = wire.entry(stored[3])
    shown.ClearField("created_at")
    actor_entry.seq = 4
    assert shown == actor_entry


async def test_a_repeated_append_is_answered_with_what_is_stored(sessions: Sessions) -> None:
    """C6, C10."""
    first = await sessions.append("s", user("A", request_hash=HASH), outcome("A", "hi"))
    again = await sessions.append("s", user("A", "changed", request_hash=HASH), outcome("A", "other"))
    assert again.known == {"A", "A-outcome"}
    assert again.session == first.session
    assert wire.entry(again.entries[1]).message.parts[0].text == "hi"
    assert [wire.entry(entry).message.parts[0].text for entry in await sessions.entries("s")] == ["A?", "hi"]


async def test_stored_entries_come_with_their_payload_and_new_ones_without(sessions: Sessions) -> None:
    await sessions.append("s", user("A"), copy("A", 2))
    answer = wire.appended(await sessions.append("s", copy("A", 3), user("A")))
    assert answer.appended == 1
    assert [entry.WhichOneof("payload") for entry in answer.entries] == [None, "message"]
    assert [entry.seq for entry in answer.entries] == [3, 1]


async def test_of_racing_outcomes_the_first_one_written_wins_and_all_get_it(sessions: Sessions) -> None:
    """C10."""
    await sessions.append("s", user("A"))
    answers = await asyncio.gather(*(sessions.append("s", outcome("A", f"answer {n}")) for n in range(8)))
    told = {wire.entry(answer.entries[0]).message.parts[0].text for answer in answers if answer.known}
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
    assert (await sessions.append("s", user("A"))).known == {"A"}


async def test_two_sessions_racing_for_one_id_get_it_once(sessions: Sessions) -> None:
    """C10."""
    answers = await asyncio.gather(
        *(sessions.append(f"s{n}", user("A", request_hash=HASH)) for n in range(6)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert [answer.reason for answer in refused] == ["KEY_REUSED"] * 5
    assert sum(isinstance(answer, ops.Appended) for answer in answers) == 1
    assert len((await sessions.log.list(ADA, 10, "")).sessions) == 1


async def test_an_append_at_another_version_is_refused_and_names_the_version(sessions: Sessions) -> None:
    """R9."""
    await sessions.append("s", user("A"))
    with pytest.raises(Conflict) as refused:
        await sessions.append("s", user("B"), expected_version=1)
    assert (refused.value.reason, refused.value.metadata) == ("VERSION_MISMATCH", {"version": "2"})
    await sessions.append("s", user("B"), expected_version=2)
    repeated = await sessions.append("s", user("B"), expected_version=2)
    assert repeated.known == {"B"}
    with pytest.raises(Conflict) as refused:
        await sessions.append("none", user("C"), expected_version=1)
    assert refused.value.metadata == {"version": "0"}


async def test_of_racing_writers_at_one_version_one_wins(sessions: Sessions) -> None:
    """R9."""
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


async def test_an_append_of_nothing_makes_the_session_and_no_more(sessions: Sessions) -> None:
    assert (await sessions.append("s")).session.version == 1
    assert (await sessions.append("s")).session.version == 1


async def test_of_racing_writers_each_gets_its_own_numbers_and_there_is_no_gap(sessions: Sessions) -> None:
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
    start = sessions.engine.start

    def counted(done: Callable[[Any, BaseException | None], None], fn: Callable[..., Any], *args: Any) -> None:
        nonlocal transactions
        transactions += 1
        start(done, fn, *args)

    monkeypatch.setattr(sessions.engine, "start", counted)
    await asyncio.gather(*(sessions.append(f"s{n}", user(f"A{n}"), outcome(f"A{n}")) for n in range(64)))
    assert transactions <= 8


async def test_a_session_of_another_owner_does_not_exist(sessions: Sessions) -> None:
    await sessions.append("s", user("A"))
    for asked in (
        sessions.log.session(BOB, "s"),
        sessions.log.entries(BOB, "s", EntryFilter()),
        sessions.log.conversation(BOB, "s"),
        sessions.log.delete(ops.Delete(scope=BOB, context_id="s")),
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


async def test_a_deleted_session_is_gone_with_its_entries_and_their_ids_are_free(sessions: Sessions) -> None:
    """S4."""
    await sessions.append("s", user("A"), outcome("A"))
    await sessions.append("t", user("B"))
    await sessions.log.delete(ops.Delete(scope=ADA, context_id="s"))
    with pytest.raises(NotFound):
        await sessions.log.session(ADA, "s")
    with pytest.raises(NotFound):
        await sessions.log.delete(ops.Delete(scope=ADA, context_id="s"))
    assert (await sessions.append("u", user("A"))).session.seq == 1
    assert (await sessions.append("s", user("C"))).session.seq == 1
    assert ids(await sessions.entries("t")) == ["B"]


async def test_sessions_are_listed_newest_update_first_page_by_page(sessions: Sessions) -> None:
    """S4, T9."""
    for n in range(7):
        await sessions.append(f"s{n}", user(f"A{n}"))
    await sessions.append("s2", user("B"))
    found: list[str] = []
    token = ""
    while True:
        page = await sessions.log.list(ADA, 3, token)
        found.extend(session.context_id for session in page.sessions)
        token = page.next_page_token
        if not token:
            break
    assert found == ["s2", "s6", "s5", "s4", "s3", "s1", "s0"]


async def test_entries_are_listed_in_pages_both_ways_and_filtered(sessions: Sessions) -> None:
    await sessions.append("s", user("A"), outcome("A"), copy("A", 2), user("B"), copy("B", 2), copy("A", 3))
    assert [entry.seq for entry in await sessions.entries("s", page_size=2)] == [1, 2, 3, 4, 5, 6]
    assert [entry.seq for entry in await sessions.entries("s", page_size=4, newest_first=True)] == [6, 5, 4, 3, 2, 1]
    assert ids(await sessions.entries("s", kinds=[OUTCOME])) == ["A-outcome"]
    assert ids(await sessions.entries("s", task_id="task-A", page_size=1)) == ["uid-A-2", "uid-A-3"]
    assert ids(await sessions.entries("s", task_id="task-A", newest_first=True)) == ["uid-A-3", "uid-A-2"]
    assert ids(await sessions.entries("s", kinds=[MESSAGE], task_id="task-B")) == ["uid-B-2"]


async def test_a_page_token_is_good_for_its_caller_and_its_listing_only(sessions: Sessions) -> None:
    for scope in (ADA, BOB):
        await sessions.append("s", user("A"), user("B"), user("C"), scope=scope)
        await sessions.append("t", user("D"), user("E"), scope=scope)
    everything = EntryFilter(page_size=1)
    token = (await sessions.log.entries(ADA, "s", everything)).next_page_token
    listing = (await sessions.log.list(ADA, 1, "")).next_page_token
    effective = (await sessions.log.entries(ADA, "s", EntryFilter(effective=True, page_size=1))).next_page_token
    assert token and listing and effective
    for asked in (
        sessions.log.entries(BOB, "s", EntryFilter(page_token=token)),
        sessions.log.entries(ADA, "t", EntryFilter(page_token=token)),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=token, newest_first=True)),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=token, kinds=[MESSAGE])),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=token, effective=True)),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=effective)),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=listing)),
        sessions.log.entries(ADA, "s", EntryFilter(page_token=token[:-2])),
        sessions.log.entries(ADA, "s", EntryFilter(page_token="\N{SNOWMAN}")),
        sessions.log.entries(ADA, "s", EntryFilter(page_token="A" * 20)),
        sessions.log.list(BOB, 1, listing),
        sessions.log.list(ADA, 1, token),
    ):
        with pytest.raises(Invalid) as refused:
            await asked
        assert refused.value.reason == "BAD_PAGE_TOKEN"
    again = await sessions.log.entries(ADA, "s", EntryFilter(page_token=token, page_size=5))
    assert ids(again.entries) == ["B", "C"]


async def test_a_token_of_a_deleted_session_is_no_good_for_its_successor(sessions: Sessions) -> None:
    await sessions.append("s", user("A"), user("B"))
    token = (await sessions.log.entries(ADA, "s", EntryFilter(page_size=1))).next_page_token
    await sessions.log.delete(ops.Delete(scope=ADA, context_id="s"))
    await sessions.append("s", user("A"), user("B"))
    with pytest.raises(Invalid, match="page token"):
        await sessions.log.entries(ADA, "s", EntryFilter(page_token=token))


async def test_page_tokens_outlive_the_process(migrated: Migrated) -> None:
    url = await migrated("taskplane.sessions")
    async with opened(url) as sessions:
        await sessions.append("s", user("A"), user("B"))
        token = (await sessions.log.entries(ADA, "s", EntryFilter(page_size=1))).next_page_token
    async with opened(url) as sessions:
        assert ids((await sessions.log.entries(ADA, "s", EntryFilter(page_token=token))).entries) == ["B"]


async def test_what_is_in_effect_is_listed_in_reading_order(sessions: Sessions) -> None:
    """R3, R5."""
    await sessions.append("s", user("A"), outcome("A"), user("B"), outcome("B", "direct"), copy("A", 2))
    assert await sessions.effective("s") == ["A", "uid-A-2", "B", "B-outcome"]
    assert await sessions.effective("s", task_id="task-A") == ["uid-A-2"]
    assert await sessions.effective("s", kinds=[OUTCOME]) == ["B-outcome"]
    await sessions.append("s", rewind("B", "r"))
    assert await sessions.effective("s") == ["A", "uid-A-2"]
    await sessions.append("s", undo("u"))
    assert await sessions.effective("s") == ["A", "uid-A-2", "B", "B-outcome"]


async def test_pages_of_what_is_in_effect_show_one_point_of_the_log(sessions: Sessions) -> None:
    """R5: a rewind between two pages tears nothing."""
    await sessions.append("s", *(user(f"i{n}") for n in range(6)))
    first = await sessions.log.entries(ADA, "s", EntryFilter(effective=True, page_size=2))
    await sessions.append("s", rewind("i1", "r"), user("new"))
    second = await sessions.log.entries(
        ADA, "s", EntryFilter(effective=True, page_size=9, page_token=first.next_page_token)
    )
    assert ids([*first.entries, *second.entries]) == [f"i{n}" for n in range(6)]
    assert (second.session.version, second.session.seq) == (7, 6) == (first.session.version, first.session.seq)
    assert await sessions.effective("s") == ["i0", "new"]


async def test_a_long_log_is_read_like_a_short_one(sessions: Sessions) -> None:
    entries = [user(f"i{n}") for n in range(700)]
    await sessions.append("s", *entries[:400])
    await sessions.append("s", *entries[400:], rewind("i650", "r"), pushed_late := copy("i10", 2))
    effective = await sessions.effective("s", page_size=300)
    assert effective == [f"i{n}" for n in range(11)] + [pushed_late.id] + [f"i{n}" for n in range(11, 650)]
    assert (await sessions.said("s"))[10:12] == ["i10?", "i10.2"]


async def test_a_pushed_history_replaces_all_before_it(sessions: Sessions) -> None:
    """R7."""
    await sessions.append("s", user("A"), user("B"))
    await sessions.append("s", pushed("p", message("one", invocation="A"), message("two", invocation="X")))
    await sessions.append("s", user("C"))
    assert await sessions.effective("s") == ["p", "C"]
    assert await sessions.said("s") == ["one", "two", "C?"]
    await sessions.append("s", rewind("X", "r"))
    assert await sessions.said("s") == ["one"]
    (entry,) = await sessions.entries("s", effective=True)
    assert [each.parts[0].text for each in wire.entry(entry).pushed.messages] == ["one"]
    assert len(wire.entry((await sessions.entries("s"))[2]).pushed.messages) == 2


@pytest.mark.parametrize("spelling", ["rewind_before_invocation_id", "rewindBeforeInvocationId"])
async def test_an_event_of_a_runtime_that_rewinds_is_a_rewind(sessions: Sessions, spelling: str) -> None:
    """R10, R5."""
    await sessions.append("s", event("e1", '{"invocation_id": "A"}'), event("e2", '{"invocationId": "B"}'))
    await sessions.append("s", event("e3", json.dumps({"invocation_id": "r", "actions": {spelling: "B"}})))
    await sessions.append("s", event("e4", '{"invocation_id": "C"}'), event("e5", "not JSON"))
    assert await sessions.effective("s", kinds=[EVENT]) == ["e1", "e4", "e5"]
    assert await sessions.effective("s") == []
    stored = await sessions.entries("s")
    assert [(entry.invocation_id, entry.target) for entry in stored[:3]] == [("A", ""), ("B", ""), ("r", "B")]
    assert wire.entry(stored[4]).data == "not JSON"
    assert (await sessions.log.session(ADA, "s")).has_session_task


async def test_a_session_task_is_worth_showing_after_a_rewind_a_push_or_a_direct_answer(sessions: Sessions) -> None:
    """R5."""
    for context_id, worth, entry in (
        ("task", False, outcome("A")),
        ("direct", True, outcome("B", "hi")),
        ("rewound", True, rewind("x", "r")),
        ("pushed", True, pushed("p")),
        ("event", False, event("e", "{}")),
    ):
        answer = await sessions.append(context_id, entry)
        assert answer.session.has_session_task is worth, context_id
        later = await sessions.append(context_id, user(f"u-{context_id}"))
        assert later.session.has_session_task is worth, context_id


async def test_the_conversation_has_the_first_of_equal_message_ids(sessions: Sessions) -> None:
    """T6."""
    again = user("B")
    again.message.message_id = "A?"
    await sessions.append("s", user("A"), again, user("C"))
    assert await sessions.said("s") == ["A?", "C?"]
    assert await sessions.effective("s") == ["A", "B", "C"]


async def test_a_page_stays_within_some_megabytes(sessions: Sessions) -> None:
    size = PAGE_BYTES // 4
    for n in range(6):
        await sessions.append("s", user(f"i{n}", "x" * size), outcome(f"i{n}"))
    page = await sessions.log.entries(ADA, "s", EntryFilter(effective=True))
    assert ids(page.entries) == ["i0", "i1", "i2"]
    assert page.next_page_token
    assert await sessions.effective("s") == [f"i{n}" for n in range(6)]
    assert ids(await sessions.entries("s", kinds=[MESSAGE])) == [f"i{n}" for n in range(6)]
    assert len((await sessions.log.entries(ADA, "s", EntryFilter())).entries) == 6


BAD_ENTRIES = {
    "no id": (pb.Entry(kind=pb.ENTRY_KIND_MESSAGE, message=message("x")), "BAD_ID"),
    "long id": (user("x" * 256), "BAD_ID"),
    "NUL in an id": (user("a\0b"), "BAD_ID"),
    "control character in a task": (user("a", task_id="t\n"), "BAD_ID"),
    "control character in an actor": (user("a", actor="\x1b"), "BAD_ID"),
    "no kind": (pb.Entry(id="a", message=message("x")), "BAD_KIND"),
    "unknown kind": (pb.Entry(id="a", kind=99, message=message("x")), "BAD_KIND"),  # type: ignore[arg-type]
    "message without one": (pb.Entry(id="a", kind=pb.ENTRY_KIND_MESSAGE), "BAD_PAYLOAD"),
    "message with data": (pb.Entry(id="a", kind=pb.ENTRY_KIND_MESSAGE, data="{}"), "BAD_PAYLOAD"),
    "event without data": (pb.Entry(id="a", kind=pb.ENTRY_KIND_EVENT), "BAD_PAYLOAD"),
    "pushed without": (pb.Entry(id="a", kind=pb.ENTRY_KIND_PUSHED), "BAD_PAYLOAD"),
    "rewind with pushed": (
        pb.Entry(id="a", kind=pb.ENTRY_KIND_REWIND, target="x", pushed=pb.Messages()),
        "BAD_PAYLOAD",
    ),
    "rewind of nothing": (rewind("", "r"), "BAD_ID"),
    "void of nothing": (pb.Entry(id="a", kind=pb.ENTRY_KIND_VOID), "BAD_ID"),
    "half a hash": (user("a", request_hash=b"x"), "INVALID_ARGUMENT"),
    "negative generation": (user("a", generation=-1), "INVALID_ARGUMENT"),
}


@pytest.mark.parametrize("case", BAD_ENTRIES)
async def test_an_entry_that_could_never_be_stored_is_refused_and_nothing_is_stored(
    sessions: Sessions, case: str
) -> None:
    entry, reason = BAD_ENTRIES[case]
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", user("fine"), entry)
    assert refused.value.reason == reason
    assert all(field.startswith("entries[1]") for field in refused.value.fields)
    assert list((await sessions.log.list(ADA, 10, "")).sessions) == []


@pytest.mark.parametrize("depth", [24, 30, 31, 32, 33, 40])
async def test_what_is_stored_can_be_read_back_and_anything_else_is_refused(sessions: Sessions, depth: int) -> None:
    """A message may be made that no protobuf parser reads: its data is nested too deeply."""
    request = pb.AppendEntriesRequest(context_id="s", create=pb.NewSession())
    entry = request.entries.add(id="A", kind=pb.ENTRY_KIND_MESSAGE, invocation_id="A")
    value = entry.message.parts.add().data
    for _ in range(depth):
        value = value.struct_value.fields["deeper"]
    value.string_value = "bottom"
    try:
        operation = wire.append(request, ADA)
    except Invalid as refused:
        assert refused.reason == "UNREADABLE"
        assert depth > 24
        return
    await sessions.log.append(operation)
    page = await sessions.log.entries(ADA, "s", EntryFilter())
    reply = pb.ListEntriesResponse(entries=[wire.entry(stored) for stored in page.entries])
    assert pb.ListEntriesResponse.FromString(reply.SerializeToString()) == reply
    _, said = await sessions.log.conversation(ADA, "s")
    task = pb.GetSessionTaskResponse(task=wire.session_task(page.session, said))
    assert pb.GetSessionTaskResponse.FromString(task.SerializeToString()) == task
    assert depth <= 32


async def test_text_that_no_database_may_hold_is_refused_everywhere(sessions: Sessions) -> None:
    """U+0000: PostgreSQL refuses it with an error of its own, SQLite stores it."""
    for asked in (
        sessions.log.create(create("s", title="a\0b")),
        sessions.log.create(create("s", source="a\0b")),
        sessions.log.create(create("s", agent="a\0b")),
        sessions.log.create(create("a\0b")),
        sessions.log.create(create("s", title="x" * 1001)),
        sessions.log.create(create("")),
        sessions.append("s", user("A"), create=pb.NewSession(title="a\0b")),
        sessions.log.session(ADA, "a\0b"),
        sessions.log.session(ADA, "x" * 256),
        sessions.log.conversation(ADA, "a\0b"),
        sessions.log.entries(ADA, "a\0b", EntryFilter()),
        sessions.log.entries(ADA, "s", EntryFilter(task_id="a\0b")),
        sessions.log.delete(ops.Delete(scope=ADA, context_id="a\0b")),
    ):
        with pytest.raises(Invalid) as refused:
            await asked
        assert refused.value.reason in ("BAD_ID", "BAD_TEXT")
    strange = event("e", '{"invocation_id": "a\\u0000b", "actions": {"rewind_before_invocation_id": "\\ud800"}}')
    (entry,) = (await sessions.append("s", strange)).entries
    assert (entry.invocation_id, entry.target) == ("", "")
    odd = pushed("p", message("x\0", invocation="a\0b"))
    await sessions.append("s", odd)
    assert await sessions.said("s") == ["x\0"]
    assert (await sessions.append("s", event("f", "\0"))).session.seq == 3


async def test_page_sizes_and_orders_that_cannot_be_given_are_refused(sessions: Sessions) -> None:
    await sessions.append("s", user("A"))
    for size in (0, -1, 1001):
        with pytest.raises(Invalid) as refused:
            await sessions.log.list(ADA, size, "")
        assert refused.value.reason == "BAD_PAGE_SIZE"
        with pytest.raises(Invalid) as refused:
            await sessions.log.entries(ADA, "s", EntryFilter(page_size=size))
        assert refused.value.reason == "BAD_PAGE_SIZE"
    with pytest.raises(Invalid) as refused:
        await sessions.log.entries(ADA, "s", EntryFilter(effective=True, newest_first=True))
    assert refused.value.reason == "BAD_ORDER"


async def test_too_many_entries_or_one_id_twice_in_a_call_are_refused(sessions: Sessions) -> None:
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", *(user(f"i{n}") for n in range(1001)))
    assert refused.value.reason == "TOO_MANY_ENTRIES"
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", user("A"), user("A"))
    assert refused.value.reason == "DUPLICATE_ID"
    assert (await sessions.append("s", *(user(f"i{n}") for n in range(1000)))).session.seq == 1000
