"""Messages that are told once only, found by the beginnings of their payloads."""

from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.naive import lines

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain.history import Reading
from taskplane.sessions.domain.payload import pack
from taskplane.sessions.domain.repeats import HEAD, id_in, repeats
from taskplane.sessions.domain.replay import Line

IDS = st.sampled_from([b"", b"a", b"b", b"c"])


@given(st.text(max_size=200), st.integers(0, 40_000))
def test_an_id_is_found_in_the_beginning_of_a_payload_or_nowhere(message_id: str, size: int) -> None:
    """T6."""
    message = a2a.Message(message_id=message_id, context_id="c", role=a2a.ROLE_USER, parts=[a2a.Part(text="x" * size)])
    payload = pack(pb.Entry(message=message), "message") or b""
    found = id_in(payload[:HEAD])
    assert found == message_id.encode() or found is None
    if 0 < len(message_id.encode()) < HEAD - 8:
        assert found is not None
    for end in range(min(len(payload), HEAD)):
        assert id_in(payload[:end]) in (message_id.encode(), None)


@given(lines(), st.lists(IDS, min_size=60, max_size=60), st.lists(IDS, min_size=60, max_size=60))
def test_of_messages_with_one_id_the_first_one_stays(log: list[Line], ids: list[bytes], pushed: list[bytes]) -> None:
    """T6, R5: for generated logs with a pushed history."""
    reading = Reading.of(log)
    of_entries = dict(enumerate(ids))
    repeated, kept = repeats(reading, of_entries, pushed)
    said = [pushed[index] for index in reading.kept] + [of_entries.get(seq, b"") for _, _, seq, _ in reading.places]
    shown = [pushed[index] for index in kept]
    shown += [of_entries.get(seq, b"") for _, _, seq, _ in reading.places if seq not in repeated]
    expected: list[bytes] = []
    for one in said:
        if not one or one not in expected:
            expected.append(one)
    assert shown == expected
