"""Watching a session: what a watcher is told, in which order, and when it is left alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.conformance.session_log import ADA, BOB, NEW, Sessions, message, opened, user
from tests.conftest import Migrated
from tests.support.additions import untimed
from tests.support.databases import SESSIONS, copied
from tests.support.postgres import Cluster

from taskplane.runtime.errors import NotFound, OutOfRange, Unavailable
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Scope, Session
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.store import EntryPage
from taskplane.sessions.watch import Deleted, Quiet, Seen, Watch, Watched
from taskplane.sessions.watch.stream import PAGE_ENTRIES
from taskplane.storage.engine import open_engine

NEVER = 3600.0


@dataclass
class Room:
    """A session log and those who watch it."""

    sessions: Sessions
    watched: Watched
    watch: Watch


@asynccontextmanager
async def watching(url: str, *, poll_every: float = NEVER, quiet_after: float = NEVER) -> AsyncGenerator[Room, None]:
    holder: list[Watched] = []
    async with (
        open_engine(url) as engine,
        SqlSessionLog(engine, on_commit=lambda writes: holder[0].committed(writes)) as log,
    ):
        watched = Watched(log, poll_every=poll_every)
        holder.append(watched)
        async with asyncio.TaskGroup() as group:
            polling = group.create_task(watched.run())
            yield Room(Sessions(engine, log), watched, Watch(log, watched, quiet_after=quiet_after))
            polling.cancel()


@pytest.fixture
async def room(migrated: Migrated) -> AsyncGenerator[Room, None]:
    """Without polling, so that everything comes by the bell; session s has the entries A and B."""
    async with watching(await migrated("taskplane.sessions")) as room:
        await room.sessions.append("s", user("A"), user("B"))
        yield room


class Watcher:
    """One watch, read step by step."""

    def __init__(self, watch: Watch, after: int | None = None, scope: Scope = ADA) -> None:
        self._stream = watch.stream(scope, "s", after)

    async def next(self) -> Seen:
        return await asyncio.wait_for(anext(self._stream), 20.0)

    async def session(self) -> Session:
        seen = await self.next()
        assert isinstance(seen, Session)
        return seen

    async def ids(self) -> list[str]:
        seen = await self.next()
        assert isinstance(seen, EntryPage), seen
        return [entry.id for entry in seen.entries]

    async def ended(self) -> bool:
        try:
            await self.next()
        except StopAsyncIteration:
            return True
        return False

    async def leave(self) -> None:
        await self._stream.aclose()


async def test_old_entries_come_first_and_new_ones_as_they_are_committed(room: Room) -> None:
    """M5."""
    watcher = Watcher(room.watch, 0)
    assert (await watcher.session()).seq == 2
    assert await watcher.ids() == ["A", "B"]
    waiting = asyncio.ensure_future(watcher.next())
    await room.sessions.append("t", user("X"))
    await room.sessions.append("s", user("C"), user("D"))
    page = await waiting
    assert isinstance(page, EntryPage)
    assert ([entry.seq for entry in page.entries], page.session.version) == ([3, 4], 5)
    assert untimed(wire.entry(page.entries[0]).message) == message("C?", invocation="C")
    await watcher.leave()
    assert len(room.watched) == 0


async def test_a_watch_without_a_number_begins_with_later_entries(room: Room) -> None:
    """M5: no entry is missed between the shown session and the first entry."""
    watcher = Watcher(room.watch)
    assert (await watcher.session()).seq == 2
    await room.sessions.append("s", user("C"))
    assert await watcher.ids() == ["C"]
    later = Watcher(room.watch, 1)
    await later.session()
    assert await later.ids() == ["B", "C"]
    await asyncio.gather(watcher.leave(), later.leave())


async def test_a_commit_while_the_watch_begins_is_not_missed(room: Room) -> None:
    """The session is read before the seat is taken, so what comes in between rings no bell."""
    log, watched = room.sessions.log, room.watched

    class Slow(SqlSessionLog):
        async def session(self, scope: Scope, context_id: str) -> Session:
            found = await log.session(scope, context_id)
            await room.sessions.append("s", user("C"))
            return found

    slow = Slow(room.sessions.engine)
    watcher = Watcher(Watch(slow, watched, quiet_after=NEVER))
    assert (await watcher.session()).seq == 2
    assert await watcher.ids() == ["C"]
    await watcher.leave()


async def test_pages_are_bounded_and_there_is_no_gap_between_them(room: Room) -> None:
    for first in range(0, 2 * PAGE_ENTRIES, 100):
        await room.sessions.append("s", *(user(f"i{n}") for n in range(first, first + 100)))
    count = (await room.sessions.log.session(ADA, "s")).seq
    watcher = Watcher(room.watch, 0)
    await watcher.session()
    seen: list[int] = []
    while len(seen) < count:
        page = await watcher.next()
        assert isinstance(page, EntryPage)
        assert 0 < len(page.entries) <= PAGE_ENTRIES
        seen += [entry.seq for entry in page.entries]
    assert seen == list(range(1, count + 1))
    await watcher.leave()


async def test_a_slow_watcher_misses_nothing_and_holds_nothing(room: Room) -> None:
    watchers = [Watcher(room.watch) for _ in range(3)]
    for watcher in watchers:
        await watcher.session()
    for n in range(20):
        await room.sessions.append("s", user(f"i{n}"))
    assert await watchers[0].ids() == [f"i{n}" for n in range(20)]
    await room.sessions.append("s", user("last"))
    assert await watchers[0].ids() == ["last"]
    assert (await watchers[1].ids())[-1] == "last"
    await asyncio.gather(*(watcher.leave() for watcher in watchers))


async def test_a_deleted_session_ends_its_watches_also_if_there_is_a_new_one(room: Room) -> None:
    waiting, behind = Watcher(room.watch), Watcher(room.watch, 0)
    await waiting.session()
    await behind.session()
    ending = asyncio.ensure_future(waiting.next())
    await room.sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    await room.sessions.append("s", user("new"), user("newer"), user("newest"))
    assert isinstance(await ending, Deleted)
    assert await waiting.ended()
    assert isinstance(await behind.next(), Deleted)
    assert await behind.ended()
    assert len(room.watched) == 0
    watcher = Watcher(room.watch, 2)
    assert (await watcher.session()).seq == 3
    assert await watcher.ids() == ["newest"]
    await watcher.leave()


async def test_a_new_session_of_the_same_name_is_not_taken_for_the_old_one(room: Room) -> None:
    """Also where nobody told of the deletion."""
    unheard = Watched(room.sessions.log, poll_every=NEVER)
    watcher = Watcher(Watch(room.sessions.log, unheard, quiet_after=NEVER), 1)
    await watcher.session()
    await room.sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    await room.sessions.append("s", user("new"), user("newer"))
    assert isinstance(await watcher.next(), Deleted)


async def test_a_session_that_is_unknown_or_shorter_or_of_another_is_refused(room: Room) -> None:
    with pytest.raises(NotFound):
        await Watcher(room.watch, scope=BOB).next()
    with pytest.raises(OutOfRange) as refused:
        await Watcher(room.watch, 3).next()
    assert (refused.value.reason, refused.value.metadata) == ("BEYOND_HEAD", {"seq": "2"})
    assert len(room.watched) == 0


async def test_entries_of_another_owner_under_the_same_id_are_not_seen(room: Room) -> None:
    watcher = Watcher(room.watch)
    await watcher.session()
    waiting = asyncio.ensure_future(watcher.next())
    await room.sessions.append("s", user("bob's"), scope=BOB)
    await room.sessions.append("s", user("mine"))
    page = await waiting
    assert isinstance(page, EntryPage)
    assert [entry.id for entry in page.entries] == ["mine"]
    await watcher.leave()


async def test_a_drain_ends_every_watch_without_a_word(room: Room) -> None:
    """C14."""
    watchers = [Watcher(room.watch, after) for after in (0, None)]
    for watcher in watchers:
        await watcher.session()
    await room.sessions.append("s", user("C"))
    assert await watchers[1].ids() == ["C"]
    waiting = asyncio.ensure_future(watchers[1].ended())
    # It is caught up, so that nothing but the bell can wake it once it waits, a few turns of the loop from here.
    for _ in range(10):
        await asyncio.sleep(0)
    room.watched.drain()
    assert await waiting
    assert await watchers[0].ended()
    assert len(room.watched) == 0


async def test_a_long_outage_ends_a_watch_with_an_error(room: Room) -> None:
    watcher = Watcher(room.watch)
    await watcher.session()
    await room.sessions.append("s", user("C"))
    room.watched.outage = Unavailable("gone")
    assert await watcher.ids() == ["C"]
    with pytest.raises(Unavailable):
        await watcher.next()


async def test_a_silent_watch_sends_quiet_from_time_to_time(migrated: Migrated) -> None:
    async with watching(await migrated("taskplane.sessions"), quiet_after=0.01) as room:
        await room.sessions.append("s", user("A"))
        watcher = Watcher(room.watch)
        await watcher.session()
        assert isinstance(await watcher.next(), Quiet)
        assert isinstance(await watcher.next(), Quiet)
        await watcher.leave()


async def test_writes_and_deletions_of_another_process_are_noticed(cluster: Cluster) -> None:
    """Several processes use one database (C3 for sessions)."""
    async with copied(cluster, SESSIONS) as url, AsyncExitStack() as stack:
        other = await stack.enter_async_context(opened(url))
        await other.append("s", user("A"), create=NEW)
        here = await stack.enter_async_context(watching(url, poll_every=0.02))
        watcher = Watcher(here.watch, 0)
        await watcher.session()
        assert await watcher.ids() == ["A"]
        await other.append("s", user("B"))
        assert await watcher.ids() == ["B"]
        await other.log.delete(commands.Delete(scope=ADA, context_id="s"))
        assert isinstance(await watcher.next(), Deleted)
        await other.append("s", user("C"), user("D"))
        again = Watcher(here.watch, 0)
        await again.session()
        assert await again.ids() == ["C", "D"]
        await other.log.delete(commands.Delete(scope=ADA, context_id="s"))
        await other.append("s", user("E"))
        assert isinstance(await again.next(), Deleted)
