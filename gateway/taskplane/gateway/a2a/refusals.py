"""The operations that the card does not announce or a version does not have, each refused."""

from typing import Any

from taskplane.gateway.a2a.call import Call
from taskplane.gateway.translate.dialect import Answer
from taskplane.runtime.errors import Refused


async def push(_call: Call, _request: Any) -> Answer:
    """Raise Refused `PUSH_NOTIFICATION_NOT_SUPPORTED`."""
    raise no_push()


async def listing(_call: Call, _request: Any) -> Answer:
    """Raise Refused `UNSUPPORTED_OPERATION`: A2A 0.3 has no list of tasks."""
    raise Refused(
        "A2A 0.3 has no list of tasks", reason="UNSUPPORTED_OPERATION", suggestion="use GET /tasks of A2A 1.0"
    )


def no_push() -> Refused:
    """Return the error of a request that names a webhook."""
    return Refused("push notifications are not supported", reason="PUSH_NOTIFICATION_NOT_SUPPORTED")
