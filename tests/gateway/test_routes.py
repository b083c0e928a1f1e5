"""The table of routes."""

import re

import pytest
from tests.gateway.plane import Plane

from taskplane.gateway.errors import MethodNotAllowed
from taskplane.gateway.routes import ROUTES, PublicRoute, Route, RouteTable
from taskplane.runtime.errors import NotFound


def test_only_cards_probes_and_the_page_are_public() -> None:
    public = {route.path for route in ROUTES if isinstance(route, PublicRoute)}
    api = {path for path in public if path.startswith("/api/") and not path.endswith(".json")}
    assert api == {"/api/ui-config", "/api/agents/{agent}"}
    page = {path for path in public if path in ("/", "/ui") or path.startswith("/ui/")}
    assert all(path.endswith((".json", "/healthz", "/readyz", "/metrics")) for path in public - api - page)
    assert {route.method for route in ROUTES if isinstance(route, Route) and route.writes} <= {
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
    }


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/api/tasks/a", {"task": "a"}),
        ("/api/tasks/a%2Fb/", {"task": "a/b"}),
        ("/api/tasks/a%3Acancel", {"task": "a:cancel"}),
        ("/api/tasks/%C3%A4%20b", {"task": "ä b"}),
        ("/api/sessions/s", {"session": "s"}),
    ],
)
def test_ids_in_paths_are_decoded_after_the_path_was_matched(path: str, arguments: dict[str, str]) -> None:
    assert RouteTable().find("GET", path)[1] == arguments


def test_an_unknown_path_and_a_wrong_method_are_distinguished() -> None:
    for path in ("/none", "/api/tasks/a/b/c", "///", "/api/tasks//events"):
        with pytest.raises(NotFound):
            RouteTable().find("GET", path)
    with pytest.raises(MethodNotAllowed) as caught:
        RouteTable().find("PUT", "/api/tasks/a")
    assert caught.value.allowed == "DELETE, GET"


def test_an_id_may_equal_any_literal_part_of_a_path() -> None:
    """No route of the API hides another one, for any id."""
    words = {word for route in ROUTES for word in route.path.split("/") if word and "{" not in word}
    assert {"import", "overview", "tasks"} <= words
    for route in ROUTES:
        names = re.findall(r"\{(\w+)\}", route.path)
        for word in sorted(words) if names else ():
            path = re.sub(r"\{\w+\}", word, route.path)
            assert RouteTable().find(route.method, path) == (route, dict.fromkeys(names, word)), path


def test_a_refused_method_gets_the_methods_of_all_routes_of_the_path() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        RouteTable().find("OPTIONS", "/api/sessions/import")
    assert caught.value.allowed == "DELETE, GET, PATCH, POST, PUT"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_session_with_the_name_of_a_route_is_opened_and_deleted(plane: Plane) -> None:
    await plane.send("hello", message={"contextId": "import"})
    found = await plane.http.get("/api/sessions/import")
    assert (found.status_code, found.json()["data"]["session"]["id"]) == (200, "import")
    assert (await plane.http.delete("/api/sessions/import")).status_code == 200
    assert (await plane.http.get("/api/sessions/import")).status_code == 404


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_path_or_method_is_answered_in_the_envelope(plane: Plane) -> None:
    missing = await plane.http.get("/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "NO_SUCH_ROUTE")
    refused = await plane.http.get("/")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    head = await plane.http.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_method_of_a_rest_path_gets_a_rest_error(plane: Plane) -> None:
    for path, allowed in (("/tasks", "GET"), ("/agents/demo/message:send", "POST"), ("/tasks/a:cancel", "GET, POST")):
        refused = await plane.http.put(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
        assert refused.headers["content-type"] == "application/a2a+json"
        error = refused.json()["error"]
        assert (error["code"], error["status"]) == (405, "UNIMPLEMENTED")
        assert error["details"][0]["reason"] == "METHOD_NOT_ALLOWED"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_request_id_of_the_client_is_in_the_error(plane: Plane) -> None:
    reply = await plane.http.get("/api/tasks/none", headers={"X-Request-Id": "abc-1"})
    assert reply.json()["requestId"] == "abc-1"
    made = await plane.http.get("/api/tasks/none", headers={"X-Request-Id": "not valid!"})
    assert made.json()["requestId"] not in ("", "not valid!")
