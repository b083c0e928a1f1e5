"""The isolation matrix of gRPC: for every RPC, requests for things of another owner, and their answers. Names in braces
stand for ids, as in `tests.gateway.isolation`; requests are ProtoJSON with the names of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A request and its answer, the same for an unknown id and for an id of another owner. `answer`: `OK`, or the code
    and the reason of the error. `service`: a service calls, for another owner. `operator`: the other owner may operate.
    `held`: the different answer for an id of another owner of the same tenant, and `reason` why it may differ."""

    request: Mapping[str, Any]
    answer: str
    service: bool = False
    operator: bool = False
    held: str = ""
    reason: str = ""


@dataclass(frozen=True)
class NoId:
    """An RPC whose request names nothing of an owner, and why."""

    why: str


Row = NoId | tuple[Cell, ...]

_REFUSED: Final = "PERMISSION_DENIED SERVICE_ONLY"
_OPERATORS: Final = "PERMISSION_DENIED OPERATORS_ONLY"
_NO_TASK: Final = "NOT_FOUND TASK_NOT_FOUND"
_NO_SESSION: Final = "NOT_FOUND SESSION_NOT_FOUND"
_HELD_ID: Final = "task ids are unique within a tenant, so a writer is told that an id is in use, and nothing else"
SWEEP: Final = NoId("a sweep over all owners, for services only")
_OPERATES: Final = NoId("figures of a tenant, for operators only")
_SEES_ITS_TENANT: Final = "an operator sees the tasks of all owners of its tenant"
_OWN: Final = NoId("it concerns all that its caller has, and nothing else")
_PUBLIC: Final = NoId("agents are for everybody")
HASH: Final = "aGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGg="


def _said(**fields: Any) -> Json:
    return {"message_id": "{new}", "role": "ROLE_USER", "parts": [{"text": "message hello"}], **fields}


def _create(**fields: Any) -> Json:
    values = {"invocation_id": "{new}", "request_hash": HASH, "agent": "nobody", "context_id": "{mine}"}
    return {**values, "message": _said(), **fields}


def _add(**fields: Any) -> Json:
    return {"invocation_id": "{new}", "request_hash": HASH, "task_id": "{mine_task}", "message": _said(), **fields}


def _submit(**fields: Any) -> Json:
    return {"request": {"message": _said(**fields)}}


def _each(field: str, names: tuple[str, ...], answer: str, **more: Any) -> tuple[Cell, ...]:
    return tuple(Cell({field: f"{{{name}}}", **more}, answer) for name in names)


def _task(answer: str = _NO_TASK, **more: Any) -> tuple[Cell, ...]:
    return _each("task_id", ("paused", "done", "document"), answer, **more)


def _session(answer: str = _NO_SESSION, **more: Any) -> tuple[Cell, ...]:
    return _each("context_id", ("session", "runtime", "rewound"), answer, **more)


def _import(answer: str, **more: Any) -> tuple[Cell, ...]:
    return (Cell({"context_id": "{staged}", "import_id": "{staging}", **more}, answer),)


_LEASES: Final = {"process_id": "tester", "leases": [{"task_uid": "{paused_uid}", "fence": 1}]}

