"""The envelope of every answer under /api, and how their JSON bodies are read."""

from typing import Any

from taskplane.gateway.http import Content, Headers, Request, json_reply
from taskplane.gateway.operations import check_size
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.nesting import parse
from taskplane.runtime.errors import Invalid

__all__ = ["check_size", "found", "found_some", "read_json", "read_object"]


def found(data: Any, message: str, *, status: int = 200, headers: Headers | None = None) -> Content:
    """A success with `data`."""
    return json_reply(status, {"error": False, "data": data, "message": message}, headers)


def found_some(data: list[Any], message: str) -> Content:
    """A success with a list; an empty one is left out, as kagent does on the routes it has."""
    if data:
        return found(data, message)
    return json_reply(200, {"error": False, "message": message})


async def read_json(plane: Plane, request: Request) -> Any:
    """The JSON value of the body. Invalid: it is declared as something else, is none, or is too large or too deep."""
    request.check_json()
    body = await request.body(plane.settings.max_body, plane.settings.body_timeout)
    try:
        return await plane.worker.run(request.size, parse, body)
    except ValueError:
        raise Invalid("the body is not JSON", reason="PARSE_ERROR") from None


async def read_object(plane: Plane, request: Request) -> dict[str, Any]:
    """The JSON object of the body. Invalid as in `read_json`, and for anything but an object."""
    value = await read_json(plane, request)
    if not isinstance(value, dict):
        raise Invalid("the body must be a JSON object", fields={"": "must be an object"})
    return value  # pyright: ignore[reportUnknownVariableType]
