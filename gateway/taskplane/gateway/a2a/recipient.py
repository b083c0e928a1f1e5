"""The agent that gets a message, and the extensions that it requires (A2A 1.0 section 4.6)."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.lookup import known
from taskplane.gateway.agents import Agent
from taskplane.gateway.translate.extensions import DECLARED
from taskplane.runtime.errors import NotFound, Refused


async def recipient(call: Call, message: a2a.Message) -> Agent | None:
    """Return the agent that gets a message: that of its task, or for a new task that of the path. None if it is not
    known, or if nothing is to be checked. Raise Refused `EXTENSION_SUPPORT_REQUIRED`."""
    if not message.task_id:
        return call.agent
    plane = call.plane
    # A read that most messages do not need.
    if not plane.settings.validate_input_modes and plane.agents.required_extensions.issubset(call.extensions):
        return None
    try:
        record = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=message.task_id, history_length=0))).record
    except NotFound:
        # It may become a task of the agent in the path.
        return call.agent
    agent = known(plane, record.agent)
    if agent is not None:
        take_extensions(call, agent)
    return agent


def take_extensions(call: Call, agent: Agent) -> None:
    """Note the extensions in use, which bindings echo (A2A 1.0 section 3.2.6). Raise Refused
    `EXTENSION_SUPPORT_REQUIRED`."""
    missing = agent.required_extensions.difference(call.extensions)
    if missing:
        raise Refused(
            f"this agent requires the extension {min(missing)}",
            reason="EXTENSION_SUPPORT_REQUIRED",
            suggestion="name it in A2A-Extensions",
        )
    call.used = [uri for uri in call.extensions if uri in agent.extensions or uri in DECLARED]
