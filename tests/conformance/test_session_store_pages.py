"""The promises of the session log about pages of a long conversation, on every engine: none is of another one."""

from dataclasses import replace

import pytest
from tests.conformance.session_log import (
    ADA,
    Sessions,
    copy,
    event,
    message,
    outcome,
    pushed,
    rewind,
    undo,
    user,
)

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME, PUSHED
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.store import EntryFilter, EntryPage

KINDS = (MESSAGE, OUTCOME, PUSHED, EVENT)


def told(page: EntryPage) -> list[str]:
    """Return the texts of a page of messages and events, oldest first."""
    found: list[str] = []
    for stored in reversed(page.entries):
        entry = wire.entry(stored)
        if entry.kind == pb.ENTRY_KIND_EVENT:
            found.append(entry.data)
        else:
            said = entry.pushed.messages if entry.HasField("pushed") else [entry.message]
            found += [each.parts[0].text for each in said]
    return found


async def paged(log: SqlSessionLog, size: int, context_id: str = "s") -> list[str]:
    """All pages, from the newest one on, as one conversation; each but the last is full."""
    found: list[str] = []
    token = ""
    while True:
        query = EntryFilter(
            effective=True, distinct=True, newest_first=True, kinds=KINDS, page_size=size, page_token=token
        )
        page = await log.entries(ADA, context_id, query)
        said = told(page)
        found[:0] = said
        token = page.next_page_token
        if not token:
            return found
        assert len(said) == size


async def agree(sessions: Sessions, *others: SqlSessionLog) -> list[str]:
    """The conversation, which is the same read at once, in pages of any size, by any process."""
    said = await sessions.said("s")
    for log in (sessions.log, *others):
        assert await paged(log, 1_000) == said
        assert await paged(log, 97) == said
    return said


def turns(first: int, count: int) -> list[pb.Entry]:
    entries: list[pb.Entry] = []
    for n in range(first, first + count):
        entries += [user(f"i{n}"), outcome(f"i{n}", task_id=f"task-i{n}"), copy(f"i{n}", 2)]
    return entries


async def test_all_pages_together_equal_the_conversation_after_each_change(sessions: Sessions) -> None:
    """T6, R3, R5, R8: read after each step by the writing process and by another one."""
    async with SqlSessionLog(sessions.engine) as other:
        await sessions.append("s", *turns(0, 300))
        assert len(await agree(sessions, other)) == 600
        late = copy("i7", 3, "late")
        again = user("again")
        again.message.message_id = "i9?"
        await sessions.append("s", late, again, user("i300"), user("x" * 120), user("y" * 120))
        said = await agree(sessions, other)
        assert said[14:17] == ["i7?", "i7.2", "late"]
        assert said[-3:-2] == ["i300?"]
        void = pb.Entry(id="v", kind=pb.ENTRY_KIND_VOID, target="i300")
        for step, count in ((void, 602 + 1), (rewind("i10", "r"), 21), (undo("u"), 603), (rewind("i299", "r2"), 599)):
            await sessions.append("s", step)
            assert len(await agree(sessions, other)) == count, step.id
        await sessions.append("s", user("after"), copy("i298", 9, "and late"))
        assert (await agree(sessions, other))[-4:] == ["i298?", "i298.2", "and late", "after?"]


async def test_a_pushed_history_is_paged_by_its_messages(sessions: Sessions) -> None:
    """R7: also if some of its messages were rewound, and if messages repeat."""
    await sessions.append("s", *turns(0, 200))
    many = [message(f"p{n}", invocation=f"q{n // 2}") for n in range(200)]
    many[5].message_id = many[3].message_id
    await sessions.append("s", pushed("p", *many), user("A"), user("B"))
    assert (await agree(sessions))[-3:] == ["p199", "A?", "B?"]
    repeated = user("C")
    repeated.message.message_id = "p7"
    await sessions.append("s", repeated, rewind("q50", "r"))
    assert await agree(sessions) == [f"p{n}" for n in range(100) if n != 5]
    await sessions.append("s", undo("u"))
    assert len(await agree(sessions)) == 199 + 2
    await sessions.append("s", pushed("p2"))
    assert await agree(sessions) == []


async def test_pages_show_one_point_of_a_long_log(sessions: Sessions) -> None:
    """R5: entries between two pages change no page, with any other readers."""
    await sessions.append("s", *turns(0, 200))
    query = EntryFilter(effective=True, distinct=True, newest_first=True, page_size=150)
    first = await sessions.log.entries(ADA, "s", query)
    before = await sessions.said("s")
    found, token = told(first), first.next_page_token
    for n in range(6):
        await sessions.append("s", *([rewind("i100", "r")] if n == 1 else turns(200 + n, 1)))
        await agree(sessions)
        if token:
            page = await sessions.log.entries(ADA, "s", replace(query, page_token=token))
            assert page.session.version == first.session.version
            found, token = told(page) + found, page.next_page_token
    assert not token
    assert found == before


