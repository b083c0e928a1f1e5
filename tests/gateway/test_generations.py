"""The generation of tasks and events for clients that ask for it, and messages that expect one."""

from typing import Any, Final

import pytest
from tests.gateway.bindings import Client, HttpBinding
from tests.gateway.plane import Json, Plane, fresh, open_front, said, said_0_3

from taskplane.gateway.translate.extensions import DECLARED
from taskplane.gateway.translate.extensions import GENERATION as EXTENSION

pytestmark = pytest.mark.asyncio(loop_scope="module")

GENERATION: Final = "taskplane.dev/generation"
EXPECTED: Final = "taskplane.dev/expected_generation"
NUMBERED: Final = {"A2A_Extensions": EXTENSION}


def number(task: Json) -> int:
    return int(task["metadata"][GENERATION])


async def test_tasks_and_events_have_their_generation_for_clients_that_ask_for_it(client: Client) -> None:
    events = await client.streamed("SendStreamingMessage", {"message": said("chunks 3 4")}, **NUMBERED)
    payloads = [payload for event in events for payload in event.result.values()]
    assert [number(payload) for payload in payloads] == list(range(1, len(events) + 1))
    task_id = payloads[0]["id"]
    assert number(await client.result("GetTask", {"id": task_id}, **NUMBERED)) == len(events)
    sent = (await client.result("SendMessage", {"message": said("ask")}, **NUMBERED))["task"]
    ended = await client.result("CancelTask", {"id": sent["id"]}, **NUMBERED)
    assert number(ended) == number(sent) + 1
    if "ListTasks" in client.binding.operations:
        asked = {"contextId": sent["contextId"]}
        (listed,) = (await client.result("ListTasks", asked, **NUMBERED))["tasks"]
        assert number(listed) == number(ended)
    plain = await client.result("GetTask", {"id": task_id})
    assert list(plain["metadata"]) == ["taskplane.dev/cursor"]


async def test_a_message_is_taken_at_the_generation_that_it_expects_only(client: Client) -> None:
    asked = (await client.result("SendMessage", {"message": said("ask")}, **NUMBERED))["task"]
    at = number(asked)
    for wrong in (at - 1, at + 1):
        message = said("Ann", taskId=asked["id"], metadata={EXPECTED: wrong})
        refused = await client.error("SendMessage", {"message": message})
        assert (refused.code, refused.reason) == (-32602, "GENERATION_MISMATCH")
        assert refused.metadata["generation"] == str(at)
        streamed = await client.error("SendStreamingMessage", {"message": message})
        assert streamed.reason == "GENERATION_MISMATCH"
    unchanged = await client.result("GetTask", {"id": asked["id"]}, **NUMBERED)
    assert unchanged["status"] == asked["status"] and unchanged["history"] == asked["history"]
    assert number(unchanged) == at
    log = await client.plane.result("GetTask", {"id": asked["contextId"]})
    assert [message["parts"][0]["text"] for message in log["history"] if message["role"] == "ROLE_USER"] == ["ask"]
    params = {"message": said("Ann", taskId=asked["id"], metadata={EXPECTED: str(at)})}
    done = (await client.result("SendMessage", params, idempotency_key="k" + asked["id"]))["task"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    # The task is at another generation now, but the message is in it already.
    again = (await client.result("SendMessage", params, idempotency_key="k" + asked["id"]))["task"]
    assert again["status"] == done["status"]


async def test_a_message_that_expects_a_generation_begins_no_task(plane: Plane) -> None:
    """Also where clients make the ids of tasks: a task that does not exist has no generation."""
    async with open_front(plane.behind, client_task_ids="create") as front:
        message = said_0_3("hello", taskId=fresh(), metadata={EXPECTED: 1})
        assert (await front.error("message/send", {"message": message}))["code"] == -32001
        assert (await front.result("message/send", {"message": {**message, "metadata": {}}}))["id"] == message["taskId"]


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ({"metadata": {EXPECTED: 3}}, "needs a taskId, and no rewind"),
        ({"taskId": "t", "metadata": {EXPECTED: 0}}, "must be a positive whole number"),
        ({"taskId": "t", "metadata": {EXPECTED: "x"}}, "must be a positive whole number"),
        (
            {"taskId": "t", "contextId": "t", "metadata": {EXPECTED: 3, "kagent_rewind_before_invocation_id": "i"}},
            "needs a taskId, and no rewind",
        ),
    ],
)
async def test_a_generation_that_no_task_can_have_is_invalid_params(client: Client, message: Any, rule: str) -> None:
    refused = await client.error("SendMessage", {"message": said("x", **message)})
    assert refused.fields == {f"message.metadata.{EXPECTED}": rule}


async def test_cards_declare_the_extensions_and_answers_echo_those_in_use(
    plane: Plane, http_binding: HttpBinding
) -> None:
    """a2a H4, H5."""
    card = (await plane.http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    declared = {one["uri"]: one for one in card["capabilities"]["extensions"]}
    assert set(DECLARED) <= set(declared)
    assert all(one["description"] and not one.get("required") for one in declared.values())
    framed = http_binding.frame("SendMessage", {"message": said("hello")})
    reply = await plane.http.request(
        framed.verb, framed.path, json=framed.body, headers={"A2A-Extensions": f"{EXTENSION}, https://unknown"}
    )
    name = "x-a2a-extensions" if http_binding.version == "0.3" else "a2a-extensions"
    assert reply.headers[name] == EXTENSION
