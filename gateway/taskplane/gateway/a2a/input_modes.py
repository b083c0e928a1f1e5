"""The media types of parts, which the card of an agent announces as input modes (A2A 1.0 section 4.4.1)."""

from collections.abc import Set
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.call import Call
from taskplane.runtime.validation import WrongFields, invalid

_BY_CONTENT: Final = {"text": "text/plain", "data": "application/json"}


def check_parts(call: Call, message: a2a.Message) -> None:
    """Check the media types of a message if the setting `validate_input_modes` is on and the agent is known. Raise
    Invalid `MEDIA_TYPE_NOT_SUPPORTED`."""
    if not call.plane.settings.validate_input_modes or call.agent is None:
        return
    modes = call.agent.input_modes
    bad = WrongFields()
    for index, part in enumerate(message.parts):
        media_type = media_type_of(part)
        if media_type and not is_among(media_type, modes):
            bad.add(f"message.parts[{index}]", f"is {media_type[:100]}, which the agent does not accept")
    if bad.found:
        raise invalid(
            bad.found, reason="MEDIA_TYPE_NOT_SUPPORTED", suggestion=f"the agent accepts {', '.join(sorted(modes))}"
        )


def media_type_of(part: a2a.Part) -> str:
    """Return the media type of a part without parameters, in lower case; empty for a file without one."""
    given = part.media_type.partition(";")[0].strip().lower()
    return given or _BY_CONTENT.get(part.WhichOneof("content") or "", "")


def is_among(media_type: str, modes: Set[str]) -> bool:
    """Return whether one of the modes is this media type, or a range that contains it, such as `image/*`."""
    return not modes.isdisjoint((media_type, f"{media_type.partition('/')[0]}/*", "*/*"))
