"""Calls to the server of a remote A2A agent through the SDK's client, and error texts for users."""

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

import httpx
from a2a.client import A2AClientError, Client, ClientCallContext
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.types import a2a_pb2 as sdk
from a2a.utils.errors import A2AError, InternalError, InvalidAgentResponseError, TaskNotFoundError
from google.protobuf.json_format import ParseError
from pydantic import ValidationError

from taskplane.agents.adapters.peers.refused import RefusedAnswer
from taskplane.agents.agent import AgentError
from taskplane.agents.deep_messages import read_as
from taskplane.api import growing_text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

_CALL_SECONDS: Final = 30.0
_LONGEST_FAULT: Final = 200
# The protobuf parser names each field on the path to the unreadable one.
_FAILED_FIELD: Final = re.compile(r"Failed to parse (\w+) field")
_REFUSED: Final = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_TRANSIENT: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.REQUEST_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of one agent.

    Calls raise A2AError (A2AClientError: the request failed, or its answer was refused), or ParseError or ValueError
    for an unreadable answer. `silence`: seconds without an event before the server is asked for the task. `patience`:
    seconds for which a failed read of the task is repeated.
    """

    client: Client
    card: sdk.AgentCard
    silence: float
    patience: float

    def send(
        self, request: a2a.SendMessageRequest, *, key: str, extensions: Iterable[str]
    ) -> AsyncIterator[sdk.StreamResponse]:
        """Send a message, and iterate over the events that answer it. A server that does not stream answers at once,
        with the task or a message. `key`: the idempotency key, by which some servers recognise a repetition."""
        given = sdk.SendMessageRequest.FromString(request.SerializeToString())
        given.configuration.return_immediately = not self.card.capabilities.streaming
        headers = {"Idempotency-Key": key, **self._extensions(extensions)}
        return self.client.send_message(given, context=ClientCallContext(service_parameters=headers))

    async def task(self, task_id: str) -> a2a.Task:
        """Return the current task."""
        found = await self.client.get_task(
            sdk.GetTaskRequest(id=task_id), context=ClientCallContext(timeout=_CALL_SECONDS)
        )
        return read_as(a2a.Task, found)

    def subscribe(self, task_id: str, extensions: Iterable[str]) -> AsyncIterator[sdk.StreamResponse]:
        """Iterate over the events of a task from now on; the first event is the task. NotImplementedError: the server
        does not stream."""
        context = ClientCallContext(service_parameters=self._extensions(extensions))
        return self.client.subscribe(sdk.SubscribeToTaskRequest(id=task_id), context=context)

    async def cancel(self, task_id: str) -> None:
        """Cancel a task."""
        await self.client.cancel_task(
            sdk.CancelTaskRequest(id=task_id), context=ClientCallContext(timeout=_CALL_SECONDS)
        )

    def _extensions(self, wanted: Iterable[str]) -> dict[str, str]:
        offered = [one.uri for one in self.card.capabilities.extensions]
        asked = frozenset(wanted)
        used = sorted(uri for uri in offered if uri in asked or uri == growing_text.EXTENSION)
        return {HTTP_EXTENSION_HEADER: ", ".join(used)} if used else {}


def never_sent(error: BaseException) -> bool:
    """Return whether a call failed before the server received any part of it."""
    return isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))


def is_transient(error: BaseException) -> bool:
    """Return whether a repeat of a read may succeed."""
    if not isinstance(error, A2AClientError):
        return False
    cause = error.__cause__
    if isinstance(cause, RefusedAnswer):
        return False
    if not isinstance(cause, httpx.HTTPStatusError):
        return True
    return cause.response.is_server_error or cause.response.status_code in _TRANSIENT


def readable(error: BaseException) -> AgentError:
    """Return the failure of a call as a text for the user. Raise any other error again. The caller logs the cause."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        if status in _REFUSED:
            return AgentError("The remote agent does not accept the credentials of this server.")
        return AgentError(f"The remote agent's server answers with HTTP {status}.")
    if isinstance(cause, RefusedAnswer):
        return AgentError(str(cause))
    if never_sent(error):
        return AgentError("The remote agent could not be reached.")
    if isinstance(error, A2AClientError):
        return AgentError("The connection to the remote agent was lost.")
    if isinstance(error, TaskNotFoundError):
        return AgentError("The remote agent no longer has the task.")
    if isinstance(error, (InternalError, InvalidAgentResponseError)):
        # The text may be from any internal exception of the server: do not show it.
        return AgentError("The remote agent failed.")
    if isinstance(error, A2AError):
        return AgentError(f"The remote agent refused the message: {error.message}")
    if isinstance(error, (ParseError, ValueError)):
        return AgentError(f"The remote agent's server does not answer as A2A defines: {_fault(error)}.")
    raise error


def _fault(error: ParseError | ValueError) -> str:
    """Return the unreadable field and the problem, without its value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the answer'}: {first['msg'][:_LONGEST_FAULT]}"
    path = _FAILED_FIELD.findall(str(error))
    return f"{'.'.join(path)} cannot be read" if path else "the answer cannot be read"
