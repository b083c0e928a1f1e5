"""Characters that no database stores, in every kind of change."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.executor.plane import Stores, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
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
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
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


async def test_characters_that_no_database_stores_are_replaced(stores: Stores) -> None:
    """T1, P3, P5: U+FFFD stands for U+0000 and for half a surrogate pair, in every field; nothing fails and no message
    is doubled."""
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


async def test_a_checkpoint_is_read_as_stored(stores: Stores) -> None:
    r"""T1: with U+FFFD for characters that no database stores; the text `\u0000`, written with a backslash, is
    unchanged."""
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
def test_the_size_of_a_checkpoint_counts_the_stored_characters(odd: str) -> None:
    """P5: U+FFFD has three bytes."""
    room = MAX_CHECKPOINT_BYTES - len('""')
    Checkpoint(odd * (room // 3))
    with pytest.raises(ValueError, match="at most 65,536 bytes of JSON, not 65,537"):
        Checkpoint(odd * (room // 3) + "abc"[: room % 3 + 1])


HALVES: dict[str, tuple[Sequence[str], str]] = {
    "pair": (["a\ud83d", "\ude00b"], "a\U0001f600b"),
    "pair alone": (["\ud83d", "\ude00"], "\U0001f600"),
    "two pairs": (["\ud83d", "\ude00\ud83d", "\ude01"], "\U0001f600\U0001f601"),
    "first half at the end": (["a", "b\ud83d"], "ab\ufffd"),
    "first half alone": (["\ud83d"], "\ufffd"),
    "second half first": (["\ude00a", "b"], "\ufffdab"),
    "first half twice": (["\ud83d", "\ud83d", "\ude00"], "\ufffd\U0001f600"),
    "empty piece between": (["a\ud83d", "", "\ude00"], "a\U0001f600"),
}


@pytest.mark.parametrize("end", ["complete", "say", "tool", "nothing"])
@pytest.mark.parametrize("pieces", HALVES)
async def test_an_emoji_cut_between_two_pieces_is_whole(stores: Stores, pieces: str, end: str) -> None:
    """T1, P3: in a growing text and in an artifact. The pieces together equal the whole, and U+FFFD stands for a single
    half."""
    cut, whole = HALVES[pieces]

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for number, piece in enumerate(cut):
            yield ArtifactChunk("a", text=piece, append=number > 0)
            yield Text(piece)
        if end == "tool":
            yield ToolCall("1", "look", {})
        elif end == "say":
            yield Say("".join(cut))
        if end == "complete":
            yield Complete("".join(cut))

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        messages = [one for one in (*task.history, task.status.message) if text(one) and one.role == a2a.ROLE_AGENT]
        assert {text(one) for one in messages} == {whole} and len({one.message_id for one in messages}) == 1
        assert "".join(part.text for part in task.artifacts[0].parts) == whole
        told = [each.event.status_update.status.message for each in await plane.events(task.id)]
        partial = [text(one) for one in told if "kagent_adk_partial" in one.metadata.fields]
        assert "".join(partial) == whole


async def test_half_a_surrogate_pair_in_an_artifact_joins_only_text_of_the_same_artifact(stores: Stores) -> None:
    """T1: other data, another artifact, its end and its replacement do not complete it."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("a", text="a\ud83d")
        yield ArtifactChunk("b", text="b\ud83d")
        yield ArtifactChunk("a", text="\ude00", append=True, last=True)
        yield ArtifactChunk("b", data={"k": 1}, append=True)
        yield ArtifactChunk("c", text="c\ud83d", last=True)
        yield ArtifactChunk("d", text="d\ud83d", mergeable=False)
        yield ArtifactChunk("d", text="d")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        made = {each.artifact_id: "".join(part.text for part in each.parts) for each in task.artifacts}
        assert made == {"a": "a\U0001f600", "b": "b\ufffd", "c": "c\ufffd", "d": "d"}
