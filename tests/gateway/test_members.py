"""Every member of messages, artifacts and tasks comes back over each binding, without what 0.3 cannot say."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.executor.scripted import Scripted
from tests.gateway.bindings import Client, JsonRpc
from tests.gateway.plane import Json, Plane, fresh, open_all, said
from tests.gateway.translate.losses import TO_0_3, TO_0_3_IN_JSON, lose

from taskplane.agents.agent import ArtifactChunk, AskInput, Change, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXTENSION: Final = "https://example.com/extension"
PARTS: Final[list[Json]] = [
    {"text": "words", "mediaType": "text/markdown", "filename": "a.md", "metadata": {"n": 1.0, "none": None}},
    {"raw": "AP8=", "mediaType": "image/png", "filename": "a.png", "metadata": {"list": [True, {}]}},
    {"url": "https://example.com/a", "mediaType": "text/csv", "filename": "a.csv"},
    {"data": {"object": {"deep": [1.5, "x", False]}}},
    {"data": [1.0, None, {"a": "b"}], "metadata": {"mine": "yes"}},
    {"data": "text"},
    {"data": None},
]


async def everything(turn: Turn) -> AsyncIterator[Change]:
    parts = [ParseDict(part, a2a.Part()) for part in PARTS]
    yield ArtifactChunk(
        "a",
        parts=parts,
        name="Name",
        description="Description",
        metadata={"k": "v"},
        extensions=[EXTENSION],
        last=True,
    )
    message = a2a.Message(role=a2a.ROLE_AGENT, parts=parts, extensions=[EXTENSION])
    message.metadata.update({"of": "agent"})
    yield AskInput(message)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    async with open_all(tmp_path_factory.mktemp("plane"), ("all", Scripted(everything))) as plane:
        yield plane


def lost(client: Client, task: Json) -> Json:
    """Return a task of 1.0 as it comes over the binding."""
    if client.binding.version == "1.0":
        return task
    losses = TO_0_3_IN_JSON if client.binding.name.startswith("jsonrpc") else TO_0_3
    found: Json = MessageToDict(lose(ParseDict(task, a2a.Task()), losses))
    return found


async def test_a_task_with_every_member_is_the_same_over_each_binding(client: Client) -> None:
    """a2a B4, B6, B14, C8, C24, K4: read and streamed."""
    whole = Client(client.plane, JsonRpc())
    sent = said(
        "go", parts=PARTS, metadata={"of": "user"}, extensions=[EXTENSION], contextId=fresh(), referenceTaskIds=["t"]
    )
    task = (await whole.result("SendMessage", {"message": sent}))["task"]
    found = ParseDict(task, a2a.Task())
    assert {field.name for field, _ in found.ListFields()} == {field.name for field in a2a.Task.DESCRIPTOR.fields}
    (artifact,) = found.artifacts
    assert len(artifact.ListFields()) == len(a2a.Artifact.DESCRIPTOR.fields)
    assert task["history"][0]["parts"] == task["artifacts"][0]["parts"] == PARTS
    read = await client.result("GetTask", {"id": task["id"]})
    assert read == lost(client, task)
    async with client.stream("SubscribeToTask", {"id": task["id"]}) as events:
        first = (await anext(events)).result["task"]
    assert {**first, "history": read["history"]} == read
    assert ("history" in first) == (client.binding.version == "1.0")


async def test_the_length_of_a_history_changes_nothing_but_the_history(client: Client) -> None:
    """a2a C6, C7: artifacts and the message of the status stay."""
    task = await Client(client.plane, JsonRpc()).send("go")
    await client.plane.send("more", message={"taskId": task["id"]})
    whole = await client.result("GetTask", {"id": task["id"]})
    assert len(whole["history"]) == 3
    for length in (1, 2, 2**31 - 1):
        cut = await client.result("GetTask", {"id": task["id"], "historyLength": length})
        assert cut == {**whole, "history": whole["history"][-length:]}


async def test_a_message_with_every_member_arrives_over_each_binding(client: Client) -> None:
    """a2a B4, B6, B12, B14: as the agent and the other clients have it. The tests of 0.3 send texts."""
    parts = PARTS if client.binding.version == "1.0" else [{"text": "words", "metadata": {"n": 1.0}}]
    sent = said("go", parts=parts, metadata={"of": "user"}, extensions=[EXTENSION], contextId=fresh())
    task = (await client.result("SendMessage", {"message": sent}))["task"]
    kept = (await client.plane.result("GetTask", {"id": task["id"]}))["history"][0]
    assert kept["metadata"].pop("of") == "user"
    assert {name: kept[name] for name in sent if name != "metadata"} == {
        name: value for name, value in sent.items() if name != "metadata"
    }
