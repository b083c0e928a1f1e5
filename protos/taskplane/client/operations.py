"""A client of the routes under `/api/ops`, for operators."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from taskplane.client.answers import listed
from taskplane.client.http import Http

_PAGE: Final = 1_000
_OVERVIEW: Final = ("concerns", "tasks", "queue", "executors", "recent", "uncopied", "abandoned", "bounded")


class Operations:
    """The operator's view of one server.

    Every call raises `Unauthorized` `OPERATORS_ONLY` for other callers.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def overview(self) -> dict[str, Any]:
        """Return the figures of running, waiting and failed tasks."""
        return await self._http.data("GET", "/api/ops/overview", *_OVERVIEW)

    async def tasks(self, limit: int, filters: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Yield tasks of all owners, newest change of state first, at most `limit`."""
        token = ""
        while limit > 0:
            query = {**filters, "limit": str(min(_PAGE, limit)), "page_token": token}
            path = "/api/ops/tasks?" + urlencode({name: value for name, value in query.items() if value})
            page = await self._http.answer("GET", path)
            for task in listed(self._http.url, page.get("data")):
                yield task
                limit -= 1
            token = str(page.get("next_page_token") or "")
            if not token:
                return

    async def task(self, task_id: str) -> dict[str, Any]:
        """Return a task with its whole log: `{task, events}`. Raise `Missing`."""
        found = await self._http.data("GET", _path(task_id), "task", "events")
        after = found.pop("next_after", None)
        while after:
            query = urlencode({"after": after, "limit": _PAGE})
            page = await self._http.data("GET", _path(task_id, f"/events?{query}"), "events")
            found["events"] += page["events"]
            after = page.get("next_after")
        return found

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """Cancel a task for its owner, and return it. Raise `Missing`; `Declined` if it has ended."""
        return await self._http.data("POST", _path(task_id, "/cancel"), "taskId")

    async def delete(self, task_id: str) -> None:
        """Delete a task for its owner, with its log. Raise `Missing`."""
        await self._http.json("DELETE", _path(task_id))


def _path(task_id: str, rest: str = "") -> str:
    return f"/api/ops/tasks/{quote(task_id, safe='')}{rest}"
