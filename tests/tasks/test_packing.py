"""Stored snapshots come back as they went in."""

import os

from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.sql.packing import WORTH_IT, pack, unpack


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
