"""The rules of writing, without a database."""

import pytest
from tests.conformance.session_log import ADA, HASH, OTHER_HASH, outcome, user

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Conflict, NotFound, PlaneError, Refused
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.commands import Found, Write
from taskplane.sessions.domain.decide import decide
from taskplane.sessions.domain.session import Entry, Session

NOW = 1_000
SESSION = Session(
    tenant="",
    owner="ada",
    context_id="s",
    seq=4,
    version=9,
    agent="demo",
    title="t",
    source="",
    has_session_task=False,
    created_at=1,
    updated_at=5_000,
)


def appending(*entries: pb.Entry, expected_version: int = 0, create: bool = False) -> commands.Append:
    request = pb.AppendEntriesRequest(context_id="s", entries=entries, expected_version=expected_version)
    if create:
        request.create.agent = "demo"
    return wire.append(request, ADA)


def stored(entry: pb.Entry, seq: int = 2) -> Entry:
    return appending(entry).entries[0]._replace(seq=seq, created_at=3, payload=None)


def found(session: Session | None = SESSION, *entries: Entry) -> Found:
    return Found(session=session, stored={entry.id: entry for entry in entries})


def written(outcome_: object) -> Write:
    assert isinstance(outcome_, Write), outcome_
    return outcome_


def refused(outcome_: object) -> PlaneError:
    assert isinstance(outcome_, PlaneError), outcome_
    return outcome_


def test_entries_get_the_next_numbers_and_raise_the_version_by_as_many() -> None:
    write = written(decide(found(), appending(user("A"), outcome("A")), NOW))
    assert [entry.seq for entry in write.entries] == [5, 6]
    assert (write.session.seq, write.session.version, write.new) == (6, 11, False)


def test_time_never_goes_back_in_a_session() -> None:
    """Another process may have a faster clock."""
    write = written(decide(found(), appending(user("A")), NOW))
    assert write.session.updated_at == 5_000
    assert write.entries[0].created_at == 5_000


def test_a_new_session_begins_at_version_one_and_counts_its_entries() -> None:
    write = written(decide(found(None), appending(user("A"), create=True), NOW))
    assert (write.session.seq, write.session.version, write.new, write.session.created_at) == (1, 2, True, NOW)


def test_only_entries_that_are_not_stored_are_written() -> None:
    write = written(decide(found(SESSION, stored(user("A"))), appending(user("A"), outcome("A")), NOW))
    assert [entry.id for entry in write.entries] == ["A-outcome"]
    assert isinstance(write.answer, commands.Appended)
    assert [entry.seq for entry in write.answer.known] == [2]
    assert (write.answer.appended, write.entries[0].seq) == (1, 5)


def test_a_repeat_writes_nothing_and_is_answered_before_a_version_mismatch() -> None:
    """C10."""
    answer = decide(found(SESSION, stored(user("A"))), appending(user("A"), expected_version=1), NOW)
    assert answer == commands.Appended(session=SESSION, appended=0, known=[stored(user("A"))])


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [(HASH, HASH, True), (HASH, OTHER_HASH, False), (b"", OTHER_HASH, True), (HASH, b"", True)],
)
def test_hashes_are_compared_where_both_sides_have_one(before: bytes, now: bytes, same: bool) -> None:
    """C10."""
    given = found(SESSION, stored(user("A", request_hash=before)))
    answer = decide(given, appending(user("A", request_hash=now)), NOW)
    assert isinstance(answer, commands.Appended) is same
    if not same:
        assert isinstance(answer, Refused)


def test_refusals_come_in_order() -> None:
    """Not found, key reused, version mismatch."""
    foreign = stored(user("A"))._replace(context_id="other")
    operation = appending(user("A"), outcome("A"), expected_version=3)
    assert isinstance(refused(decide(found(None, foreign), operation, NOW)), NotFound)
    assert refused(decide(found(SESSION, foreign), operation, NOW)).reason == "KEY_REUSED"
    assert isinstance(refused(decide(found(), operation, NOW)), Conflict)


def test_values_that_are_not_given_stay() -> None:
    write = written(decide(found(), commands.Create(scope=ADA, context_id="s", title="new"), NOW))
    assert (write.session.title, write.session.agent, write.session.version) == ("new", "demo", 10)
    write = written(decide(found(), commands.Update(scope=ADA, context_id="s", agent=""), NOW))
    assert (write.session.title, write.session.agent, write.session.version) == ("t", "", 10)


def test_deciding_changes_nothing_it_was_given() -> None:
    operation = appending(user("A"))
    first = decide(found(), operation, NOW)
    assert decide(found(), operation, NOW) == first
    assert operation.entries[0].seq == 0
