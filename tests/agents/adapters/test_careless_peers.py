"""Remote agents with older, careless or hostile servers: forms that are corrected, and forms that are refused."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from tests.agents.adapters.test_remote import remote
from tests.executor.plane import Stores, open_plane, text
from tests.support.sdk_server import serving

from taskplane.agents.adapters.peers import card as cards
from taskplane.agents.adapters.peers import client, event_lines
from taskplane.agents.adapters.peers.mending import Mending
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CONVERTED
from taskplane.runtime.errors import Invalid
from taskplane.runtime.json_values import to_json

pytestmark = pytest.mark.more

Json = dict[str, Any]
Change = Callable[[Json], Any]


class Careless:
    """A server of one version with one answer to every call, each part of which may be changed.

    `body`: the stream that it sends, also to a client that asked for no stream. `rest`: 1.0 over HTTP+JSON.
    """

    def __init__(
        self,
        version: str = "0.3",
        *,
        answer: Change | None = None,
        envelope: Change | None = None,
        card: Change | None = None,
        streams: bool = True,
        body: Callable[[bytes], AsyncIterator[bytes]] | None = None,
        rest: bool = False,
    ) -> None:
        self.version = version
        self._rest = rest
        self._answer, self._envelope, self._card = answer, envelope, card
        self._streams = streams
        self._body = body
        self.sent: list[Json] = []
        routes = [
            Route("/.well-known/agent-card.json", self.card),
            Route("/rpc", self.call, methods=["POST"]),
            Route("/rpc/message:send", self.call, methods=["POST"]),
            Route("/rpc/message:stream", self.call, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def card(self, request: Request) -> Response:
        url = str(request.url).partition("/.well-known")[0] + "/rpc"
        binding = "HTTP+JSON" if self._rest else "JSONRPC"
        old: Json = {"protocolVersion": "0.3.0", "url": url, "preferredTransport": "JSONRPC"}
        new: Json = {"supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}]}
        card: Json = {
            "name": "Peer",
            "description": "d",
            "version": "1",
            "capabilities": {"streaming": self._streams},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["t"]}],
            **(old if self.version == "0.3" else new),
        }
        return JSONResponse(_changed(card, self._card))

    async def call(self, request: Request) -> Response:
        asked = await request.json()
        self.sent.append(asked)
        answer = self._old() if self.version == "0.3" else self._new()
        answer = _changed(answer, self._answer)
        whole = answer if self._rest else {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
        content = json.dumps(_changed(whole, self._envelope)).encode()
        if not self._streams and self._body is None:
            return Response(content, media_type="application/json")
        body = self._body or _event
        return StreamingResponse(body(content), media_type="text/event-stream")

    def _old(self) -> Json:
        said = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "done"}]}
        status = {"state": "completed", "timestamp": "2026-01-02T03:04:05Z", "message": said}
        return {"kind": "task", "id": "t", "contextId": "far", "status": status}

    def _new(self) -> Json:
        said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "done"}]}
        status = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05Z", "message": said}
        return {"task": {"id": "t", "contextId": "far", "status": status}}


async def _event(content: bytes) -> AsyncIterator[bytes]:
    yield b"data: " + content + b"\n\n"


def _changed(value: Json, change: Change | None) -> Any:
    if change is None:
        return value
    changed = change(value)
    return value if changed is None else changed


def put(path: str, value: object) -> Change:
    """Returns a function that writes a value at a path; `...` removes it."""

    def change(found: Json) -> None:
        *before, last = path.split(".")
        place: Any = found
        for name in before:
            place = place[int(name) if name.isdecimal() else name]
        if value is ...:
            del place[last]
        else:
            place[int(last) if last.isdecimal() else last] = value

    return change


async def answered(stores: Stores, peer: Careless) -> a2a.Task:
    async with serving(peer.app) as server, open_plane(stores, ("far", await remote(server.url))) as plane:
        return await plane.run("go")


async def tasks_of(stores: Stores, peers: Mapping[str, Careless]) -> dict[str, a2a.Task]:
    """The task at each peer, by its name."""
    mounts = [Mount(f"/{index}", peer.app) for index, peer in enumerate(peers.values())]
    async with serving(Starlette(routes=mounts)) as server:
        agents = [(f"far{index}", await remote(f"{server.url}/{index}")) for index in range(len(peers))]
        async with open_plane(stores, *agents) as plane:
            return {form: await plane.run("go", agent=name) for form, (name, _) in zip(peers, agents, strict=True)}


async def all_answered(stores: Stores, peers: Mapping[str, Careless]) -> dict[str, str]:
    """Returns the last text of the task at each peer, by its name; preceded by the state if the task did not
    complete."""
    ends = {a2a.TASK_STATE_COMPLETED: ""}
    return {
        form: ends.get(task.status.state, f"{task.status.state}: ") + text(task.status.message)
        for form, task in (await tasks_of(stores, peers)).items()
    }


def _unwrapped(answer: Json) -> Any:
    return answer["task"]


def _update(answer: Json) -> Json:
    """The status update that servers of 0.1 sent: the task's id under `id`."""
    return {"id": "t", "status": answer["status"], "final": True}


