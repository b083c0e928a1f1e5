"""The media types of parts, which the card of an agent announces as input modes (A2A 1.0 section 4.4.1)."""

from collections.abc import Set
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.lookup import known
from taskplane.gateway.agents import Agent
from taskplane.runtime.errors import NotFound
from taskplane.runtime.validation import WrongFields, invalid

_BY_CONTENT: Final = {"text": "text/plain", "data": "application/json"}
# Modes of early versions of A2A, which named kinds of parts.
_KINDS: Final = {"text": ("text",), "data": ("data",), "file": ("raw", "url")}


async def check_parts(call: Call, message: a2a.Message) -> None:
    """Check the media types of a message if the setting `validate_input_modes` is on and its agent is known: that of
    its task, or for a new task that of the path. Raise Invalid `MEDIA_TYPE_NOT_SUPPORTED`."""
    if not call.plane.settings.validate_input_modes:
        return
    agent = await _agent_of_task(call, message.task_id) if message.task_id else call.agent
    if agent is None:
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


async def _agent_of_task(call: Call, task_id: str) -> Agent | None:
    """Return the agent of a task, which the caller may see; None if it is not known. A task that does not exist may
    become one of the agent in the path."""
    try:
        record = (await call.plane.tasks.GetTask(pb.GetTaskRequest(task_id=task_id, history_length=0))).record
    except NotFound:
        return call.agent
    return known(call.plane, record.agent)
