"""The list of sessions, and versions as guards of changes."""

import asyncio
from typing import Any

import pytest
from tests.gateway.plane import Plane, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")


def named(user: str, **headers: str) -> dict[str, str]:
    return {"X-User-Id": user, **{name.replace("_", "-"): value for name, value in headers.items()}}


async def listed(plane: Plane, user: str, query: str = "") -> Any:
    reply = await plane.http.get(f"/api/sessions{query}", headers=named(user))
    assert reply.status_code == 200, reply.text
    return reply.json()


async def send(plane: Plane, user: str, context: str, text: str) -> Any:
    result = await plane.result("SendMessage", {"message": said(text, contextId=context)}, x_user_id=user)
    return result.get("task")


async def test_one_request_returns_the_list_with_all_its_fields(plane: Plane) -> None:
    """T9: title, agent, last state, counts and times of each session, beside kagent's fields."""
    user, busy, old = fresh(), fresh(), fresh()
    await plane.http.post("/api/sessions", json={"id": old, "agent_ref": "kagent/my-agent"}, headers=named(user))
    for text in ("hello", "fail", "ask"):
        await send(plane, user, busy, text)
    first, second = (await listed(plane, user))["data"]
    assert (first["id"], second["id"]) == (busy, old)
    assert set(first) - {"paused"} == {
        *("id", "name", "user_id", "created_at", "updated_at", "agent_id", "source"),
        *("title", "agent", "version", "lastState", "taskCounts", "taskCount", "updatedAt"),
    }
    assert (first["title"], first["name"], first["agent"]) == ("hello", "hello", "demo")
    assert (first["taskCounts"], first["taskCount"]) == ({"completed": 1, "failed": 1, "working": 1}, 3)
    assert (first["lastState"], first["paused"]) == ("working", True)
    assert first["updatedAt"] >= first["updated_at"]
    assert (second["agent"], second["agent_id"]) == ("kagent/my-agent", "kagent__NS__my_agent")
    assert (second["lastState"], second["taskCounts"], second["taskCount"]) == (None, {}, 0)


async def test_the_list_has_pages_and_a_title_filter(plane: Plane) -> None:
    """T9: a page has the token of the next one. An invalid limit or token is refused with 400."""
    user = fresh()
    for number in range(5):
        body = {"agent_ref": "a", "name": f"Trip {number} to Oslo" if number % 2 else f"Notes {number}"}
        await plane.http.post("/api/sessions", json=body, headers=named(user))
    whole = await listed(plane, user)
    assert "next_page_token" not in whole
    titles = [row["title"] for row in whole["data"]]
    assert titles == ["Notes 4", "Trip 3 to Oslo", "Notes 2", "Trip 1 to Oslo", "Notes 0"]
    found: list[str] = []
    token = ""
    sizes: list[int] = []
    while True:
        page = await listed(plane, user, f"?limit=2&page_token={token}")
        found += [row["title"] for row in page["data"]]
        sizes.append(len(page["data"]))
        token = page.get("next_page_token", "")
        if not token:
            break
    assert (found, sizes) == (titles, [2, 2, 1])
    oslo = await listed(plane, user, "?q=oSLO")
    assert [row["title"] for row in oslo["data"]] == ["Trip 3 to Oslo", "Trip 1 to Oslo"]
    assert "data" not in await listed(plane, user, "?q=100%25")
    for query in ("limit=0", "limit=-1", "limit=1001", "limit=x", "limit=2&page_token=no", f"page_token={'x' * 5000}"):
        reply = await plane.http.get(f"/api/sessions?{query}", headers=named(user))
        assert reply.status_code == 400, query


async def test_a_list_without_a_limit_has_at_most_1000_sessions(plane: Plane) -> None:
    """T9: more sessions are on further pages."""
    user = fresh()
    for _ in range(91):
        made = [plane.http.post("/api/sessions", json={"agent_ref": "a"}, headers=named(user)) for _ in range(11)]
        assert {reply.status_code for reply in await asyncio.gather(*made)} == {201}
    first = await listed(plane, user)
    assert len(first["data"]) == 1_000
    second = await listed(plane, user, f"?page_token={first['next_page_token']}")
    assert (len(second["data"]), "next_page_token" in second) == (1, False)
    assert len({row["id"] for page in (first, second) for row in page["data"]}) == 1_001


async def test_an_unchanged_list_is_answered_with_304(plane: Plane) -> None:
    """T9: the tag of another caller does not match."""
    user, context = fresh(), fresh()
    await send(plane, user, context, "hello")
    tag = (await plane.http.get("/api/sessions", headers=named(user))).headers["etag"]
    again = await plane.http.get("/api/sessions", headers=named(user, If_None_Match=tag))
    assert (again.status_code, again.content) == (304, b"")
    assert (await plane.http.get("/api/sessions", headers=named(fresh(), If_None_Match=tag))).status_code == 200
    await send(plane, user, context, "again")
    assert (await plane.http.get("/api/sessions", headers=named(user, If_None_Match=tag))).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_rename_with_an_outdated_tag_is_refused_with_409(plane: Plane, method: str) -> None:
    """R9: the tag is the version of the session. Of concurrent renames under one tag one succeeds; the others get the
    version and change nothing."""
    user, context = fresh(), fresh()
    await send(plane, user, context, "hello")
    path = f"/api/sessions/{context}"
    tag = (await plane.http.get(path, headers=named(user))).headers["etag"]
    assert (await plane.http.get(path, headers=named(user, If_None_Match=tag))).status_code == 304
    renamed = await plane.http.request(method, path, json={"name": "One"}, headers=named(user, If_Match=tag))
    assert (renamed.status_code, renamed.headers["etag"] == tag) == (200, False)
    late = await plane.http.request(method, path, json={"name": "Two"}, headers=named(user, If_Match=tag))
    assert (late.status_code, late.json()["code"]) == (409, "VERSION_MISMATCH")
    assert f'"{late.json()["metadata"]["version"]}"' == renamed.headers["etag"]
    read = await plane.http.get(path, headers=named(user, If_None_Match=tag))
    assert (read.status_code, read.json()["data"]["session"]["name"]) == (200, "One")
    tag = renamed.headers["etag"]
    both = await asyncio.gather(
        *(plane.http.request(method, path, json={"name": f"{n}"}, headers=named(user, If_Match=tag)) for n in range(8))
    )
    assert sorted(one.status_code for one in both) == [200] + [409] * 7
    bad = await plane.http.request(method, path, json={"name": "Two"}, headers=named(user, If_Match="x"))
    assert (bad.status_code, list(bad.json()["fields"])) == (400, ["If-Match"])