def _endless(answer: Json) -> Json:
    """A status update without a mark of the last one."""
    return {"taskId": "t", "contextId": "far", "status": answer["status"], "final": None}


ANSWERS_0_3: dict[str, Change] = {
    "no context": put("contextId", ...),
    "null context": put("contextId", None),
    "null lists": lambda answer: {**answer, "artifacts": None, "history": None, "metadata": None},
    "no kind": put("kind", ...),
    "no kind of a message": put("status.message.kind", ...),
    "type in place of kind": put("status.message.parts.0", {"type": "text", "text": "done"}),
    "a part without a kind": put("status.message.parts.0", {"text": "done"}),
    "a text in place of parts": put("status.message.parts", "done"),
    "a text in place of a message": put("status.message", "done"),
    "null members of a part": put("status.message.parts.0", {"kind": "text", "text": "done", "metadata": None}),
    "no message id": put("status.message.messageId", ...),
    "the role of a model": put("status.message.role", "assistant"),
    "the role of 1.0": put("status.message.role", "ROLE_AGENT"),
    "no role": put("status.message.role", ...),
    "the state of 1.0": put("status.state", "TASK_STATE_COMPLETED"),
    "an upper-case state": put("status.state", "COMPLETED"),
    "another word for the state": put("status.state", "success"),
    "a null time": put("status.timestamp", None),
    "a time without a zone": put("status.timestamp", "2026-01-02T03:04:05.123456"),
    "a time in milliseconds": put("status.timestamp", 1767323045000),
    "no time": put("status.timestamp", "yesterday"),
    "snake case": lambda answer: {
        **answer,
        "contextId": None,
        "context_id": "far",
        "status": {
            "state": "completed",
            "message": {"message_id": "m", "role": "agent", "parts": [{"kind": "text", "text": "done"}]},
        },
    },
    "a wrapper": lambda answer: {"task": answer, "kind": None},
}
# A server that does not stream answers with a task or a message.
UPDATES: dict[str, Change] = {
    "an update without a task id": _update,
    "an update without its end": _endless,
}
ANSWERS_1_0: dict[str, Change] = {
    "no wrapper": _unwrapped,
    "a kind": put("task.kind", "task"),
    "null lists": lambda answer: {"task": {**answer["task"], "artifacts": None, "history": None, "metadata": None}},
    "the state of 0.3": put("task.status.state", "completed"),
    "the role of 0.3": put("task.status.message.role", "agent"),
    "parts of 0.3": put("task.status.message.parts.0", {"kind": "text", "text": "done"}),
    "a time without a zone": put("task.status.timestamp", "2026-01-02T03:04:05"),
    "no message id": put("task.status.message.messageId", ...),
    "snake case": lambda answer: {
        "task": {
            "id": "t",
            "context_id": "far",
            "status": {
                "state": "TASK_STATE_COMPLETED",
                "message": {"message_id": "m", "role": "ROLE_AGENT", "parts": [{"text": "done"}]},
            },
        }
    },
}
ENVELOPES: dict[str, Change] = {
    "a foreign id": put("id", "somebody else's"),
    "no id": put("id", ...),
    "a null id": put("id", None),
    "a null error beside the result": put("error", None),
    "no version": put("jsonrpc", ...),
}


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "call"])
@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_forms_of_older_and_of_careless_servers_are_understood(
    stores: Stores, version: str, streams: bool
) -> None:
    older = {**ANSWERS_0_3, **UPDATES} if streams else ANSWERS_0_3
    answers = older if version == "0.3" else ANSWERS_1_0
    peers = {form: Careless(version, answer=change, streams=streams) for form, change in answers.items()}
    peers |= {form: Careless(version, envelope=change, streams=streams) for form, change in ENVELOPES.items()}
    said = await all_answered(stores, peers)
    assert said == dict.fromkeys(peers, "done")


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_half_of_a_surrogate_pair_ends_no_task(stores: Stores, version: str) -> None:
    place = "status.message.parts.0.text" if version == "0.3" else "task.status.message.parts.0.text"
    task = await answered(stores, Careless(version, answer=put(place, "done \ud83d, \U0001f600")))
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    assert text(task.status.message) == "done \ufffd, \U0001f600"


