"""The media types of parts, which the card of an agent announces as input modes (A2A 1.0 section 4.4.1)."""

from collections.abc import Set
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.agents import Agent
from taskplane.runtime.validation import WrongFields, invalid

_BY_CONTENT: Final = {"text": "text/plain", "data": "application/json"}
# Modes of early versions of A2A, which named kinds of parts.
_KINDS: Final = {"text": ("text",), "data": ("data",), "file": ("raw", "url")}


def check_parts(call: Call, agent: Agent | None, message: a2a.Message) -> None:
    """Check the media types of a message if the setting `validate_input_modes` is on and the agent that gets it is
    known. Raise Invalid `MEDIA_TYPE_NOT_SUPPORTED`."""
    if agent is None or not call.plane.settings.validate_input_modes:
        return
    modes = agent.input_modes
    bad = WrongFields()
    for index, part in enumerate(message.parts):
        if not is_accepted(part, modes):
            bad.add(f"message.parts[{index}]", f"is {media_type_of(part)[:100]}, which the agent does not accept")
    if bad.found:
        raise invalid(
            bad.found, reason="MEDIA_TYPE_NOT_SUPPORTED", suggestion=f"the agent accepts {', '.join(sorted(modes))}"
        )


def is_accepted(part: a2a.Part, modes: Set[str]) -> bool:
    """Return whether one of the modes is the media type of the part, a range that contains it, such as `image/*` or
    `image`, or the kind of the part: `text`, `data` or `file`. A file without a media type is accepted."""
    content = part.WhichOneof("content") or ""
    if any(kind in modes for kind, contents in _KINDS.items() if content in contents):
        return True
    media_type = media_type_of(part)
    kind = media_type.partition("/")[0]
    return not media_type or not modes.isdisjoint((media_type, f"{kind}/*", kind, "*/*", "*"))


def media_type_of(part: a2a.Part) -> str:
    """Return the media type of a part without parameters, in lower case; empty for a file without one."""
    given = part.media_type.partition(";")[0].strip().lower()
    return given or _BY_CONTENT.get(part.WhichOneof("content") or "", "")
