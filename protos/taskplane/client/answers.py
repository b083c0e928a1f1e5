"""The reading of responses of a server, which may be another program than taskplane."""

import json
import math
import re
from typing import Any, Final, NoReturn, cast

from taskplane.client.failures import NotUnderstood

# Half of a surrogate pair, perhaps: no text in UTF-8 can hold it.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(content: bytes) -> Any:
    """Return a JSON value; integers are exact. ValueError: it is not JSON in UTF-8, or Python cannot hold it."""
    text = content.decode()
    try:
        value = json.loads(text, parse_float=_float, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parsed(url: str, content: bytes | str) -> Any:
    """Return the JSON value that `url` answered. Raise NotUnderstood."""
    try:
        return read_json(content if isinstance(content, bytes) else content.encode())
    except ValueError as error:
        text = content if isinstance(content, str) else content[:64].decode(errors="replace")
        what = "a web page" if text.lstrip()[:1] == "<" else "something else"
        raise not_understood(url, f"with {what} instead of JSON") from error


def members(url: str, value: object, *names: str) -> dict[str, Any]:
    """Return the JSON object that `url` answered, which has at least the named members. Raise NotUnderstood."""
    if not isinstance(value, dict):
        raise not_understood(url, "with JSON that taskplane does not send")
    found = cast("dict[str, Any]", value)
    missing = [name for name in names if name not in found]
    if missing:
        raise not_understood(url, f"without {', '.join(missing)}, which taskplane always sends")
    return found


def listed(url: str, value: object) -> list[dict[str, Any]]:
    """Return the list of JSON objects that `url` answered; null is an empty one. Raise NotUnderstood."""
    if not isinstance(value, list | None):
        raise not_understood(url, "with JSON that is not a list from taskplane")
    return [members(url, one) for one in cast("list[object] | None", value) or []]


def not_understood(url: str, how: str) -> NotUnderstood:
    """Return the failure of a server that answered in some other way than taskplane does."""
    return NotUnderstood(
        f"{url} answered {how}.",
        reason="NOT_TASKPLANE",
        suggestion="Another program answers there, such as the sign-in page of a proxy.\n"
        "Open the address in a browser to identify it.",
    )


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")
