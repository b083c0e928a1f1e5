"""The table of routes."""

import re
import sys

import pytest
from tests.gateway.plane import Plane

from taskplane.api.reserved_names import RESERVED
from taskplane.gateway.bindings import rest, rest_v0_3
from taskplane.gateway.errors import MethodNotAllowed, NoSuchRoute
from taskplane.gateway.routes import ROUTES, PublicRoute, Route, RouteTable
from taskplane.runtime.errors import NotFound


def test_only_cards_probes_and_the_page_are_public() -> None:
    """a2a H15."""
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
    """a2a K5."""
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
        pattern = route.path.replace("{tenant}", "acme")
        tenant = {"tenant": "acme"} if pattern != route.path else {}
        names = re.findall(r"\{(\w+)\}", pattern)
        for word in sorted(words) if names else ():
            path = re.sub(r"\{\w+\}", word, pattern)
            assert RouteTable().find(route.method, path) == (route, tenant | dict.fromkeys(names, word)), path


def test_the_reserved_names_are_the_first_literal_segments_of_all_paths() -> None:
    """a2a H14: no tenant hides a path, and no path hides a tenant."""
    first = {route.path.split("/")[1].partition("{")[0] for route in ROUTES}
    assert first - {""} == RESERVED


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("base", ["", "/agents/demo", "/api/a2a/ns/demo"])
def test_a_reserved_name_is_no_tenant_however_it_is_encoded(base: str, name: str) -> None:
    """a2a H14."""
    for segment in (name, f"%{ord(name[0]):02X}{name[1:]}"):
        try:
            _, arguments = RouteTable().find("GET", f"{base}/{segment}/extendedAgentCard")
        except (NotFound, MethodNotAllowed):
            continue
        assert "tenant" not in arguments


@pytest.mark.parametrize("base", ["", "/agents/demo", "/api/a2a/ns/demo"])
def test_every_path_of_rest_1_0_is_found_below_a_tenant(base: str) -> None:
    """a2a A1, A3."""
    for method, path, handler in rest.PATHS:
        named = re.sub(r"\{\w+\}", "x", path)
        for end in ("", "/"):
            route, arguments = RouteTable().find(method, f"{base}/a%20b{named}{end}")
            assert (route.handler, arguments["tenant"]) == (handler, "a b")
    for method, path, _ in rest_v0_3.PATHS:
        with pytest.raises((NotFound, MethodNotAllowed)):
            RouteTable().find(method, f"{base}/acme{re.sub(r'{[^}]+}', 'x', path)}")


@pytest.mark.parametrize("base", ["", "/v1", "/acme", "/agents/demo", "/agents/demo/v1"])
@pytest.mark.parametrize("verb", ["cancel", "subscribe"])
def test_a_verb_is_no_part_of_an_id_unless_it_is_encoded(base: str, verb: str) -> None:
    """a2a K5: a path that fits another method only is refused with that method, and one of two verbs does not exist."""
    with pytest.raises(MethodNotAllowed) as caught:
        RouteTable().find("DELETE", f"{base}/tasks/t:{verb}")
    assert caught.value.allowed == ("POST" if verb == "cancel" else "GET, POST")
    for path in (f"t:cancel:{verb}", f"t:{verb}/pushNotificationConfigs", f":{verb}"):
        with pytest.raises(NotFound):
            RouteTable().find("POST", f"{base}/tasks/{path}")
    assert RouteTable().find("GET", f"{base}/tasks/t%3A{verb}")[1]["task"] == f"t:{verb}"
    assert RouteTable().find("GET", f"{base}/tasks/urn:x:{verb}led")[1]["task"] == f"urn:x:{verb}led"
    assert RouteTable().find("POST", f"{base}/tasks/urn:x:{verb}")[1]["task"] == "urn:x"


@pytest.mark.parametrize("path", ["/tasks/{}", "/api/a2a/ns/demo/tasks/{}:cancel", "/ui/{}"])
def test_a_path_of_more_than_16_384_characters_does_not_exist(path: str) -> None:
    """It is refused before it is compared with any route."""
    name = "t" * (16_384 - len(path.format("")))
    longest = path.format(name)
    method = "POST" if path.endswith("cancel") else "GET"
    assert name in RouteTable().find(method, longest)[1].values()
    for more in (1, 48_000):
        with pytest.raises(NoSuchRoute) as caught:
            RouteTable().find(method, path.format("t" * (len(longest) + more - len(path.format("")))))
        assert caught.value.rest == ("" if path.startswith("/ui") else "1.0")


