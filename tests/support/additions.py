"""The additions of this server to the metadata of tasks and messages, for tests that compare them whole."""

from typing import Any, cast

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times

_OURS = "taskplane.dev/"


def without_additions(shown: Any) -> Any:
    """Copy JSON without the additions, and without metadata that is empty then."""
    if isinstance(shown, list):
        return list(map(without_additions, shown))  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(shown, dict):
        return shown
    kept: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", shown).items():
        given = value
        if key == "metadata" and isinstance(value, dict):
            metadata = cast("dict[str, Any]", value)
            given = {name: one for name, one in metadata.items() if not name.startswith(_OURS)}
            if not given:
                continue
        kept[key] = without_additions(given)
    return kept


def untimed(message: a2a.Message) -> a2a.Message:
    """Copy a message without its time, which it must have."""
    copy = a2a.Message()
    copy.CopyFrom(message)
    del copy.metadata.fields[message_times.KEY]
    if not copy.metadata.fields:
        copy.ClearField("metadata")
    return copy


def time_of(message: a2a.Message) -> str:
    """Return the time of a message, which it must have."""
    assert message_times.KEY in message.metadata.fields
    return message.metadata.fields[message_times.KEY].string_value
