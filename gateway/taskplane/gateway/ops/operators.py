"""The routes of operators: figures of their tenant, and the tasks of all its owners."""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.follow import TERMINAL
from taskplane.gateway.a2a.waiting import waiting_of
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination import deletion
from taskplane.gateway.coordination.canceling import cancel_task
from taskplane.gateway.kagent import paging
from taskplane.gateway.kagent.envelope import data_reply, list_reply
from taskplane.gateway.kagent.states import info_state
from taskplane.gateway.ops.concerns import concerns
from taskplane.gateway.plane import Plane
from taskplane.gateway.tasks.log import event_json
from taskplane.gateway.translate.timestamps import to_seconds, to_text
from taskplane.gateway.web.http import Reply, Request, empty_reply
from taskplane.runtime.principal import Principal, acting_as
from taskplane.runtime.validation import invalid

_TASKS: Final = 50
_EVENTS: Final = 100
_MINUTES: Final = 60
_FAILED: Final = (a2a.TASK_STATE_FAILED, a2a.TASK_STATE_REJECTED)
# The states that `state` selects by each of its values.
_STATES: Final[dict[str, tuple["a2a.TaskState.ValueType", ...]]] = {
    "pending": (a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_UNSPECIFIED),
    "working": (a2a.TASK_STATE_WORKING,),
    "paused": (a2a.TASK_STATE_INPUT_REQUIRED, a2a.TASK_STATE_AUTH_REQUIRED),
    "completed": (a2a.TASK_STATE_COMPLETED,),
    "failed": (a2a.TASK_STATE_FAILED,),
    "rejected": (a2a.TASK_STATE_REJECTED,),
    "cancelled": (a2a.TASK_STATE_CANCELED,),
}


