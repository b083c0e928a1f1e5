"""The tenant that a request of A2A 1.0 names: an agent, or the caller's own (A2A 1.0 section 3.1)."""

from taskplane.gateway.a2a.lookup import find, known
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound, Unavailable


async def agent_of(plane: Plane, caller: Caller, tenant: str, *, sends: bool) -> str:
    """Return the name of the agent that a tenant selects; empty for the default agent.

    An operation on tasks (not `sends`) needs no agent, so for the caller's own tenant no executor is called. A tenant
    that is neither an agent nor the caller's own is told like a task that does not exist. Raise NotFound
    `TASK_NOT_FOUND`; Unavailable if it may be an agent and the executor cannot be reached.
    """
    if not tenant or known(plane, tenant) is not None:
        return tenant
    own = tenant == caller.principal.tenant
    if own and (not sends or plane.agents.fresh("") is not None):
        return ""
    try:
        await find(plane, tenant)
    except NotFound:
        if not own:
            raise NotFound("the task does not exist", reason="TASK_NOT_FOUND") from None
    except Unavailable:
        if not own:
            raise
    else:
        return tenant
    return ""
