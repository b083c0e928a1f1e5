"""A client of the routes under `/api/ops`, for operators."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from taskplane.cli.client.http import Http

_PAGE: Final = 1_000


class OperationsClient:
    """A client of what operators see of one server, to be used inside `async with` of its `Http`.

    Every call raises `Unauthorized` `OPERATORS_ONLY` for other callers.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def overview(self) -> dict[str, Any]:
        """Return what runs, waits and failed."""
        found: dict[str, Any] = (await self._http.json("GET", "/api/ops/overview"))["data"]
        return found

    async def tasks(self, limit: int, filters: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Yield tasks of all owners, newest change of state first, at most `limit`."""
        token = ""
        while limit > 0:
            query = {**filters, "limit": str(min(_PAGE, limit)), "page_token": token}
            path = "/api/ops/tasks?" + urlencode({name: value for name, value in query.items() if value})
            page: dict[str, Any] = await self._http.json("GET", path)
            found: list[dict[str, Any]] = page.get("data") or []
            for task in found:
                yield task
                limit -= 1
            token = str(page.get("next_page_token") or "")
            if not token:
                return

    async def task(self, task_id: str) -> dict[str, Any]:
        """Return a task with its whole log: `{task, events}`. Raise `Missing`."""
        answer: dict[str, Any] = await self._http.json("GET", _path(task_id))
        found: dict[str, Any] = answer["data"]
        after = found.pop("next_after", None)
        while after:
            query = urlencode({"after": after, "limit": _PAGE})
            page: dict[str, Any] = (await self._http.json("GET", _path(task_id, f"/events?{query}")))["data"]
            found["events"] += page["events"]
            after = page.get("next_after")
        return found

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """Cancel a task for its owner, and return it. Raise `Missing`; `Declined` if it has ended."""
        found: dict[str, Any] = (await self._http.json("POST", _path(task_id, "/cancel")))["data"]
        return found

    async def delete(self, task_id: str) -> None:
        """Delete a task for its owner, with its log. Raise `Missing`."""
        await self._http.json("DELETE", _path(task_id))


def _path(task_id: str, rest: str = "") -> str:
    return f"/api/ops/tasks/{quote(task_id, safe='')}{rest}"