async def test_the_ids_of_messages_come_with_the_ends_of_turns_and_a_place_to_read_from(sessions: Sessions) -> None:
    """R5, T6: any part of the conversation can be read as it was when its ids were, of short and long logs."""
    for context, first, count in (("short", 0, 2), ("long", 10, 200)):
        new, last, direct = f"i{first}", f"i{first + count - 1}", f"d-{context}"
        await sessions.append(context, pushed(f"p-{context}", message("p0"), message("p1")), *turns(first, count))
        await sessions.append(context, user(direct), outcome(direct, "direct"), event(f"e-{context}", "{}"))
        await sessions.append(context, copy(new, 3, "late"))
        found = await sessions.log.message_ids(ADA, context)
        said = await sessions.said(context)
        assert len(found.ids) == len(said) == 2 * count + 5
        assert said[:5] == ["p0", "p1", f"{new}?", f"{new}.2", "late"]
        assert [found.ends[name] for name in (new, last, direct)] == [5, 2 * count + 3, 2 * count + 5]
        assert f"e-{context}" not in found.ends
        await sessions.append(context, rewind(last, f"r-{context}"))
        for skip, size in ((0, 1), (1, 4), (2 * count + 3, 2), (2 * count + 4, 5), (2 * count + 5, 1)):
            query = EntryFilter(
                effective=True,
                distinct=True,
                kinds=(MESSAGE, OUTCOME, PUSHED),
                page_token=found.page_token,
                skip=skip,
                page_size=size,
            )
            page = await sessions.log.entries(ADA, context, query)
            assert told(replace(page, entries=page.entries[::-1])) == said[skip : skip + size]
            assert page.session.version == found.session.version
        again = await sessions.log.message_ids(ADA, context, page_token=found.page_token)
        assert (again.ids, again.ends) == (found.ids, found.ends)
        with pytest.raises(Invalid) as refused:
            await sessions.log.message_ids(ADA, context, events=True, page_token=found.page_token)
        assert refused.value.reason == "BAD_PAGE_TOKEN"


async def test_events_are_listed_among_the_ids_of_messages_where_they_are(sessions: Sessions) -> None:
    """R7, R10: under names of their own; each is found at its index, and what is beside a turn comes after them."""
    await sessions.append("s", event("e1", "{}"), user("A"), event("e2", "{}"), event("e3", "{}"), user("B"))
    await sessions.append("s", event("e4", "{}"), outcome("C", task_id="document"))
    plain = await sessions.log.message_ids(ADA, "s")
    found = await sessions.log.message_ids(ADA, "s", events=True)
    assert plain.has_events and found.has_events
    assert [one[:1] == "\0" for one in found.ids] == [True, False, True, True, False, True]
    assert [one for one in found.ids if one[:1] != "\0"] == plain.ids and len(set(found.ids)) == 6
    assert {name: found.ends[name] for name in "ABC"} == {"A": 4, "B": 6, "C": 6}
    assert {name: plain.ends[name] for name in "ABC"} == {"A": 1, "B": 2, "C": 2}
    for skip, own in enumerate(("e1", "A", "e2", "e3", "B", "e4")):
        query = EntryFilter(
            effective=True, distinct=True, kinds=KINDS, page_token=found.page_token, skip=skip, page_size=1
        )
        (entry,) = (await sessions.log.entries(ADA, "s", query)).entries
        assert entry.id == own


async def test_a_session_that_is_created_again_under_its_id_is_read_again(sessions: Sessions) -> None:
    """S4: also if it has the same age and length as the earlier session."""
    async with SqlSessionLog(sessions.engine) as other:
        await sessions.append("s", *(user(f"one{n}") for n in range(600)))
        assert (await agree(sessions, other))[:2] == ["one0?", "one1?"]
        await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
        await sessions.append("s", *(user(f"two{n}") for n in range(300)), *(copy(f"two{n}", 2) for n in range(300)))
        assert (await agree(sessions, other))[:2] == ["two0?", "two0.2"]


async def test_events_are_paged_with_the_messages(sessions: Sessions) -> None:
    """R7, R10: where they stand; that a runtime feeds the session is said even where none is in effect."""
    await sessions.append(
        "s", *turns(0, 200), *(event(f"e{n}", f'{{"invocation_id": "f", "n": {n}}}') for n in range(9))
    )
    found = await paged(sessions.log, 50)
    assert [text for text in found if text.startswith("{")] == [f'{{"invocation_id": "f", "n": {n}}}' for n in range(9)]
    await sessions.append("s", rewind("f", "r"))
    page = await sessions.log.entries(ADA, "s", EntryFilter(effective=True, kinds=[EVENT]))
    assert (page.entries, page.has_events) == ([], True)