TASK_STORE: Final[dict[str, Row]] = {
    "CreateTask": (
        Cell(_create(invocation_id="{spare_turn}"), "OK"),
        Cell(_create(context_id="{spare}"), "OK"),
        Cell(_create(task_id="{spare_task}"), "OK", held="ALREADY_EXISTS ID_TAKEN", reason=_HELD_ID),
    ),
    "AppendEvents": (Cell({"items": [{"task_uid": "{paused_uid}", "fence": 1, "number": 1}]}, _REFUSED),),
    "AddMessage": (
        Cell(_add(task_id="{paused}"), _NO_TASK),
        Cell(_add(task_id="{done}", expected_context="{session}"), _NO_TASK),
        Cell(_add(task_id="{document}"), _NO_TASK),
        Cell(_add(expected_context="{session}"), "INVALID_ARGUMENT CONTEXT_MISMATCH"),
        Cell(_add(invocation_id="{spare_turn}"), "OK"),
    ),
    "WatchTask": (*_task(), *_each("task_id", ("paused",), _NO_TASK, cursor="{cursor}")),
    "GetTask": _task(),
    "ListTasks": _session("OK"),
    "ListEvents": _task(),
    "CancelTask": _task(),
    "PutTask": (
        Cell(
            {"task": {"id": "{spare_task}", "context_id": "{mine}"}},
            "OK",
            held="ALREADY_EXISTS ID_TAKEN",
            reason=_HELD_ID,
        ),
        Cell(
            {"task": {"id": "{paused}", "context_id": "{mine}"}, "expected_generation": 3},
            "ABORTED GENERATION_MISMATCH",
            held="ALREADY_EXISTS ID_TAKEN",
            reason=_HELD_ID,
        ),
        Cell({"task": {"id": "{new}", "context_id": "{spare}"}}, "OK"),
        Cell({"task": {"id": "{new}", "context_id": "{spare}"}, "without_invocation_ids": ["{turn}"]}, "OK"),
    ),
    "DeleteTask": (Cell({"task_id": "{done}"}, _REFUSED),),
    "ListTurns": _task(),
    "ListUncopied": (
        *_session("OK"),
        Cell(
            {
                "context_id": "{session}",
                "after": {
                    "uid": "{done_uid}",
                    "task_id": "{done}",
                    "context_id": "{session}",
                    "invocation_id": "{turn}",
                    "status_at": "2020-01-01T00:00:00Z",
                },
            },
            "OK",
        ),
    ),
    "MarkCopied": (Cell({"task_uid": "{done_uid}", "generation": 1}, _REFUSED),),
    "MarkSuperseded": (
        Cell({"context_id": "{session}", "steered_seq": 90, "cut_invocation_ids": ["{turn}"]}, _REFUSED),
        Cell({"context_id": "{session}", "steered_seq": 90, "cut_invocation_ids": ["{turn}"]}, "OK", service=True),
    ),
    "ListTaskInfos": _session("OK"),
    "ListMessages": (
        *_session("OK"),
        *_session("INVALID_ARGUMENT NO_SUCH_MESSAGE", before="{message}"),
        *_session("OK", shown=["{message}"]),
    ),
    "CompareDocuments": _session("OK", messages=[_said(message_id="{message}")]),
    "WatchSession": _session("OK"),
    "SummarizeSessions": (Cell({"context_ids": ["{session}", "{runtime}"]}, "OK"),),
    "GetSessionFigures": _session("OK"),
    "ExportTask": _task(),
    "ReadArtifact": (
        *_task(artifact_id="{artifact}"),
        *_task(artifact_id="{artifact}", version=1),
        Cell({"task_id": "{mine_task}", "artifact_id": "{artifact}"}, "NOT_FOUND ARTIFACT_NOT_FOUND"),
    ),
    "StageImport": _import("OK", number=1, data="AAAA"),
    "CommitImport": _import("ABORTED IMPORT_REPLACED", pages=2),
    "FinishImport": _import("OK"),
    "DropImport": (*_import("OK"), Cell({"context_id": "{staged}"}, "OK")),
    "DropAbandonedImports": SWEEP,
    "ListUnfinishedImports": SWEEP,
    "CollectGarbage": SWEEP,
}

TASK_QUEUE: Final[dict[str, Row]] = {
    "Claim": (Cell({"process_id": "tester", "agents": ["demo"], "capacity": 1}, _REFUSED),),
    "Renew": (Cell(_LEASES, _REFUSED), Cell(_LEASES, "OK", service=True)),
    "Release": (Cell(_LEASES, _REFUSED), Cell(_LEASES, "OK", service=True)),
}


TASK_OPERATIONS: Final[dict[str, Row]] = {
    "GetOverview": _OPERATES,
    "ListTenantTasks": (Cell({"owner": "ann"}, _OPERATORS),),
    "GetTenantTask": (
        *_task(_OPERATORS),
        *(
            Cell({"task_id": f"{{{name}}}", "limit": 1}, _NO_TASK, operator=True, held="OK", reason=_SEES_ITS_TENANT)
            for name in ("paused", "done", "document")
        ),
    ),
}


def _append(**fields: Any) -> Json:
    return {"id": "{new}", "kind": "ENTRY_KIND_MESSAGE", "invocation_id": "{new}", "message": _said(), **fields}


def _pushed(turn: str) -> Json:
    pushed = {"messages": [_said()], "reduced_invocation_ids": [turn], "invocation_ids": [turn]}
    return {"id": "{new}", "kind": "ENTRY_KIND_PUSHED", "pushed": pushed}


def _deleted(turn: str, task: str) -> Json:
    deleted = {"invocation_ids": [turn], "entry_ids": [turn]}
    return _void(turn) | {"task_id": task, "deleted": deleted}


def _void(turn: str) -> Json:
    return {"id": "{new}", "kind": "ENTRY_KIND_VOID", "invocation_id": turn, "target": turn}