def depth_of(value: Any) -> tuple[int, str]:
    """The number of objects around a text, and the text."""
    levels = 0
    while isinstance(value, dict):
        levels, value = levels + 1, value["a"]  # pyright: ignore[reportUnknownVariableType]
    return levels, str(value)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_data_that_the_sdk_could_not_read_is_kept(stores: Stores, version: str) -> None:
    """P12: a large integer becomes its digits and is listed as converted; data of 60 levels becomes JSON."""
    deep: Any = "x"
    for _ in range(60):
        deep = {"a": deep}
    data = {"big": 653247040368672769, "deep": deep}
    part = {"kind": "data", "data": data} if version == "0.3" else {"data": data}
    place = "status.message.parts.0" if version == "0.3" else "task.status.message.parts.0"
    task = await answered(stores, Careless(version, answer=put(place, part)))
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    said = task.status.message
    found = to_json(said.parts[0].data)
    assert found["big"] == "653247040368672769"
    assert to_json(said.metadata.fields[CONVERTED]) == ["parts[0].data.big"]
    levels, end = depth_of(found["deep"])
    more, end = depth_of(json.loads(end))
    assert (levels + more, end) == (60, "x")


async def test_no_context_id_is_sent_to_a_server_that_named_none(stores: Stores) -> None:
    peer = Careless(answer=put("contextId", ...))
    async with serving(peer.app) as server, open_plane(stores, ("far", await remote(server.url))) as plane:
        await plane.run("one", context_id="here")
        await plane.run("two", context_id="here")
    assert ["contextId" in sent["params"]["message"] for sent in peer.sent] == [False, False]


CARDS: dict[str, Change] = {
    "null lists": lambda card: {**card, "skills": None, "defaultInputModes": None, "additionalInterfaces": None},
    "null members of a skill": put("skills.0.examples", None),
    "a null among the tags of a skill": put("skills.0.tags", ["t", None]),
    "null capabilities": put("capabilities", None),
    "a list in place of capabilities": put("capabilities", ["streaming"]),
    "a number for a version": put("version", 1.0),
    "a relative address": lambda card: {**card, "url": "../rpc"},
    "null interfaces": put("supportedInterfaces", None),
    "no interfaces": put("supportedInterfaces", []),
    "a null provider": put("provider", None),
}


async def test_careless_cards_are_served(stores: Stores) -> None:
    peers = {form: Careless(card=change) for form, change in CARDS.items()}
    assert await all_answered(stores, peers) == dict.fromkeys(peers, "done")


async def test_a_single_skill_in_place_of_a_list_is_read() -> None:
    """P1: the card has the skill."""
    async with serving(Careless(card=lambda card: {**card, "skills": card["skills"][0]}).app) as server:
        agent = await remote(server.url)
    assert [skill.id for skill in agent.card.skills] == ["s"]


