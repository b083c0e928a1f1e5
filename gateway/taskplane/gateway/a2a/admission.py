"""The checks of a call before its request: version, tenant, agent, extensions and scope, alike for every binding."""

from collections.abc import Sequence

from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.lookup import find, known
from taskplane.gateway.a2a.operations import Operation
from taskplane.gateway.a2a.recipient import take_extensions
from taskplane.gateway.a2a.tenants import agent_of
from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.versions import version_of
from taskplane.runtime.errors import NotFound, Refused, Unavailable


def check_version(plane: Plane, version: str, asked: str, *, accepted: Sequence[str], offered: str) -> None:
    """Check the A2A version that a client names for a request of `version`. Raise Refused `VERSION_NOT_SUPPORTED`.

    `asked` is empty if the client names none: it is that of the request, unless the setting `strict_version` is on.
    `accepted` are the versions that a client may name here; `offered` names those of the binding to the client.
    """
    if asked and asked not in accepted and version_of(asked) not in accepted:
        raise Refused(
            f"A2A version {asked[:20]} is not supported",
            reason="VERSION_NOT_SUPPORTED",
            suggestion=f"use A2A-Version {offered}",
        )
    # By the letter, a request that names no version is one of A2A 0.3 (A2A 1.0 section 3.6.2).
    if not asked and version != "0.3" and plane.settings.strict_version:
        raise Refused(
            f"a request of A2A {version} must name its version",
            reason="VERSION_NOT_SUPPORTED",
            suggestion=f"use A2A-Version {version}",
        )


async def admit(call: Call, operation: Operation, tenant: str = "") -> None:
    """Check a call whose version is checked, and find its agent. `tenant`: the one that the request names, if any.

    Raise Refused `EXTENSION_SUPPORT_REQUIRED`; NotFound `AGENT_NOT_FOUND`, and `TASK_NOT_FOUND` for the tenant of
    somebody else; PermissionDenied `READ_ONLY_KEY`; Unavailable.
    """
    if tenant:
        call.path = await agent_of(call, tenant, sends=operation.sends)
    call.agent = call.plane.agents.fresh(call.path)
    if call.agent is None:
        call.agent, call.missing = await _agent_of(call.plane, call.path, operation)
    if call.agent is not None and (call.extensions or call.agent.required_extensions):
        take_extensions(call, call.agent)
    if operation.writes:
        call.caller.check_write()


async def _agent_of(plane: Plane, name: str, operation: Operation) -> tuple[Agent | None, NotFound | None]:
    """Return the agent with the name in the path, for which the executor has to be called, or that there is none.

    Operations on tasks need no agent, be it gone or renamed: for them no executor is called. The default agent may be
    unknown while the executor has never been reached.
    """
    if not operation.sends:
        return known(plane, name), None
    try:
        return await find(plane, name), None
    except NotFound as missing:
        if not name:
            raise
        return None, missing
    except Unavailable:
        if name:
            raise
        return plane.agents.peek(""), None
