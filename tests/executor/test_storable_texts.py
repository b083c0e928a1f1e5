"""Characters that no database keeps, in whatever an agent yields."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import Stores, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.executor.agent import (
    MAX_CHECKPOINT_BYTES,
    ArtifactChunk,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Message,
    Part,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Working,
)
from taskplane.executor.changes import value_of
from taskplane.runtime.json_values import to_json

ODD = "a\0b\ud83dc"
KEPT = "a\ufffdb\ufffdc"


async def _says(turn: Turn) -> AsyncIterator[Change]:
    yield Working(ODD)
    await turn.session.append({"id": "e", "text": ODD, "actions": {"state_delta": {"k": ODD}}})
    assert (await turn.session.state())["k"] == KEPT
    (kept,) = await turn.session.events()
    assert kept["text"] == KEPT
    yield Checkpoint({"k": ODD})
    yield Text(ODD)
    yield Text("\0!")
    yield Say(f"{ODD}\0!")
    yield ToolCall("1", "look", {ODD: [ODD]})
    yield ToolResult("1", "look", ODD)
    yield Say(Message(parts=[Part(text="a\0b"), Part(data=value_of({"k": ODD}))]))
    for append in (False, True):
        yield ArtifactChunk("a", text=ODD, name=ODD, description=ODD, append=append)
    yield ArtifactChunk("a", text=ODD, append=True, last=True)
    yield ArtifactChunk("b", data={ODD: ODD}, filename=ODD)
    yield ArtifactChunk("c", parts=[Part(text="a\0b")], metadata={"k": ODD})
    yield Complete(ODD)


async def test_what_no_database_keeps_is_replaced(stores: Stores) -> None:
    """T1, P3, P5: U+FFFD stands for U+0000 and for half a surrogate pair, wherever an agent puts them; nothing fails
    and nothing is said twice."""
    async with open_plane(stores, ("a", Scripted(_says))) as plane:
        task = await plane.run("go", context_id="c")
        assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
        said = [message for message in task.history if message.role == a2a.ROLE_AGENT]
        shown: list[Any] = [text(message) or to_json(message.parts[0].data) for message in said]
        if text(task.status.message) not in shown:
            shown.append(text(task.status.message))
        assert shown == [
            f"{KEPT}\ufffd!",
            {"id": "1", "name": "look", "args": {KEPT: [KEPT]}},
            {"id": "1", "name": "look", "response": KEPT},
            "a\ufffdb",
            KEPT,
        ]
        first, second, third = task.artifacts
        assert "".join(part.text for part in first.parts) == KEPT * 3
        assert (first.name, first.description) == (KEPT, KEPT)
        assert to_json(second.parts[0].data) == {KEPT: KEPT} and second.parts[0].filename == KEPT
        assert third.parts[0].text == "a\ufffdb" and third.metadata.fields["k"].string_value == KEPT
        assert KEPT in await plane.conversation("c")


async def test_a_checkpoint_is_read_as_it_was_stored(stores: Stores) -> None:
    """T1: with U+FFFD for what no database keeps, and a backslash before `u0000` for itself."""
    read: list[Any] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        read.append(turn.checkpoint)
        yield Checkpoint({ODD: [ODD, "\\u0000"], "n": (1, None)})
        yield AskInput("?") if turn.text == "go" else Complete()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        await plane.run("on", task_id=task.id)
        assert read == [None, {KEPT: [KEPT, "\\u0000"], "n": [1, None]}]


@pytest.mark.parametrize("odd", ["\0", "\ud83d"], ids=ascii)
def test_a_checkpoint_has_the_size_of_what_is_stored(odd: str) -> None:
    """P5: U+FFFD has three bytes."""
    room = MAX_CHECKPOINT_BYTES - len('""')
    Checkpoint(odd * (room // 3))
    with pytest.raises(ValueError, match="at most 65536 bytes of JSON, not 65537"):
        Checkpoint(odd * (room // 3) + "abc"[: room % 3 + 1])
