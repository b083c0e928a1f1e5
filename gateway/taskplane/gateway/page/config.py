"""The description of this gateway for its web page: the caller, the limits, and the agents."""

from taskplane.api import __version__
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.limits import MAX_REQUEST_BYTES
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Reply, Request


async def serve(plane: Plane, request: Request) -> Reply:
    """Return the description; without credentials, where they are needed, one without a caller and agents.

    Raise Unauthenticated for wrong ones.
    """
    authenticator = plane.authenticator
    caller = authenticator.recognize(request)
    found = {
        "product": "taskplane",
        "version": __version__,
        "auth": {"required": authenticator.required, "schemes": authenticator.asked},
        "caller": caller
        and {
            "user": caller.principal.owner,
            "tenant": caller.principal.tenant,
            "mayRead": caller.may_read,
            "mayWrite": caller.may_write,
            "mayOperate": caller.may_operate,
        },
        "limits": {"body": plane.settings.max_body, "message": MAX_REQUEST_BYTES},
        "agents": [
            {
                "name": agent.name,
                "title": agent.card.name,
                "description": agent.card.description,
                "isDefault": agent.is_default,
                "skills": [skill.name or skill.id for skill in agent.card.skills],
            }
            for agent in (await plane.agents.list_all() if caller else ())
        ],
        "features": {"ops": True, "import": True},
    }
    return if_changed(request, data_reply(found, "Gateway described"))
