"""The promises of the session log (`taskplane.sessions.store`) to readers, on every engine."""

import json

import pytest
from tests.conformance.session_log import (
    ADA,
    BOB,
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

from taskplane.runtime.errors import Invalid
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME
from taskplane.sessions.store import PAGE_BYTES, EntryFilter


async def test_sessions_are_listed_newest_update_first_page_by_page(sessions: Sessions) -> None:
    """S4, T9: each session is on one page."""
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


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("plan", ["s4", "s1", "s0"]),
        ("PLAN", ["s4", "s1", "s0"]),
        ("100%", ["s2"]),
        ("%", ["s2"]),
        ("_", ["s3"]),
        ("\\", ["s3"]),
        ("l p", ["s1"]),
        ("österreich", ["s4"]),
        ("ÖSTERREICH", ["s4"]),
        ("nothing", []),
    ],
)
async def test_sessions_are_found_by_a_part_of_their_title(sessions: Sessions, part: str, found: list[str]) -> None:
    """T9: wildcards in the part have no meaning. Pages are as exact as without a part."""
    titles = ["Plan B", "Final plan", "100% sure", "a_b \\ c", "Planung für Österreich", ""]
    for n, title in enumerate(titles):
        await sessions.log.create(commands.Create(scope=ADA, context_id=f"s{n}", title=title))
        await sessions.log.create(commands.Create(scope=BOB, context_id=f"s{n}", title=title))
    for size in (1, 2, 10):
        listed: list[str] = []
        token = ""
        while True:
            page = await sessions.log.list(ADA, size, token, part)
            assert len(page.sessions) <= size
            listed.extend(session.context_id for session in page.sessions)
            token = page.next_page_token
            if not token:
                break
            with pytest.raises(Invalid) as refused:
                await sessions.log.list(ADA, size, token)
            assert refused.value.reason == "BAD_PAGE_TOKEN"
        assert listed == found


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
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
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


async def test_entries_in_effect_are_listed_in_reading_order(sessions: Sessions) -> None:
    """R3, R5: cut entries are left out."""
    await sessions.append("s", user("A"), outcome("A"), user("B"), outcome("B", "direct"), copy("A", 2))
    assert await sessions.effective("s") == ["A", "uid-A-2", "B", "B-outcome"]
    assert await sessions.effective("s", task_id="task-A") == ["uid-A-2"]
    assert await sessions.effective("s", kinds=[OUTCOME]) == ["B-outcome"]
    await sessions.append("s", rewind("B", "r"))
    assert await sessions.effective("s") == ["A", "uid-A-2"]
    await sessions.append("s", undo("u"))
    assert await sessions.effective("s") == ["A", "uid-A-2", "B", "B-outcome"]


async def test_pages_of_entries_in_effect_show_one_point_of_the_log(sessions: Sessions) -> None:
    """R5: a rewind between two pages changes no page."""
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


async def test_a_pushed_history_replaces_all_earlier_entries(sessions: Sessions) -> None:
    """R7: later entries follow it."""
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
async def test_a_rewind_by_an_event_of_a_runtime_cuts_like_any_rewind(sessions: Sessions, spelling: str) -> None:
    """R10, R5: the conversation ends before its target."""
    await sessions.append("s", event("e1", '{"invocation_id": "A"}'), event("e2", '{"invocationId": "B"}'))
    await sessions.append("s", event("e3", json.dumps({"invocation_id": "r", "actions": {spelling: "B"}})))
    await sessions.append("s", event("e4", '{"invocation_id": "C"}'), event("e5", "not JSON"))
    assert await sessions.effective("s", kinds=[EVENT]) == ["e1", "e4", "e5"]
    assert await sessions.effective("s") == []
    stored = await sessions.entries("s")
    assert [(entry.invocation_id, entry.target) for entry in stored[:3]] == [("A", ""), ("B", ""), ("r", "B")]
    assert wire.entry(stored[4]).data == "not JSON"
    assert (await sessions.log.session(ADA, "s")).has_session_task


async def test_a_session_has_a_session_task_after_a_rewind_a_pushed_history_or_a_direct_answer(
    sessions: Sessions,
) -> None:
    """R5: without one of these, the tasks have the whole conversation."""
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
    """T6: later messages with the id are left out."""
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
