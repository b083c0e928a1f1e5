"""Entries too large to be imported (`taskplane.sessions.importing`)."""

import pytest
from tests.conformance.session_log import user

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain.session import Scope
from taskplane.sessions.importing import SessionReader, read_session
from taskplane.sessions.operation_checks import MAX_ENTRY
from taskplane.sessions.store import REPLY_BYTES


def read(entry: pb.Entry) -> None:
    """As the one entry of a session, on line 2."""
    given = pb.Session(context_id="c", entry_count=1, version=2)
    given.created_at.seconds = given.updated_at.seconds = entry.created_at.seconds = 1
    entry.seq = 1
    session = read_session(pb.ImportRecord(line=1, session=given).SerializeToString(), Scope("", "ada", ""), "c")
    SessionReader(session).entry(pb.ImportRecord(line=2, entry=entry).SerializeToString())


def test_an_entry_that_no_request_could_bring_is_refused_by_its_line() -> None:
    """S: nor could the conversation that it is in be read in one piece."""
    read(user("A", "x" * (MAX_ENTRY - 1024)))
    with pytest.raises(Invalid) as refused:
        read(user("A", "x" * MAX_ENTRY))
    assert (refused.value.reason, refused.value.metadata) == ("ENTRY_TOO_LARGE", {"line": "2"})


def test_a_state_that_the_store_restored_may_be_larger_but_must_fit_a_reply() -> None:
    """S: it came in with no request."""
    for size, fits in ((MAX_ENTRY, True), (REPLY_BYTES, False)):
        entry = pb.Entry(id="r", kind=pb.ENTRY_KIND_REWIND, invocation_id="r", target="A")
        entry.state_delta.fields["a"].string_value = "x" * size
        if fits:
            read(entry)
            continue
        with pytest.raises(Invalid):
            read(entry)
