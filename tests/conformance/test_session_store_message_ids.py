"""Entries of a session by the id of their message, on every engine."""

import asyncio
import random

import pytest
from tests.conformance.session_log import (
    ADA,
    BOB,
    Sessions,
    copy,
    event,
    ids,
    message,
    outcome,
    pushed,
    rewind,
    user,
)
from tests.support.thorough import THOROUGH

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.payload import messages
from taskplane.sessions.domain.session import MESSAGE

ROUNDS = 20 if THOROUGH else 3


def under(message_id: str, entry: pb.Entry) -> pb.Entry:
    entry.message.message_id = message_id
    return entry


async def test_the_messages_under_an_id_are_found_in_the_order_of_the_log(sessions: Sessions) -> None:
    """T11: messages, copies and direct answers, also cut ones. Entries that are not messages, and other sessions, are
    left out."""
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
async def test_a_message_with_an_unusable_id_is_stored_and_not_found_by_it(sessions: Sessions, message_id: str) -> None:
    """T11: the message is stored unchanged."""
    await sessions.append("s", under(message_id, user("A")))
    (entry,) = await sessions.entries("s")
    assert messages(entry.payload)[0].message_id == message_id
    assert entry.message_id is None


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_a_lookup_by_message_id_equals_a_scan(sessions: Sessions, seed: int) -> None:
    """T11: for generated sessions with small and large messages."""
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


async def say(sessions: Sessions, context_id: str, entry: pb.Entry, own: str, *more: pb.Entry) -> tuple[str, bool]:
    """The id under which the message of an entry stands now, and whether this call gave it another one."""
    request = pb.AppendEntriesRequest(
        context_id=context_id, entries=[entry, *more], create=pb.NewSession(), own_message_id=own
    )
    answer = await sessions.log.append(wire.append(request, ADA))
    (stored,) = [each for each in await sessions.entries(context_id) if each.id == entry.id]
    (said,) = messages(stored.payload)
    assert said.message_id == stored.message_id
    return said.message_id, answer.renamed


async def test_another_message_under_a_used_id_is_stored_under_its_own(sessions: Sessions) -> None:
    """T11, T12: decided where it is stored; the same content in another turn is another message, and a repeat changes
    nothing."""
    first = under("m", user("A", "x" * 20_000))
    assert await say(sessions, "s", first, "own-A") == ("m", False)
    assert await say(sessions, "s", under("m", user("B")), "own-B", outcome("B")) == ("own-B", True)
    assert await say(sessions, "s", under("m", user("B")), "own-other", outcome("B")) == ("own-B", False)
    assert await say(sessions, "s", under("m", user("C", "x" * 20_000)), "own-C") == ("own-C", True)
    assert await say(sessions, "s", under("n", user("D")), "own-D") == ("n", False)
    assert await say(sessions, "s", under("m", user("E")), "") == ("m", False)
    assert await say(sessions, "t", under("m", user("F")), "own-F") == ("m", False)
    await sessions.append("s", rewind("A", "R"))
    assert await say(sessions, "s", under("m", user("G")), "own-G") == ("own-G", True)
    assert ids(await sessions.entries("s", message_id="own-B")) == ["B"]


async def test_a_direct_answer_under_a_used_message_id_gets_a_new_id(sessions: Sessions) -> None:
    """T12: also if the message that it answers has the id, in one call or in two."""
    ids_of: list[tuple[str, str, bool]] = []
    for turn, answer, own in (("A", "m", "own-A"), ("B", "r", "own-B"), ("C", "r", "own-C"), ("D", "own-D", "own-E")):
        request = pb.AppendEntriesRequest(
            context_id="s",
            entries=[under("m", user(turn)), under(answer, outcome(turn, "ok"))],
            create=pb.NewSession(),
            own_message_id=f"own-{turn}",
            own_answer_id=f"{own}-answer",
        )
        done = await sessions.log.append(wire.append(request, ADA))
        told = [messages(each.payload)[0].message_id for each in await sessions.entries("s")][-2:]
        ids_of.append((*told, done.answer_renamed))  # type: ignore[arg-type]
        assert not (await sessions.log.append(wire.append(request, ADA))).answer_renamed
    assert ids_of == [
        ("m", "own-A-answer", True),
        ("own-B", "r", False),
        ("own-C", "own-C-answer", True),
        ("own-D", "own-E-answer", True),
    ]


async def test_a_text_that_grew_in_its_task_is_shown_as_it_has_become(sessions: Sessions) -> None:
    """T12, T6: where the task says nothing else between; in the conversation, and in its pages by id."""
    said = [("m", "The"), ("m", "The answer"), ("n", "x"), ("m", "again"), ("n", "y")]
    entries = [copy("A", 2 + n, words) for n, (_, words) in enumerate(said)]
    for entry, (name, _) in zip(entries, said, strict=True):
        entry.message.message_id, entry.message.task_id, entry.message.role = name, "task-A", a2a.ROLE_AGENT
    known: list[str] = []
    for number, shown in enumerate((["A?", "The"], ["A?", "The answer"], ["A?", "The answer", "x"], None, None)):
        await sessions.append("s", *([user("A")] if number == 0 else ()), entries[number])
        known = shown or known
        assert await sessions.said("s") == known
        page = await sessions.entries("s", effective=True, distinct=True)
        assert [messages(each.payload)[0].parts[0].text for each in page] == known
        assert list((await sessions.log.message_ids(ADA, "s")).ids) == ["A?", "m", "n"][: len(known)]


async def test_of_concurrent_messages_under_one_id_the_first_keeps_it(sessions: Sessions) -> None:
    """T11: each session by itself."""
    for context in "st":
        await sessions.append(context, user(f"begin-{context}"))
    turns = [(context, f"{context}{n}") for n in range(8) for context in "st"]
    said = await asyncio.gather(*(say(sessions, s, under("m", user(turn)), f"own-{turn}") for s, turn in turns))
    kept = [turn for (_, turn), (message_id, _) in zip(turns, said, strict=True) if message_id == "m"]
    assert sorted(turn[0] for turn in kept) == ["s", "t"]
    for (_, turn), answer in zip(turns, said, strict=True):
        assert answer == (("m", False) if turn in kept else (f"own-{turn}", True))


async def test_only_a_message_can_have_an_id_of_its_own(sessions: Sessions) -> None:
    entries: list[tuple[list[pb.Entry], str]] = [([event("E", "{}")], "own"), ([user("A")], "x" * 256)]
    for given, own in entries:
        request = pb.AppendEntriesRequest(context_id="s", entries=given, create=pb.NewSession(), own_message_id=own)
        with pytest.raises(Invalid) as refused:
            await sessions.log.append(wire.append(request, ADA))
        assert list(refused.value.fields) == ["own_message_id"]
