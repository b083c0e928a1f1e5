"""Turns that may have no result (`taskplane.sessions.store`): each of any owner is found once, on every engine."""

import time

import pytest
from sqlalchemy import Engine, event
from tests.conformance.session_log import ADA, BOB, HASH, Sessions, copy, message, opened, outcome, user
from tests.conftest import Migrated

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Scope
from taskplane.sessions.store import UnsettledTurn


def task(invocation: str) -> list[pb.Entry]:
    """A turn that is to be a task, as an agent without a router begins it."""
    mine = f"task-{invocation}"
    return [user(invocation, request_hash=HASH, task_id=mine, generation=1), outcome(invocation, task_id=mine)]


def begun(invocation: str) -> pb.Entry:
    """A turn whose router has not said yet what it is."""
    return user(invocation, request_hash=HASH)


def void(invocation: str, own: str, **fields: object) -> pb.Entry:
    return pb.Entry(
        id=own,
        kind=pb.ENTRY_KIND_VOID,
        invocation_id=invocation,
        target=invocation,
        **fields,  # type: ignore[arg-type]
    )


async def found(sessions: Sessions, limit: int = 1000) -> list[str]:
    """Return the turns that are unsettled now, each with its task, and mark them as settled."""
    turns: list[UnsettledTurn] = []
    more = True
    while more:
        page = await sessions.log.unsettled(0.0, limit)
        turns.extend(page.turns)
        if page.until is not None:
            await sessions.log.mark_settled(page.until)
        more = page.more
    return [f"{turn.invocation_id}:{turn.task_id}" for turn in turns]


async def test_an_unconfirmed_task_is_found_once(sessions: Sessions) -> None:
    """C10: a turn with a recorded task is found after any crash, but only once."""
    await sessions.append("s", *task("A"))
    await sessions.append("s", *task("B"))
    await sessions.append("s", copy("B", 2))
    await sessions.append("s", user("C", request_hash=HASH), outcome("C", "hi"))
    page = await sessions.log.unsettled(0.0, 1000)
    assert page.turns == [UnsettledTurn("", "ada", "s", "A", "task-A")]
    assert (await sessions.log.unsettled(0.0, 1000)).turns == page.turns
    assert page.until is not None and not page.more
    await sessions.log.mark_settled(page.until)
    assert await sessions.log.unsettled(0.0, 1000) == ((), None, False)
    await sessions.append("s", *task("D"))
    assert await found(sessions) == ["D:task-D"]


async def test_only_turns_of_the_minimum_age_are_returned(sessions: Sessions) -> None:
    await sessions.append("s", *task("A"))
    assert await sessions.log.unsettled(3600.0, 1000) == ((), None, False)
    assert await found(sessions) == ["A:task-A"]


async def test_abandoned_turns_are_counted_for_their_tenant_until_they_are_settled(sessions: Sessions) -> None:
    """V1: turns without an outcome sooner than those of a task, which may only be slow; answered ones never."""
    await sessions.append("s", begun("A"))
    await sessions.append("s", *task("B"))
    await sessions.append("s", user("C", request_hash=HASH), outcome("C", "hi"))
    await sessions.append("s", begun("D"), scope=Scope("elsewhere", "ada", "ada"))
    count, oldest, bounded = await sessions.log.abandoned("", 0.0, 0.0)
    assert (count, bounded) == (2, False)
    assert oldest is not None and 0 <= time.time_ns() // 1000 - oldest < 3_600_000_000
    assert (await sessions.log.abandoned("", 0.0, 3600.0)).turns == 1
    assert (await sessions.log.abandoned("", 3600.0, 3600.0)) == (0, None, False)
    assert (await sessions.log.abandoned("elsewhere", 0.0, 0.0)).turns == 1
    await found(sessions)
    assert (await sessions.log.abandoned("", 0.0, 0.0)) == (0, None, False)


async def test_unsettled_turns_are_found_after_a_restart(migrated: Migrated) -> None:
    url = await migrated("taskplane.sessions")
    async with opened(url) as sessions:
        await sessions.append("s", *task("A"))
        assert await found(sessions) == ["A:task-A"]
        await sessions.append("s", *task("B"))
    async with opened(url) as sessions:
        assert await found(sessions) == ["B:task-B"]


async def test_turns_of_all_owners_are_found_in_the_order_in_which_they_were_begun(sessions: Sessions) -> None:
    scopes = [ADA, BOB, Scope("other", "ada", "user:ada")]
    for n in range(6):
        await sessions.append("s", *task(f"A{n}"), scope=scopes[n % 3])
    page = await sessions.log.unsettled(0.0, 1000)
    assert [(turn.tenant, turn.owner, turn.invocation_id) for turn in page.turns] == [
        (scopes[n % 3].tenant, scopes[n % 3].owner, f"A{n}") for n in range(6)
    ]
    await sessions.log.delete(commands.Delete(scope=BOB, context_id="s"))
    assert await found(sessions) == ["A0:task-A0", "A2:task-A2", "A3:task-A3", "A5:task-A5"]


