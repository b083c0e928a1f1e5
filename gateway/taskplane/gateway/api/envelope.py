"""The envelope of every answer under /api, and how their JSON bodies are read."""

from typing import Any

from taskplane.gateway.http import Content, Headers, Request, json_reply
from taskplane.gateway.operations import check_size
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.nesting import parse
from taskplane.runtime.errors import Invalid

__all__ = ["check_size", "data_reply", "list_reply", "read_json", "read_object"]


def data_reply(
    data: Any, message: str, *, status: int = 200, headers: Headers | None = None, next_page_token: str = ""
) -> Content:
    """A success with `data`; an empty token of the next page is left out."""
    body = {"error": False, "data": data, "message": message}
    return json_reply(status, body | {"next_page_token": next_page_token} if next_page_token else body, headers)


def list_reply(data: list[Any], message: str, *, next_page_token: str = "") -> Content:
    """A success with a list; an empty one is left out, as kagent does on the routes it has, and so is an empty token of
    the next page."""
    body: dict[str, Any] = {"error": False}
    if data:
        body["data"] = data
    if next_page_token:
        body["next_page_token"] = next_page_token
    return json_reply(200, body | {"message": message})


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


async def read_options(plane: Plane, request: Request) -> dict[str, Any]:
    """Like `read_object`; without a body it is empty."""
    if not request.header(b"transfer-encoding") and request.header(b"content-length") in ("", "0"):
        return {}
    return await read_object(plane, request)
