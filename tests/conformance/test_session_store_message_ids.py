"""Entries of a session by the id of their message, on every engine."""

import random
from collections.abc import AsyncGenerator

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
    user,
)
from tests.conftest import Migrated
from tests.support.thorough import THOROUGH

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.payload import messages
from taskplane.sessions.domain.session import MESSAGE

ROUNDS = 20 if THOROUGH else 3


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[Sessions, None]:
    """An open session log."""
    async with opened(await migrated("taskplane.sessions")) as sessions:
        yield sessions


def under(message_id: str, entry: pb.Entry) -> pb.Entry:
    entry.message.message_id = message_id
    return entry


async def test_what_a_session_says_under_an_id_is_found_in_the_order_in_which_it_came(sessions: Sessions) -> None:
    """T11: messages, copies and direct answers, cut ones too; neither what is not shown nor another session's."""
    mine = [
        under("m", user("A")),
        under("m", copy("A", 2)),
        under("m", outcome("B", "direct")),
        under("n", user("C")),
        under("m", rewind("A", "R")),
        pushed("P", message("x", "m")),
        event("E", '{"id": "m"}'),
        under("m", user("D")),
    ]
    await sessions.append("s", *mine)
    await sessions.append("other", under("m", user("F")))
    await sessions.append("s", under("m", user("A")), scope=BOB)
    expected = ["A", "uid-A-2", "B-outcome", "D"]
    assert ids(await sessions.entries("s", message_id="m")) == expected
    assert ids(await sessions.entries("s", message_id="m", page_size=1, newest_first=True)) == expected[::-1]
    assert ids(await sessions.entries("s", message_id="m", kinds=[MESSAGE], task_id="task-A")) == ["uid-A-2"]
    assert ids(await sessions.entries("s", message_id="o")) == []
    await sessions.log.fork(commands.Fork(scope=ADA, context_id="other", new_context_id="forked"))
    (forked,) = await sessions.entries("forked", message_id="m")
    assert forked.seq == 1


@pytest.mark.parametrize("message_id", ["", "a\0b", "x" * 256, "\x1b"])
async def test_a_message_may_have_an_id_that_is_none(sessions: Sessions, message_id: str) -> None:
    """T11: it is stored as it is, and found by none."""
    await sessions.append("s", under(message_id, user("A")))
    (entry,) = await sessions.entries("s")
    assert messages(entry.payload)[0].message_id == message_id
    assert entry.message_id is None


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_a_lookup_gives_what_a_scan_gives(sessions: Sessions, seed: int) -> None:
    """T11: of generated sessions, small messages and large ones."""
    choice = random.Random(seed)
    for context in ("s", "t"):
        entries = [
            under(
                choice.choice("abc"), choice.choice((user, outcome))(f"{context}{n}", "x" * choice.choice((1, 20_000)))
            )
            for n in range(30)
        ]
        await sessions.append(context, *entries)
        for message_id in "abcd":
            found = await sessions.entries(context, message_id=message_id, page_size=choice.randint(1, 9))
            assert ids(found) == [each.id for each in entries if each.message.message_id == message_id]
            assert [messages(each.payload)[0].message_id for each in found] == [message_id] * len(found)
