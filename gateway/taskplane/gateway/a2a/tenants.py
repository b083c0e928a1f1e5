"""The tenant that a request of A2A 1.0 names: an agent, or the caller's own (A2A 1.0 section 3.1, a2a H14)."""

from taskplane.gateway.a2a.call import Call
from taskplane.runtime.errors import NotFound, Unavailable


async def agent_of(call: Call, tenant: str, *, sends: bool) -> str:
    """Return the name of the agent that a tenant selects; empty for the default agent.

    At the path of an agent, the tenant must be that agent or the caller's own. An operation on tasks (not `sends`)
    needs no agent, so for the caller's own tenant no executor is called. Any other tenant is told like a task that does
    not exist, also one with a namespace before the name of an agent: only paths have namespaces. Raise NotFound
    `TASK_NOT_FOUND`; Unavailable if it may be an agent and the executor cannot be reached.
    """
    plane, path = call.plane, call.path
    own = tenant == call.caller.principal.tenant
    if path:
        if own or tenant in (path, path.rpartition("/")[2]):
            return path
        raise _no_such_tenant()
    if plane.agents.peek(tenant) is not None:
        return tenant
    if own and (not sends or plane.agents.fresh("") is not None):
        return ""
    try:
        await plane.agents.find(tenant)
    except NotFound:
        if not own:
            raise _no_such_tenant() from None
    except Unavailable:
        if not own:
            raise
    else:
        return tenant
    return ""


def _no_such_tenant() -> NotFound:
    return NotFound("the task does not exist", reason="TASK_NOT_FOUND")
