"""The description of a gateway, which its web page reads first."""

import hashlib
from pathlib import Path
from typing import Any

import httpx
from tests.gateway.plane import Plane, open_behind, open_front

from taskplane.agents.demo import Demo
from taskplane.api import __version__
from taskplane.gateway.server import open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.channel import InProcessChannel, connect
from taskplane.runtime.services import Services

PATH = "/api/ui-config"
KEYS = {
    "ann": "",
    "eve": 'scopes = ["read"]\ntenant = "acme"\n',
    "olga": 'scopes = ["operate"]\n',
}


def written(path: Path) -> str:
    digest = hashlib.sha256(b"s3cret").hexdigest()
    path.write_text(
        "".join(
            f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\nowner = "{name}"\n{more}' for name, more in KEYS.items()
        )
    )
    return str(path)


async def config(plane: Plane, **headers: str) -> Any:
    reply = await plane.http.get(PATH, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert reply.status_code == 200, reply.text
    assert reply.headers["cache-control"] == "private, no-cache"
    return reply.json()["data"]


async def test_on_loopback_every_caller_gets_the_whole_description(tmp_path: Path) -> None:
    async with (
        open_behind(tmp_path, ("demo", Demo()), ("second", Demo())) as behind,
        open_front(behind, max_body=12345) as plane,
    ):
        found = await config(plane)
        assert found["product"] == "taskplane"
        assert found["version"] == __version__
        assert found["auth"] == {"required": False, "schemes": []}
        assert found["caller"] == {
            "user": "local",
            "tenant": "default",
            "mayRead": True,
            "mayWrite": True,
            "mayOperate": True,
        }
        assert found["limits"] == {"body": 12345, "message": 4 * 1024 * 1024 - 64 * 1024}
        assert [(agent["name"], agent["isDefault"]) for agent in found["agents"]] == [("demo", True), ("second", False)]
        assert found["agents"][0]["title"] == "demo"
        assert found["agents"][0]["description"] == Demo().card.description
        assert found["agents"][0]["skills"] == [skill.name for skill in Demo().card.skills]
        assert found["features"] == {"ops": True, "import": True}
        assert (await config(plane, x_user_id="ann"))["caller"]["user"] == "ann"
        refused = await plane.http.get(PATH, headers={"Host": "evil.example"})
        assert (refused.status_code, refused.json()["code"]) == (403, "HOST_NOT_ALLOWED")


async def test_with_keys_only_their_owners_get_the_caller_and_the_agents(tmp_path: Path) -> None:
    """S2: without a key the answer has only the authentication schemes. A wrong key is refused."""
    keys = written(tmp_path / "keys.toml")
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=keys) as plane:
        unknown = await config(plane)
        assert unknown["auth"] == {"required": True, "schemes": ["key"]}
        assert (unknown["caller"], unknown["agents"]) == (None, [])
        ann = await config(plane, authorization="Bearer ann.s3cret")
        assert ann["caller"] == {
            "user": "ann",
            "tenant": "default",
            "mayRead": True,
            "mayWrite": True,
            "mayOperate": False,
        }
        assert [agent["name"] for agent in ann["agents"]] == ["demo"]
        eve = await config(plane, x_api_key="eve.s3cret")
        assert (eve["caller"]["tenant"], eve["caller"]["mayRead"], eve["caller"]["mayWrite"]) == ("acme", True, False)
        olga = await config(plane, x_api_key="olga.s3cret")
        assert [olga["caller"][may] for may in ("mayRead", "mayWrite", "mayOperate")] == [False, False, True]
        for headers in ({"Authorization": "Bearer ann.wrong"}, {"X-API-Key": "none.s3cret"}):
            refused = await plane.http.get(PATH, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (401, "BAD_CREDENTIALS")


async def test_behind_a_trusted_proxy_the_caller_is_the_named_user(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind, proxy_secret="between us") as plane:
        assert (await config(plane))["auth"] == {"required": True, "schemes": []}
        assert (await config(plane, x_user_id="ann"))["caller"] is None
        through = await config(plane, x_taskplane_proxy_secret="between us", x_user_id="ann")
        assert through["caller"]["user"] == "ann"


async def test_an_unchanged_description_is_answered_with_304(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        tag = (await plane.http.get(PATH)).headers["etag"]
        assert (await plane.http.get(PATH, headers={"If-None-Match": tag})).status_code == 304


async def test_the_page_can_be_opened_without_an_executor(tmp_path: Path) -> None:
    """C15: stored data can be read meanwhile."""
    services = InProcessChannel(Services(policy={}))
    async with (
        connect("127.0.0.1:1") as unreachable,
        open_gateway(
            GatewaySettings(port=0, drain_delay=0.0),
            tasks=services,
            sessions=services,
            executor=unreachable,
            page=tmp_path,
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        found = (await http.get(PATH, timeout=20)).json()["data"]
        assert (found["caller"]["user"], found["agents"]) == ("local", [])
        assert "This gateway works" in (await http.get("/ui", timeout=20)).text
