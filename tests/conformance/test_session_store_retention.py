"""Sessions that nothing was written to for long, and the state of an owner that is erased. C16."""

import asyncio
import secrets
import time
from collections.abc import Sequence

import pytest
from sqlalchemy import and_, select, update
from tests.conformance.session_log import ADA, Sessions, event, user

from taskplane.runtime.errors import Conflict, Invalid
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Scope
from taskplane.sessions.store import ExpiredSession
from taskplane.sessions.tables import session_import
from taskplane.storage.staging import GIVEN_UP

BOB = Scope(ADA.tenant, "bob", "bob")
DELTA = '{"invocation_id": "E", "actions": {"state_delta": {"a": 1, "user:b": 2, "user:c": 3, "app:d": 4}}}'


async def test_sessions_of_all_owners_are_listed_page_by_page_oldest_first(sessions: Sessions) -> None:
    """C16: also sessions of different owners with the same id and time of creation."""
    log = sessions.log
    for scope in (ADA, BOB):
        for number in range(3):
            await log.create(commands.Create(scope=scope, context_id=f"c{number}"))
    found: list[ExpiredSession] = []
    while page := await log.expired(0.0, found[-1] if found else None, 2):
        assert len(page) <= 2
        found += page
    assert len(found) == 6 and found == sorted(found, key=lambda one: one.created_at)
    assert {(one.owner, one.context_id) for one in found} == {
        (scope.owner, f"c{number}") for scope in (ADA, BOB) for number in range(3)
    }
    assert {one.version for one in found} == {1}


async def test_a_session_that_was_written_to_lately_is_not_listed(sessions: Sessions) -> None:
    """C16: it lives from its last change, not from its creation."""
    await sessions.append("c", user("A"))
    assert [one.context_id for one in await sessions.log.expired(0.0, None, 10)] == ["c"]
    assert not await sessions.log.expired(60.0, None, 10)
    await asyncio.sleep(2.0)
    assert len(await sessions.log.expired(2.0, None, 10)) == 1
    assert not await expired_after_a_change(sessions)
    for age, limit in ((-1.0, 10), (float("nan"), 10), (1e12, 10), (1.0, 0), (1.0, 1001)):
        with pytest.raises(Invalid):
            await sessions.log.expired(age, None, limit)


async def expired_after_a_change(sessions: Sessions) -> Sequence[ExpiredSession]:
    """Return what had not changed for two seconds, asked for less than that after a change."""
    while True:
        began = time.monotonic()
        await sessions.append("c", user(secrets.token_hex(8)))
        found = await sessions.log.expired(2.0, None, 10)
        if time.monotonic() - began < 1.5:
            return found


async def test_an_invalid_page_position_is_refused(sessions: Sessions) -> None:
    """C16: no query is made for it."""
    for place in (
        ExpiredSession("", "", "", -(1 << 62) * 1_000_000, 0),
        ExpiredSession("", "", "", 1 << 62, 0),
        ExpiredSession("", "a\0", "", 1, 0),
        ExpiredSession("", "", "\0", 1, 0),
    ):
        with pytest.raises(Invalid) as refused:
            await sessions.log.expired(0.0, place, 10)
        assert refused.value.fields


async def test_that_tasks_are_to_follow_their_session_is_remembered_with_its_deletion(sessions: Sessions) -> None:
    """C16: for each owner, until they are gone or all of the owner is; not where the deletion is refused."""
    log = sessions.log
    for scope in (ADA, BOB):
        for context_id, until in (("c", 5), ("c", 7), ("d", 5), ("e", 0)):
            await log.create(commands.Create(scope=scope, context_id=context_id))
            refused = commands.Delete(scope=scope, context_id=context_id, expected_version=9, tasks_until=8)
            with pytest.raises(Conflict):
                await log.delete(refused)
            await log.delete(commands.Delete(scope=scope, context_id=context_id, tasks_until=until))

    async def left() -> list[tuple[str, str, int]]:
        return sorted((one.owner, one.context_id, one.tasks_until) for one in await log.remains(100))

    bobs = [("bob", "c", 5), ("bob", "c", 7), ("bob", "d", 5)]
    assert await left() == [(ADA.owner, *rest) for _, *rest in bobs] + bobs
    assert len(await log.remains(4)) == 4
    await log.drop_remains(ADA, "c", 6)
    await log.drop_remains(ADA, "d", 4)
    assert await left() == [(ADA.owner, "c", 7), (ADA.owner, "d", 5), *bobs]
    assert await log.delete_user_state(BOB) == 0
    assert await left() == [(ADA.owner, "c", 7), (ADA.owner, "d", 5)]
    await log.drop_remains(ADA, "c", 7)
    await log.drop_remains(ADA, "d", 5)
    assert await left() == []
    for bad in (log.remains(0), log.drop_remains(ADA, "c", 0), log.drop_remains(ADA, "", 1)):
        with pytest.raises(Invalid):
            await bad
    with pytest.raises(Invalid):
        await log.delete(commands.Delete(scope=ADA, context_id="c", tasks_until=1 << 62))


async def test_staged_pages_are_removed_with_their_owner_or_after_an_hour(sessions: Sessions) -> None:
    """C16: for an owner at once; for all owners if no page of the import is younger than an hour."""
    log = sessions.log
    for scope, context_id in ((ADA, "a"), (ADA, "b"), (BOB, "a"), (BOB, "b")):
        for number in (1, 2):
            await log.stage_import(scope, context_id, "i", number, b"x")
    for field, names in (("context_id", ("", "i")), ("import_id", ("a", "\0"))):
        with pytest.raises(Invalid) as refused:
            await log.drop_import(ADA, *names)
        assert set(refused.value.fields) == {field}
    await log.drop_import(ADA, "", "")
    assert await staged(sessions) == [
        (BOB.owner, "a", 1),
        (BOB.owner, "a", 2),
        (BOB.owner, "b", 1),
        (BOB.owner, "b", 2),
    ]
    assert await log.drop_abandoned_imports() == 0
    old = update(session_import).values(created_at=session_import.c.created_at - GIVEN_UP)
    young = and_(session_import.c.context_id == "a", session_import.c.number == 2)
    await sessions.engine.write(lambda conn: conn.execute(old.where(~young)).rowcount)
    assert await log.drop_abandoned_imports() == 2
    assert await staged(sessions) == [(BOB.owner, "a", 1), (BOB.owner, "a", 2)]


async def staged(sessions: Sessions) -> list[tuple[str, str, int]]:
    columns = (session_import.c.owner, session_import.c.context_id, session_import.c.number)
    query = select(*columns).order_by(*columns)
    return await sessions.engine.read(lambda conn: [(row[0], row[1], row[2]) for row in conn.execute(query)])


async def test_erasing_an_owner_removes_the_state_of_this_owner_only(sessions: Sessions) -> None:
    """C16: state outlives its sessions. Keys with the prefix `app:` belong to all owners, and stay."""
    log = sessions.log
    await sessions.append("c", event("e", DELTA))
    other = Scope("other tenant", ADA.owner, ADA.actor)
    assert await log.delete_user_state(BOB) == await log.delete_user_state(other) == 0
    assert await log.delete_user_state(ADA) == 2
    assert await log.delete_user_state(ADA) == 0
    _, state = await log.state(ADA, "c")
    assert set(state) == {"a", "app:d"}