_CUT: Final = "2020-01-01T00:00:00Z"
SESSION_HISTORY: Final[dict[str, Row]] = {
    "CreateSession": (Cell({"context_id": "{spare}", "agent": "demo"}, "OK"),),
    "GetSession": _session(),
    "ListSessions": (Cell({"title": "{title}"}, "OK"),),
    "UpdateSession": _session(title="taken"),
    "DeleteSession": (
        *_session(),
        *_session("PERMISSION_DENIED SERVICE_ONLY", tasks_until=_CUT),
        Cell({"context_id": "{session}", "tasks_until": _CUT}, _NO_SESSION, service=True),
    ),
    "AppendEntries": (
        *_session(entries=[_append()]),
        Cell({"context_id": "{spare}", "entries": [_append()], "create": {"agent": "demo"}}, "OK"),
        Cell({"context_id": "{mine}", "entries": [_append(id="{spare_turn}")]}, "OK"),
        Cell({"context_id": "{mine}", "entries": [_append(invocation_id="{spare_turn}")]}, "OK"),
        Cell(
            {
                "context_id": "{mine}",
                "entries": [_append(task_id="{done}", task_invocation_id="{turn}", generation=2)],
            },
            "OK",
        ),
        Cell({"context_id": "{mine}", "entries": [_pushed("{turn}")]}, "OK"),
        Cell({"context_id": "{mine}", "entries": [_append()], "own_message_id": "{message}"}, "OK"),
        Cell({"context_id": "{mine}", "entries": [_append()], "own_answer_id": "{message}"}, "OK"),
        Cell({"context_id": "{mine}", "entries": [_void("{turn}")]}, "OK"),
        Cell({"context_id": "{spare}", "entries": [_deleted("{turn}", "{done}")], "create": {"agent": "demo"}}, "OK"),
    ),
    "ListEntries": (
        *_session(),
        *_session(effective=True),
        Cell({"context_id": "{mine}", "task_id": "{done}"}, "OK"),
        *_session(message_id="{message}"),
        Cell({"context_id": "{mine}", "message_id": "{message}"}, "OK"),
    ),
    "GetSessionTask": _session(),
    "ListMessageIds": _session(),
    "ListUnsettled": SWEEP,
    "CountAbandoned": _OPERATES,
    "MarkSettled": SWEEP,
    "Rewind": (
        *_session(before_invocation_id="{turn}", id="{new}", request_hash=HASH),
        Cell(
            {"context_id": "{mine}", "before_invocation_id": "{turn}", "id": "{spare_turn}", "request_hash": HASH},
            "NOT_FOUND INVOCATION_NOT_FOUND",
        ),
    ),
    "Undo": (*_session(), *_session(id="{entry}", request_hash=HASH)),
    "Fork": (
        *_session(),
        Cell({"context_id": "{mine}", "new_context_id": "{spare}"}, "OK"),
        Cell(
            {"context_id": "{mine}", "before_invocation_id": "{turn}", "new_context_id": "{new}"},
            "NOT_FOUND INVOCATION_NOT_FOUND",
        ),
    ),
    "ListCut": _session(),
    "ListUnapplied": SWEEP,
    "MarkApplied": (
        Cell({"context_id": "{rewound}", "seq": 1}, _REFUSED),
        Cell({"context_id": "{rewound}", "seq": 1}, _NO_SESSION, service=True),
    ),
    "TouchSession": (*_session(), Cell({"context_id": "{mine}", "task_id": "{done}"}, "OK")),
    "WatchEntries": _session(),
    "GetState": _session(),
    "StageImport": _import("OK", number=1, data="AAAA"),
    "CommitImport": _import("ABORTED IMPORT_REPLACED", pages=2),
    "DropImport": _import("OK"),
    "DropAbandonedImports": SWEEP,
    "ListExpired": SWEEP,
    "ListRemains": SWEEP,
    "DropRemains": (
        Cell({"context_id": "{session}", "tasks_until": _CUT}, _REFUSED),
        Cell({"context_id": "{session}", "tasks_until": _CUT}, "OK", service=True),
    ),
    "DeleteUserState": _OWN,
}

AGENT_EXECUTOR: Final[dict[str, Row]] = {
    "Submit": (
        Cell(_submit(task_id="{paused}"), _NO_TASK),
        Cell({**_submit(task_id="{done}"), "create_unknown_task": False}, _NO_TASK),
        Cell(
            {**_submit(task_id="{spare_task}", parts=[{"text": "hello"}]), "create_unknown_task": True},
            "OK",
            held=_NO_TASK,
            reason=_HELD_ID,
        ),
        Cell(_submit(context_id="{spare}"), "OK"),
        Cell(_submit(message_id="{message}"), "OK"),
        Cell(_submit(context_id="{mine}", reference_task_ids=["{done}"]), "OK"),
        Cell({**_submit(), "idempotency_key": "{spare_key}"}, "OK"),
        Cell({**_submit(context_id="{session}"), "expected_version": 2}, "ABORTED VERSION_MISMATCH"),
    ),
    "ListAgents": _PUBLIC,
    "GetAgentCard": _PUBLIC,
    "GetExtendedAgentCard": (Cell({}, "FAILED_PRECONDITION EXTENDED_AGENT_CARD_NOT_CONFIGURED"),),
    "DeleteTask": _task(),
    "DeleteSession": _session(),
    "RewindSession": (
        *_session(before_invocation_id="{turn}"),
        *_session(before_invocation_id="{turn}", idempotency_key="{spare_key}"),
        Cell({"context_id": "{mine}", "before_invocation_id": "{turn}"}, "NOT_FOUND INVOCATION_NOT_FOUND"),
    ),
    "UndoRewind": (*_session(), *_session(idempotency_key="{spare_key}")),
    "ApplySession": _session(),
    "EraseOwner": _OWN,
}

SERVICES: Final[dict[str, dict[str, Row]]] = {
    "taskplane.api.tasks.v1.TaskStore": TASK_STORE,
    "taskplane.api.tasks.v1.TaskQueue": TASK_QUEUE,
    "taskplane.api.tasks.v1.TaskOperations": TASK_OPERATIONS,
    "taskplane.api.sessions.v1.SessionHistory": SESSION_HISTORY,
    "taskplane.api.executor.v1.AgentExecutor": AGENT_EXECUTOR,
}
