"""Conversion of task infos, summaries and figures of sessions from the domain to protobuf."""

from collections.abc import Mapping
from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.times import set_time
from taskplane.tasks.domain.figures import Figures, Summary
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import DOCUMENT
from taskplane.tasks.pages import MAX_INFOS, InfoFilter, MessageFilter

# Characters of an error text; a list shows its beginning.
MAX_ERROR: Final = 8192
MAX_CODE: Final = 200
# Messages on a page if the request names no size.
MESSAGES: Final = 100


def info_filter(request: pb.ListTaskInfosRequest) -> InfoFilter:
    """Return the filter of a ListTaskInfos request."""
    return InfoFilter(
        context_id=request.context_id,
        superseded=request.include_superseded,
        latest_incomplete=request.latest_incomplete,
        newest_first=request.newest_first,
        page_size=request.page_size or MAX_INFOS,
        page_token=request.page_token,
    )


def message_filter(request: pb.ListMessagesRequest) -> MessageFilter:
    """Return the filter of a ListMessages request."""
    return MessageFilter(
        context_id=request.context_id,
        page_size=request.page_size or MESSAGES,
        before=request.before,
        shown=request.shown,
        ends=request.ends,
        documents_only=request.documents_only,
    )


def fill_info(message: pb.TaskInfo, info: Info) -> None:
    """Fill an empty message with a task info."""
    task = info.task
    message.task_id = task.id
    message.context_id = task.context_id
    message.origin = pb.ORIGIN_DOCUMENT if task.origin == DOCUMENT else pb.ORIGIN_MANAGED
    message.agent = task.agent
    if task.invocation_id is not None:
        message.invocation_id = task.invocation_id
    message.state = task.state  # type: ignore[assignment]
    set_time(message.created_at, task.created_at)
    set_time(message.updated_at, task.updated_at)
    if info.completed_at is not None:
        set_time(message.completed_at, info.completed_at)
    message.error = info.failure.text[:MAX_ERROR]
    message.error_code = info.failure.code[:MAX_CODE]
    for state, at, generation in info.changes:
        change = message.changes.add()
        change.state = state  # type: ignore[assignment]
        change.generation = generation
        set_time(change.at, at)
    message.superseded = task.superseded
    message.generation = task.generation


def info(shown: Info) -> pb.TaskInfo:
    """Convert a task info."""
    message = pb.TaskInfo()
    fill_info(message, shown)
    return message


def summary(found: Summary) -> pb.SessionSummary:
    """Convert the summary of one session."""
    message = pb.SessionSummary(
        context_id=found.context_id, total=sum(found.states.values()), states=_counts(found.states)
    )
    if found.states:
        message.last_state = found.last_state  # type: ignore[assignment]
        set_time(message.updated_at, found.updated_at)
    return message


def figures(found: Figures) -> pb.GetSessionFiguresResponse:
    """Convert the figures of one session."""
    message = pb.GetSessionFiguresResponse(total=found.total, states=_counts(found.states), error_rate=found.error_rate)
    if found.durations is not None:
        least, median, p95, most = found.durations
        message.durations.CopyFrom(pb.Durations(min=least, median=median, p95=p95, max=most))
    for state, seconds in sorted(found.times.items()):
        message.times.add(state=state, seconds=seconds)
    return message


def _counts(states: Mapping[int, int]) -> list[pb.StateCount]:
    return [pb.StateCount(state=state, count=count) for state, count in sorted(states.items())]  # type: ignore[arg-type]