def test_an_answer_has_the_id_of_its_request() -> None:
    """With any id and version of JSON-RPC in the answer of the server."""
    asked: Json = {"jsonrpc": "2.0", "id": "ours", "method": "message/send", "params": {}}
    mending = Mending.of(httpx.Request("POST", "https://peer.example/rpc", json=asked))
    for given in ("theirs", 1, None):
        answers: list[Json] = [{"result": {"kind": "task", "id": "t"}}, {"error": {"code": -32001, "message": "m"}}]
        for answer in answers:
            found = mending.answer({"jsonrpc": None, "id": given, **answer})
            assert (found["jsonrpc"], found["id"]) == ("2.0", "ours")


async def _without_an_end(content: bytes) -> AsyncIterator[bytes]:
    yield b"data:" + content


async def with_done(content: bytes) -> AsyncIterator[bytes]:
    first, rest = content.split(b", ", 1)
    yield b": hello\n\ndata: " + first + b",\ndata:" + rest + b"\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "call"])
@pytest.mark.parametrize("body", [_without_an_end, with_done])
async def test_a_careless_stream_is_understood(
    stores: Stores, body: Callable[[bytes], AsyncIterator[bytes]], streams: bool
) -> None:
    """In answer to a client that asked for no stream as well."""
    task = await answered(stores, Careless(body=body, streams=streams))
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)


FAULTS: dict[str, tuple[str, Change, str]] = {
    "a state of 0.3": ("0.3", put("status.state", "sleeping"), "status.state"),
    "a text of 0.3": ("0.3", put("status.message.parts.0.text", ["a"]), "parts.0"),
    "a state of 1.0": ("1.0", put("task.status.state", "sleeping"), "status.state"),
    "a text of 1.0": ("1.0", put("task.status.message.parts.0.text", ["a"]), "text"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_member_that_cannot_be_read_is_named_without_its_value(stores: Stores, fault: str) -> None:
    version, change, named = FAULTS[fault]
    task = await answered(stores, Careless(version, answer=change))
    assert task.status.state == a2a.TASK_STATE_FAILED
    said = text(task.status.message)
    assert named in said and "sleeping" not in said, said


async def _flood(unit: bytes, size: int) -> AsyncIterator[bytes]:
    yield b"data: "
    for _ in range(0, size, len(unit)):
        yield unit
        await asyncio.sleep(0)


def _of_one_line(_: bytes) -> AsyncIterator[bytes]:
    return _flood(b"x" * 65536, 10 * event_lines.LONGEST_EVENT)


def _of_many_lines(_: bytes) -> AsyncIterator[bytes]:
    return _flood(b"x" * 65535 + b"\ndata: ", 10 * event_lines.LONGEST_EVENT)


@pytest.mark.parametrize("flood", [_of_one_line, _of_many_lines])
async def test_an_event_without_an_end_is_refused_at_a_limit(
    stores: Stores, flood: Callable[[bytes], AsyncIterator[bytes]]
) -> None:
    """A server that would fill the memory is left, and the task fails with a reason."""
    task = await answered(stores, Careless(body=flood))
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "of more than 8 MiB" in text(task.status.message)


async def test_an_answer_or_a_card_is_refused_at_a_limit(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    large = put("status.message.parts.0.text", "x" * 200_000)
    monkeypatch.setattr(client, "LONGEST_ANSWER", 2**17)
    task = await answered(stores, Careless(answer=large, streams=False))
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "an answer of more than 0.125 MiB" in text(task.status.message)
    async with serving(Careless(card=put("description", "x" * cards.LONGEST_CARD)).app) as server:
        with pytest.raises(Invalid, match="a card of more than 1 MiB"):
            await remote(server.url)


async def test_an_answer_that_is_not_json_fails_the_task_with_this_reason(stores: Stores) -> None:
    async def page(_: bytes) -> AsyncIterator[bytes]:
        yield b"data: <!doctype html>\n\n"

    task = await answered(stores, Careless(body=page))
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "not JSON" in text(task.status.message)
