"""Staging of an import in the two stores, invisible until it is complete."""

import logging
import secrets
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from google.protobuf.message import Message

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import DeadlineExceeded, Internal, NotFound, PlaneError, Unavailable

_log = logging.getLogger(__name__)
_PAGE: Final = 2 * 1024 * 1024
_SIZE: Final = struct.Struct("!I")
_UNKNOWN: Final = (Unavailable, DeadlineExceeded, Internal)


class PageBuffer:
    """A buffer of at most one page of records that are sent to one store."""

    def __init__(self, stage: Callable[[int, bytes], Awaitable[object]]) -> None:
        self._stage = stage
        self._waiting = bytearray()
        self.count = 0

    async def put(self, record: Message) -> None:
        """Add one record, and send the pages that are full."""
        content = record.SerializeToString()
        self._waiting += _SIZE.pack(len(content)) + content
        while len(self._waiting) >= _PAGE:
            await self._send(_PAGE)

    async def flush(self) -> None:
        """Send the rest."""
        if self._waiting:
            await self._send(len(self._waiting))

    async def _send(self, size: int) -> None:
        self.count += 1
        await self._stage(self.count, bytes(self._waiting[:size]))
        del self._waiting[:size]


class ImportAttempt:
    """One attempt to import a session under an id.

    The first page of the session excludes other attempts for the same id, and is refused if the session exists. The
    tasks become visible first and the session last, so a visible session is complete. The tasks of an attempt that
    failed between the two are deleted by this attempt, by the next one or by a sweep.
    """

    def __init__(self, plane: Plane, context_id: str) -> None:
        self._plane = plane
        self._names = {"context_id": context_id, "import_id": secrets.token_hex(16)}
        self.session = PageBuffer(self._stage_session)
        self.tasks = PageBuffer(self._stage_tasks)

    async def begin(self, session: sb.ImportRecord) -> None:
        """Reserve the id with the session's record. Raise AlreadyExists `SESSION_EXISTS`."""
        await self.session.put(session)
        await self.session.flush()
        await self._plane.tasks.DropImport(pb.DropImportRequest(context_id=self._names["context_id"]))

    async def commit(self) -> sb.Session:
        """Make the session visible and return it. Raise AlreadyExists, Conflict or Invalid; nothing is visible then."""
        timeout = self._plane.settings.import_timeout
        await self.session.flush()
        await self.tasks.flush()
        await self._plane.tasks.CommitImport(
            pb.CommitImportRequest(**self._names, pages=self.tasks.count), timeout=timeout
        )
        asked = sb.CommitImportRequest(**self._names, pages=self.session.count)
        made = await self._plane.sessions.CommitImport(asked, timeout=timeout)
        await self._finish()
        return made.session

    async def abort(self, error: BaseException) -> None:
        """Delete the staged pages in the stores that can be reached."""
        with suppress(PlaneError):
            await self._plane.sessions.DropImport(sb.DropImportRequest(**self._names))
            if isinstance(error, _UNKNOWN) or not isinstance(error, PlaneError):
                # The outcome of the commit is unknown; after DropImport it can no longer succeed.
                with suppress(NotFound):
                    await self._plane.sessions.GetSession(sb.GetSessionRequest(context_id=self._names["context_id"]))
                    return
            await self._plane.tasks.DropImport(pb.DropImportRequest(**self._names))

    async def _finish(self) -> None:
        try:
            await self._plane.tasks.FinishImport(pb.FinishImportRequest(**self._names))
        except PlaneError as error:
            _log.warning("the import of session %s is left to a sweep: %s", self._names["context_id"], error)

    async def _stage_session(self, number: int, data: bytes) -> None:
        await self._plane.sessions.StageImport(sb.StageImportRequest(**self._names, number=number, data=data))

    async def _stage_tasks(self, number: int, data: bytes) -> None:
        await self._plane.tasks.StageImport(pb.StageImportRequest(**self._names, number=number, data=data))
