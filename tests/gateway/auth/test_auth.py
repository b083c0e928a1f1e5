"""Authentication: keys, trusted proxies, development on loopback, and pages of other origins."""

import hashlib
from pathlib import Path

import httpx
import pytest
from tests.gateway.auth.naming import SECRET
from tests.gateway.plane import Behind, Plane, fresh, open_behind, open_front, request, said

from taskplane.client.http import Http
from taskplane.gateway.auth.authenticator import Authenticator
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.errors import Invalid

SECRETS = {"ann_1": "s3cret", "bob_1": "other", "old_1": "gone", "eve_1": "look"}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with keys of three users: one key is read-only, one has expired."""
    more = {
        "ann_1": 'owner = "ann"',
        "bob_1": 'owner = "bob"\ntenant = "acme"\nexpires = 2999-01-01T00:00:00Z',
        "old_1": 'owner = "ann"\nexpires = 2020-01-01T00:00:00',
        "eve_1": 'owner = "ann"\nscopes = ["read"]',
    }
    lines = [
        f'[[keys]]\nid = "{name}"\nsha256 = "{hashlib.sha256(secret.encode()).hexdigest()}"\n{more[name]}\n'
        for name, secret in SECRETS.items()
    ]
    path = tmp_path / "keys.toml"
    path.write_text("\n".join(lines))
    return path


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}.{SECRETS[name]}"}


async def sent(plane: Plane, headers: dict[str, str]) -> httpx.Response:
    return await plane.http.post("/", json=request("SendMessage", {"message": said("hello")}), headers=headers)


async def owners(plane: Plane, headers: dict[str, str], path: str = "/api/sessions") -> set[str]:
    """Return the owners of the sessions that a caller sees."""
    reply = await plane.http.get(path, headers=headers)
    assert reply.status_code == 200, reply.text
    return {session["user_id"] for session in reply.json().get("data", [])}


async def test_a_valid_key_is_required_and_identifies_the_caller(tmp_path: Path, keys: Path) -> None:
    """S2, a2a H15: with authentication the caller is the owner of the key."""
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys)) as plane:
        for headers in ({}, {"Authorization": "Basic YTpi"}, {"X-User-Id": "ann"}):
            reply = await sent(plane, headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, 'Bearer realm="taskplane"')
            assert reply.json()["code"] == "NO_CREDENTIALS"
            reply = await plane.http.get("/tasks", headers=headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, 'Bearer realm="taskplane"')
            error = reply.json()["error"]
            assert (error["status"], error["details"][0]["reason"]) == ("UNAUTHENTICATED", "NO_CREDENTIALS")
        for token in ("", ".", "ann_1", "ann_1.", "ann_1.wrong", "none.s3cret", "old_1.gone", "ann_1.s3cret.x"):
            reply = await plane.http.get("/api/sessions", headers={"X-API-Key": token})
            assert reply.status_code == 401, token
        assert (await sent(plane, bearer("ann_1"))).json()["result"]["task"]
        assert (await sent(plane, {"X-API-Key": "bob_1.other"})).json()["result"]["task"]
        assert await owners(plane, bearer("ann_1")) == {"ann"}
        assert await owners(plane, bearer("bob_1")) == {"bob"}
        # Cards and probes need no credentials.
        for path in ("/.well-known/agent-card.json", "/healthz", "/readyz", "/metrics"):
            assert (await plane.http.get(path)).status_code == 200


@pytest.mark.parametrize("second", ["Bearer bob_1.other", "Bearer ann_1.s3cret", "Basic YTpi", ""])
async def test_a_credential_that_occurs_twice_is_refused(tmp_path: Path, keys: Path, second: str) -> None:
    """S2: which of them a proxy added cannot be told, in either order and also of equal ones."""
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys), proxy_secret=SECRET) as plane:
        for name, values in (
            ("Authorization", ("Bearer ann_1.s3cret", second)),
            ("X-API-Key", ("ann_1.s3cret", second.removeprefix("Bearer "))),
            ("X-Taskplane-Proxy-Secret", (SECRET, second)),
        ):
            for pair in (values, values[::-1]):
                for path in ("/api/sessions", "/api/ui-config"):
                    reply = await plane.http.get(path, headers=[("X-User-Id", "carl"), *((name, one) for one in pair)])
                    assert (reply.status_code, reply.json()["code"]) == (401, "AMBIGUOUS_CREDENTIALS"), (name, pair)
        both = {"X-Taskplane-Proxy-Secret": SECRET, "X-User-Id": "carl", **bearer("ann_1")}
        assert (await sent(plane, both)).json()["result"]["task"]
        assert await owners(plane, both) == {"carl"}


async def test_user_names_in_headers_and_queries_are_ignored_with_authentication(tmp_path: Path, keys: Path) -> None:
    """S2: `user_id`, `X-User-Id` and the headers of other proxies have no effect."""
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys)) as plane:
        await sent(plane, bearer("ann_1"))
        await sent(plane, bearer("bob_1"))
        forged = {"X-User-Id": "bob", "X-Forwarded-User": "bob", "X-Tenant": "acme", "X-Agent-Name": "demo"}
        assert await owners(plane, {**bearer("ann_1"), **forged}, "/api/sessions?user_id=bob") == {"ann"}


async def test_a_write_with_a_read_only_key_is_refused_with_403(tmp_path: Path, keys: Path) -> None:
    """a2a H15."""
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys)) as plane:
        task = (await sent(plane, bearer("ann_1"))).json()["result"]["task"]
        got = await plane.http.post("/", json=request("GetTask", {"id": task["id"]}), headers=bearer("eve_1"))
        assert got.json()["result"] == task
        refused = await sent(plane, bearer("eve_1"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, -32043)
        deleted = await plane.http.delete(f"/api/tasks/{task['id']}", headers=bearer("eve_1"))
        assert (deleted.status_code, deleted.json()["code"]) == (403, "READ_ONLY_KEY")


@pytest.fixture
def operating(keys: Path) -> Path:
    """The same file, with the scope `operate` for the read-only key."""
    keys.write_text(keys.read_text().replace('scopes = ["read"]', 'scopes = ["operate"]'))
    return keys


async def test_a_rest_call_with_an_operate_only_key_gets_a_rest_error(tmp_path: Path, operating: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(operating)) as plane:
        refused = await plane.http.get("/tasks", headers=bearer("eve_1"))
        assert (refused.status_code, refused.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


async def test_only_a_trusted_proxy_may_name_the_user(tmp_path: Path, keys: Path) -> None:
    """S2: `X-User-Id` without the secret of the proxy is refused with 401."""
    async with (
        open_behind(tmp_path) as behind,
        open_front(behind, api_keys=str(keys), proxy_secret="between us") as plane,
    ):
        proxy = {"X-Taskplane-Proxy-Secret": "between us"}
        assert (await sent(plane, {**proxy, "X-User-Id": "carl"})).status_code == 200
        assert await owners(plane, {**proxy, "X-User-Id": "carl"}) == {"carl"}
        assert (await sent(plane, proxy)).status_code == 401
        assert (await sent(plane, {"X-Taskplane-Proxy-Secret": "guess", "X-User-Id": "carl"})).status_code == 401
        assert (await sent(plane, bearer("ann_1"))).status_code == 200


async def test_proxy_users_on_the_list_and_all_loopback_users_are_operators(tmp_path: Path) -> None:
    """V3: the user of a trusted proxy is an operator only if the deployment lists it."""
    async with open_behind(tmp_path) as behind:
        async with open_front(behind, proxy_secret="between us", proxy_operators=("olga",)) as plane:
            proxy = {"X-Taskplane-Proxy-Secret": "between us"}
            for user, status in (("olga", 200), ("carl", 403)):
                reply = await plane.http.get("/api/ops/overview", headers={**proxy, "X-User-Id": user})
                assert reply.status_code == status, reply.text
        async with open_front(behind) as plane:
            assert (await plane.http.get("/api/ops/overview", headers={"X-User-Id": "carl"})).status_code == 200


async def test_on_loopback_without_authentication_the_client_names_the_user(tmp_path: Path) -> None:
    """S2: the query has precedence over the header; without both the user is `local`."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        await sent(plane, {})
        await sent(plane, {"X-User-Id": "ann"})
        assert await owners(plane, {}) == {"local"}
        assert await owners(plane, {"X-User-Id": "ann"}) == {"ann"}
        assert await owners(plane, {"X-User-Id": "bob"}, "/api/sessions?user_id=ann") == {"ann"}
        await plane.result("SendMessage", {"message": said("hello")}, path="/?user_id=carl", x_user_id="bob")
        assert await owners(plane, {}, "/api/sessions?user_id=carl") == {"carl"}
        assert await owners(plane, {"X-User-Id": "bob"}) == set()
        bad = await plane.http.get("/api/sessions", headers={"X-User-Id": "a" * 256})
        assert (bad.status_code, bad.json()["code"]) == (400, "BAD_USER_ID")


