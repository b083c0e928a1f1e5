"""The sessions of the client in TypeScript, with a real gateway."""

import pytest
from tests.client.typescript import packages, sessions
from tests.gateway.plane import Plane, fresh, named
from tests.support.cutting import CuttingProxy

pytestmark = [pytest.mark.asyncio(loop_scope="module"), packages]
_ANN = {"x_user_id": "ann"}


async def say(plane: Plane, text: str, context: str) -> str:
    """Send a message as the user of the client, and return the id of its task."""
    message = {"messageId": fresh(), "role": "ROLE_USER", "parts": [{"text": text}], "contextId": context}
    task: str = (await plane.result("SendMessage", {"message": message}, **_ANN))["task"]["id"]
    return task


async def test_sessions_are_found_read_renamed_rewound_forked_and_deleted(plane: Plane) -> None:
    """The calls are those of the client in Python."""
    context = fresh()
    first, second = [await say(plane, text, context) for text in ("count 2", "count 3")]
    async with sessions(plane.gateway.url) as call:
        (found,) = await call("find", {"search": "COUNT 2"})
        assert (found["id"], found["title"]) == (context, "count 2")
        session = await call("get", context)
        assert (session["title"], session["version"]) == ("count 2", found["version"])
        assert [info["taskId"] for info in await call("taskInfos", context)] == [first, second]
        messages = await call("messages", context)
        assert [part["text"] for each in messages for part in each["parts"]] == ["count 2", "1 2", "count 3", "1 2 3"]
        history = await call("effectiveHistory", context)
        assert (history["version"], len(history["messages"])) == (session["version"], 4)
        await call("rename", context, "Numbers")
        assert (await call("get", context))["title"] == "Numbers"
        turn = messages[2]["metadata"]["kagent_invocation_id"]
        rewound = await call("rewind", context, turn)
        assert len(rewound["messages"]) == 2
        assert len((await call("undoRewind", context))["messages"]) == 4
        assert (await call("undoRewind", context))["reason"] == "NOTHING_TO_UNDO"
        fork = await call("fork", context, {"before": turn, "title": "Half"})
        assert len(await call("messages", fork["id"])) == 2
        missing = await call("rewind", context, "no-such-turn")
        assert (missing["failed"], missing["status"]) == ("Missing", 404)
        await call("delete", context)
        gone = await call("get", context)
        assert (gone["failed"], gone["status"]) == ("Missing", 404)
        assert [each["id"] for each in await call("find", {"limit": 1})] == [fork["id"]]


async def test_a_watch_tells_the_changes_and_goes_on_with_a_snapshot_after_a_cut(
    plane: Plane, proxy: CuttingProxy
) -> None:
    context = fresh()
    await say(plane, "hello", context)
    async with sessions(f"http://127.0.0.1:{proxy.port}") as call:
        first = await call("watch", context)
        assert (first["name"], first["rejoined"], len(first["data"]["tasks"])) == ("snapshot", False, 1)
        await say(plane, "count 2", context)
        proxy.cut()
        again = await call.until("snapshot")
        assert (again["rejoined"], len(again["data"]["tasks"])) == (True, 2)
        await plane.http.delete(f"/api/sessions/{context}", headers=named(_ANN))
        await call.until("end")
