"""Closed JSON schemas of cards, which refuse unknown members: of 1.0 from the official protobuf, of 0.3 from the
official models."""

from importlib import import_module
from typing import Any, Final, cast

from a2a.compat.v0_3 import types as official_0_3
from a2a.types import a2a_pb2 as official
from google.protobuf.descriptor import FieldDescriptor
from tests.gateway.plane import Json

# Neither has types.
_BEHAVIOR: Final[Any] = import_module("google.api.field_behavior_pb2")
_VALIDATOR: Final[Any] = import_module("jsonschema").Draft202012Validator
_ANY: Final[dict[str, Json]] = {
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.Timestamp": {"type": "string"},
}
_KINDS: Final = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "integer",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}
# The only required map, the scopes of an OAuth flow, may be empty (OpenAPI 3.2 section 4.29).
_FILLED: Final = {"string": "minLength", "array": "minItems"}


def closed_1_0(message: Any = official.AgentCard.DESCRIPTOR) -> Json:
    """Return the closed schema of a message of A2A 1.0, by its descriptor; required members have no default values,
    except maps."""
    found: dict[str, Json] = {}
    _describe(message, found)
    return {"$ref": f"#/$defs/{message.name}", "$defs": found}


def closed_0_3() -> Json:
    """Return the closed schema of a card of A2A 0.3."""
    schema: Json = official_0_3.AgentCard.model_json_schema()
    for one in (schema, *schema["$defs"].values()):
        if "properties" in one:
            one["additionalProperties"] = False
    return schema


def mistakes(found: Any, schema: Json) -> list[str]:
    """Return what is wrong with a document, each with its place."""
    return [f"{one.json_path}: {one.message}" for one in _VALIDATOR(schema).iter_errors(found)]


def keys(found: Any) -> set[str]:
    """Return the keys of a document at any depth."""
    if isinstance(found, list):
        items = cast("list[object]", found)
        return set[str]().union(*(keys(one) for one in items))
    if not isinstance(found, dict):
        return set()
    members = cast("Json", found)
    return set(members).union(*(keys(value) for value in members.values()))


def _describe(message: Any, found: dict[str, Json]) -> None:
    if message.name in found:
        return
    schema = found[message.name] = {"type": "object", "additionalProperties": False, "properties": {}, "required": []}
    for field in message.fields:
        inner = _field(field, found)
        if _BEHAVIOR.REQUIRED in field.GetOptions().Extensions[_BEHAVIOR.field_behavior]:
            schema["required"].append(field.json_name)
            if (bound := _FILLED.get(inner.get("type", ""))) is not None:
                inner[bound] = 1
        schema["properties"][field.json_name] = inner
    if message.oneofs and all(one.containing_oneof is not None for one in message.fields):
        schema["minProperties"] = schema["maxProperties"] = 1


def _field(field: Any, found: dict[str, Json]) -> Json:
    kind = field.message_type
    if kind is None:
        one: Json = {"type": _KINDS[field.cpp_type]}
    elif kind.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _field(kind.fields_by_name["value"], found)}
    elif kind.full_name in _ANY:
        one = dict(_ANY[kind.full_name])
    else:
        _describe(kind, found)
        one = {"$ref": f"#/$defs/{kind.name}"}
    return {"type": "array", "items": one} if field.is_repeated else one
