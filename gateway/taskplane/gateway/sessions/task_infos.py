"""Task infos, the tasks of a session as a list of turns, and statistics about them."""

from contextlib import aclosing
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.kagent import paging
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.kagent.session_tasks import wants_superseded
from taskplane.gateway.kagent.states import counts, info_state
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.timestamps import to_seconds, to_text
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Reply, Request
from taskplane.runtime.validation import invalid

_PAGE: Final = 100
_LISTED: Final = "Successfully listed task infos"


async def list_all(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the task infos of a session, oldest first.

    With `limit` one page is returned, the newest first, with `next_page_token` unless it contains the oldest task; sent
    as `page_token` it returns the page before. `latest=incomplete` returns the newest task that has not ended,
    `latest=any` the newest one, null if there is none. `include=superseded` includes tasks hidden by a rewind. Raise
    NotFound or Invalid.
    """
    context_id = request.arguments["session"]
    superseded = wants_superseded(request)
    latest = request.query.get("latest", "")
    if latest not in ("", "incomplete", "any"):
        raise invalid({"latest": "must be incomplete or any"})
    await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    asked = pb.ListTaskInfosRequest(context_id=context_id, include_superseded=superseded)
    if latest:
        asked.latest_incomplete, asked.newest_first, asked.page_size = latest == "incomplete", True, 1
        page = await plane.tasks.ListTaskInfos(asked)
        newest = task_info(page.infos[0]) if page.infos else None
        return if_changed(request, data_reply(newest, _LISTED))
    if not request.query.keys().isdisjoint(("limit", "page_token")):
        asked.newest_first = True
        asked.page_size = paging.limit(request, _PAGE)
        asked.page_token = paging.token(request, "page_token")
        page = await plane.tasks.ListTaskInfos(asked)
        shown = [task_info(info) for info in reversed(page.infos)]
        return if_changed(request, data_reply(shown, _LISTED, next_page_token=page.next_page_token))
    asked.page_size = paging.MAX_LIMIT
    async with aclosing(paging.pages(plane.tasks.ListTaskInfos, asked)) as pages:
        infos = [task_info(info) async for page in pages for info in page.infos]
    return if_changed(request, data_reply(infos, _LISTED))


async def stats(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return statistics of a session's tasks, without those hidden by a rewind: tasks by state, the share that failed,
    durations, and the time spent in each state. Raise NotFound."""
    context_id = request.arguments["session"]
    await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    figures = await plane.tasks.GetSessionFigures(pb.GetSessionFiguresRequest(context_id=context_id))
    times: dict[str, float] = {}
    for one in figures.times:
        state = info_state(one.state)
        name = "paused" if state.paused else state.name
        times[name] = times.get(name, 0.0) + one.seconds
    durations = figures.durations
    data = {
        "total": figures.total,
        "byState": counts(figures.states),
        "errorRate": figures.error_rate,
        "durationSeconds": {
            "min": to_seconds(durations.min),
            "median": to_seconds(durations.median),
            "p95": to_seconds(durations.p95),
            "max": to_seconds(durations.max),
        }
        if figures.HasField("durations")
        else None,
        "timeInStateSeconds": {name: to_seconds(seconds) for name, seconds in times.items()},
    }
    return data_reply(data, "Successfully computed session figures")


def task_info(info: pb.TaskInfo) -> dict[str, Any]:
    """Return the JSON of a task info."""
    shown: dict[str, Any] = {"taskId": info.task_id} | _state(info.state)
    shown |= {"createdAt": to_text(info.created_at), "updatedAt": to_text(info.updated_at)}
    if info.HasField("completed_at"):
        shown["completedAt"] = to_text(info.completed_at)
    if info.error:
        shown["error"] = info.error
    if info.error_code:
        shown["errorCode"] = info.error_code
    if info.superseded:
        shown["superseded"] = True
    shown["agent"] = info.agent
    shown["changes"] = [_change(change) for change in info.changes]
    return shown


def _change(change: pb.StateChange) -> dict[str, Any]:
    return _state(change.state) | {"at": to_text(change.at)}


def _state(state: int) -> dict[str, Any]:
    shown = info_state(state)
    flags = {"paused": shown.paused, "rejected": state == a2a.TASK_STATE_REJECTED}
    return {"state": shown.name} | {name: True for name, holds in flags.items() if holds}