USER = "J\u00fcrgen \u674e"


@pytest.mark.parametrize(
    ("header", "user"),
    [
        (USER.encode(), USER),
        ("J\u00fcrgen".encode("latin-1"), "J\u00fcrgen"),
        ("J\u00c3\u00bcrgen".encode("latin-1"), "J\u00fcrgen"),
        ("\U0001f642".encode(), "\U0001f642"),
    ],
)
async def test_a_user_name_is_decoded_as_utf_8_or_else_latin_1(tmp_path: Path, header: bytes, user: str) -> None:
    """S2: this holds for the header of a proxy, for answers and for the list of operators."""
    async with (
        open_behind(tmp_path) as behind,
        open_front(behind, proxy_secret="\u00fcber uns", proxy_operators=(user,)) as plane,
    ):
        headers = {b"X-Taskplane-Proxy-Secret": "\u00fcber uns".encode(), b"X-User-Id": header}
        shown = (await plane.http.get("/api/ui-config", headers=headers)).json()["data"]["caller"]
        assert (shown["user"], shown["mayOperate"]) == (user, True)
        made = await plane.http.post("/api/sessions", json={"agent_ref": "demo"}, headers=headers)
        assert made.json()["data"]["user_id"] == user


async def test_agent_and_user_names_in_other_headers_are_decoded_as_utf_8(tmp_path: Path) -> None:
    """S2, S5: the name of the calling agent, and the user name as our own client sends it."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        async with Http(plane.gateway.url, user=USER) as http:
            made = await http.data("POST", "/api/sessions", body={"id": "s", "agent_ref": USER})
            assert made["user_id"] == USER
        named = {b"X-User-Id": USER.encode(), b"X-Agent-Name": USER.encode()}
        event = {"id": fresh(), "data": "{}"}
        stored = await plane.http.post("/api/sessions/s/events", json=event, headers=named)
        assert stored.status_code == 201, stored.text
        document = {"id": fresh(), "contextId": "s", "kind": "task", "status": {"state": "working"}}
        assert (await plane.http.post("/api/tasks", json=document, headers=named)).status_code == 201
        infos = (await plane.http.get("/api/sessions/s/task-infos", headers=named)).json()["data"]
        assert [info["agent"] for info in infos] == [USER]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "HOST_NOT_ALLOWED"),
        ({"Host": ""}, "HOST_NOT_ALLOWED"),
        ({"Host": "127.0.0.1.evil.example"}, "HOST_NOT_ALLOWED"),
        ({"Origin": "http://evil.example"}, "ORIGIN_NOT_ALLOWED"),
        ({"Origin": "null"}, "ORIGIN_NOT_ALLOWED"),
        ({"Origin": "http://localhost:1"}, "ORIGIN_NOT_ALLOWED"),
    ],
)
async def test_on_loopback_other_hosts_and_origins_are_refused(
    tmp_path: Path, headers: dict[str, str], code: str
) -> None:
    """A page that binds its name to 127.0.0.1 (DNS rebinding) can neither read nor write."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        for reply in (await sent(plane, headers), await plane.http.get("/api/sessions", headers=headers)):
            assert (reply.status_code, reply.json()["code"]) == (403, code)
            assert "TASKPLANE_GATEWAY_" in reply.json()["suggestion"]


