"""The routes under `/api/sessions`: the list, one session with its tasks, rewinds, forks, and what becomes of it."""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import orjson

from taskplane.cli.client.failures import Missing, Unreachable, failure_of_http
from taskplane.cli.client.http import Http
from taskplane.cli.client.retry import GIVE_UP_AFTER, ReconnectPolicy

_PAGE: Final = 1_000
# Seconds that a server may take to store what it was sent.
_IMPORT: Final = 600.0


@dataclass(frozen=True, slots=True)
class Watched:
    """Something became of a session. `name`: snapshot, task-received, task-state-changed, entry-added or rewound."""

    name: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rejoined:
    """The stream broke, and goes on with a new snapshot."""


class SessionsClient:
    """The sessions of one server. Use it inside `async with` of its `Http`."""

    def __init__(self, http: Http, *, give_up_after: float = GIVE_UP_AFTER) -> None:
        """`give_up_after`: seconds without any event after which a broken stream raises `Unreachable`."""
        self._http = http
        self._give_up_after = give_up_after

    async def find(self, search: str = "", limit: int | None = None) -> list[dict[str, Any]]:
        """The caller's sessions, newest update first, at most `limit`; with `search` in their titles, in any case."""
        found: list[dict[str, Any]] = []
        token = ""
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            query = {"limit": str(wanted), "q": search, "page_token": token}
            path = "/api/sessions?" + urlencode({name: value for name, value in query.items() if value})
            page = cast("dict[str, Any]", await self._http.json("GET", path))
            found += page.get("data") or []
            token = str(page.get("next_page_token") or "")
            if not token:
                break
        return found

    async def get(self, session_id: str) -> dict[str, Any]:
        """One session: `{session, events}`. `Missing`: there is none."""
        found: dict[str, Any] = await self._data("GET", _path(session_id))
        return found

    async def tasks(self, session_id: str) -> list[dict[str, Any]]:
        """The tasks of a session, oldest first, the session itself before them where it has a history of its own.
        `Missing`: no such session."""
        return await self._data("GET", _path(session_id, "/tasks")) or []

    async def task_infos(self, session_id: str, *, superseded: bool = False) -> list[dict[str, Any]]:
        """The tasks of a session as its list of turns shows them, oldest first. `Missing`."""
        query = "?include=superseded" if superseded else ""
        return await self._data("GET", _path(session_id, "/task-infos") + query) or []

    async def history(self, session_id: str) -> dict[str, Any]:
        """What is in effect: `{version, messages}`. `Missing`."""
        found: dict[str, Any] = await self._data("GET", _path(session_id, "/effective_history"))
        return found

    async def rename(self, session_id: str, title: str) -> dict[str, Any]:
        """Gives it another title. `Missing`."""
        found: dict[str, Any] = await self._data("PATCH", _path(session_id), {"name": title})
        return found

    async def delete(self, session_id: str) -> None:
        """Deletes it with its tasks. `Missing`."""
        await self._http.json("DELETE", _path(session_id))

    async def rewind(self, session_id: str, before: str) -> dict[str, Any]:
        """Undoes a turn and all after it: `{session, version, messages}`. It has one effect however often it is sent.

        `Missing`: no such session, or no such turn in effect. `Declined` `REWIND_IN_FLIGHT`, `VERSION_MISMATCH`:
        somebody else was faster. Nothing was changed then.
        """
        return await self._once(_path(session_id, "/rewind"), {"before": before})

    async def undo_rewind(self, session_id: str) -> dict[str, Any]:
        """Takes the newest rewind back: `{session, version, messages}`. It has one effect however often it is sent.

        `Declined` `NOTHING_TO_UNDO`, `TOO_LATE_TO_UNDO`, `REWIND_IN_FLIGHT`; `Missing`.
        """
        return await self._once(_path(session_id, "/undo_rewind"), {})

    async def fork(self, session_id: str, *, before: str = "", title: str = "") -> dict[str, Any]:
        """A new session with what is in effect, or what was before a turn. `Missing`."""
        body = {"id": secrets.token_hex(16), "before": before, "name": title}
        return await self._once(_path(session_id, "/fork"), {name: value for name, value in body.items() if value})

    def export(self, session_id: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """All of a session, as a file of lines that `import_file` takes. `Missing`."""
        return self._http.download(_path(session_id, "/export"))

    async def import_file(self, content: AsyncIterator[bytes], new_id: str = "") -> dict[str, Any]:
        """Makes the session of an exported file: `{session, entries, tasks, events}`, under its own id or a new one.

        `Declined`: the file is not whole, or what it has is there already; nothing was changed then.
        """
        query = "?" + urlencode({"id": new_id}) if new_id else ""
        path = f"/api/sessions/import{query}"
        answer: Any = await self._http.upload(path, content, "application/x-ndjson", timeout=_IMPORT)
        found: dict[str, Any] = answer["data"]
        return found

    async def watch(self, session_id: str) -> AsyncGenerator[Watched | Rejoined]:
        """What becomes of a session, a snapshot first, until it is deleted. A stream that breaks is taken up again by
        itself, with a new snapshot. `Missing`: there is no such session."""
        reconnect = ReconnectPolicy(self._give_up_after)
        seen = False
        while True:
            try:
                async with aclosing(self._watched(_path(session_id, "/watch"))) as stream:
                    rejoins = seen
                    async for watched in stream:
                        reconnect.reset()
                        if rejoins:
                            rejoins = False
                            yield Rejoined()
                        seen = True
                        yield watched
                await reconnect.wait(Unreachable("The server closed the stream.", code="STREAM_CLOSED"))
            except Missing:
                if not seen:
                    raise
                return
            except Unreachable as error:
                await reconnect.wait(error)

    async def _watched(self, path: str) -> AsyncGenerator[Watched]:
        async with self._http.stream("GET", path) as stream:
            async for event in stream.events:
                data = orjson.loads(event.data)
                if event.name == "error":
                    raise failure_of_http(503 if data.get("retryable") else 400, data, data.get("retryAfter"))
                yield Watched(event.name, data)

    async def _once(self, path: str, body: object) -> dict[str, Any]:
        """A call that has one effect, repeated while the server cannot be reached."""
        reconnect = ReconnectPolicy(self._give_up_after)
        key = {"Idempotency-Key": secrets.token_hex(16)}
        while True:
            try:
                found: dict[str, Any] = await self._data("POST", path, body, key)
            except Unreachable as error:
                await reconnect.wait(error)
                continue
            return found

    async def _data(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        answer: object = await self._http.json(method, path, body=body, headers=headers)
        return cast("dict[str, Any]", answer).get("data") if isinstance(answer, dict) else None


def _path(session_id: str, rest: str = "") -> str:
    return f"/api/sessions/{quote(session_id, safe='')}{rest}"
