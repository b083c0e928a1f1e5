"""The promises of the session log about a listing of which the reader knows an earlier state, on every engine."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.conformance.session_log import (
    ADA,
    Sessions,
    copy,
    event,
    ids,
    message,
    outcome,
    pushed,
    rewind,
    undo,
    user,
)
from tests.support.thorough import THOROUGH

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import EVENT, MESSAGE, Entry
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.store import EntryFilter


class Reader:
    """A reader who keeps what it read last, and asks for what has changed since."""

    def __init__(self, log: SqlSessionLog, kinds: Sequence[int] = ()) -> None:
        self._log = log
        self._query = EntryFilter(effective=True, kinds=kinds)
        self.entries: Sequence[Entry] = ()
        self.listing = ""
        self.unchanged = 0

    async def read(self, page_size: int = 1000) -> list[str]:
        """Return the ids of the listing as it is now."""
        query = replace(self._query, page_size=page_size, known=self.listing)
        first = page = await self._log.entries(ADA, "s", query)
        found = [*self.entries[: first.unchanged], *first.entries]
        while page.next_page_token:
            page = await self._log.entries(ADA, "s", replace(query, page_token=page.next_page_token))
            found += page.entries
        self.entries, self.listing, self.unchanged = found, first.listing, first.unchanged
        return ids(found)


async def test_a_known_listing_is_answered_with_the_later_entries(sessions: Sessions) -> None:
    """R5: the common beginning of two listings is not sent again, for short and long sessions."""
    reader = Reader(sessions.log)
    for size in (3, 400):
        await sessions.append("s", *(user(f"i{size}-{n}") for n in range(size)))
        await reader.read()
        known = len(reader.entries)
        assert await reader.read() == await sessions.effective("s")
        assert reader.unchanged == known
        await sessions.append("s", user(f"j{size}"))
        assert (await reader.read())[-1] == f"j{size}"
        assert reader.unchanged == known
        await sessions.append("s", copy(f"i{size}-0", 2))
        assert await reader.read() == await sessions.effective("s")
        assert reader.unchanged == known - size + 1, "a late message of an earlier turn stands at its turn"


@pytest.mark.more
async def test_a_continued_listing_equals_the_whole_listing_after_any_change(sessions: Sessions) -> None:
    """R3, R5, R8, R10: rewinds, undos, voids, pushed histories, events and late copies, known from any moment."""
    for seed in range(20 if THOROUGH else 4):
        chance = random.Random(seed)
        if seed:
            await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
        kinds = [MESSAGE, EVENT]
        turns: list[str] = []
        whole, some = Reader(sessions.log), Reader(sessions.log, kinds)
        for step in range(60):
            name = f"{seed}-{step}"
            await _change(sessions, chance, name, turns)
            size = chance.choice((1, 7, 1000))
            if chance.random() < 0.4:
                assert await whole.read(size) == await sessions.effective("s"), name
            if chance.random() < 0.4:
                assert await some.read(size) == await sessions.effective("s", kinds=kinds), name


async def _change(sessions: Sessions, chance: random.Random, name: str, turns: list[str]) -> None:
    match chance.choices(range(8), (6, 6, 2, 1, 1, 1, 1, 2))[0]:
        case 1 if turns:
            await sessions.append("s", copy(chance.choice(turns), int(name.split("-")[1]) + 2))
        case 2:
            await sessions.append("s", user(name), outcome(name, f"{name}!"))
        case 3 if turns:
            await sessions.append("s", rewind(chance.choice(turns), f"r{name}"))
        case 4 if turns:
            await sessions.append("s", undo(f"u{name}"))
        case 5 if turns:
            target, off = chance.choice(turns), chance.random() < 0.5
            void = pb.Entry(id=f"v{name}", kind=pb.ENTRY_KIND_VOID, target=target, off=off)
            await sessions.append("s", void)
        case 6:
            await sessions.append("s", pushed(f"p{name}", message(f"p{name}.1"), message(f"p{name}.2")))
        case 7:
            await sessions.append("s", event(f"e{name}", f'{{"invocation_id": "runtime{chance.randrange(3)}"}}'))
        case _:
            await sessions.append("s", user(name))
            turns.append(name)


async def test_a_listing_of_another_session_or_request_is_ignored(sessions: Sessions) -> None:
    """R5, S4: also of another session under the same id, of another user, or of a later state."""
    await sessions.append("s", user("A"), user("B"))
    whole, messages = Reader(sessions.log), Reader(sessions.log, [MESSAGE])
    await whole.read()
    await messages.read()
    for listing in (messages.listing, "nonsense", whole.listing[:-2]):
        page = await sessions.log.entries(ADA, "s", EntryFilter(effective=True, known=listing))
        assert (page.unchanged, ids(page.entries)) == (0, ["A", "B"])
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    await sessions.append("s", user("C"), user("D"), user("E"))
    assert await whole.read() == ["C", "D", "E"]
    assert whole.unchanged == 0
    wrong_filters = (
        EntryFilter(known="x"),
        EntryFilter(effective=True, newest_first=True, known="x"),
        EntryFilter(effective=True, distinct=True, known="x"),
        EntryFilter(effective=True, skip=1, known="x"),
    )
    for wrong in wrong_filters:
        with pytest.raises(Invalid) as refused:
            await sessions.log.entries(ADA, "s", wrong)
        assert "known" in refused.value.fields