async def test_the_own_origin_and_configured_origins_are_accepted(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind:
        async with open_front(behind) as plane:
            assert (await sent(plane, {"Origin": plane.gateway.url})).status_code == 200
            assert "access-control-allow-origin" not in (await sent(plane, {"Origin": plane.gateway.url})).headers
        async with open_front(behind, allowed_hosts=("plane.test",), cors_origins=("http://page.test",)) as plane:
            assert (await sent(plane, {"Host": "plane.test:80"})).status_code == 200
            reply = await sent(plane, {"Origin": "http://page.test"})
            assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "http://page.test")
            assert (await sent(plane, {"Origin": "http://evil.test"})).status_code == 403
            asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "idempotency-key"}
            before = await plane.http.options("/", headers={"Origin": "http://page.test", **asked})
            assert before.status_code == 200


async def test_a_foreign_origin_is_refused_also_with_a_valid_key(tmp_path: Path, keys: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys)) as plane:
        assert (await sent(plane, {**bearer("ann_1"), "Origin": "http://evil.example"})).status_code == 403
        assert (await sent(plane, {**bearer("ann_1"), "Host": "any.example"})).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "plane.example"])
def test_listening_to_other_machines_without_authentication_is_refused(host: str, keys: Path) -> None:
    with pytest.raises(Invalid) as caught:
        Authenticator(GatewaySettings(host=host))
    assert caught.value.reason == "AUTHENTICATION_REQUIRED"
    assert "TASKPLANE_GATEWAY_API_KEYS" in caught.value.suggestion
    assert Authenticator(GatewaySettings(host=host, api_keys=str(keys))).required
    assert not Authenticator(GatewaySettings(host="::1")).required


@pytest.mark.parametrize("name", ["tasks", "message:send", ".well-known", "jsonrpc"])
def test_a_tenant_with_the_name_of_a_path_is_refused_at_start(name: str) -> None:
    """a2a H14."""
    with pytest.raises(Invalid, match=f"the tenant '{name}' is reserved") as caught:
        Authenticator(GatewaySettings(tenant=name))
    assert caught.value.reason == "RESERVED_TENANT"
    assert "TASKPLANE_GATEWAY_TENANT" in caught.value.suggestion


async def test_a_stream_over_the_limit_of_its_caller_is_refused_and_creates_no_task(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind, max_streams_per_principal=1) as plane:
        assert await _streams_at_once(plane, behind) == ("TOO_MANY_STREAMS", 1)


async def _streams_at_once(plane: Plane, behind: Behind) -> tuple[str, int]:
    """Return the error of a second stream, and the number of tasks after it."""
    async with plane.stream("SendStreamingMessage", {"message": said("slow 200")}) as events:
        task = (await anext(events)).result["task"]
        error = await plane.error("SendStreamingMessage", {"message": said("hello")})
        listed = await plane.result("ListTasks", {})
        await plane.result("CancelTask", {"id": task["id"]})
    await plane.at_zero()
    again = await plane.streamed("SendStreamingMessage", {"message": said("hello")})
    assert again and error["code"] == -32029
    return error["data"][0]["reason"], listed["totalSize"]
