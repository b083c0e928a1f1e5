"""The parts of a task, each in the form of a dialect: statuses, messages, artifacts and their parts."""

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from taskplane.agents.adapters.peers.refused import RefusedAnswer
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CONVERTED
from taskplane.runtime.json_values import to_json
from taskplane.runtime.struct_values import to_value

Dialect = Literal["0.3", "proto"]
"""The JSON of 0.3, with a `kind` in each part, or the protobuf JSON of 1.0."""

_SNAKE: Final = re.compile(r"_([a-z0-9])")
_STATES: Final = {
    "pending": "submitted",
    "running": "working",
    "in-progress": "working",
    "success": "completed",
    "succeeded": "completed",
    "done": "completed",
    "error": "failed",
    "cancelled": "canceled",
}
_ROLES: Final = {
    "agent": "agent",
    "assistant": "agent",
    "model": "agent",
    "bot": "agent",
    "user": "user",
    "human": "user",
}
_NAMES: Final = frozenset(a2a.TaskState.keys())
_MOST_CONVERTED: Final = 100
# From this many seconds on a number is one of milliseconds.
_MILLISECONDS: Final = 10**11


def members(value: Any) -> dict[str, Any]:
    """Return the members of an object, without null members, with the names of A2A; {} for any other value."""
    if not isinstance(value, dict):
        return {}
    found = cast("dict[str, Any]", value)
    return {_camel(name): inner for name, inner in found.items() if inner is not None}


def listed(value: Any) -> list[Any]:
    """Return a list; an object becomes a list of one object."""
    if isinstance(value, list):
        return value  # pyright: ignore[reportUnknownVariableType]
    return [] if value is None else [value]


def status(value: Any, dialect: Dialect, task_id: str) -> dict[str, Any]:
    """Return a status with the state in the spelling of the dialect, and with a zone in the timestamp, if any."""
    found: dict[str, Any] = {"state": value} if isinstance(value, str) else members(value)
    if isinstance(state := found.get("state"), str):
        found["state"] = _state(state, dialect)
    if "timestamp" in found:
        found["timestamp"] = _timestamp(found["timestamp"])
        if not found["timestamp"]:
            del found["timestamp"]
    if "message" in found:
        said = found["message"]
        given = {"parts": [said]} if isinstance(said, str) else members(said)
        found["message"] = message(given, dialect, task_id)
    return found


def message(found: dict[str, Any], dialect: Dialect, task_id: str) -> dict[str, Any]:
    """Return a message: with an id, the same for the same content, and the role of the agent if it names none."""
    role = _ROLES.get(str(found.get("role", "agent")).lower().removeprefix("role_"))
    if role is not None:
        found["role"] = role if dialect == "0.3" else f"ROLE_{role.upper()}"
    given = found.pop("parts", None)
    if given is None:
        # Protos of 0.3 name them so.
        given = found.get("content") if isinstance(found.get("content"), list | str) else None
    _keep_values(found, [_part(one, dialect) for one in listed(given)])
    if not isinstance(found.get("messageId"), str) or not found["messageId"]:
        said = json.dumps([task_id, found.get("role"), found["parts"]], sort_keys=True)
        found["messageId"] = hashlib.sha256(said.encode()).hexdigest()[:32]
    if dialect == "0.3":
        found["kind"] = "message"
    return found


def artifact(found: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return an artifact. Without an id it gets its name or its index as id, as in 0.1."""
    if not isinstance(found.get("artifactId"), str) or not found["artifactId"]:
        found["artifactId"] = str(found.get("id") or found.get("name") or found.get("index") or "artifact")
    _keep_values(found, [_part(one, dialect) for one in listed(found.get("parts"))])
    return found


def _keep_values(found: dict[str, Any], parts: list[Any]) -> None:
    """Give a message or an artifact its parts, with data and metadata that the SDK's parsers read back: too deep values
    and numbers that no double holds are texts, which are listed."""
    converted: list[str] = []

    def keep(place: dict[str, Any], name: str, at: str) -> None:
        kept, paths = to_value(place[name], f"{at}{name}")
        place[name] = to_json(kept)
        converted.extend(paths)

    for index, part in enumerate(parts):
        for name in ("data", "metadata"):
            if isinstance(part, dict) and name in part:
                keep(cast("dict[str, Any]", part), name, f"parts[{index}].")
    if "metadata" in _with_metadata(found):
        keep(found, "metadata", "")
    if converted:
        found["metadata"] = {**found.get("metadata", {}), CONVERTED: converted[:_MOST_CONVERTED]}
    found["parts"] = parts


def _part(value: Any, dialect: Dialect) -> Any:
    found: dict[str, Any] = {"text": value} if isinstance(value, str) else members(value)
    if isinstance(value, dict) and "data" in value:
        # Null is a value there.
        found["data"] = value["data"]
    if not found:
        return cast("Any", value)
    kind = found.pop("kind", None) or found.pop("type", None)
    file = members(found.get("file"))
    if dialect == "proto":
        if file:
            del found["file"]
            renamed = {"bytes": "raw", "fileWithBytes": "raw", "uri": "url", "fileWithUri": "url", "name": "filename"}
            found.update({renamed.get(name, "mediaType"): inner for name, inner in file.items()})
        if "mimeType" in found:
            found.setdefault("mediaType", found.pop("mimeType"))
        return _with_metadata(found)
    if "raw" in found or "url" in found or "bytes" in found or "uri" in found:
        renamed = {"raw": "bytes", "url": "uri", "mediaType": "mimeType", "filename": "name"}
        moved = [
            name
            for name in ("raw", "url", "bytes", "uri", "mediaType", "mimeType", "filename", "name")
            if name in found
        ]
        file = {renamed.get(name, name): found.pop(name) for name in moved}
    if file:
        found["file"] = file
    found["kind"] = kind or next((name for name in ("text", "file", "data") if name in found), "text")
    if found["kind"] == "data" and not isinstance(found.get("data"), dict):
        # The form in which 1.0 writes values other than objects for clients of 0.3.
        found["data"] = {"value": found.get("data")}
        found["metadata"] = {**_with_metadata(found).get("metadata", {}), "data_part_compat": True}
    return _with_metadata(found)


def _with_metadata(found: dict[str, Any]) -> dict[str, Any]:
    if "metadata" in found and not isinstance(found["metadata"], dict):
        del found["metadata"]
    return found


def _state(given: str, dialect: Dialect) -> str:
    plain = given.lower().removeprefix("task_state_").replace("_", "-")
    plain = _STATES.get(plain, plain)
    if dialect == "0.3":
        return plain
    if plain in ("unknown", "unspecified"):
        return "TASK_STATE_UNSPECIFIED"
    name = f"TASK_STATE_{plain.upper().replace('-', '_')}"
    if name not in _NAMES:
        # The SDK would take it for none, and the task would never end.
        raise RefusedAnswer("The remote agent's server does not answer as A2A defines: status.state cannot be read.")
    return name


def _timestamp(given: Any) -> str:
    """Return a time as RFC 3339 in UTC; "" if it is not a time."""
    try:
        if isinstance(given, int | float):
            moment = datetime.fromtimestamp(given / 1000 if given > _MILLISECONDS else given, UTC)
        else:
            moment = datetime.fromisoformat(str(given))
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.isoformat().replace("+00:00", "Z")


def _camel(name: str) -> str:
    return _SNAKE.sub(lambda found: found[1].upper(), name)
