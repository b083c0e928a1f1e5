"""The cursor of a call: the event after which its stream goes on."""

from typing import Final

from google.protobuf.struct_pb2 import Struct

from taskplane.api.message_metadata import CURSOR
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.limits import LAST_EVENT_ID, check_cursor
from taskplane.runtime.errors import Invalid
from taskplane.runtime.json_values import to_json
from taskplane.runtime.validation import invalid

_STARTING_AFTER: Final = "starting_after"
_IN_METADATA: Final = f"metadata.{CURSOR}"


def take(call: Call, metadata: Struct | None = None) -> str:
    """Return the cursor beside a request or in the metadata of the request, which loses it: a repeat under a key is the
    same request, whatever its cursor. Empty if there is none.

    Raise Invalid `CURSOR_MALFORMED`, or `CURSORS_DIFFER` for two that differ.
    """
    cursor = ""
    for name, found in _given(call, metadata):
        check_cursor(found, name)
        if found and cursor and found != cursor:
            raise Invalid(
                "the request names two cursors", reason="CURSORS_DIFFER", fields={name: "must be the same cursor"}
            )
        cursor = found or cursor
    return cursor


def check_none(call: Call, metadata: Struct) -> None:
    """Raise Invalid, with the place of the cursor, if a request for no stream names one."""
    for name, found in _given(call, metadata):
        check_cursor(found, name)
        if found:
            raise invalid({name: "is allowed for streams only"})


def _given(call: Call, metadata: Struct | None) -> list[tuple[str, str]]:
    """Return the cursors of a request with their places, empty ones too. Its metadata loses its own."""
    given = [(LAST_EVENT_ID, call.cursor), (_STARTING_AFTER, call.starting_after)]
    if metadata is not None and CURSOR in metadata.fields:
        value = to_json(metadata.fields[CURSOR])
        del metadata.fields[CURSOR]
        # A value that is no text is malformed; null is none.
        given.append((_IN_METADATA, value if isinstance(value, str) else "" if value is None else "?"))
    return given
