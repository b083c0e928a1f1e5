"""Documents under the id of their session, from runtimes that rewind by themselves or keep one task for a session."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conversing import INVOCATION, Way, data, echo, flat, say, shown, texts
from tests.gateway.plane import Json, Plane, events, fresh, open_all, request

from taskplane.executor.sweeps.reconcile import Reconciler
from taskplane.runtime import failpoints
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.one_engine

SEND = Way("1.0", False)


@pytest.fixture
async def plane(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane
    failpoints.configure("")


@pytest.fixture(params=["named", "unnamed"])
def names(request: pytest.FixtureRequest) -> bool:
    """Whether the messages of a runtime name their turns."""
    return bool(request.param == "named")


def turn(context: str, name: str, *, names: bool) -> list[Json]:
    """Return a question and its answer."""
    marks = {"metadata": {INVOCATION: f"{context}-{name}"}} if names else {}
    return [
        {
            "kind": "message",
            "role": role,
            "messageId": f"{context}-{name}{end}",
            "parts": [{"kind": "text", "text": f"{name}{end}"}],
            **marks,
        }
        for role, end in (("user", "?"), ("agent", "!"))
    ]


def of(*turns: str) -> list[str]:
    return [f"{name}{end}" for name in turns for end in "?!"]


class Runtime:
    """An external agent that saves its tasks."""

    def __init__(self, plane: Plane, context: str, *, names: bool) -> None:
        self.plane = plane
        self.context = context
        self._names = names

    async def save(self, task_id: str, *turns: str, answered: int = 201, **fields: Any) -> Json:
        """Save a task with these turns under an id."""
        history = [message for name in turns for message in turn(self.context, name, names=self._names)]
        task: Json = {"id": task_id, "contextId": self.context, "status": {"state": "completed"}, "history": history}
        reply = await self.plane.http.post("/api/tasks", json={**task, **fields})
        assert reply.status_code == answered, reply.text
        found: Json = reply.json()
        return found

    async def whole(self, *turns: str, **fields: Any) -> Json:
        """Save the task of the whole session."""
        return await self.save(self.context, *turns, **fields)

    async def listed(self) -> list[str]:
        return [task["id"] for task in await data(self.plane, f"/api/sessions/{self.context}/tasks")]

    async def version(self) -> int:
        found: int = (await data(self.plane, f"/api/sessions/{self.context}/effective_history"))["version"]
        return found


async def agree(runtime: Runtime, *expected: str) -> None:
    """Check that every route shows these texts, and that both versions of A2A return the same session task."""
    plane, context = runtime.plane, runtime.context
    assert await shown(plane, context) == list(expected)
    assert texts((await data(plane, f"/api/tasks/{context}"))["history"]) == list(expected)
    assert texts(await data(plane, f"/api/tasks/{context}/messages")) == list(expected)
    for method in ("tasks/get", "GetTask"):
        assert texts((await plane.result(method, {"id": context}))["history"]) == list(expected)


async def test_messages_omitted_by_a_session_document_are_cut(plane: Plane, names: bool) -> None:
    """R5, R7: the document is listed first, the omitted messages are hidden on every route, and later turns follow
    it."""
    runtime = Runtime(plane, fresh(), names=names)
    one, two, three = fresh(), fresh(), fresh()
    await runtime.save(one, "A")
    await runtime.save(two, "B")
    await runtime.whole("A", metadata={"mine": 1}, artifacts=[{"artifactId": "a", "parts": [{"text": "made"}]}])
    await agree(runtime, *of("A"))
    assert await runtime.listed() == [runtime.context, one]
    whole = await data(plane, f"/api/tasks/{runtime.context}")
    assert (whole["metadata"]["mine"], len(whole["artifacts"])) == (1, 1)
    hidden = await data(plane, f"/api/sessions/{runtime.context}/tasks?include=superseded")
    assert [task["id"] for task in hidden if task.get("superseded")] == [two]
    await runtime.save(three, "C")
    await agree(runtime, *of("A", "C"))
    await say(plane, SEND, runtime.context, "D")
    await agree(runtime, *of("A", "C"), *echo("D"))
    # The runtime of the cut turn saves late.
    await runtime.save(two, "B", metadata={"late": True})
    await agree(runtime, *of("A", "C"), *echo("D"))


async def test_a_session_document_cuts_managed_turns_and_direct_answers(plane: Plane) -> None:
    """R5: as a pushed history does. An empty document cuts everything."""
    context = fresh()
    await say(plane, SEND, context, "A")
    await plane.send("message direct", message={"contextId": context})
    first = await data(plane, f"/api/sessions/{context}/messages")
    runtime = Runtime(plane, context, names=False)
    await runtime.save(context, history=first["messages"][:2])
    await agree(runtime, *echo("A"))
    await runtime.whole()
    await agree(runtime)
    await say(plane, SEND, context, "B")
    await agree(runtime, *echo("B"))


async def test_a_session_document_that_only_grows_cuts_nothing(plane: Plane, names: bool) -> None:
    """R5: it is saved during and at the end of each turn. The export contains no pushed history."""
    runtime = Runtime(plane, fresh(), names=names)
    turns: list[str] = []
    for name in ("A", "B", "C"):
        question = turn(runtime.context, name, names=names)[0]
        progress = {**turn(runtime.context, f"wait{name}", names=names)[1]}
        history = [one for each in turns for one in turn(runtime.context, each, names=names)]
        working = {"state": "working", "message": progress}
        await runtime.save(runtime.context, history=[*history, question], status=working)
        turns.append(name)
        await runtime.whole(*turns, metadata={"turn": name})
        await agree(runtime, *of(*turns))
        assert await runtime.listed() == [runtime.context]
    whole = await data(plane, f"/api/tasks/{runtime.context}")
    assert {key for key in whole["metadata"] if key != "taskplane.dev/cursor"} == {"turn"}
    body = (await plane.http.get(f"/api/sessions/{runtime.context}/export")).text
    assert '"ENTRY_KIND_PUSHED"' not in body


async def test_a_session_document_may_rewind_and_undo(plane: Plane, names: bool) -> None:
    """R5: it omits some of its own turns, continues, repeats a turn, and undoes a rewind."""
    runtime = Runtime(plane, fresh(), names=names)
    await runtime.whole("A", "B", "C", metadata={"mine": 1})
    for turns in (("A", "B"), ("A", "B", "D"), ("A",), ("A", "B", "D"), ("A", "B", "D", "E"), ()):
        await runtime.whole(*turns, metadata={"mine": len(turns)})
        await agree(runtime, *of(*turns))
        assert await runtime.listed() == [runtime.context]
        assert (await data(plane, f"/api/tasks/{runtime.context}"))["metadata"]["mine"] == len(turns)
    await runtime.whole("A")
    half = turn(runtime.context, "B", names=names)
    for history in (half[:1], half):
        await runtime.save(runtime.context, history=[*turn(runtime.context, "A", names=names), *history])
        await agree(runtime, *of("A"), *texts(history))


async def test_a_restored_turn_can_be_rewound_and_its_task_is_listed(plane: Plane) -> None:
    """R4, R5: a later session document contains the omitted turn again."""
    runtime = Runtime(plane, fresh(), names=True)
    two = fresh()
    await runtime.save(two, "B")
    for turns in (("A", "B"), ("A",), ("A", "B")):
        await runtime.whole(*turns)
        assert (two in await runtime.listed()) is ("B" in turns)
    before = {"before": f"{runtime.context}-B"}
    assert (await plane.http.post(f"/api/sessions/{runtime.context}/rewind", json=before)).status_code == 200
    await agree(runtime, *of("A"))


async def test_the_newest_of_document_rewind_undo_and_push_decides_the_session_task(plane: Plane, names: bool) -> None:
    """R5, R7: a document stored after them decides again."""
    runtime = Runtime(plane, fresh(), names=names)
    await say(plane, SEND, runtime.context, "Z")
    await runtime.save(runtime.context, metadata={"mine": 1}, history=await flat(plane, runtime.context))
    await agree(runtime, *echo("Z"))

    async def is_own() -> bool:
        first = (await data(plane, f"/api/sessions/{runtime.context}/tasks"))[0]
        read = await data(plane, f"/api/tasks/{runtime.context}")
        assert first["id"] == runtime.context
        assert first.get("metadata", {}).get("mine") == read.get("metadata", {}).get("mine")
        return "mine" in read.get("metadata", {})

    await say(plane, SEND, runtime.context, "Y")
    last = (await flat(plane, runtime.context))[-1]["metadata"][INVOCATION]
    for act, body in (("rewind", {"before": last}), ("undo_rewind", {})):
        reply = await plane.http.post(f"/api/sessions/{runtime.context}/{act}", json=body)
        assert reply.status_code == 200, reply.text
        expected = echo("Z", "Y") if act == "undo_rewind" else echo("Z")
        assert texts(reply.json()["data"]["messages"]) == expected
        await agree(runtime, *expected)
        assert not await is_own()
    whole = [*await flat(plane, runtime.context), *turn(runtime.context, "A", names=names)]
    await runtime.save(runtime.context, metadata={"mine": 2}, history=whole)
    await agree(runtime, *echo("Z", "Y"), *of("A"))
    assert await is_own()
    kept = [{"kind": "message", "role": "agent", "messageId": fresh(), "parts": [{"kind": "text", "text": "in short"}]}]
    reply = await plane.http.put(f"/api/sessions/{runtime.context}/effective_history", json=kept)
    assert reply.status_code == 200, reply.text
    await agree(runtime, "in short")
    assert not await is_own()
    await runtime.save(runtime.context, metadata={"mine": 3}, history=[*kept, *turn(runtime.context, "N", names=names)])
    await agree(runtime, "in short", *of("N"))
    assert await is_own()


async def test_a_subscription_to_a_session_document_begins_with_the_session_task(plane: Plane) -> None:
    """R5, M5: it has all messages of the session, without those that a later push omits."""
    runtime = Runtime(plane, fresh(), names=True)
    about = {"id": runtime.context}
    for name in ("A", "B"):
        await runtime.save(fresh(), name)
    await runtime.whole("A")
    await runtime.save(fresh(), "C")
    saving: Json = {"status": {"state": "working"}, "history": turn(runtime.context, "D", names=True)}
    await runtime.save(runtime.context, **saving)
    whole = texts((await plane.result("GetTask", about))["history"])
    assert set(whole) == {*of("A", "C", "D")}
    async with plane.stream("SubscribeToTask", about) as found:
        assert texts((await anext(found)).result["task"]["history"]) == whole
    reply = await plane.http.put(f"/api/sessions/{runtime.context}/effective_history", json=[])
    assert reply.status_code == 200, reply.text
    # The session task of a pushed history is completed, for any state of the document.
    for method in ("SubscribeToTask", "tasks/resubscribe"):
        refused = await plane.http.post("/", json=request(method, about))
        assert "UNSUPPORTED_OPERATION" in refused.text, refused.text


async def test_a_rewind_unknown_to_the_runtime_stays_in_effect(plane: Plane) -> None:
    """R4: the runtime continues to save the cut turn, and new turns. Only the new turns are shown."""
    runtime = Runtime(plane, fresh(), names=True)
    await runtime.whole("A", "B")
    before = {"before": f"{runtime.context}-B"}
    assert (await plane.http.post(f"/api/sessions/{runtime.context}/rewind", json=before)).status_code == 200
    await agree(runtime, *of("A"))
    await runtime.whole("A", "B")
    await agree(runtime, *of("A"))
    await runtime.whole("A", "B", "C")
    await agree(runtime, *of("A", "C"))
    await runtime.whole("B", "C")
    await agree(runtime, *of("C"))


async def test_watchers_get_one_rewound_event_for_omitted_turns(plane: Plane) -> None:
    """R5, M5: the event names the cut turns, as after a push. A document that cuts nothing causes none."""
    runtime = Runtime(plane, fresh(), names=True)
    for name in ("A", "B"):
        await runtime.save(fresh(), name)
    received: list[tuple[str, Any]] = []
    async with (
        asyncio.timeout(20),
        plane.http.stream("GET", f"/api/sessions/{runtime.context}/watch") as reply,
    ):
        found = events(reply)
        assert (await anext(found)).name == "snapshot"
        for turns in (("A",), ("A", "C")):
            await runtime.whole(*turns)
        async for event in found:
            received.append((event.name, event.data))
            if event.name == "entry-added" and event.data["invocationId"] == f"{runtime.context}-C":
                break
    assert [data["cut"] for name, data in received if name == "rewound"] == [[f"{runtime.context}-B"]]
    assert next(data["kind"] for name, data in received if name == "entry-added") == "pushed"


@pytest.mark.parametrize("place", ["document.after_cut", "document.after_put", "rewind.after_mark"])
async def test_a_crash_while_a_session_document_is_stored_leaves_routes_consistent(
    plane: Plane, place: str, names: bool
) -> None:
    """R5, C16: all routes agree, the sweep hides the omitted turns, and a repeat stores the document."""
    runtime = Runtime(plane, fresh(), names=names)
    one, two = fresh(), fresh()
    await runtime.save(one, "A")
    await runtime.save(two, "B")
    failpoints.configure(f"{place}=raise(INTERNAL)")
    reply = await plane.http.post(
        "/api/tasks",
        json={
            "id": runtime.context,
            "contextId": runtime.context,
            "status": {"state": "completed"},
            "history": turn(runtime.context, "A", names=names),
        },
    )
    assert (reply.status_code == 201) == (place == "rewind.after_mark")
    failpoints.configure("")
    sweeper = Principal("", "", "executor", service=True)
    stores = plane.behind.stores
    await Reconciler(stores.tasks(sweeper), stores.sessions(sweeper)).sweep("executor")
    await agree(runtime, *of("A"))
    assert two not in await runtime.listed()
    version = await runtime.version()
    await runtime.whole("A")
    await agree(runtime, *of("A"))
    assert await runtime.version() - version <= 1
    await runtime.save(fresh(), "C")
    await agree(runtime, *of("A", "C"))


async def test_a_refused_session_document_cuts_nothing(plane: Plane) -> None:
    """T3, R5: refused for its generation, for another owner, or for a concurrent call."""
    runtime = Runtime(plane, fresh(), names=True)
    await runtime.save(fresh(), "A")
    await runtime.whole("A", "B")
    headers = {"If-Match": '"7"'}
    task: Json = {"id": runtime.context, "contextId": runtime.context, "status": {"state": "completed"}, "history": []}
    assert (await plane.http.post("/api/tasks", json=task, headers=headers)).status_code == 409
    await agree(runtime, *of("A", "B"))
    taken = Runtime(plane, fresh(), names=True)
    await taken.save(fresh(), "A")
    theirs = {"id": taken.context, "contextId": fresh(), "status": {"state": "completed"}}
    assert (await plane.http.post("/api/tasks", json=theirs, headers={"X-User-Id": "mallory"})).status_code == 201
    assert (await taken.whole(answered=409))["code"] == "ID_TAKEN"
    assert await shown(plane, taken.context) == of("A")


async def test_the_refused_one_of_two_concurrent_documents_cuts_nothing(plane: Plane, tmp_path: Path) -> None:
    """T3, R5: both were checked before either was stored."""
    runtime = Runtime(plane, fresh(), names=True)
    one = fresh()
    await runtime.save(one, "A")
    await runtime.whole("A", "B")
    go = tmp_path / "go"
    failpoints.configure(f"document.after_cut=pause({go})")
    task: Json = {"id": runtime.context, "contextId": runtime.context, "status": {"state": "completed"}, "history": []}
    first = asyncio.create_task(plane.http.post("/api/tasks", json=task, headers={"If-Match": '"1"'}))
    async with asyncio.timeout(20):
        while "go.reached" not in os.listdir(tmp_path):
            await asyncio.sleep(0.01)
    failpoints.configure("")
    await runtime.save(runtime.context, "A", "B", status={"state": "working"})
    go.touch()
    assert (await first).status_code == 409
    await agree(runtime, *of("A", "B"))
    assert await runtime.listed() == [runtime.context, one]
    await runtime.whole("A", "B")
    await agree(runtime, *of("A", "B"))
    before = {"before": f"{runtime.context}-B"}
    assert (await plane.http.post(f"/api/sessions/{runtime.context}/rewind", json=before)).status_code == 200
    await agree(runtime, *of("A"))


async def test_a_session_document_is_unchanged_by_an_export_and_import(plane: Plane, names: bool) -> None:
    """O4: imported under its own id, and under another id beside the original."""
    runtime = Runtime(plane, fresh(), names=names)
    for name in ("A", "B"):
        await runtime.save(fresh(), name)
    await runtime.whole("A", metadata={"mine": 1})
    await runtime.save(fresh(), "C")
    body = (await plane.http.get(f"/api/sessions/{runtime.context}/export")).content
    headers = {"content-type": "application/x-ndjson"}
    other = Runtime(plane, fresh(), names=names)
    for copy, query in ((other, f"?id={other.context}"), (runtime, "")):
        if copy is runtime:
            assert (await plane.http.delete(f"/api/sessions/{runtime.context}")).status_code == 200
        reply = await plane.http.post(f"/api/sessions/import{query}", content=body, headers=headers)
        assert reply.status_code == 201, reply.text
        await agree(copy, *of("A", "C"))
        assert (await data(plane, f"/api/tasks/{copy.context}"))["metadata"]["mine"] == 1