async def test_entries_of_other_sessions_under_the_same_ids_settle_no_turn(sessions: Sessions) -> None:
    await sessions.append("s", *task("A"), begun("B"))
    for scope in (BOB, Scope("other", "ada", "user:ada")):
        await sessions.append("s", *task("A"), copy("A", 2), begun("B"), outcome("B", "hi"), scope=scope)
    assert await found(sessions) == ["A:task-A", "B:"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_pages_are_bounded_and_pass_nothing_over(sessions: Sessions, limit: int) -> None:
    """Settled turns are looked at as well, so a page may show fewer."""
    for n in range(7):
        await sessions.append(f"s{n}", *task(f"A{n}"))
        if n % 3 == 1:
            await sessions.append(f"s{n}", copy(f"A{n}", 2))
    first = await sessions.log.unsettled(0.0, limit)
    assert len(first.turns) <= limit and first.more == (limit <= 7)
    assert await found(sessions, limit) == [f"A{n}:task-A{n}" for n in (0, 2, 3, 5, 6)]


async def test_turns_of_one_transaction_are_not_parted(sessions: Sessions) -> None:
    """They have one time, and the mark is a time."""
    await sessions.append("s", *(entry for n in range(5) for entry in task(f"A{n}")))
    await sessions.append("s", *task("B"))
    page = await sessions.log.unsettled(0.0, 2)
    assert len(page.turns) == 5 and page.more
    assert await found(sessions, 2) == [*(f"A{n}:task-A{n}" for n in range(5)), "B:task-B"]


async def test_a_message_that_nobody_decided_about_is_found(sessions: Sessions) -> None:
    """With its outcome it is no longer, but the outcome may be; a message without a hash begins no turn."""
    await sessions.append("s", begun("A"))
    await sessions.append("s", begun("B"))
    await sessions.append("s", outcome("B", "hi"))
    await sessions.append("s", begun("C"))
    await sessions.append("s", outcome("C", task_id="task-C"))
    await sessions.append("s", user("D"))
    assert await found(sessions) == ["A:", "C:task-C"]


async def test_a_turn_that_is_taken_up_again_is_found_again(sessions: Sessions) -> None:
    """C10: a repeat that dies like the first attempt leaves a turn to be voided once more."""
    for name, begin in (("A", task("A")), ("B", [begun("B")]), ("C", [begun("C"), outcome("C", "hi")])):
        await sessions.append("s", *begin)
        await sessions.append("s", void(name, f"{name}-off"))
    assert await found(sessions) == ["A:task-A", "B:"]
    for name in ("A", "B", "C"):
        await sessions.append("s", void(name, f"{name}-on", off=True))
    assert await found(sessions) == []
    for name in ("A", "B", "C"):
        await sessions.append("s", void(name, f"{name}-again", off=True, request_hash=HASH))
    assert await found(sessions) == ["A:task-A", "B:"]


async def test_any_later_message_of_a_turn_settles_it(sessions: Sessions) -> None:
    """Also if its key had named a message to another task, or its own task was answered in another turn."""
    await sessions.append("s", *task("A"), *task("B"), *task("C"))
    other = pb.Entry(id="x", kind=pb.ENTRY_KIND_MESSAGE, message=message("x"), invocation_id="A", task_id="task-X")
    further = pb.Entry(id="y", kind=pb.ENTRY_KIND_MESSAGE, message=message("y"), invocation_id="Y", task_id="task-B")
    further.task_invocation_id = "B"
    await sessions.append("s", other, further)
    assert await found(sessions) == ["C:task-C"]


async def test_a_clock_that_was_set_back_hides_nothing(sessions: Sessions) -> None:
    await sessions.append("s", *task("A"))
    await sessions.log.mark_settled(time.time_ns() // 1000 + 3600 * 1_000_000)
    await sessions.append("s", *task("B"))
    await found(sessions)
    await sessions.append("s", *task("C"))
    assert await found(sessions) == ["C:task-C"]


async def test_with_nothing_to_do_it_costs_two_short_reads(sessions: Sessions) -> None:
    for n in range(20):
        await sessions.append("s", *task(f"A{n}"))
    await found(sessions)
    statements: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert await sessions.log.unsettled(0.0, 1000) == ((), None, False)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert [statement.split()[0] for statement in statements if " FROM " in statement.replace("\n", " ")] == [
        "SELECT",
        "SELECT",
    ]


async def test_an_invalid_age_limit_or_time_is_refused(sessions: Sessions) -> None:
    for age in (-1.0, float("nan"), float("inf")):
        with pytest.raises(Invalid) as refused:
            await sessions.log.unsettled(age, 10)
        assert list(refused.value.fields) == ["min_age"]
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid) as refused:
            await sessions.log.unsettled(1.0, limit)
        assert list(refused.value.fields) == ["limit"]
    for until in (0, -1, 1 << 63):
        with pytest.raises(Invalid) as refused:
            await sessions.log.mark_settled(until)
        assert list(refused.value.fields) == ["until"]
