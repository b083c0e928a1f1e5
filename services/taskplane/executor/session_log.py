"""The session log as the executor needs it: append entries, read the entries in effect, look one entry up."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.executor.effective_history import EffectiveHistory, HistoryCache
from taskplane.runtime.errors import NotFound, PlaneError

log = logging.getLogger(__name__)

# Requests are limited to 4 MiB.
MAX_CALL_BYTES: Final = 3_500_000
MAX_CALL_ENTRIES: Final = 1000


class SessionLog:
    """The executor's client of the session history. It acts as the principal of the current context.

    Methods raise the errors of the service. NotFound: the caller has no such session.
    """

    def __init__(self, service: SessionHistoryStub, cache_bytes: int = 0) -> None:
        """`cache_bytes`: maximum size of the cache of conversations. A read of a cached conversation requests only its
        changes."""
        self._service = service
        self._cache = HistoryCache(cache_bytes)

    async def append(
        self,
        context_id: str,
        entries: Sequence[pb.Entry],
        create: pb.NewSession | None = None,
        expected_version: int = 0,
        own_message_id: str = "",
        openings: Sequence[str] = (),
        own_answer_id: str = "",
    ) -> pb.AppendEntriesResponse:
        """Append all entries or none, in one call; a repeat changes nothing.

        `own_message_id`: the replacement for the message id of the first entry. It is used if the session has a message
        with that id. `own_answer_id`: the same for the direct answer in the last entry. `openings`: beginnings of the
        user messages of a deleted task. The void of the task replaces a title that was made from one of them. Conflict:
        the version of the session is not `expected_version` (0: any).
        """
        return await self._service.AppendEntries(
            pb.AppendEntriesRequest(
                context_id=context_id,
                entries=entries,
                create=create,
                expected_version=expected_version,
                own_message_id=own_message_id,
                openings=openings,
                own_answer_id=own_answer_id,
            )
        )

    async def append_many(
        self, context_id: str, entries: Sequence[pb.Entry], create: pb.NewSession | None = None
    ) -> pb.AppendEntriesResponse:
        """Append any number of entries in order, in as few calls as their size allows; return the last answer."""
        if len(entries) == 1:
            return await self.append(context_id, entries, create)
        batch: list[pb.Entry] = []
        size = 0
        for entry in entries:
            weight = entry.ByteSize() + 16
            if batch and (size + weight > MAX_CALL_BYTES or len(batch) == MAX_CALL_ENTRIES):
                await self.append(context_id, batch, create)
                batch, size = [], 0
            batch.append(entry)
            size += weight
        return await self.append(context_id, batch, create)

    async def touch(self, context_id: str) -> None:
        """Set the time of the session's last change to now, after a change of its tasks. Lists are sorted by this time.
        A missing session is ignored. Other errors are logged, not raised."""
        try:
            await self._service.TouchSession(pb.TouchSessionRequest(context_id=context_id))
        except NotFound:
            return
        except PlaneError as error:
            log.warning("the time of the last change of session %s is out of date in lists: %s", context_id, error)

    async def effective_history(self, context_id: str) -> EffectiveHistory:
        """Return the entries in effect. NotFound."""
        known = self._cache.get(context_id)
        request = pb.ListEntriesRequest(context_id=context_id, effective=True, known=known.listing)
        async with aclosing(self._pages(request)) as pages:
            try:
                first = await anext(pages)
            except NotFound:
                self._cache.drop(context_id)
                raise
            entries = list(first.entries)
            async for page in pages:
                entries.extend(page.entries)
        listed = known.followed_by(first.unchanged, entries, first.listing)
        self._cache.keep(context_id, listed)
        return EffectiveHistory(listed.entries, first.session)

    async def runtime_events(self, context_id: str) -> Sequence[pb.Entry]:
        """Return the events of agent runtimes that are in effect, oldest first. NotFound."""
        request = pb.ListEntriesRequest(context_id=context_id, effective=True, kinds=[pb.ENTRY_KIND_EVENT])
        async with aclosing(self._entries(request)) as entries:
            return [entry async for entry in entries]

    async def state(self, context_id: str) -> Struct:
        """Return the state of the session, computed from the events in effect, with the state of user and agent.
        NotFound."""
        return (await self._service.GetState(pb.GetStateRequest(context_id=context_id))).state

    async def outcome(self, context_id: str, invocation_id: str) -> pb.Entry | None:
        """Return the outcome entry of a turn, or None."""
        request = pb.ListEntriesRequest(context_id=context_id, kinds=[pb.ENTRY_KIND_OUTCOME], newest_first=True)
        async with aclosing(self._entries(request)) as entries:
            async for entry in entries:
                if entry.id == outcome_id(invocation_id):
                    return entry
        return None

    async def rewinds(self, context_id: str) -> Sequence[str]:
        """Return the ids of all rewinds of a session. The id of a rewind is its invocation id. NotFound."""
        request = pb.ListEntriesRequest(context_id=context_id, kinds=[pb.ENTRY_KIND_REWIND])
        async with aclosing(self._entries(request)) as entries:
            return [entry.id async for entry in entries]

    async def is_deleted(self, context_id: str, invocation_id: str) -> bool:
        """Return whether a turn belongs to a deleted task. NotFound."""
        cut = await self._service.ListCut(pb.ListCutRequest(context_id=context_id))
        return invocation_id in cut.deleted_invocation_ids

    async def is_void(self, context_id: str, invocation_id: str) -> bool:
        """Return whether the turn is void now: its newest void entry was not taken back."""
        request = pb.ListEntriesRequest(context_id=context_id, kinds=[pb.ENTRY_KIND_VOID], newest_first=True)
        async with aclosing(self._entries(request)) as entries:
            async for entry in entries:
                if entry.target == invocation_id or invocation_id in entry.deleted.invocation_ids:
                    return not entry.off
        return False

    async def unsettled(self, min_age: float) -> pb.ListUnsettledResponse:
        """Return turns of all owners without a known result, begun at least `min_age` seconds ago."""
        return await self._service.ListUnsettled(pb.ListUnsettledRequest(min_age=min_age))

    async def mark_settled(self, until: Timestamp) -> None:
        """Record that all turns up to `until` are checked."""
        await self._service.MarkSettled(pb.MarkSettledRequest(until=until))

    async def expired(self, min_age: float, after: pb.ExpiredSession | None) -> Sequence[pb.ExpiredSession]:
        """Return sessions of all owners without a change for `min_age` seconds.

        The sequence is empty if there are no more sessions after `after`.
        """
        return (await self._service.ListExpired(pb.ListExpiredRequest(min_age=min_age, after=after))).sessions

    async def some(self) -> Sequence[pb.Session]:
        """Return the caller's sessions that were changed last; empty if the caller has no session."""
        return (await self._service.ListSessions(pb.ListSessionsRequest())).sessions

    async def delete_state(self) -> int:
        """Delete the state of the caller's owner for all agents. Return the number of deleted keys."""
        return (await self._service.DeleteUserState(pb.DeleteUserStateRequest())).deleted

    async def drop_imports(self) -> None:
        """Drop staged imports of the caller's owner."""
        await self._service.DropImport(pb.DropImportRequest())

    async def delete(self, context_id: str, expected_version: int = 0, tasks_until: Timestamp | None = None) -> None:
        """Delete the session with its entries. NotFound. Conflict: the version of the session is not `expected_version`
        (0: any).

        `tasks_until`: `remains` lists the session until its tasks with a last change up to this time are deleted.
        """
        await self._service.DeleteSession(
            pb.DeleteSessionRequest(context_id=context_id, expected_version=expected_version, tasks_until=tasks_until)
        )

    async def remains(self) -> Sequence[pb.Remains]:
        """Return some deleted sessions of all owners that still have tasks; empty if there are no more."""
        return (await self._service.ListRemains(pb.ListRemainsRequest())).remains

    async def drop_remains(self, context_id: str, tasks_until: Timestamp) -> None:
        """Record that the tasks of a deleted session up to `tasks_until` are deleted."""
        await self._service.DropRemains(pb.DropRemainsRequest(context_id=context_id, tasks_until=tasks_until))

    async def session(self, context_id: str) -> pb.Session:
        """Return the session. NotFound."""
        return (await self._service.GetSession(pb.GetSessionRequest(context_id=context_id))).session

    async def first_said(self, context_id: str, message_id: str) -> tuple[pb.Session, pb.Entry | None]:
        """Return the session, and its first entry with the message id `message_id`. The entry need not be in effect.
        NotFound."""
        request = pb.ListEntriesRequest(context_id=context_id, message_id=message_id, page_size=1)
        page = await self._service.ListEntries(request)
        return page.session, page.entries[0] if page.entries else None

    async def exists(self, context_id: str) -> bool:
        """Return whether the caller has such a session."""
        try:
            await self.session(context_id)
        except NotFound:
            return False
        return True

    async def _entries(self, request: pb.ListEntriesRequest) -> AsyncGenerator[pb.Entry]:
        async with aclosing(self._pages(request)) as pages:
            async for page in pages:
                for entry in page.entries:
                    yield entry

    async def _pages(self, request: pb.ListEntriesRequest) -> AsyncGenerator[pb.ListEntriesResponse]:
        while True:
            page = await self._service.ListEntries(request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def outcome_id(invocation_id: str) -> str:
    """Return the id of the outcome entry of a turn."""
    return f"{invocation_id}-outcome"
