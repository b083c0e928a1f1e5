"""An artifact of 500 pieces, by a language model and by an agent of the port: seen, stored, and left by killed runs."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.support.scripted_model import (
    Answer,
    CallBegin,
    CallPiece,
    Finish,
    Request,
    Until,
    calls,
    open_model,
)
from tests.support.scripted_model import text as words
from tests.support.thorough import THOROUGH
from tests.system.chunks import Chunk, View, log_reader, sender, subscriber, watcher
from tests.system.judge import artifact_rows
from tests.system.plane import STEADY, Plane, running
from tests.system.wire import client, data, raw_log, result
from tests.system.writing import CONTENT, PIECES, piece

pytestmark = pytest.mark.more

HALF = "".join(map(piece, range(PIECES // 2)))
WRITER = "writer=tests.system.writing:Writer"
AUTHORS = ["llm", "writer"]
VERSIONS = ["1.0", "0.3"]
authors = pytest.mark.parametrize("author", AUTHORS)
cases = list(itertools.product(AUTHORS, VERSIONS) if THOROUGH else zip(AUTHORS, VERSIONS, strict=True))


class Author:
    """An agent that writes the artifact; the second half after a signal."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / uuid4().hex
        self._event = asyncio.Event()

    def message(self, policy: str = "fail") -> str:
        return f"{policy} {self._file}"

    def go_on(self) -> None:
        self._file.touch()
        self._event.set()

    def script(self, request: Request) -> Answer:
        """A task, the artifact in 500 deltas of the arguments of its tool, a last word."""
        if "createTask" in request.tools:
            return calls(("createTask", {"reason": "as scripted"}))
        if request.said[-1][0] == "tool":
            return words("Written.")
        pieces = [CallPiece(0, piece(number)) for number in range(PIECES)]
        half = PIECES // 2
        begin: Answer = [CallBegin(0, "call", "createArtifact"), CallPiece(0, '{"name": "Report", "content": "')]
        end: Answer = [CallPiece(0, '"}'), Finish("tool_calls")]
        return [*begin, *pieces[:half], Until(self._event), *pieces[half:], *end]


@asynccontextmanager
async def written_by(
    author: str, mode: str, folder: Path, server: Cluster | None, **extra: str
) -> AsyncGenerator[tuple[Plane, Author]]:
    """A plane with one of the agents."""
    made = Author(folder)
    async with open_model(made.script) as model:
        settings = {
            "TASKPLANE_EXECUTOR_AGENTS": WRITER if author == "writer" else "llm",
            "TASKPLANE_LLM_MODEL": "openai-chat:scripted",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "any",
        }
        async with running(mode, folder, {**settings, **extra}, server=server) as plane:
            yield plane, made


async def downloaded(http: httpx.AsyncClient, task_id: str) -> str:
    """The artifact of a task, read as a file."""
    (listed,) = await data(http, f"/api/tasks/{task_id}/artifacts")
    answer = await http.get(f"/api/tasks/{task_id}/artifacts/{listed['artifactId']}")
    assert answer.status_code == 200
    return answer.text


async def logged(http: httpx.AsyncClient, task_id: str) -> list[Chunk]:
    """The pieces of artifacts in the log of an ended task."""
    view = View()
    await log_reader(http, view, task_id)
    return view.chunks


