"""Artifacts of a task, listed and as files."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.gateway.plane import Plane, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(plane: Plane, task_id: str) -> Any:
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts")
    assert reply.status_code == 200
    return reply.json()["data"]


async def stored(plane: Plane, *parts: Any, **fields: Any) -> str:
    """The id of a document with one artifact, `a`, of these parts."""
    task_id = fresh()
    artifact = {"artifactId": "a", "parts": list(parts), **fields}
    body = {"id": task_id, "contextId": fresh(), "status": {"state": "completed"}, "artifacts": [artifact]}
    assert (await plane.http.post("/api/tasks", json=body)).status_code == 201
    return task_id


async def test_artifacts_are_listed_with_their_times(plane: Plane) -> None:
    """P10: artifacts by task with their times."""
    task = await plane.send("artifact")
    artifacts = await listed(plane, task["id"])
    assert [one["name"] for one in artifacts] == ["Words", "Figures", "Table"]
    assert all(one["createdAt"] == one["updatedAt"] and one["createdAt"].endswith("Z") for one in artifacts)
    long = await plane.send("slow 2")
    (one,) = await listed(plane, long["id"])
    assert one["createdAt"] < one["updatedAt"] <= long["status"]["timestamp"]
    assert await listed(plane, (await plane.send("hello"))["id"]) == []
    document = await stored(plane, {"kind": "text", "text": "x"})
    assert (await listed(plane, document))[0]["createdAt"]


async def test_an_artifact_is_downloaded_under_its_own_type_and_never_shown_as_a_page(plane: Plane) -> None:
    task = await plane.send("artifact")
    ids = {one["name"]: one["artifactId"] for one in await listed(plane, task["id"])}
    base = f"/api/tasks/{task['id']}/artifacts"
    text = await plane.http.get(f"{base}/{ids['Words']}")
    assert (text.text, text.headers["content-type"]) == ("A few words.", "text/plain; charset=utf-8")
    figures = await plane.http.get(f"{base}/{ids['Figures']}")
    assert (figures.json(), figures.headers["content-type"]) == ({"answer": 42, "unit": "none"}, "application/json")
    table = await plane.http.get(f"{base}/{ids['Table']}")
    assert (table.content, table.headers["content-type"]) == (b"name,value\nanswer,42\n", "text/csv")
    assert table.headers["content-disposition"].startswith('attachment; filename="answer.csv"')
    assert table.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in table.headers["content-security-policy"]
    for path in (f"{base}/none", "/api/tasks/none/artifacts/a"):
        assert (await plane.http.get(path)).status_code == 404


async def test_a_file_name_leads_nowhere_and_reads_as_it_is(plane: Plane) -> None:
    """Path separators, control characters and those that reverse what follows are replaced."""
    for given, told in (
        ("../a\\b.txt", ".._a_b.txt"),
        ("x\u202efdp.exe", "x_fdp.exe"),
        ("a\r\nb", "a__b"),
        ("é/.txt", "é_.txt"),
        ("..", "_"),
    ):
        document = await stored(plane, {"raw": "AAE=", "filename": given})
        (one,) = await listed(plane, document)
        reply = await plane.http.get(f"/api/tasks/{document}/artifacts/{one['artifactId']}")
        disposition = reply.headers["content-disposition"]
        assert disposition.endswith(f"filename*=UTF-8''{quote(told, safe='')}"), disposition


async def test_chunks_are_downloaded_as_one_whole(plane: Plane) -> None:
    task = await plane.send("chunks 50 100")
    (one,) = await listed(plane, task["id"])
    reply = await plane.http.get(f"/api/tasks/{task['id']}/artifacts/{one['artifactId']}")
    assert len(reply.content) == 5000


@pytest.mark.parametrize(
    ("parts", "media_type", "body"),
    [
        ([{"kind": "text", "text": "a"}, {"kind": "text", "text": "b"}], "text/plain; charset=utf-8", b"ab"),
        ([{"text": "<b>", "mediaType": "text/html"}], "text/html; charset=utf-8", b"<b>"),
        ([{"raw": "AAE="}, {"raw": "Ag=="}], "application/octet-stream", b"\0\1\2"),
        ([{"text": "a", "mediaType": "text/html\r\nx: y"}], "text/plain; charset=utf-8", b"a"),
    ],
)
async def test_parts_are_joined_and_a_media_type_is_one(
    plane: Plane, parts: list[Any], media_type: str, body: bytes
) -> None:
    task_id = await stored(plane, *parts, name='x"\r\nset-cookie: a=b')
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts/a")
    assert (reply.content, reply.headers["content-type"]) == (body, media_type)
    assert "set-cookie" not in reply.headers


async def test_what_has_no_single_content_is_the_artifact_as_json(plane: Plane) -> None:
    task_id = await stored(plane, {"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": 1}})
    found = json.loads((await plane.http.get(f"/api/tasks/{task_id}/artifacts/a")).content)
    assert [part["kind"] for part in found["parts"]] == ["text", "data"]
