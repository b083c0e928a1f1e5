"""The kinds of entries are stored as the numbers of the contract."""

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain import session


def test_a_kind_of_entry_is_stored_as_its_number_in_the_contract() -> None:
    """Requests and replies carry the stored number as it is."""
    assert {f"ENTRY_KIND_{name}": kind for kind, name in session.KINDS.items()} == dict(pb.EntryKind.items()[1:])
    assert all(getattr(session, name) == kind for kind, name in session.KINDS.items())
