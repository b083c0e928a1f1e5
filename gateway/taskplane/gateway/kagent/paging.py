"""Query parameters of paged routes, and the reading of all pages of a store."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

from taskplane.gateway.limits import MAX_TOKEN_LENGTH
from taskplane.gateway.web.http import Request
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import invalid

P = TypeVar("P")

MAX_LIMIT: Final = 1_000
"""The greatest page size."""


def limit(request: Request, default: int) -> int:
    """Return the parameter `limit`, or the default where it is missing. Raise Invalid unless it is 1 to `MAX_LIMIT`."""
    if "limit" not in request.query:
        return default
    asked = request.number("limit", 0)
    if not 1 <= asked <= MAX_LIMIT:
        raise invalid({"limit": f"must be 1 to {MAX_LIMIT:,}"})
    return asked


def token(request: Request, name: str) -> str:
    """Return the parameter that names a page, empty for the first one. Raise Invalid if it is longer than any token
    is."""
    found = request.query.get(name, "")
    if len(found) > MAX_TOKEN_LENGTH:
        raise Invalid(
            f"invalid page token in {name}", fields={name: "is not a valid page token: use one from an earlier page"}
        )
    return found


async def pages(list_page: Callable[[Any], Awaitable[P]], asked: Any) -> AsyncGenerator[P, None]:
    """Yield the page that `asked` names, a request of the RPC `list_page`, and all pages after it."""
    while True:
        page: Any = await list_page(asked)
        yield page
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token
