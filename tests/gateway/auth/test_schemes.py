"""Composition of schemes: a further scheme is one more file, and works for calls of every form."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from tests.gateway.auth.badge import Badges
from tests.gateway.metadata import Metadata
from tests.gateway.plane import Plane, open_behind, open_front, said

from taskplane.gateway.auth.authenticator import SCHEMES, Authenticator
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web import sse
from taskplane.runtime.errors import Unauthenticated

WORKING = "TASK_STATE_WORKING"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with the key of ann, `ann_1.s3cret`."""
    path = tmp_path / "keys.toml"
    digest = hashlib.sha256(b"s3cret").hexdigest()
    path.write_text(f'[[keys]]\nid = "ann_1"\nsha256 = "{digest}"\nowner = "ann"\n')
    return path


async def user(plane: Plane, headers: dict[str, str]) -> str:
    """Return the caller as the page sees it, or the error code."""
    reply = await plane.http.get("/api/ui-config", headers=headers)
    body = reply.json()
    found: str = (body["data"]["caller"] or {"user": "nobody"})["user"] if reply.status_code == 200 else body["code"]
    return found


async def test_an_additional_scheme_works_together_with_api_keys(tmp_path: Path, keys: Path) -> None:
    """S2, W15: its callers read and write as their own user. The card and the page list the scheme."""
    badges = Badges({"b1": "carl"})
    schemes = (*SCHEMES, badges.configured)
    async with open_behind(tmp_path) as behind, open_front(behind, schemes=schemes, api_keys=str(keys)) as plane:
        key = {"X-API-Key": "ann_1.s3cret"}
        found = [await user(plane, headers) for headers in ({}, {"X-Badge": "b1"}, {"X-Badge": "b2"}, key)]
        assert found == ["nobody", "carl", "BAD_CREDENTIALS", "ann"]
        assert await user(plane, {"X-Badge": "b1", "X-User-Id": "ann"}) == "carl"
        refused = (await plane.http.get("/api/sessions")).json()
        assert (refused["error"], refused["code"]) == ("this call needs an API key or a badge", "NO_CREDENTIALS")
        assert refused["suggestion"].endswith("or X-API-Key; or send X-Badge")
        auth = (await plane.http.get("/api/ui-config")).json()["data"]["auth"]
        assert auth == {"required": True, "schemes": ["key", "badge"]}
        card = (await plane.http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
        assert card["securitySchemes"]["badge"]["apiKeySecurityScheme"]["name"] == "X-Badge"
        assert [set(one["schemes"]) for one in card["securityRequirements"]] == [{"bearer"}, {"apiKey"}, {"badge"}]


async def test_a_stream_ends_when_its_credential_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: the task continues."""
    monkeypatch.setattr(sse, "_CREDENTIALS_INTERVAL", 0.0)
    badges = Badges({"b1": "carl"})
    async with (
        open_behind(tmp_path) as behind,
        open_front(behind, schemes=(badges.configured,), keep_alive=0.05) as plane,
        asyncio.timeout(20),
    ):
        body = {"message": said("slow 200")}
        async with plane.stream("SendStreamingMessage", body, **{"X-Badge": "b1"}) as events:
            task = (await anext(events)).result["task"]["id"]
            badges.owners.clear()
            last = [event.result async for event in events][-1:]
        assert all(one.get("statusUpdate", {}).get("status", {}).get("state") in (None, WORKING) for one in last)
        assert (await plane.http.get(f"/api/tasks/{task}", headers={"X-Badge": "b1"})).status_code == 401
        badges.owners["b1"] = "carl"
        canceled = await plane.result("CancelTask", {"id": task}, **{"X-Badge": "b1"})
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


def test_only_the_identifying_scheme_decides_whether_a_caller_is_alive(keys: Path) -> None:
    badges = Badges({"b1": "carl"})
    schemes = (*SCHEMES, badges.configured)
    authenticator = Authenticator(GatewaySettings(api_keys=str(keys)), schemes)
    ann = authenticator.identify(Metadata(("authorization", "Bearer ann_1.s3cret")))
    carl = authenticator.identify(Metadata(("x-badge", "b1")))
    assert (ann.principal.owner, carl.principal.owner) == ("ann", "carl")
    assert authenticator.alive(ann) and authenticator.alive(carl)
    badges.owners.clear()
    assert authenticator.alive(ann) and not authenticator.alive(carl)


def test_a_repeated_user_name_is_refused_in_calls_of_every_form(keys: Path) -> None:
    """S2: the refusal comes before any scheme is tried."""
    authenticator = Authenticator(GatewaySettings(api_keys=str(keys)))
    key = ("x-api-key", "ann_1.s3cret")
    assert authenticator.identify(Metadata(key, ("x-user-id", "bob"))).principal.owner == "ann"
    with pytest.raises(Unauthenticated) as caught:
        authenticator.identify(Metadata(key, ("x-user-id", "ann"), ("x-user-id", "ann")))
    assert caught.value.reason == "AMBIGUOUS_USER"
