"""The documented list of requests and versions of kagent's clients is true."""

import re
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.compat.process import Runtime
from tests.compat.test_session_service import event
from tests.compat.test_task_store import document
from tests.system.wire import Json, client, result, text_message_0_3

pytestmark = pytest.mark.asyncio(loop_scope="session")

README = (Path(__file__).parent / "README.md").read_text()
Asked = tuple[str, frozenset[str]]


def listed() -> set[Asked]:
    """The requests of the document, each with the names of its parameters."""
    rows = re.findall(r"^\| `((?:GET|POST|PUT|DELETE) [^`]+)` \| ([^|]*)\|", README, re.MULTILINE)
    return {(request, frozenset(re.findall(r"`(\w+)`", _names(cells)))) for request, cells in rows}


def _names(cells: str) -> str:
    """The request without the values of its parameters."""
    return re.sub(r"= `\w+`", "", cells)


def asked(requests: Iterable[Json]) -> set[Asked]:
    """The requests in the form of the document."""
    found: set[Asked] = set()
    for each in requests:
        path = re.sub(r"(?<=/api/sessions/)[^/]+", "{session}", each["path"])
        path = re.sub(r"(?<=/api/tasks/)[^/]+", "{task}", path)
        found.add((f"{each['method']} {path}", frozenset(each["query"])))
    return found


async def test_the_requests_of_the_clients_are_those_of_the_list(runtime: Runtime, user: str, address: str) -> None:
    """S2: with the agent in X-Agent-Name, and the user in X-User-Id or user_id."""
    await runtime.call("requests")
    session = (await runtime.call("create_session", user=user))["id"]
    await runtime.call("list_sessions", user=user)
    await runtime.call("append_event", user=user, session_id=session, event=event("hi"))
    await runtime.call("get_session", user=user, session_id=session, recent=1)
    await runtime.call("get_session", user=user, session_id=session, after=1.5)
    await runtime.call("delete_session", user=user, session_id=session)
    task = document()
    await runtime.call("save_task", task=task, user=user)
    await runtime.call("get_task", task_id=task["id"], user=user)
    await runtime.call("delete_task", task_id=task["id"], user=user)
    async with client(address, **{"X-User-Id": user}) as app:
        await result(app, "message/send", {"message": text_message_0_3("hi", contextId=uuid4().hex)})
    made: list[Json] = await runtime.call("requests")
    assert asked(made) == listed()
    assert {each["headers"]["x-agent-name"] for each in made} == {"kagent__NS__recorder"}
    assert {each["query"].get("user_id", user) for each in made} == {user}
    of_tasks = [each for each in made if each["path"].startswith("/api/tasks")]
    assert {each["headers"].get("x-user-id") for each in of_tasks} == {user}


async def test_the_versions_are_those_of_the_list(runtime: Runtime) -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|", README, re.MULTILINE)
    assert dict(rows) == await runtime.call("versions")
