"""How a client asks for one page of what is long."""

from typing import Final

from taskplane.gateway.http import Request
from taskplane.gateway.translate.fields import MAX_TOKEN_LENGTH
from taskplane.runtime.errors import Invalid

MAX_LIMIT: Final = 1_000
"""Things on a page."""


def limit(request: Request, default: int) -> int:
    """The parameter `limit`, or the default where it is missing. Invalid: it is not 1 to `MAX_LIMIT`."""
    if "limit" not in request.query:
        return default
    asked = request.number("limit", 0)
    if not 1 <= asked <= MAX_LIMIT:
        raise Invalid(
            f"limit must be between 1 and {MAX_LIMIT}", fields={"limit": f"must be between 1 and {MAX_LIMIT}"}
        )
    return asked


def token(request: Request, name: str) -> str:
    """The parameter that says where a page begins; empty for the first one. Invalid: it is longer than any."""
    found = request.query.get(name, "")
    if len(found) > MAX_TOKEN_LENGTH:
        raise Invalid(f"{name} is none of this server", fields={name: "is none of this server"})
    return found
