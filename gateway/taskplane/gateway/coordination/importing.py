"""Imports an exported session into both stores. The session becomes visible after the check of its last line."""

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NamedTuple

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination.import_ids import IdMapping
from taskplane.gateway.coordination.import_staging import ImportAttempt
from taskplane.gateway.json_body import BYTE_ORDER_MARK
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.export_format import FORMAT, VERSION, Tally, line_error, parse_line, parse_message
from taskplane.runtime.errors import AlreadyExists, NotFound

_log = logging.getLogger(__name__)
_END: Final = "end"

Lines = AsyncGenerator[tuple[int, bytes], None]
"""Pairs of line number (from 1) and line. A line includes its line feed."""


class Imported(NamedTuple):
    """The session that an import made, and the number of its entries, tasks and events."""

    session: sb.Session
    counts: Mapping[str, int]


async def import_session(plane: Plane, lines: Lines, new_id: str) -> Imported:
    """Create the session of an export with the id `new_id`, by default with the id in the export.

    Raise AlreadyExists for a used id of the session, a task or an entry. Raise Invalid with the number of the wrong
    line in `metadata["line"]`. Raise Exhausted `TOO_MANY_IMPORTS`. After these errors no session of the import is
    visible. Leftover data is deleted, at the latest by a sweep.
    """
    number, text = await _first(lines)
    tally = Tally()
    session = _header(number, text)
    tally.add(text)
    mapping = _renamed(session, new_id)
    await _check_free(plane, session.context_id)
    # Take a slot only after a valid first line has arrived.
    with plane.uploads.import_slot():
        staged = ImportAttempt(plane, session.context_id)
        try:
            await staged.begin(sb.ImportRecord(line=number, session=session))
            await _Body(plane, staged, tally, session, mapping).read(lines)
            made = await staged.commit()
        except BaseException as error:
            await staged.abort(error)
            raise
    _log.info("imported session %s", made.context_id)
    return Imported(made, tally.counts)


class _Body:
    """The reader of the lines after the header."""

    def __init__(
        self, plane: Plane, staged: ImportAttempt, tally: Tally, session: sb.Session, mapping: IdMapping | None
    ) -> None:
        self._plane = plane
        self._staged = staged
        self._tally = tally
        self._session = session
        self._mapping = mapping
        # `_expected`: generation of the current task. `_trimmed`: its trimmed generation. `_came`: generation of its
        # newest read event.
        self._expected = 0
        self._trimmed = 0
        self._came = 0

    async def read(self, lines: Lines) -> None:
        """Stage all lines. Raise Invalid if one is wrong or the last one is missing."""
        ended = False
        number = 1
        async for number, text in lines:
            if ended:
                raise line_error(number, "follows the end of the export", "IMPORT_ORDER")
            value = await self._plane.worker.run(len(text), parse_line, number, text)
            kind = value.get("type")
            if kind == _END:
                self._check_end(number, value, text)
                ended = True
            elif kind == "entry":
                await self._entry(number, value, text)
            elif kind == "task":
                await self._task(number, value, text)
            elif kind == "event":
                await self._event(number, value, text)
            else:
                raise line_error(number, "has an unknown type, or one that is not allowed in this place", "BAD_LINE")
        if not ended:
            raise line_error(number + 1, "is missing: the file is truncated", "IMPORT_CUT")

    async def _entry(self, number: int, value: dict[str, Any], text: bytes) -> None:
        entry = await self._plane.worker.run(len(text), parse_message, number, value.get("entry"), sb.Entry)
        expected = self._tally.counts["entries"] + 1
        if self._tally.counts["tasks"] or entry.seq != expected or expected > self._session.entry_count:
            raise line_error(number, f"is entry {entry.seq}; entry {expected} was expected", "IMPORT_ORDER")
        if self._mapping is not None:
            self._mapping.entry(entry)
        self._tally.add(text, "entries")
        await self._staged.session.put(sb.ImportRecord(line=number, entry=entry))

    async def _task(self, number: int, value: dict[str, Any], text: bytes) -> None:
        self._check_whole(number)
        task = await self._plane.worker.run(len(text), parse_message, number, value.get("task"), pb.ExportedTask)
        if self._mapping is not None:
            self._mapping.task(task)
        self._expected, self._trimmed, self._came = task.generation, task.trimmed_generation, 0
        self._tally.add(text, "tasks")
        await self._staged.tasks.put(pb.ImportRecord(line=number, task=task))

    async def _event(self, number: int, value: dict[str, Any], text: bytes) -> None:
        event = await self._plane.worker.run(len(text), parse_message, number, value.get("event"), pb.ExportedEvent)
        came, before = event.event.generation, self._came
        # A trimmed log keeps its first event and some others.
        left = 1 <= before < came <= self._trimmed
        following = came == max(before, self._trimmed if before else 0) + 1
        if not (left or following) or came > self._expected:
            raise line_error(number, f"is event {came}, out of order", "IMPORT_ORDER")
        self._came = came
        if self._mapping is not None:
            self._mapping.event(event.event)
        self._tally.add(text, "events")
        await self._staged.tasks.put(pb.ImportRecord(line=number, event=event))

    def _check_whole(self, number: int) -> None:
        if self._tally.counts["entries"] != self._session.entry_count or self._came != self._expected:
            raise line_error(number, "comes too early: lines before it are missing", "IMPORT_ORDER")

    def _check_end(self, number: int, value: dict[str, Any], text: bytes) -> None:
        self._check_whole(number)
        if value != {"type": _END, **self._tally.end()} or not text.endswith(b"\n"):
            raise line_error(
                number, "does not match the lines before it: the file was changed or damaged", "CHECKSUM_MISMATCH"
            )


async def _first(lines: Lines) -> tuple[int, bytes]:
    async for number, text in lines:
        return number, text.removeprefix(BYTE_ORDER_MARK)
    raise line_error(1, "is missing: the file is empty", "IMPORT_CUT")


def _header(number: int, text: bytes) -> sb.Session:
    value = parse_line(number, text)
    if value.get("type") != "header" or value.get("format") != FORMAT:
        raise line_error(number, "is not the header of an exported session", "BAD_LINE")
    if value.get("version") != VERSION:
        raise line_error(number, f"is of version {value.get('version')!s:.20}, not {VERSION}", "UNKNOWN_VERSION")
    session = parse_message(number, value.get("session"), sb.Session)
    if not session.context_id:
        raise line_error(number, "has no session id", "BAD_LINE")
    return session


def _renamed(session: sb.Session, new: str) -> IdMapping | None:
    old = session.context_id
    if new in ("", old):
        return None
    session.context_id = new
    return IdMapping(old, new)


async def _check_free(plane: Plane, context_id: str) -> None:
    try:
        await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))
    except NotFound:
        return
    raise AlreadyExists(
        f"session {context_id} exists already", reason="SESSION_EXISTS", suggestion="choose another id with ?id="
    )