@pytest.mark.parametrize(("author", "version"), cases)
async def test_each_client_sees_each_piece_of_an_artifact_once(
    author: str, version: str, server: Cluster | None, tmp_path: Path
) -> None:
    """P5, T1, C3: in order and before `completed`, for every client, by each protocol, from the beginning or the
    middle. P7: the log has its text once."""
    mode = "one" if server is None else "four"
    async with written_by(author, mode, tmp_path, server, **STEADY) as (plane, made), client(plane.url) as http:
        views = [View() for _ in range(6)]
        first, other, leaver, log, watch, late = views
        async with asyncio.timeout(60), asyncio.TaskGroup() as clients:
            clients.create_task(sender(http, first, made.message(), version))
            await first.sees("")
            task_id, begin = first.task_id, f"{first.cursor.rpartition('-')[0]}-0"
            another = "0.3" if version == "1.0" else "1.0"
            clients.create_task(subscriber(http, other, task_id, another, begin))
            clients.create_task(subscriber(http, leaver, task_id, version, begin, leave_after=5))
            clients.create_task(log_reader(http, log, task_id))
            clients.create_task(watcher(plane, watch, task_id, begin))
            await first.sees(HALF)
            clients.create_task(subscriber(http, late, task_id, version, ""))
            await late.sees(HALF)
            made.go_on()
        chunks = log.chunks
        assert "".join(chunk.text for chunk in chunks) == CONTENT
        assert [chunk.append for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
        assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        for view in (first, other, leaver, watch):
            assert view.chunks == chunks
        assert late.text == CONTENT and late.chunks == chunks[-len(late.chunks) :]
        assert {(view.state, view.before_end == len(view.chunks)) for view in views} == {("completed", True)}
        assert await downloaded(http, task_id) == CONTENT
        rows = await artifact_rows(plane, task_id)
        events = await raw_log(http, task_id)
    if author == "writer":
        assert len(chunks) == PIECES
    assert len(rows) == len(chunks)
    # Ids and framing beside the text.
    assert sum(rows) < len(CONTENT.encode()) + 160 * len(rows)
    others = [event for event in events if event["kind"] != "artifact"]
    assert not [event for event in others if piece(0)[:5] in str(event)]


@authors
@pytest.mark.parametrize("target", ["executor"])
async def test_the_shown_part_of_an_artifact_stays_after_its_run_is_killed(
    author: str, target: str, server: Cluster | None, tmp_path: Path
) -> None:
    """P7, C9, C11: for every client; the task fails by its policy, and the artifact can be read."""
    async with written_by(author, "four", tmp_path, server) as (plane, made), client(plane.url) as http:
        first, watch = View(), View()
        async with asyncio.timeout(60), asyncio.TaskGroup() as clients:
            clients.create_task(sender(http, first, made.message(), "1.0"))
            await first.sees(HALF)
            clients.create_task(watcher(plane, watch, first.task_id, f"{first.cursor.rpartition('-')[0]}-0"))
            await watch.sees(HALF)
            await plane.kill(target)
        assert first.state == watch.state == "failed"
        assert first.chunks == watch.chunks == await logged(http, first.task_id)
        assert await downloaded(http, first.task_id) == first.text == HALF
        task = await result(http, "GetTask", {"id": first.task_id})
    assert task["status"]["message"]["metadata"]["reason"] == "EXECUTOR_LOST", task["status"]


@pytest.mark.parametrize("policy", ["resume", "rerun"])
@pytest.mark.parametrize("target", ["executor"])
async def test_an_artifact_is_continued_by_a_resumed_run_and_written_again_by_a_repeated_one(
    policy: str, target: str, server: Cluster | None, tmp_path: Path
) -> None:
    """P7, C9: the first run is killed after half of it; by both policies the artifact is whole in the end."""
    async with written_by("writer", "four", tmp_path, server) as (plane, made), client(plane.url) as http:
        first = View()
        async with asyncio.timeout(60), asyncio.TaskGroup() as clients:
            clients.create_task(sender(http, first, made.message(policy), "1.0"))
            await first.sees(HALF)
            await plane.kill(target)
            made.go_on()
            await plane.start(target)
        assert first.state == "completed"
        assert first.chunks == await logged(http, first.task_id)
        assert first.text == (CONTENT if policy == "resume" else HALF + CONTENT)
        assert [chunk.append for chunk in first.chunks].count(False) == (1 if policy == "resume" else 2)
        assert await downloaded(http, first.task_id) == CONTENT
