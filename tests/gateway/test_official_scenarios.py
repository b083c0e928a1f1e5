"""One set of scenarios for the official clients in Python and in JavaScript, 1.0 and 0.3, over each binding."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio
from tests.executor.scripted import Scripted
from tests.gateway.official import KINDS, Kind, OfficialClient, Refused
from tests.gateway.plane import Json, Plane, fresh, open_all, said
from tests.support.cutting import cutting

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.agents.demo import Demo
from taskplane.api.message_metadata import CURSOR

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.parametrize("kind", KINDS)]
_EVENTS = 200
_EVERY = 20


async def _other(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("I am the other one.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """Open a gateway before two agents."""
    folder = tmp_path_factory.mktemp("plane")
    async with open_all(folder, ("demo", Demo()), ("other", Scripted(_other))) as plane:
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def client(plane: Plane, kind: Kind) -> AsyncGenerator[OfficialClient]:
    """Open an official client, made of the card of the default agent."""
    async with kind.open(plane.gateway.url) as client:
        yield client


def request(text: str, **fields: Any) -> Json:
    return {"message": said(text, **fields)}


def payload(event: Json) -> Json:
    (found,) = event.values()
    return dict(found)


def state(found: Json) -> str:
    name: str = found["status"]["state"]
    return name.removeprefix("TASK_STATE_")


def text(parts: list[Json]) -> str:
    return "".join(part["text"] for part in parts)


def cursors(events: list[Json]) -> list[str]:
    return [payload(event)["metadata"][CURSOR] for event in events]


async def test_a_send_is_answered_with_the_task_that_has_ended_or_a_message(client: OfficialClient) -> None:
    answer = await client.send(request("hello"))
    task = answer["task"]
    assert state(task) == "COMPLETED"
    got = await client.get(task["id"])
    assert (got["id"], got["contextId"], state(got)) == (task["id"], task["contextId"], "COMPLETED")
    assert text(got["history"][0]["parts"]) == "hello"
    assert len((await client.get(task["id"], 1))["history"]) == 1
    direct = await client.send(request("message hi"))
    assert text(direct["message"]["parts"]) == "hi"


async def test_a_stream_has_the_task_its_updates_and_its_end(client: OfficialClient) -> None:
    events = [event async for event in client.stream(request("chunks 3 2"))]
    assert [next(iter(event)) for event in events] == [
        *("task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]
    assert [state(payload(events[place])) for place in (0, 1, -1)] == ["SUBMITTED", "WORKING", "COMPLETED"]
    streamed = "".join(text(event["artifactUpdate"]["artifact"]["parts"]) for event in events[2:5])
    (artifact,) = (await client.get(payload(events[0])["id"]))["artifacts"]
    assert text(artifact["parts"]) == streamed != ""


async def test_p12_a_stream_that_is_cut_is_resumed_by_the_helper_with_each_event_once(plane: Plane, kind: Kind) -> None:
    """C5, C10: 0 of 200 events missing, 0 repeated, one task."""
    port = plane.public.port if kind.binding == "GRPC" else plane.gateway.port
    context = fresh()
    async with cutting("127.0.0.1", port) as proxy, kind.open(plane.gateway.url, proxy.port) as client:
        if kind.binding == "GRPC":
            proxy.cut_every_bytes = 3_000
        else:
            proxy.cut_every = _EVERY
        sent = client.resumed(request(f"chunks {_EVENTS - 3} 8", contextId=context), fresh())
        events = [event async for event in sent]
    places = [int(cursor.rpartition("-")[2]) for cursor in cursors(events)]
    assert places == list(range(1, _EVENTS + 1))
    assert proxy.cuts >= _EVENTS // _EVERY - 1
    assert len((await plane.result("ListTasks", {"contextId": context}))["tasks"]) == 1


async def test_p12_a_subscription_goes_on_after_a_cursor_by_the_parameters_of_the_client(
    client: OfficialClient,
) -> None:
    events = [event async for event in client.stream(request("chunks 10 2"))]
    task = payload(events[0])["id"]
    for place, cursor in enumerate(cursors(events)):
        assert [event async for event in client.subscribe(task, last_event_id=cursor)] == events[place + 1 :]


async def test_a_conversation_has_questions_answers_and_further_tasks(client: OfficialClient) -> None:
    asked = (await client.send(request("ask")))["task"]
    assert state(asked) == "INPUT_REQUIRED"
    ids = {"taskId": asked["id"], "contextId": asked["contextId"]}
    events = [event async for event in client.stream(request("Ann", **ids))]
    assert state(payload(events[-1])) == "COMPLETED"
    assert {payload(event).get("taskId", asked["id"]) for event in events} == {asked["id"]}
    said = [text(message["parts"]) for message in (await client.get(asked["id"]))["history"]]
    assert [each for each in said if each in ("ask", "Ann")] == ["ask", "Ann"]
    further = (await client.send(request("hello", contextId=asked["contextId"])))["task"]
    assert further["contextId"] == asked["contextId"]
    assert further["id"] != asked["id"]


async def test_a_list_has_pages(client: OfficialClient, kind: Kind) -> None:
    """A2A 0.3 has no list."""
    if kind.version == "0.3":
        return
    context = fresh()
    sent = [(await client.send(request("hello", contextId=context)))["task"]["id"] for _ in range(3)]
    page = await client.list(contextId=context, pageSize=2)
    rest = await client.list(contextId=context, pageSize=2, pageToken=page["nextPageToken"])
    assert [task["id"] for task in [*page["tasks"], *rest["tasks"]]] == sent[::-1]
    assert not rest.get("nextPageToken")


async def test_a_cancel_ends_the_task_and_its_streams(plane: Plane, kind: Kind, client: OfficialClient) -> None:
    async with aclosing(client.stream(request("slow 200"))) as events:
        task = payload(await anext(events))["id"]
        async with kind.open(plane.gateway.url) as another:
            assert state(await another.cancel(task)) == "CANCELED"
        last = [event async for event in events][-1]
    assert state(payload(last)) == "CANCELED"
    assert state(await client.get(task)) == "CANCELED"


async def test_the_card_of_an_agent_names_the_binding_and_leads_to_the_agent(
    plane: Plane, kind: Kind, client: OfficialClient
) -> None:
    """gRPC of 0.3 has the default agent only."""
    card = await client.card()
    assert card["capabilities"]["streaming"]
    (interface,) = card["supportedInterfaces"]
    assert interface["protocolVersion"].startswith(kind.version)
    assert interface["protocolBinding"] == kind.binding
    if (kind.version, kind.binding) == ("0.3", "GRPC"):
        return
    async with kind.open(f"{plane.gateway.url}/agents/other/") as other:
        answer = await other.send(request("hello"))
    assert text(answer["task"]["status"]["message"]["parts"]) == "I am the other one."


async def test_each_error_is_the_one_that_the_client_has_for_it(client: OfficialClient) -> None:
    done = (await client.send(request("hello")))["task"]["id"]
    found: dict[str, str] = {}

    async def refused(name: str, call: Any) -> None:
        with pytest.raises(Refused) as caught:
            await call
        found[name] = str(caught.value)

    await refused("unknown task", client.get("none"))
    await refused("unknown task of a message", client.send(request("hi", taskId="none")))
    await refused("cancel of an ended task", client.cancel(done))
    await refused("subscription to an ended task", anext(client.subscribe(done)))
    await refused("message without parts", client.send(request("", parts=[])))
    assert found == {
        "unknown task": "TaskNotFoundError",
        "unknown task of a message": "TaskNotFoundError",
        "cancel of an ended task": "TaskNotCancelableError",
        "subscription to an ended task": "UnsupportedOperationError",
        "message without parts": "InvalidParamsError",
    }
