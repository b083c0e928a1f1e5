"""Turns of an agent as clients of both versions see them: the options of the request, status texts, and the
artifact."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
import pytest_asyncio
from tests.executor.plane import until
from tests.executor.scripted import Scripted
from tests.gateway.conversing import WAYS, Way, data, flat, name_of, payload, state_of, texts
from tests.gateway.plane import Plane, fresh, open_behind, open_front

from taskplane.agents.agent import ArtifactChunk, Change, Complete, Say, Text, Turn

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
each_version = pytest.mark.parametrize("way", [Way("0.3", True), Way("1.0", True)], ids=name_of)


class OptionsEcho(Scripted):
    """Echoes the options of the request, writes three status texts, and makes an artifact."""

    def __init__(self) -> None:
        super().__init__(self._work)
        self.calls = 0

    async def route(self, turn: Turn) -> str | AsyncIterator[Change]:
        echo = json.dumps([turn.metadata, [*turn.output_modes], [*turn.extensions]])
        return echo if turn.text == "direct" else self._work(turn)

    async def _work(self, turn: Turn) -> AsyncIterator[Change]:
        yield Say(json.dumps([turn.metadata, [*turn.output_modes], [*turn.extensions]]))
        calls = self.calls
        await until(lambda: self.calls >= calls + 5)
        yield Text("that ")
        yield Text("is all")
        yield Complete()

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | None:
        self.calls += 1
        return f"step {len(recent) + 1}" if len(recent) < 3 else None

    async def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        for count in range(3):
            yield ArtifactChunk("a", text=f"{count} ", append=count > 0, last=count == 2, mergeable=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    directory = tmp_path_factory.mktemp("plane")
    settings = {"status_interval": 0.01, "route_timeout": 60.0}
    async with (
        open_behind(directory, ("echo", OptionsEcho()), executor=settings) as behind,
        open_front(behind) as plane,
    ):
        yield plane


@each_way
async def test_an_agent_gets_metadata_output_modes_and_extensions_of_the_request(plane: Plane, way: Way) -> None:
    """P1, P2, a2a B12, H5: duplicate extensions are removed. A direct answer without a task is possible."""
    params = {**way.params(fresh(), "direct", acceptedOutputModes=["text/plain"]), "metadata": {"a": [1, None]}}
    header = "x_a2a_extensions" if way.version == "0.3" else "a2a_extensions"
    headers = {header: "https://example.com/x, https://example.com/y,https://example.com/x"}
    if way.streams:
        (event,) = await plane.streamed(way.method, params, **headers)
        found = event.result
    else:
        found = await plane.result(way.method, params, **headers)
    kind, message = payload(found)
    expected = [{"a": [1, None]}, ["text/plain"], ["https://example.com/x", "https://example.com/y"]]
    assert kind == "message" and json.loads(texts([message])[0]) == expected


@each_version
async def test_status_texts_artifact_chunks_and_end_come_in_order(plane: Plane, way: Way) -> None:
    """P3 to P6, P13: status texts come before the artifact, and its chunks once and before the end. Status texts are
    not in the conversation and can be read by their kind."""
    context = fresh()
    seen = [payload(event.result) for event in await plane.streamed(way.method, way.params(context, "go"))]
    chunks = [at for at, (kind, _) in enumerate(seen) if kind == "artifact-update"]
    updates = [(at, thing) for at, (kind, thing) in enumerate(seen) if kind == "status-update"]
    steps = [
        (at, texts([message])[0])
        for at, thing in updates
        if (message := thing["status"].get("message")) and message.get("metadata", {}).get("kind") == "status-message"
    ]
    assert [text for _, text in steps] == ["step 1", "step 2", "step 3"] and steps[-1][0] < chunks[0]
    assert [texts([seen[at][1]["artifact"]])[0] for at in chunks] == ["0 ", "1 ", "2 "]
    assert state_of(updates[-1][1]) == "completed" and updates[-1][0] == len(seen) - 1 > chunks[-1]
    assert texts(await flat(plane, context)) == ["go", json.dumps([{}, [], []]), "that is all"]
    task_id = seen[-1][1]["taskId"]
    read = await data(plane, f"/api/tasks/{task_id}/messages?kind=status-message")
    assert texts(read) == ["step 1", "step 2", "step 3"]
