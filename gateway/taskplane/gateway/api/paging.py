"""How a client asks for one page of what is long."""

from typing import Final

from taskplane.gateway.http import Request
from taskplane.gateway.translate.fields import LONGEST_TOKEN
from taskplane.runtime.errors import Invalid

MOST: Final = 1_000
"""Things on a page."""


def limit(request: Request, default: int) -> int:
    """The parameter `limit`, or the default where it is missing. Invalid: it is not 1 to `MOST`."""
    if "limit" not in request.query:
        return default
    asked = request.number("limit", 0)
    if not 1 <= asked <= MOST:
        raise Invalid(f"limit must be between 1 and {MOST}", fields={"limit": f"must be between 1 and {MOST}"})
    return asked


def token(request: Request, name: str) -> str:
    """The parameter that says where a page begins; empty for the first one. Invalid: it is longer than any."""
    found = request.query.get(name, "")
    if len(found) > LONGEST_TOKEN:
        raise Invalid(f"{name} is none of this server", fields={name: "is none of this server"})
    return found
