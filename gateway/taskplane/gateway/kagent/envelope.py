"""The response envelope of the routes under /api, and the reading of their JSON request bodies."""

from typing import Any

from starlette.responses import Response

from taskplane.gateway.json_body import parse_json, parse_lenient
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.http import Headers, Request, json_reply
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import invalid


def data_reply(
    data: Any, message: str, *, status: int = 200, headers: Headers | None = None, next_page_token: str = ""
) -> Response:
    """Return a success with `data`; an empty `next_page_token` is left out."""
    body = {"error": False, "data": data, "message": message}
    return json_reply(status, body | {"next_page_token": next_page_token} if next_page_token else body, headers)


def list_reply(data: list[Any], message: str, *, next_page_token: str = "") -> Response:
    """Return a success with a list. An empty list is left out, as kagent does, and so is an empty `next_page_token`."""
    body: dict[str, Any] = {"error": False}
    if data:
        body["data"] = data
    if next_page_token:
        body["next_page_token"] = next_page_token
    return json_reply(200, body | {"message": message})


async def read_json(plane: Plane, request: Request, *, lenient: bool = False) -> Any:
    """Return the JSON value of the body. Raise Invalid if it is not JSON, is declared as another type, is too large or
    too deep.

    `lenient`: it may have values that no JSON has and no database keeps, as runtimes write them.
    """
    request.check_json()
    body = await plane.uploads.whole(request)
    try:
        return await plane.worker.run(request.size, parse_lenient if lenient else parse_json, body)
    except ValueError:
        raise Invalid("the body is not JSON", reason="PARSE_ERROR") from None


async def read_object(plane: Plane, request: Request, *, lenient: bool = False) -> dict[str, Any]:
    """Return the JSON object of the body. Raise Invalid as `read_json` does, and for a value that is not an object."""
    value = await read_json(plane, request, lenient=lenient)
    if not isinstance(value, dict):
        raise invalid({"": "must be a JSON object"})
    return value  # pyright: ignore[reportUnknownVariableType]


async def read_options(plane: Plane, request: Request) -> dict[str, Any]:
    """Return the JSON object of the body, an empty one without a body. Raise Invalid as `read_object` does."""
    if not request.header(b"transfer-encoding") and request.header(b"content-length") in ("", "0"):
        return {}
    return await read_object(plane, request)
