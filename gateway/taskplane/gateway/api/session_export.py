"""The export of a session: its entries, its tasks and their events, as of the time when the export began."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api import paging
from taskplane.gateway.api.export_format import FORMAT, MEDIA_TYPE, VERSION, Tally, format_line
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Headers, Reply, Request, attachment
from taskplane.gateway.ndjson import LineStream
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound, PlaneError

_ENTRIES: Final = 200
# Lines that are written at once, each of which takes a few tenths of a millisecond.
_LINES: Final = 8


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the session as a stream of lines. Raise NotFound. A failure after the first line is reported by a line of
    the type `error`, and the last line is missing then."""
    context_id = request.arguments["session"]
    # Tasks are listed before the session is read, so the entries contain at least their copies.
    await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    tasks = await _tasks(plane, context_id)
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    return LineStream(
        _lines(plane, session, tasks),
        streams=plane.streams,
        slot=plane.streams.take(caller.principal),
        write_timeout=plane.settings.write_timeout,
        headers=_headers(context_id),
    )


async def _tasks(plane: Plane, context_id: str) -> Sequence[tuple[str, int]]:
    """Return the ids of the tasks, each with the generation of its last event."""
    asked = pb.ListTaskInfosRequest(context_id=context_id, include_superseded=True, page_size=paging.MAX_LIMIT)
    async with aclosing(paging.pages(plane.tasks.ListTaskInfos, asked)) as pages:
        return [(info.task_id, info.generation) async for page in pages for info in page.infos]


async def _lines(plane: Plane, session: sb.Session, tasks: Sequence[tuple[str, int]]) -> AsyncGenerator[bytes, None]:
    tally = Tally()
    # The greatest generation of each task whose message was copied to the entries.
    copied: dict[str, int] = {}
    yield tally.add(format_line("header", format=FORMAT, version=VERSION, session=session))
    try:
        async for entries in _entries(plane, session):
            for entry in entries:
                if entry.kind == sb.ENTRY_KIND_MESSAGE and entry.task_id:
                    copied[entry.task_id] = max(entry.generation, copied.get(entry.task_id, 0))
            async for lines in _written(plane, tally, "entries", "entry", entries):
                yield lines
        for task_id, generation in tasks:
            async for response in plane.tasks.ExportTask(pb.ExportTaskRequest(task_id=task_id, generation=generation)):
                if response.HasField("task"):
                    task = response.task
                    task.copied_generation = min(task.copied_generation, copied.get(task.id, 0))
                    written = _written(plane, tally, "tasks", "task", [task])
                else:
                    written = _written(plane, tally, "events", "event", response.events.events)
                async for lines in written:
                    yield lines
    except PlaneError as error:
        yield format_line("error", code=error.reason, message=error.message)
        return
    yield format_line("end", **tally.end())


async def _entries(plane: Plane, session: sb.Session) -> AsyncGenerator[Sequence[sb.Entry], None]:
    """Yield the entries in pages, up to the session's newest one. Raise NotFound if the session was deleted
    meanwhile."""
    asked = sb.ListEntriesRequest(context_id=session.context_id, page_size=_ENTRIES)
    left = session.entry_count
    while left:
        page = await plane.sessions.ListEntries(asked)
        entries = page.entries[:left]
        if page.session.created_at != session.created_at or not entries:
            raise NotFound(f"session {session.context_id} was deleted meanwhile", reason="SESSION_NOT_FOUND")
        left -= len(entries)
        yield entries
        asked.page_token = page.next_page_token


async def _written(
    plane: Plane, tally: Tally, counted: str, kind: str, messages: Sequence[Any]
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of the messages, a few at a time."""
    for first in range(0, len(messages), _LINES):
        some = messages[first : first + _LINES]
        size = sum(one.ByteSize() for one in some)
        async with plane.pacer.piece():
            lines = await plane.worker.run(size, _format, tally, counted, kind, some)
        yield lines


def _format(tally: Tally, counted: str, kind: str, messages: Sequence[Any]) -> bytes:
    return b"".join([tally.add(format_line(kind, **{kind: one}), counted) for one in messages])


def _headers(context_id: str) -> Headers:
    return [
        (b"content-type", MEDIA_TYPE.encode()),
        attachment(f"{context_id[:80]}.ndjson"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
