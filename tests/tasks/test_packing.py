"""Stored snapshots and pieces of artifacts come back as they went in."""

import os

from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.sql.packing import LARGE_PIECE, WORTH_IT, pack, pack_piece, unpack, unpack_piece, unpacked_size


@given(st.text(max_size=40), st.integers(0, 3), st.booleans())
def test_a_packed_task_is_the_same_task(text: str, times: int, random: bool) -> None:
    """Small, large, and large but not compressible."""
    task = a2a.Task(id="t", context_id="c")
    part = task.artifacts.add(artifact_id="a").parts.add()
    part.raw = os.urandom(WORTH_IT) if random else text.encode() * 10**times
    raw = task.SerializeToString()
    assert unpack(pack(raw)) == raw
    assert len(pack(raw)) <= len(raw)


def test_a_long_text_is_stored_compressed() -> None:
    """P7: a text of many chunks costs a fraction of its length once more, when its task ends."""
    task = a2a.Task(id="t")
    task.artifacts.add(artifact_id="a").parts.add().text = "the quick brown fox " * 10_000
    raw = task.SerializeToString()
    assert len(pack(raw)) < len(raw) / 10


@given(st.integers(-40, 40), st.booleans(), st.booleans())
def test_a_packed_piece_is_the_same_piece(more: int, raw: bool, random: bool) -> None:
    """P7: small, large, and large but not compressible; its size is known before it is unpacked."""
    update = a2a.StreamResponse()
    update.artifact_update.artifact.artifact_id = "a"
    part = update.artifact_update.artifact.parts.add()
    size = LARGE_PIECE + more
    part.raw = os.urandom(size) if random else b"ab" * (size // 2)
    payload = update.SerializeToString() if raw else a2a.StreamResponse(message=a2a.Message()).SerializeToString()
    stored = pack_piece(payload)
    assert unpack_piece(stored) == payload and unpacked_size(stored) == len(payload)
    assert (len(stored) < len(payload)) is (raw and not random and len(payload) >= LARGE_PIECE)
