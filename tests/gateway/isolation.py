"""The isolation matrix of HTTP: for every route and every operation of A2A, requests with ids of another owner, and
their answers.

Names in braces are placeholders for ids. Each request is sent twice: with unknown ids, and with ids of another
owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway.plane import Json

from taskplane.gateway.bindings import rest, rest_v0_3

NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True)
class Cell:
    """A request and its answer, which is the same for an unknown id and for an id of another owner.

    `answer`: the HTTP status, then the code of the error if it is one. `ids`: the names of the ids in the path.
    `held`: a different answer for an id of another owner of the same tenant, and `reason` its justification.
    `minted`: the request goes to a gateway that lets 0.3 clients create task ids, and is one of 0.3. A request of an
    operation is its params in A2A 1.0, and its answer only the code of the error; it is sent over each binding.
    """

    answer: str
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    held: str = ""
    reason: str = ""
    minted: bool = False


@dataclass(frozen=True)
class NoId:
    """A route or method without an id of anything that has an owner, and the reason. `GET` routes are requested
    nevertheless, with these headers, and answer with this status and nothing of an owner."""

    why: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200


Row = NoId | tuple[Cell, ...]


def _say(text: str, **fields: Any) -> Json:
    message = {"messageId": "{new}", "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return {"message": message}


def _document(**fields: Any) -> Json:
    return {"contextId": "{mine}", "kind": "task", "status": {"state": "completed"}, **fields}


_NO_TASK: Final = "-32001"
_INVALID: Final = "-32602"
_OK: Final = ""
_REWIND: Final = "kagent_rewind_before_invocation_id"
_HELD_ID: Final = "task ids are unique within a tenant, so a writer learns that an id is in use, and nothing else"


def _sends() -> tuple[Cell, ...]:
    return (
        Cell(_NO_TASK, body=_say("hello", taskId="{paused}")),
        Cell(_NO_TASK, body=_say("hello", taskId="{paused}", contextId="{session}")),
        Cell(_NO_TASK, body=_say("hello", taskId="{done}")),
        Cell(_NO_TASK, body=_say("hello", taskId="{document}")),
        # A context is the caller's own, also if others have one with this id.
        Cell(_OK, body=_say("message hello", contextId="{spare}")),
        Cell(_OK, body=_say("hello", contextId="{mine}", referenceTaskIds=["{done}"])),
        Cell(
            _OK,
            body={**_say("message hello"), "message": {**_say("message hello")["message"], "messageId": "{message}"}},
        ),
        Cell(_OK, body=_say("message keyed"), headers={"Idempotency-Key": "{spare_key}"}),
        Cell(_INVALID, body=_say("hello", contextId="{session}"), headers={"If-Match": '"2"'}),
        Cell(_INVALID, body=_say("hello", contextId="{session}", metadata={"taskplane.dev/expected_version": 2})),
    )


def _rewinds() -> tuple[Cell, ...]:
    # An unknown session is refused like a task, an unknown turn of an own session by a failed task.
    return (
        Cell(_NO_TASK, body=_say("", contextId="{session}", metadata={_REWIND: "{turn}"})),
        Cell(_OK, body=_say("", contextId="{mine}", metadata={_REWIND: "{turn}"})),
    )


def _task(name: str, **fields: Any) -> tuple[Cell, ...]:
    return tuple(
        Cell(_NO_TASK, body={"id": f"{{{each}}}", **fields}) for each in (name, "paused", "done", "document", "session")
    )


_SUBSCRIBE: Final = (
    *_task("paused"),
    Cell(_NO_TASK, body={"id": "{paused}"}, headers={"Last-Event-ID": "{cursor}"}),
    Cell(_NO_TASK, body={"id": "{done}"}, headers={"Last-Event-ID": "{end}"}),
)
_PUSH: Final = (Cell("-32003", body={"taskId": "{paused}", "id": "{paused}"}),)
_NO_CARD: Final = NoId("the extended card is that of an agent")

OPERATIONS: Final[dict[str, Row]] = {
    "SendMessage": (
        *_sends(),
        *_rewinds(),
        Cell(_OK, body=_say("hello", taskId="{spare_task}"), held=_NO_TASK, reason=_HELD_ID, minted=True),
    ),
    "SendStreamingMessage": (
        *_sends()[:1],
        Cell(_OK, body=_say("message hello", contextId="{spare}")),
        Cell(_OK, body=_say("message keyed"), headers={"Idempotency-Key": "{spare_key}"}),
        Cell(_INVALID, body=_say("message hello"), headers={"Last-Event-ID": "{cursor}"}),
        *_rewinds(),
    ),
    "GetTask": _task("paused"),
    "ListTasks": (
        Cell(_OK, body={"contextId": "{session}"}),
        Cell(_OK, body={"contextId": "{runtime}", "includeArtifacts": True}),
    ),
    "CancelTask": _task("paused"),
    "SubscribeToTask": _SUBSCRIBE,
    "CreateTaskPushNotificationConfig": _PUSH,
    "GetTaskPushNotificationConfig": _PUSH,
    "ListTaskPushNotificationConfigs": _PUSH,
    "DeleteTaskPushNotificationConfig": _PUSH,
    "GetExtendedAgentCard": _NO_CARD,
}

_NO_TASK_API: Final = "404 TASK_NOT_FOUND"
_NO_SESSION: Final = "404 SESSION_NOT_FOUND"
_PUBLIC: Final = NoId("it is public")
_PAGE: Final = NoId("the page is the same for everybody", {"Accept": "text/html"})
_CARD: Final = NoId("a card is that of an agent, and for everybody")
_RPC: Final = {"jsonrpc": "2.0", "id": "r", "method": "GetTask", "params": {"id": "{done}"}}


def _of_task(query: str = "", **headers: str) -> tuple[Cell, ...]:
    return tuple(
        Cell(_NO_TASK_API, {"task": name}, query=query, headers=headers)
        for name in ("paused", "done", "document", "session")
    )


def _of_session(body: Any = None, query: str = "") -> tuple[Cell, ...]:
    return tuple(
        Cell(_NO_SESSION, {"session": name}, body=body, query=query) for name in ("session", "runtime", "rewound")
    )


# The answers to operators are tested in `ops/test_ops`.
_OPERATORS: Final = "403 OPERATORS_ONLY"
_operated: Final = tuple(Cell(_OPERATORS, {"task": name}) for name in ("paused", "done", "document"))

ROUTES: Final[dict[str, Row]] = {
    "GET /healthz": _PUBLIC,
    "GET /readyz": _PUBLIC,
    "GET /metrics": _PUBLIC,
    "GET /.well-known/agent-card.json": _CARD,
    "GET /.well-known/agent.json": _CARD,
    "GET /agents/{agent}/.well-known/agent-card.json": _CARD,
    "GET /agents/{agent}/.well-known/agent.json": _CARD,
    "GET /api/a2a/{namespace}/{agent}/.well-known/agent-card.json": _CARD,
    "GET /api/a2a/{namespace}/{agent}/.well-known/agent.json": _CARD,
    "GET /": _PAGE,
    "GET /ui": _PAGE,
    "GET /ui/sessions/{session}": _PAGE,
    "GET /ui/agents": _PAGE,
    "GET /ui/agents/{agent}": _PAGE,
    "GET /ui/ops": _PAGE,
    "GET /ui/ops/tasks/{task}": _PAGE,
    "GET /ui/assets/{file}": _PAGE,
    "GET /ui/licenses.txt": _PAGE,
    "GET /ui/{path*}": NoId(_PAGE.why, _PAGE.headers, 404),
    "GET /api/ui-config": _PUBLIC,
    "GET /api/agents/{agent}": _CARD,
    # The operations have rows of their own; these paths lead to the same handler.
    "POST /": (Cell("200 -32001", body=_RPC),),
    "POST /jsonrpc": (Cell("200 -32001", body=_RPC),),
    "POST /agents/{agent}": (Cell("200 -32001", body=_RPC),),
    "POST /agents/{agent}/jsonrpc": (Cell("200 -32001", body=_RPC),),
    "POST /api/a2a/{namespace}/{agent}": (Cell("200 -32001", body=_RPC),),
    "POST /api/a2a/{namespace}/{agent}/jsonrpc": (Cell("200 -32001", body=_RPC),),
    "POST /api/tasks": (
        Cell("201", body=_document(id="{spare_task}"), held="409 ID_TAKEN", reason=_HELD_ID),
        Cell(
            "409 GENERATION_MISMATCH",
            body=_document(id="{document}"),
            headers={"If-Match": '"1"'},
            held="409 ID_TAKEN",
            reason=_HELD_ID,
        ),
        # Tasks may be stored for an unknown session; it becomes the caller's own.
        Cell("201", body=_document(contextId="{spare}", metadata={"kagent_invocation_id": "{turn}"})),
    ),
    "GET /api/tasks/{task}": _of_task(),
    "DELETE /api/tasks/{task}": _of_task(),
    "GET /api/tasks/{task}/messages": (*_of_task(), *_of_task("kind=status-message")),
    "GET /api/tasks/{task}/artifacts": _of_task(),
    "GET /api/tasks/{task}/artifacts/{artifact}": (
        Cell(_NO_TASK_API, {"task": "done", "artifact": "artifact"}),
        Cell("404 ARTIFACT_NOT_FOUND", {"task": "mine_task", "artifact": "artifact"}),
    ),
    "GET /api/tasks/{task}/events": (
        *_of_task(),
        Cell(_NO_TASK_API, {"task": "paused"}, headers={"Last-Event-ID": "{cursor}"}),
        Cell(_NO_TASK_API, {"task": "done"}, query="after={end}"),
    ),
    "GET /api/ops/overview": (Cell(_OPERATORS),),
    "GET /api/ops/tasks": (Cell(_OPERATORS, query="owner=ann&limit=1"),),
    "GET /api/ops/tasks/{task}": _operated,
    "DELETE /api/ops/tasks/{task}": _operated,
    "GET /api/ops/tasks/{task}/events": _operated,
    "POST /api/ops/tasks/{task}/cancel": _operated,
    "GET /api/sessions": (Cell("200", query="q={title}"),),
    "POST /api/sessions/import": (
        Cell("201", body="{file}", headers={"Content-Type": NDJSON}, query="id={spare}"),
        Cell("201", body="{foreign_file}", headers={"Content-Type": NDJSON}, held="409 TASK_EXISTS", reason=_HELD_ID),
    ),
    "GET /api/sessions/{session}/export": (*_of_session(), *_of_session(query="format=markdown")),
    "POST /api/sessions": (Cell("201", body={"id": "{spare}", "agent_ref": "demo"}),),
    "GET /api/sessions/{session}": (*_of_session(), *_of_session(query="limit=1&order=asc")),
    "PUT /api/sessions/{session}": _of_session({"name": "taken"}),
    "PATCH /api/sessions/{session}": _of_session({"name": "taken"}),
    "DELETE /api/sessions/{session}": _of_session(),
    "GET /api/sessions/{session}/tasks": (*_of_session(), *_of_session(query="include=superseded")),
    "GET /api/sessions/{session}/messages": (
        *_of_session(),
        *_of_session(query="kind=status-message"),
        Cell("400 NO_SUCH_MESSAGE", {"session": "mine"}, query="before={message}"),
    ),
    "GET /api/sessions/{session}/task-infos": (*_of_session(), *_of_session(query="latest=any")),
    "GET /api/sessions/{session}/stats": _of_session(),
    "GET /api/sessions/{session}/watch": _of_session(),
    "GET /api/sessions/{session}/effective_history": (*_of_session(), *_of_session(query="limit=1")),
    "PUT /api/sessions/{session}/effective_history": _of_session([]),
    "GET /api/sessions/{session}/state": _of_session(),
    "POST /api/sessions/{session}/rewind": (
        *_of_session({"before": "{turn}"}),
        Cell("404 INVOCATION_NOT_FOUND", {"session": "mine"}, body={"before": "{turn}"}),
    ),
    "POST /api/sessions/{session}/undo_rewind": _of_session({}),
    "POST /api/sessions/{session}/fork": (
        *_of_session({}),
        Cell("201", {"session": "mine"}, body={"id": "{spare}"}),
        Cell("404 INVOCATION_NOT_FOUND", {"session": "mine"}, body={"before": "{turn}", "id": "{spare}"}),
    ),
    "POST /api/sessions/{session}/events": (
        *_of_session({"id": "{new}", "data": {"a": 1}}),
        Cell("201", {"session": "mine"}, body={"id": "{event}", "data": {"a": 1}}),
    ),
    # The operations of REST have rows of their own.
    **{
        f"{method} {base}{path}": ()
        for base in ("", "/agents/{agent}", "/api/a2a/{namespace}/{agent}")
        for method, path in (
            *((method, path) for method, path, _ in (*rest_v0_3.PATHS, *rest.PATHS)),
            *((method, f"/{{tenant}}{path}") for method, path, _ in rest.PATHS),
        )
    },
}
