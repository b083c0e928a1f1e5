"""The parts of messages and artifacts, in both versions."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import MAX_PARTS, NO_CONTENT
from taskplane.gateway.translate.fields import Fields, is_list, is_object
from taskplane.gateway.translate.struct import fill_metadata, fill_value
from taskplane.runtime.json_values import to_dict, to_json

# Marks a 0.3 data part with a 1.0 value that is not an object and therefore wrapped as {"value": ...}.
WRAPPED: Final = "data_part_compat"

_CONTENTS: Final = ("text", "raw", "url", "data")
# From the URL-safe alphabet, without the line breaks of MIME (RFC 2045 section 6.8).
_STANDARD: Final = str.maketrans("-_", "+/", "\r\n\t ")

Parts = RepeatedCompositeFieldContainer[a2a.Part]


def to_1_0(part: a2a.Part) -> dict[str, Any]:
    """Return a part as ProtoJSON."""
    found: dict[str, Any] = {}
    if text := part.text:
        found["text"] = text
    else:
        content = part.WhichOneof("content")
        if content == "text":
            found["text"] = ""
        elif content == "data":
            found["data"] = to_json(part.data)
        elif content == "raw":
            found["raw"] = b64encode(part.raw).decode()
        elif content == "url":
            found["url"] = part.url
    if part.HasField("metadata"):
        found["metadata"] = to_dict(part.metadata)
    if filename := part.filename:
        found["filename"] = filename
    if media_type := part.media_type:
        found["mediaType"] = media_type
    return found


def to_0_3(part: a2a.Part) -> dict[str, Any]:
    """Return a part with its `kind`. Data that is not an object is wrapped and marked, since 0.3 has no other form for
    it."""
    content = part.WhichOneof("content")
    metadata = to_dict(part.metadata) if part.HasField("metadata") else None
    found: dict[str, Any]
    if content == "data":
        value = to_json(part.data)
        if not isinstance(value, dict):
            value = {"value": value}
            metadata = {**(metadata or {}), WRAPPED: True}
        found = {"kind": "data", "data": value}
    elif content in {"raw", "url"}:
        file: dict[str, Any] = {}
        if part.filename:
            file["name"] = part.filename
        if part.media_type:
            file["mimeType"] = part.media_type
        if content == "raw":
            file["bytes"] = b64encode(part.raw).decode()
        else:
            file["uri"] = part.url
        found = {"kind": "file", "file": file}
    else:
        found = {"kind": "text", "text": part.text}
    if metadata is not None:
        found["metadata"] = metadata
    return found


def plain_texts(parts: Any) -> list[str] | None:
    """Return the texts of 1.0 parts that contain nothing else; None if some do, or if something may be wrong with
    them."""
    if not is_list(parts) or len(parts) > MAX_PARTS:
        return None
    texts: list[str] = []
    for part in parts:
        text = part.get("text") if is_object(part) and len(part) == 1 else None
        if type(text) is not str or "\0" in text:
            return None
        texts.append(text)
    return texts


def read_1_0(source: Fields, parts: Parts) -> None:
    """Append one 1.0 part: exactly one of text, raw, url and data."""
    part = parts.add()
    given = [
        name for name in _CONTENTS if name in source.source and (name == "data" or source.source[name] is not None)
    ]
    if len(given) != 1:
        source.bad.add(source.at, NO_CONTENT)
        return
    if given[0] == "data":
        fill_value(part.data, source.source["data"], source.path("data"), source.bad)
    elif given[0] == "raw":
        part.raw = _bytes(source, "raw")
    else:
        setattr(part, given[0], source.text(given[0]))
    part.filename = source.text("filename")
    part.media_type = source.text("mediaType")
    fill_metadata(part.metadata, source)


def read_0_3(source: Fields, parts: Parts) -> None:
    """Append one 0.3 part: its `kind` is text, file or data."""
    part = parts.add()
    kind = source.source.get("kind")
    if kind == "text":
        if not isinstance(source.source.get("text"), str):
            source.wrong("text", "must be a string")
        part.text = source.text("text")
    elif kind == "data":
        _read_data(source, part)
        return
    elif kind == "file":
        _read_file(source, part)
    else:
        source.wrong("kind", "must be text, file or data")
    fill_metadata(part.metadata, source)


def _read_data(source: Fields, part: a2a.Part) -> None:
    data = source.inner("data", required=True)
    fill_metadata(part.metadata, source)
    if data is None:
        return
    value: Any = dict(data.source)
    marks = part.metadata.fields
    if value.keys() == {"value"} and WRAPPED in marks and marks[WRAPPED].bool_value:
        value = value["value"]
        del marks[WRAPPED]
        if not marks:
            part.ClearField("metadata")
    fill_value(part.data, value, data.at, source.bad)


def _read_file(source: Fields, part: a2a.Part) -> None:
    file = source.inner("file", required=True)
    if file is None:
        return
    given: Mapping[str, Any] = file.source
    has_bytes, has_uri = given.get("bytes") is not None, given.get("uri") is not None
    if has_bytes == has_uri:
        source.wrong("file", "must have exactly one of bytes and uri")
    elif has_bytes:
        part.raw = _bytes(file, "bytes")
    else:
        part.url = file.text("uri")
    part.filename = file.text("name")
    part.media_type = file.text("mimeType")


def _bytes(source: Fields, name: str) -> bytes:
    """Decode base64, standard or URL-safe, with or without padding, as ProtoJSON allows, and with or without line
    breaks."""
    text = source.text(name).translate(_STANDARD).rstrip("=")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        source.wrong(name, "must be base64")
        return b""
