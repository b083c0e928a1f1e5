"""The list of the caller's sessions, with a summary of their tasks."""

from collections.abc import Iterable
from typing import Any

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.kagent import paging
from taskplane.gateway.kagent.envelope import list_reply
from taskplane.gateway.kagent.shapes import session_json
from taskplane.gateway.kagent.states import counts, info_state
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Reply, Request


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the caller's sessions, newest update first, with the states of their tasks.

    `q` selects sessions by a part of their title. One page is returned, of `limit` sessions or else of 1,000, with
    `next_page_token` unless it is the last one, to be sent as `page_token`. Raise Invalid.
    """
    asked = sb.ListSessionsRequest(
        page_size=paging.limit(request, paging.MAX_LIMIT),
        page_token=paging.token(request, "page_token"),
        title=request.query.get("q", ""),
    )
    page = await plane.sessions.ListSessions(asked)
    shown = await _rows(plane, page.sessions)
    reply = list_reply(shown, "Successfully listed sessions", next_page_token=page.next_page_token)
    return if_changed(request, reply)


async def _rows(plane: Plane, sessions: Iterable[sb.Session]) -> list[dict[str, Any]]:
    sessions = list(sessions)
    if not sessions:
        return []
    asked = pb.SummarizeSessionsRequest(context_ids=[session.context_id for session in sessions])
    summaries = (await plane.tasks.SummarizeSessions(asked)).sessions
    return [_row(session, summary) for session, summary in zip(sessions, summaries, strict=True)]


def _row(session: sb.Session, summary: pb.SessionSummary) -> dict[str, Any]:
    last = info_state(summary.last_state) if summary.total else None
    updated_at = session.updated_at
    if (summary.updated_at.seconds, summary.updated_at.nanos) > (updated_at.seconds, updated_at.nanos):
        updated_at = summary.updated_at
    row = session_json(session) | {
        "title": session.title,
        "agent": session.agent,
        "version": session.version,
        "lastState": last.name if last is not None else None,
        "taskCounts": counts(summary.states),
        "taskCount": summary.total,
        "updatedAt": to_text(updated_at),
    }
    if last is not None and last.paused:
        row["paused"] = True
    return row