async def overview(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return running, waiting and failed tasks in the tenant of the operator, and the problems among them."""
    found = await plane.operations.GetOverview(pb.GetOverviewRequest())
    abandoned = await plane.sessions.CountAbandoned(sb.CountAbandonedRequest())
    begun, ended, failed = (sum(getattr(each, name) for each in found.minutes) for name in ("begun", "ended", "failed"))
    since_abandoned = found.at.ToSeconds() - abandoned.oldest.ToSeconds()
    data: dict[str, Any] = {
        "at": to_text(found.at),
        "tasks": [{"agent": each.agent, **_state(each.state), "count": each.count} for each in found.tasks],
        "queue": [
            {
                "agent": each.agent,
                "queued": each.queued,
                "oldestSeconds": to_seconds(each.oldest),
                "unserved": each.unserved,
            }
            for each in found.queue
        ],
        "executors": [_executor(each) for each in found.executors],
        "capacity": {
            "slots": found.capacity.slots,
            "held": found.capacity.held,
            "heldByOthers": found.capacity.held_by_others,
            "holders": [{"owner": each.owner, "slots": each.slots} for each in found.capacity.holders],
        },
        "uncopied": _backlog(found.uncopied, found.oldest_uncopied),
        "abandoned": _backlog(abandoned.count, max(0, since_abandoned)),
        "recent": {
            "minutes": _MINUTES,
            "since": to_text(found.since),
            "begun": begun,
            "ended": ended,
            "failed": failed,
            "perMinute": [
                {"at": to_text(each.at), "begun": each.begun, "ended": each.ended, "failed": each.failed}
                for each in found.minutes
            ],
            "durationSeconds": _percentiles(found.durations) if found.HasField("durations") else None,
            "queuedSeconds": _percentiles(found.queued) if found.HasField("queued") else None,
        },
        "bounded": found.bounded or abandoned.bounded,
    }
    return data_reply(data | {"concerns": concerns(data)}, "Successfully counted tasks")


async def list_tasks(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return tasks of the operator's tenant, newest change of state first. Raise Invalid."""
    asked = pb.ListTenantTasksRequest(
        states=_asked_states(request),
        agent=request.query.get("agent", ""),
        owner=request.query.get("owner", ""),
        executor=request.query.get("executor", ""),
        page_size=paging.limit(request, _TASKS),
        page_token=paging.token(request, "page_token"),
    )
    page = await plane.operations.ListTenantTasks(asked)
    return list_reply(
        [_task(each) for each in page.tasks], "Successfully listed tasks", next_page_token=page.next_page_token
    )


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a task of the operator's tenant with the beginning of its log. Raise NotFound or Invalid."""
    asked = pb.GetTenantTaskRequest(task_id=request.arguments["task"], limit=paging.limit(request, _EVENTS))
    found = await plane.operations.GetTenantTask(asked)
    return data_reply({"task": _task(found.task), **await _log(plane, found)}, "Successfully retrieved task")


async def events(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a page of the log of a task of the operator's tenant, oldest event first. Raise NotFound or Invalid."""
    after = request.number("after", 0)
    if after < 0:
        raise invalid({"after": "must be at least 0"})
    asked = pb.GetTenantTaskRequest(
        task_id=request.arguments["task"], after_generation=after, limit=paging.limit(request, _EVENTS)
    )
    found = await plane.operations.GetTenantTask(asked)
    return data_reply(await _log(plane, found), "Successfully listed events")


async def cancel(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Cancel a task of the operator's tenant for its owner, with the operator as the actor, and return it.

    Raise NotFound; Refused `TERMINAL` or `NOT_MANAGED`.
    """
    task_id = request.arguments["task"]
    with acting_as(await _owner(plane, task_id, caller)):
        await cancel_task(plane, task_id)
    found = await plane.operations.GetTenantTask(pb.GetTenantTaskRequest(task_id=task_id, limit=1))
    return data_reply(_task(found.task), "Successfully canceled task")


async def delete(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Delete a task of the operator's tenant with its log and its words, for its owner, with the operator as the actor.

    Raise NotFound.
    """
    task_id = request.arguments["task"]
    with acting_as(await _owner(plane, task_id, caller)):
        await deletion.delete_task(plane, task_id)
    return empty_reply(204)


async def _owner(plane: Plane, task_id: str, caller: Caller) -> Principal:
    """Return the owner of a task, with the operator as the actor."""
    found = await plane.operations.GetTenantTask(pb.GetTenantTaskRequest(task_id=task_id, limit=1))
    record = found.task.record
    return Principal(record.tenant, record.owner, caller.principal.actor)


def _asked_states(request: Request) -> "tuple[a2a.TaskState.ValueType, ...]":
    name, error = request.query.get("state", ""), request.query.get("error", "")
    if name and name not in _STATES:
        known = ", ".join(_STATES)
        raise invalid({"state": f"must be one of {known}"})
    if error not in ("", "0", "1"):
        raise invalid({"error": "must be 1"})
    if error == "1" and name not in ("", "failed", "rejected"):
        raise invalid({"error": f"cannot be combined with state {name}: only with failed and rejected"})
    return _STATES.get(name, _FAILED if error == "1" else ())


def _state(state: int) -> dict[str, Any]:
    shown = info_state(state)
    marks = {"paused": shown.paused, "rejected": state == a2a.TASK_STATE_REJECTED}
    return {"state": shown.name, **{mark: True for mark, set_ in marks.items() if set_}}


def _executor(found: pb.ExecutorFigures) -> dict[str, Any]:
    return {
        "id": found.process_id,
        "alive": found.alive,
        "agents": list(found.agents),
        "leases": found.leases,
        "running": found.running,
        "lastSeenSeconds": to_seconds(found.last_seen),
        "capacity": found.capacity,
    }


def _task(found: pb.TenantTask) -> dict[str, Any]:
    record = found.record
    document = record.origin == pb.ORIGIN_DOCUMENT
    shown: dict[str, Any] = {
        "taskId": record.id,
        "contextId": record.context_id,
        **({"asked": found.asked} if found.asked else {}),
        "owner": record.owner,
        "agent": record.agent,
        **_state(record.state),
        "createdAt": to_text(record.created_at),
        "updatedAt": to_text(record.updated_at),
        "statusAt": to_text(record.status_at),
    }
    if record.state in TERMINAL:
        shown["completedAt"] = to_text(record.status_at)
    shown |= {
        "generation": record.generation,
        "attempt": record.attempt,
        "maxAttempts": record.max_attempts,
        "fence": record.fence,
    }
    if found.executor:
        shown["executor"] = found.executor
    for name, stamp in (("leaseExpiresAt", "lease_until"), ("queuedAt", "queued_at")):
        if found.HasField(stamp):  # type: ignore[arg-type]
            shown[name] = to_text(getattr(found, stamp))
    if waiting := waiting_of(record):
        shown["waiting"] = waiting
    if found.error:
        shown["error"] = found.error
    if found.error_code:
        shown["errorCode"] = found.error_code
    if found.cause:
        shown["cause"] = found.cause
    shown["copied"] = document or record.message_generation <= record.copied_generation
    if record.superseded:
        shown["superseded"] = True
    if document:
        shown["document"] = True
    return shown


async def _log(plane: Plane, found: pb.GetTenantTaskResponse) -> dict[str, Any]:
    shown: dict[str, Any] = {"events": await plane.worker.run(found.ByteSize(), _events, found)}
    return shown | {"next_after": found.next_after} if found.next_after else shown


def _events(found: pb.GetTenantTaskResponse) -> list[dict[str, Any]]:
    ended, cause = found.task.record.terminal_generation, found.task.cause
    return [
        {**event_json(event, cause if event.generation == ended else ""), "fence": event.fence}
        for event in found.events
    ]


def _backlog(count: int, oldest: float) -> dict[str, Any]:
    return {"count": count, "oldestSeconds": to_seconds(oldest) if count else None}


def _percentiles(found: pb.Percentiles) -> dict[str, float]:
    return {"p50": to_seconds(found.p50), "p95": to_seconds(found.p95)}
