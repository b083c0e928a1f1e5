"""Remote A2A agents: an agent that another server runs, named by the URL of its card."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as sdk
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import ParseError

from taskplane.agents.adapters.peers.card import read_card
from taskplane.agents.adapters.peers.client import PeerClient
from taskplane.agents.adapters.refusals import bad_agent
from taskplane.agents.adapters.remote_run import RemoteRun
from taskplane.agents.adapters.remote_server import Server
from taskplane.agents.agent import Agent, AgentCard, Change, Policy, Turn
from taskplane.runtime.settings import environment

_WELL_KNOWN: Final = "/.well-known/agent-card.json"
_CONNECT_SECONDS: Final = 10.0
_BINDINGS: Final = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]


def adapt(found: str, name: str) -> Agent:
    """Return the agent at a URL: the URL of its card, or the URL before `/.well-known/agent-card.json`.

    The environment variable `A2A_<NAME>_AUTHORIZATION` (the name in capitals, `_` for other characters) is
    sent as the header `Authorization`. Invalid `BAD_AGENT`: the card cannot be read or used.
    """
    secret = environment().get(f"A2A_{re.sub('[^A-Z0-9]', '_', name.upper())}_AUTHORIZATION")
    return RemoteAgent(found, name=name, headers={"Authorization": secret} if secret else None)


class RemoteAgent:
    """An agent that another A2A server runs. Messages are passed on as they come; the messages, questions and artifacts
    of the remote task become those of the task here. Checkpoints of the task keep the id of the remote task, and the
    state of the session keeps the id of the remote conversation.

    If the process of a task is lost, another process continues with the remote task (`on_orphan="resume"`).
    """

    card_of_another_server = True

    def __init__(
        self,
        url: str,
        *,
        name: str = "remote",
        headers: Mapping[str, str] | None = None,
        silence: float = 60.0,
        patience: float = 60.0,
    ) -> None:
        """Read the card, which takes at most 10 seconds.

        `name`: the name under which its conversations are kept. `headers`: sent with each request; credentials of the
        caller are never sent. `silence`: seconds without an event before the server is asked for the task. `patience`:
        seconds for which failed reads of the task are repeated after a lost connection. Invalid `BAD_AGENT`: the card
        cannot be read or used.
        """
        self._headers = dict(headers or {})
        self._remote = _read_card(url, self._headers)
        self.card = _ours(self._remote)
        self._key = f"a2a.{name}.context"
        self._silence = silence
        self._patience = patience
        self._http: httpx.AsyncClient | None = None
        self._server: Server | None = None

    def policy(self, turn: Turn) -> Policy:
        """Return a policy under which a task goes on where the remote one is."""
        return Policy(on_orphan="resume")

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Send the message of the turn, unless it was sent before, and follow the remote task to its end or pause."""
        return RemoteRun(self._connected(), self._key, turn).changes()

    async def aclose(self) -> None:
        """Close the connections."""
        http, self._http, self._server = self._http, None, None
        if http is not None:
            await http.aclose()

    def _connected(self) -> Server:
        """Return the server, with one HTTP client for all runs. The client belongs to the event loop of the first
        run."""
        if self._server is None:
            # A read may take as long as the agent thinks.
            timeout = httpx.Timeout(_CONNECT_SECONDS, read=None, pool=None)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            self._http = PeerClient(headers=self._headers, timeout=timeout, limits=limits)
            config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=list(_BINDINGS))
            self._server = Server(
                client=ClientFactory(config).create(self._remote),
                card=self._remote,
                silence=self._silence,
                patience=self._patience,
            )
        return self._server


def _read_card(url: str, headers: Mapping[str, str]) -> sdk.AgentCard:
    try:
        at = url if httpx.URL(url).path.endswith(".json") else url.rstrip("/") + _WELL_KNOWN
    except httpx.InvalidURL as error:
        raise bad_agent(url, f"the URL is invalid: {error}", "write it as https://HOST[:PORT]/PATH") from error
    try:
        found = parse_agent_card(read_card(at, headers, _CONNECT_SECONDS))
        ClientFactory(ClientConfig(supported_protocol_bindings=list(_BINDINGS))).create(found)
        _check_urls(found)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        refused = status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
        more = (
            "set A2A_<NAME>_AUTHORIZATION"
            if refused
            else "open the URL in a browser and check that it returns an agent card"
        )
        raise bad_agent(url, f"the server answers {at} with HTTP {status}", more) from error
    except httpx.HTTPError as error:
        text = str(error) or type(error).__name__
        raise bad_agent(
            url, f"its card could not be read from {at}: {text}", "check that the server is running"
        ) from error
    except httpx.InvalidURL as error:
        more = "check the URLs in its supportedInterfaces and the redirects of the server"
        raise bad_agent(url, f"the agent card at {at} leads to an invalid URL: {error}", more) from error
    except (ParseError, ValueError) as error:
        more = "its supportedInterfaces must have one with the binding JSONRPC or HTTP+JSON"
        raise bad_agent(url, f"there is no usable agent card at {at}: {error}", more) from error
    return found


def _check_urls(card: sdk.AgentCard) -> None:
    for interface in card.supported_interfaces:
        if interface.protocol_binding in _BINDINGS:
            httpx.URL(interface.url)


def _ours(remote: sdk.AgentCard) -> AgentCard:
    """Return the card for clients of this server, without the parts that hold only for the remote server."""
    card = AgentCard.FromString(remote.SerializeToString())
    for name in ("supported_interfaces", "signatures", "security_schemes", "security_requirements"):
        card.ClearField(name)
    card.capabilities.streaming = True
    card.capabilities.push_notifications = False
    card.capabilities.extended_agent_card = False
    return card