def test_the_steps_of_a_lookup_do_not_grow_with_the_slashes_and_colons_of_a_path() -> None:
    """Anyone may send a path, before authentication."""
    table = RouteTable()

    def steps(path: str) -> int:
        """Return the number of calls of a lookup, those of built-in functions among them."""
        events: list[str] = []
        sys.setprofile(lambda _frame, event, _argument: events.append(event))
        try:
            with pytest.raises(NotFound):
                table.find("GET", path)
        finally:
            sys.setprofile(None)
        return len([event for event in events if event in ("call", "c_call")])

    for times in (100, 1000):
        for path in ("/api/a2a/ns/{}/tasks/{}/x", "/api/a2a/{}/{}/{}/tasks/{}", "/{}", "/ui{}x/"):
            few, many = (path.replace("{}", "b:" * count) + "/a" * count + "/x" for count in (20, times))
            assert steps(many) == steps(few) <= 400, path


def test_only_a_path_that_begins_with_a_slash_exists() -> None:
    for path in ("", "xapi/tasks", "api/ui-config", "*"):
        with pytest.raises(NoSuchRoute):
            RouteTable().find("GET", path)


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
    for path, allowed in (("/tasks", "GET"), ("/agents/demo/message:send", "POST"), ("/tasks/a:cancel", "POST")):
        refused = await plane.http.put(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
        assert refused.headers["content-type"] == "application/a2a+json"
        error = refused.json()["error"]
        assert (error["code"], error["status"]) == (405, "UNIMPLEMENTED")
        assert error["details"][0]["reason"] == "METHOD_NOT_ALLOWED"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_path_that_begins_like_one_of_rest_is_refused_in_the_form_of_its_version(plane: Plane) -> None:
    for base in ("", "/agents/demo", "/acme", "/demo/acme"):
        reply = await plane.http.get(f"{base}/tasks/a/none")
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["status"]) == (404, 404, "UNIMPLEMENTED")
        assert error["details"][0]["reason"] == "NO_SUCH_ROUTE"
        reply = await plane.http.get(f"{base}/v1/none")
        assert (reply.status_code, reply.json()["type"], reply.json()["code"]) == (404, "MethodNotFoundError", -32601)


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/acme/tasks/a/none", "1.0"),
        ("/demo/acme/tasks/a", "1.0"),
        ("/a%20b/message:none", "1.0"),
        ("/agents/demo/acme/tasks/a/none", "1.0"),
        ("/api/a2a/ns/demo/acme/none/extendedAgentCard", "1.0"),
        ("//tasks/a", "1.0"),
        ("/agents/demo//tasks", "1.0"),
        ("/message%3Asend", "1.0"),
        ("/message%3Asend/tasks", "1.0"),
        ("/%74asks/a", "1.0"),
        ("/acme/v1/tasks", "0.3"),
        ("//v1/tasks", "0.3"),
        ("/acme/none", ""),
        ("/api/none/tasks", ""),
        ("/%61pi/tasks/a", ""),
        ("/agents/demo/none", ""),
    ],
)
def test_a_wrong_path_below_a_tenant_or_with_other_spelling_has_the_version_of_its_rest(
    path: str, version: str
) -> None:
    """a2a I4: official clients read a 404 without an ErrorInfo as a method that does not exist."""
    with pytest.raises(NoSuchRoute) as caught:
        RouteTable().find("GET", path)
    assert caught.value.rest == version


@pytest.mark.asyncio(loop_scope="module")
async def test_the_request_id_of_the_client_is_in_the_error(plane: Plane) -> None:
    reply = await plane.http.get("/api/tasks/none", headers={"X-Request-Id": "abc-1"})
    assert reply.json()["requestId"] == "abc-1"
    made = await plane.http.get("/api/tasks/none", headers={"X-Request-Id": "not valid!"})
    assert made.json()["requestId"] not in ("", "not valid!")
