"""The export of a session: its entries, its tasks and their events, as of the time when the export began, or its
conversation as a transcript."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, aclosing
from typing import Any, Final, NamedTuple

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.kagent import paging
from taskplane.gateway.plane import Plane
from taskplane.gateway.sessions import transcript
from taskplane.gateway.translate.export_format import FORMAT, MEDIA_TYPE, VERSION, Document, Tally, format_line
from taskplane.gateway.web.http import Headers, Reply, Request, attachment
from taskplane.gateway.web.ndjson import LineStream
from taskplane.gateway.web.piecewise import PieceStream
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.validation import invalid

_ENTRIES: Final = 200
# Lines that are written at once, each of which takes a few tenths of a millisecond.
_LINES: Final = 8


_FORMATS: Final = "must be ndjson, json or markdown"


class _Group(NamedTuple):
    """Messages of one kind that follow one another: entries, a task or events."""

    kind: str
    counted: str
    messages: Sequence[Any]


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the session as a stream of lines, or in the `format` that the query names. Raise NotFound; Invalid.

    A failure after the first line is reported by a line of the type `error`, and the last line is missing then. In the
    other formats it cuts the connection.
    """
    context_id, form = request.arguments["session"], request.query.get("format", "ndjson")
    if form not in ("ndjson", "json", "markdown"):
        raise invalid({"format": _FORMATS})
    # Tasks are listed before the session is read, so the entries contain at least their copies.
    await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    tasks = await _tasks(plane, context_id) if form != "markdown" else ()
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    slot, write_timeout = plane.streams.take(caller.principal), plane.settings.write_timeout
    if form == "ndjson":
        headers = _headers(context_id, MEDIA_TYPE, "ndjson")
        lines = _lines(plane, session, tasks)
        return LineStream(lines, streams=plane.streams, slot=slot, write_timeout=write_timeout, headers=headers)
    held = ExitStack()
    held.callback(slot.release)
    if form == "json":
        pieces, headers = _document(plane, session, tasks), _headers(context_id, "application/json", "json")
    else:
        pieces = transcript.pieces(plane, session)
        headers = _headers(context_id, "text/markdown; charset=utf-8", "md")
    return PieceStream(pieces, held=held, write_timeout=write_timeout, headers=headers)


async def _tasks(plane: Plane, context_id: str) -> Sequence[tuple[str, int]]:
    """Return the ids of the tasks, each with the generation of its last event."""
    asked = pb.ListTaskInfosRequest(context_id=context_id, include_superseded=True, page_size=paging.MAX_LIMIT)
    async with aclosing(paging.pages(plane.tasks.ListTaskInfos, asked)) as pages:
        return [(info.task_id, info.generation) async for page in pages for info in page.infos]


async def _lines(plane: Plane, session: sb.Session, tasks: Sequence[tuple[str, int]]) -> AsyncGenerator[bytes, None]:
    tally = Tally()
    yield tally.add(format_line("header", format=FORMAT, version=VERSION, session=session))

    def written(group: _Group) -> bytes:
        kind = group.kind
        return b"".join([tally.add(format_line(kind, **{kind: one}), group.counted) for one in group.messages])

    try:
        async with aclosing(_groups(plane, session, tasks)) as groups:
            async for group in groups:
                async with plane.pacer.piece():
                    lines = await plane.worker.run(_size(group), written, group)
                yield lines
    except PlaneError as error:
        yield format_line("error", code=error.reason, message=error.message)
        return
    yield format_line("end", **tally.end())


async def _document(plane: Plane, session: sb.Session, tasks: Sequence[tuple[str, int]]) -> AsyncGenerator[bytes, None]:
    document = Document()
    yield document.begin(session)
    async with aclosing(_groups(plane, session, tasks)) as groups:
        async for group in groups:
            async with plane.pacer.piece():
                piece = await plane.worker.run(_size(group), document.add, group.kind, group.messages)
            yield piece
    yield document.end()


async def _groups(plane: Plane, session: sb.Session, tasks: Sequence[tuple[str, int]]) -> AsyncGenerator[_Group, None]:
    """Yield the entries, then each task and its events, a few at a time."""
    # The greatest generation of each task with a message that was copied to the entries.
    copied: dict[str, int] = {}
    async with aclosing(_entries(plane, session)) as pages:
        async for entries in pages:
            for entry in entries:
                if entry.kind == sb.ENTRY_KIND_MESSAGE and entry.task_id:
                    copied[entry.task_id] = max(entry.generation, copied.get(entry.task_id, 0))
            for some in _some(entries):
                yield _Group("entry", "entries", some)
    for task_id, generation in tasks:
        async for response in plane.tasks.ExportTask(pb.ExportTaskRequest(task_id=task_id, generation=generation)):
            if response.HasField("task"):
                task = response.task
                task.copied_generation = min(task.copied_generation, copied.get(task.id, 0))
                yield _Group("task", "tasks", [task])
            else:
                for some in _some(response.events.events):
                    yield _Group("event", "events", some)


async def _entries(plane: Plane, session: sb.Session) -> AsyncGenerator[Sequence[sb.Entry], None]:
    """Yield the entries in pages, up to the session's newest one. Raise NotFound if the session was deleted
    meanwhile."""
    asked = sb.ListEntriesRequest(context_id=session.context_id, page_size=_ENTRIES)
    left = session.entry_count
    while left:
        page = await plane.sessions.ListEntries(asked)
        entries = page.entries[:left]
        if page.session.created_at != session.created_at or not entries:
            raise NotFound(f"session {session.context_id} was deleted during the export", reason="SESSION_NOT_FOUND")
        left -= len(entries)
        yield entries
        asked.page_token = page.next_page_token


def _some(messages: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (messages[first : first + _LINES] for first in range(0, len(messages), _LINES))


def _size(group: _Group) -> int:
    return sum(one.ByteSize() for one in group.messages)


def _headers(context_id: str, media_type: str, ending: str) -> Headers:
    return [
        (b"content-type", media_type.encode()),
        attachment(f"{context_id[:80]}.{ending}"),
        (b"cache-control", b"no-store"),
    ]
